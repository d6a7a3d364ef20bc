"""Operations that ask and steer the IPU system (`gen_ipu_ops`).

Those that ask are constants on the CPU, of what holds when they are built. Those that steer act
when they run; in eager mode, at once.
"""

import tensorflow.compat.v1 as tf

from tremula import flags
from tremula.tf.inner import eager
from tremula.tf.ipu import config as ipu_config
from tremula.tf.ipu import devices
from tremula.tf.plugin.poplar.driver import config_pb2


def ipu_event_trace(name=None):
    """The events that were recorded since it ran before, a vector of serialised IpuTraceEvent: a
    tensor whose operation, on the CPU, takes them when it runs. What is recorded: docs/events.md.
    """
    _runtime().load()
    return eager.cpu_operation("IpuEventTrace", name, shape=[None])


def ipu_model_used(name=None):
    """Whether programs run on the IPU Model: a bool scalar."""
    return _constant(ipu_config.running_on_ipu_model(), tf.bool, name or "IpuModelUsed")


def ipu_get_configuration(name=None):
    """The configurations in force, a vector of serialised IpuOptions; empty if there is none."""
    try:
        options = [one.SerializeToString() for one in ipu_config.get_ipu_config()]
    except RuntimeError:
        options = []
    return _constant(options, tf.string, name or "IpuGetConfiguration")


def ipu_get_num_devices(device, name=None):
    """How many IPUs the TensorFlow device `device` has: an int64 scalar.

    Raises what `devices.num_ipus` raises.
    """
    return _constant(devices.num_ipus(devices.ordinal(device)), tf.int64,
                     name or "IpuGetNumDevices")


def ipu_use_synthetic_data_for(synthetic_data_category, name=None):
    """Whether data of a SyntheticDataCategory is synthetic: a bool scalar."""
    category = config_pb2.SyntheticDataCategory(synthetic_data_category).name.lower()
    return _constant(flags.uses_synthetic_data_for(category, flags.read()), tf.bool,
                     name or "IpuUseSyntheticDataFor")


def ipu_configure_hardware(config, name=None):
    """Configures the system with a serialised IpuOptions."""
    options = config_pb2.IpuOptions.FromString(config)
    return _python_operation(lambda: ipu_config.configure_ipu_system(options),
                             name or "IpuConfigureHardware")


def ipu_clear_all_xla_compilation_caches(name=None):
    """Forgets every compiled program of this process."""
    return _python_operation(lambda: _runtime().clear_compilation_caches(),
                             name or "IpuClearAllXlaCompilationCaches")


def ipu_reset_devices(name=None):
    """Lets every device go and forgets the configuration."""
    return _python_operation(ipu_config.reset_ipu_configuration, name or "IpuResetDevices")


def ipu_reset_seed(device, seed, identical_replicas=False, name=None):
    """Starts the random numbers of `device` again from the int `seed`."""
    ordinal = devices.ordinal(device)
    return _python_operation(
        lambda: _runtime().reset_seed(seed, ordinal, identical_replicas), name or "IpuResetSeed")


def _constant(value, dtype, name):
    with tf.device("cpu"):
        return tf.constant(value, dtype, name=name)


def _runtime():
    from tremula.tf import runtime
    return runtime


def _python_operation(function, name):
    """An operation on the CPU that calls `function()` each time it runs.

    Called at once, and None, in eager mode.
    """
    if tf.executing_eagerly():
        function()
        return None

    def call():
        function()
        return []

    with tf.device("cpu"):
        return tf.py_func(call, [], [], stateful=True, name=name)
