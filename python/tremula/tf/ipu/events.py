"""Reading event traces (docs/events.md): what `gen_ipu_ops.ipu_event_trace()` gives."""

import json
import time

from tremula.tf.plugin.poplar.driver.trace_pb2 import IpuTraceEvent

_TRANSFERS = (IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, IpuTraceEvent.DEVICE_TO_HOST_TRANSFER)


def enable_ipu_events(ipu_config):
    """Has an IPUConfig record every kind of event, without reports."""
    ipu_config._profiling.enable_ipu_events = True
    ipu_config._profiling.enable_io_trace = True
    ipu_config._profiling.enable_compilation_trace = True


def extract_all_events(events):
    """The IpuTraceEvents in serialised ones: bytes, or tensors of them in eager mode."""
    return [IpuTraceEvent.FromString(event.numpy() if hasattr(event, "numpy") else event)
            for event in events]


def extract_all_strings_from_event_trace(events):
    """All texts of the events, one event after another with its time, as one text."""
    return "".join(_describe(event) for event in extract_all_events(events))


def extract_all_types_from_event_trace(events):
    """The type of each event, a list."""
    return [event.type for event in extract_all_events(events)]


def extract_all_io_events(events):
    """(type, tensor's name) of each tensor that was transferred, a list."""
    return [(event.type, tensor["name"]) for event in extract_all_events(events)
            if event.type in _TRANSFERS
            for tensor in json.loads(event.data_transfer.data_transfer)["tensors"]]


def extract_compile_reports(events):
    """(module name, report) of every compilation that has a report."""
    return _texts(events, IpuTraceEvent.COMPILE_END, "compile_end", "compilation_report")


def extract_poplar_serialized_graphs(events):
    """(module name, graph) of every compilation that has a graph."""
    return _texts(events, IpuTraceEvent.COMPILE_END, "compile_end", "poplar_graph")


def extract_execute_reports(events):
    """(module name, report) of every run that has a report."""
    return _texts(events, IpuTraceEvent.EXECUTE, "execute", "execution_report")


def _texts(events, kind, part, field):
    parts = [getattr(event, part) for event in extract_all_events(events) if event.type == kind]
    return [(_text(one.module_name), _text(getattr(one, field))) for one in parts
            if getattr(one, field)]


def _text(data):
    return data.decode("utf-8", "backslashreplace")  # a CBOR report is no text


def _describe(event):
    when = time.strftime("%F %T %z", time.localtime(event.timestamp))
    kind = event.type
    if kind == IpuTraceEvent.COMPILE_BEGIN:
        text = f"Compile begin: {_text(event.compile_begin.module_name)}\n"
    elif kind == IpuTraceEvent.COMPILE_END:
        end = event.compile_end
        text = (f"Compile end: {_text(end.module_name)}\nDuration: {end.duration} us\n"
                + _text(end.compilation_report))
    elif kind in _TRANSFERS:
        arrow = "Host->Device" if kind == IpuTraceEvent.HOST_TO_DEVICE_TRANSFER else "Device->Host"
        text = f"{arrow}\n{_text(event.data_transfer.data_transfer)}\n"
    elif kind == IpuTraceEvent.LOAD_ENGINE:
        text = f"Load engine: {_text(event.load_engine.module_name)}\n"
    elif kind == IpuTraceEvent.EXECUTE:
        text = (f"Execute: {_text(event.execute.module_name)}\n"
                + _text(event.execute.execution_report))
    else:
        text = "Unknown event"
    return f"{'-' * 70}\n=> @ {when}: {text}\n"
