"""TensorFlow devices of the type IPU: their names, and how many IPUs they have."""

from tremula.tf.ipu import config
from tremula.tf.runtime.device import compile_options, settings
from tremula.tf.runtime.device.device_names import ordinal

__all__ = ["num_ipus", "num_processes", "ordinal"]


def num_processes():
    """How many processes have the replicas of a program in the configuration in force."""
    return compile_options.num_processes(config.snapshot())


def num_ipus(device_ordinal):
    """How many IPUs /device:IPU:`device_ordinal` has in the configuration in force, or without one:
    those of all processes of a distributed program.

    Raises ValueError if there is no such device, InvalidArgumentError if the inventory has not the
    id that the configuration names.
    """
    return compile_options.num_processes(config.snapshot()) * settings.ipus_of_device(
        config.configured_devices(), device_ordinal)
