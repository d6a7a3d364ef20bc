"""TensorFlow devices of the type IPU: their names, and how many IPUs they have."""

from tremula.tf.ipu import config
from tremula.tf.runtime import settings
from tremula.tf.runtime.device_names import ordinal

__all__ = ["num_ipus", "ordinal"]


def num_ipus(device_ordinal):
    """How many IPUs /device:IPU:`device_ordinal` has in the configuration in force.

    Raises RuntimeError if there is none, ValueError if it does not name the device,
    InvalidArgumentError if the inventory has not the id that it names.
    """
    snapshot = config.get_ipu_config()[0].snapshot
    return settings.ipus_of_device(snapshot["devices"], device_ordinal)
