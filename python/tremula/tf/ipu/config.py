"""IPUConfig and configuring the IPU system (`tensorflow.python.ipu.config`).

What a config comes to is a snapshot, a plain dict that goes to the runtime as JSON:

    format   1
    devices  one object for each TensorFlow device, /device:IPU:0 first: {"auto": N} for any N
             free IPUs, {"id": I} for the IPU or group of IPUs with that id; none: one IPU each
    options  every option by its full name, such as "ipu_model.version"; an enum by its name
    flags    every flag of TF_POPLAR_FLAGS by its name

Needs no TensorFlow until the system is configured.
"""

import collections
import json
import sys

from tremula import flags
from tremula.tf.ipu.config_base import (AttributeMetadata, ConfigBase, LOG, define,
                                        deprecate_config_attribute, deprecate_config_attributes,
                                        type_text)
from tremula.tf.ipu.config_declared import DeclaredConfig as _ConfigBase  # noqa: F401  (shown here)
from tremula.tf.ipu.config_options import (DeviceConnectionType, ExecutionProfileType,
                                           MergeRemoteBuffersBehaviour, NOTHING_YET, OPTIONS,
                                           SchedulingAlgorithm, SelectionOrder,
                                           StochasticRoundingBehaviour)

__all__ = [
    "AttributeMetadata", "DeviceConnectionType", "ExecutionProfileType", "IPUConfig", "KeyId",
    "MergeRemoteBuffersBehaviour", "SchedulingAlgorithm", "SelectionOrder",
    "StochasticRoundingBehaviour", "VerificationOptions", "configure_ipu_system",
    "deprecate_config_attribute", "deprecate_config_attributes", "get_ipu_config",
    "reset_ipu_configuration", "running_on_ipu_model",
]

SNAPSHOT_FORMAT = 1


class KeyId:
    """Key and first id of a verified transfer."""

    def __init__(self, key=0, start_id=-1):
        self.key = key
        self.start_id = start_id


class VerificationOptions:
    """Keys and ids of all verified transfers of a program. A feed that is asked for gets some."""

    def __init__(self):
        self.inputs = KeyId()
        self.input_parameters = KeyId()
        self.outputs = KeyId()
        self.output_parameters = KeyId()
        self.infeeds = collections.defaultdict(KeyId)
        self.outfeeds = collections.defaultdict(KeyId)


class IPUConfig(ConfigBase):
    """How the IPU system is set up and how programs are compiled for it.

    Set the attributes, then call configure_ipu_system() once, before a program runs:

        config = IPUConfig()
        config.auto_select_ipus = 2
        config.matmuls.poplar_options["availableMemoryProportion"] = "0.3"
        config.configure_ipu_system()
    """

    def configure_ipu_system(self, device="cpu"):
        """Configures the system with this config: see the function of the same name."""
        configure_ipu_system(self, device)

    def _create_protobuf(self):
        """This config as a config_pb2.IpuOptions. Raises what _create_snapshot() raises."""
        from tremula.tf.plugin.poplar.driver import config_pb2
        return config_pb2.IpuOptions(self._create_snapshot())

    def _create_snapshot(self):
        """This config and the flags, checked, as the dict that this file's head describes.

        Raises ValueError for options that do not go together, TypeError for poplar_options that
        are not text.
        """
        flag_values = flags.read()
        self._check(flag_values["use_ipu_model"])
        options = self._to_named()
        if self.floating_point_behaviour.set_all:
            for name in ("inv", "div0", "oflo", "nanoo"):
                options[f"floating_point_behaviour.{name}"] = True
            options["floating_point_behaviour.esr"] = StochasticRoundingBehaviour.ON.name
        if flag_values["use_on_demand"] and \
                self.device_connection.type is DeviceConnectionType.ALWAYS:
            options["device_connection.type"] = DeviceConnectionType.ON_DEMAND.name
        devices = [{"auto": count} for count in _as_list(self.auto_select_ipus)]
        devices += [{"id": index} for index in _as_list(self.select_ipus)]
        snapshot = {"format": SNAPSHOT_FORMAT, "devices": devices, "options": options,
                    "flags": flag_values}
        return json.loads(json.dumps(snapshot))  # no tuples, no dicts shared with this config

    def _check(self, on_model):
        counts, ids = _as_list(self.auto_select_ipus), _as_list(self.select_ipus)
        connection = self.device_connection
        if counts and ids:
            raise ValueError("Only one of `auto_select_ipus` and `select_ipus` can be set.")
        if len(set(ids)) != len(ids):
            raise ValueError("All MultiIPU indices in `select_ipus` must be unique.")
        if on_model:
            if ids:
                raise ValueError("When using the IPUModel, the devices to attach to can only be "
                                 "specified with `auto_select_ipus`.")
            if self.experimental.multi_replica_distribution.process_count > 0:
                raise ValueError("Multi-replica distribution is not supported on the IPU model.")
            if not self.ipu_model.version:
                raise ValueError("ipu_model.version must be set when using the IPUModel.")
        distribution = self.experimental.multi_replica_distribution
        if distribution.process_count > 0 \
                and not 0 <= distribution.process_index < distribution.process_count:
            raise ValueError(
                "experimental.multi_replica_distribution.process_index must be in the range [0, "
                "experimental.multi_replica_distribution.process_count). They are "
                f"{distribution.process_index} and {distribution.process_count}.")
        if self.io_tiles.place_ops_on_io_tiles and self.io_tiles.num_io_tiles == 0:
            raise ValueError("Cannot place ops on I/O tiles when io_tiles.num_io_tiles == 0")
        if (connection.type in (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE)
                and not connection.version):
            raise ValueError("device_connection.version must be set when device_connection.type "
                             "is DeviceConnectionType.NEVER or DeviceConnectionType.PRE_COMPILE")
        if (self.norms.experimental.distributed_batch_norm_replica_group_size > 1
                and self.io_tiles.num_io_tiles > 0):
            raise ValueError("norms.experimental.distributed_batch_norm_replica_group_size is not "
                             "supported with I/O tiles.")
        floats = self.floating_point_behaviour
        if (floats.esr is StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY
                and not floats.set_all and not self.experimental.enable_prng_stability):
            LOG.warning("floating_point_behaviour.esr is REPLICA_IDENTICAL_ONLY, which acts with "
                        "experimental.enable_prng_stability only: all is rounded to nearest.")
        for path, metadata, value in self._walk():
            if path.endswith("poplar_options"):
                _check_text(metadata.name, value)


def _rounding(metadata, value):
    if not isinstance(value, bool):
        return value
    LOG.warning('Setting "%s" to a bool has been deprecated: use a StochasticRoundingBehaviour.',
                metadata.name)
    return StochasticRoundingBehaviour.from_bool(value)


def _profile(_, value):
    if not isinstance(value, bool):
        return value
    return ExecutionProfileType.DEVICE_PROFILE if value else ExecutionProfileType.NO_PROFILE


define(IPUConfig, OPTIONS, converters={
    "_profiling.profile_execution": _profile,
    "floating_point_behaviour.esr": _rounding,
    "io_tiles.available_memory_proportion":
        lambda _, value: float(value) if type(value) is int else value,
})


def configure_ipu_system(config, device="cpu", reset_configuration=True):
    """Sets up the IPU devices of this process and the options of what is compiled from now on.

    `config` is an IPUConfig or a config_pb2.IpuOptions. `device` is the CPU device that did this
    in the original; it makes no difference here. A configuration that is in force is replaced,
    with a warning if the new one differs, unless `reset_configuration` is False: then it is kept
    if equal and a FailedPreconditionError if not.

    Raises TypeError if `config` is neither, ValueError for options that do not go together and
    for unknown flags in TF_POPLAR_FLAGS, and TensorFlow's errors where no such devices are free.
    """
    from tremula.tf.plugin.poplar.driver import config_pb2
    if isinstance(config, IPUConfig):
        snapshot = config._create_protobuf().snapshot
    elif isinstance(config, config_pb2.IpuOptions):
        snapshot = config.snapshot
        if not snapshot:
            raise ValueError("Badly initialized IpuOptions object: did you configure the system "
                             "using an instance of tensorflow.python.ipu.config.IPUConfig() ?")
    else:
        raise TypeError("`config` must be an IpuOptions instance.")
    if snapshot["flags"]["help"]:
        print(f"Flags of {flags.VARIABLE}:\n{flags.help_text()}", file=sys.stderr)
    global _current
    if _current is not None and _current != snapshot:
        if not reset_configuration:
            import tensorflow as tf
            raise tf.errors.FailedPreconditionError(
                None, None,
                "IPU system configuration has already been set in this process, but it should "
                "have been reset automatically by the call to "
                "'tensorflow.python.ipu.config.configure_ipu_system'.")
        LOG.warning("Resetting existing IPU configuration before applying new configuration")
    if _current == snapshot and not _records_events(snapshot):
        return  # programs that are compiled stay, and so do the IPUs
    from tremula.tf import runtime
    runtime.configure(json.dumps(snapshot))
    _current = snapshot


def _default_snapshot():
    """The configuration of a program that configures nothing: one IPU."""
    config = IPUConfig()
    config.auto_select_ipus = 1
    return config._create_snapshot()


def reset_ipu_configuration():
    """Releases the devices and forgets the configuration, so that another can be set."""
    global _current
    if _current is None:
        return
    from tremula.tf import runtime
    runtime.reset_configuration()
    _current = None


def get_ipu_config(session=None):
    """The configuration in force, as a list of config_pb2.IpuOptions: the same one for each
    TensorFlow device that it names, or for one.

    `session` makes no difference. Raises RuntimeError if no IPU system is configured.
    """
    del session
    if _current is None:
        raise RuntimeError("No IPU devices configured.")
    from tremula.tf.plugin.poplar.driver import config_pb2
    return [config_pb2.IpuOptions(_current) for _ in _current["devices"] or [None]]


def configured_devices():
    """The `devices` of the snapshot in force; none where nothing is configured."""
    return [] if _current is None else _current["devices"]


def snapshot():
    """The configuration in force or, where there is none, that of a program which configures
    nothing: a dict, not to be changed."""
    return _default_snapshot() if _current is None else _current


def only_compiles():
    """Whether programs are compiled and not run: their results are zeros."""
    return _current is not None and (
        _current["options"].get("device_connection.type") == "PRE_COMPILE")


def running_on_ipu_model():
    """Whether TF_POPLAR_FLAGS asks for the IPU Model. Raises ValueError for unknown flags."""
    return flags.read()["use_ipu_model"]


def markdown():
    """The options as a document: one table a category."""
    sections = {}
    for option in OPTIONS:
        if option.private:
            continue
        if option.type is None:
            sections.setdefault(option.path, [option.doc, []])
        else:
            category = option.path.rpartition(".")[0]
            sections.setdefault(category, ["", []])[1].append(option)
    lines = ["# IPUConfig: the options", "",
             "This page lists every option of `IPUConfig`, and what each does in Tremula.",
             "For example:", "",
             "    config = ipu.config.IPUConfig()",
             "    config.auto_select_ipus = 4",
             "    config.floating_point_behaviour.nanoo = True",
             "    config.configure_ipu_system()", "",
             "`python -m tremula.tf.ipu.config --markdown` writes this page from the table in",
             "`python/tremula/tf/ipu/config_options.py`. In the last column \"—\" means:",
             f"{NOTHING_YET[0].lower()}{NOTHING_YET[1:]}"]
    for path, (doc, options) in sections.items():
        if not options:
            continue
        lines += ["", f"## {path or 'Top level'}", ""]
        lines += [doc, ""] if doc else []
        lines += ["| option | type | default | what it does | in Tremula |",
                  "|---|---|---|---|---|"]
        for option in options:
            doc = option.doc + (f" Deprecated: {option.deprecated}" if option.deprecated else "")
            lines.append(f"| `{option.path}` | {type_text(option.type)} | `{option.default}` | "
                         f"{doc} | {option.effect or '—'} |")
    return "\n".join(lines) + "\n"


def _records_events(snapshot):
    """Whether reports or events of later compilations may be read."""
    return (snapshot["options"]["_profiling.profiling"]
            or snapshot["options"]["_profiling.enable_ipu_events"])


# The snapshot in force, or None.
_current = None


def _as_list(selection):
    return [selection] if isinstance(selection, int) else list(selection)


def _check_text(name, options):
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"The options in {name} must be text, but {key!r} is {value!r}.")


def _main(arguments):
    import argparse
    parser = argparse.ArgumentParser(prog="python -m tremula.tf.ipu.config")
    parser.add_argument("--markdown", action="store_true", required=True,
                        help="print the options of IPUConfig as a Markdown document")
    parser.parse_args(arguments)
    print(markdown(), end="")


if __name__ == "__main__":
    _main(sys.argv[1:])
