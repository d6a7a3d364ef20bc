"""Reading event traces: what `gen_ipu_ops.ipu_event_trace()` gives when it runs."""

from tremula.tf.plugin.poplar.driver.trace_pb2 import IpuTraceEvent


def extract_all_events(events):
    """The IpuTraceEvents in a list of serialised ones."""
    return [IpuTraceEvent.FromString(event) for event in events]


def extract_all_strings_from_event_trace(events):
    """All texts of the events, one event after another, as one text."""
    lines = []
    for event in extract_all_events(events):
        lines.append("-" * 40)
        lines += [text for text in (event.module_name, event.compilation_report,
                                    event.serialized_graph, event.execution_report,
                                    event.data_transfer) if text]
    return "\n".join(lines)


def extract_all_types_from_event_trace(events):
    """The type of each event, a list."""
    return [event.type for event in extract_all_events(events)]


def extract_compile_reports(events):
    """(module name, report) of every compilation that has a report."""
    return _texts(events, IpuTraceEvent.COMPILE_END, "compilation_report")


def extract_poplar_serialized_graphs(events):
    """(module name, graph) of every compilation that has a graph."""
    return _texts(events, IpuTraceEvent.COMPILE_END, "serialized_graph")


def extract_execute_reports(events):
    """(module name, report) of every run that has a report."""
    return _texts(events, IpuTraceEvent.EXECUTE, "execution_report")


def _texts(events, kind, field):
    return [(event.module_name, getattr(event, field)) for event in extract_all_events(events)
            if event.type == kind and getattr(event, field)]
