"""`tensorflow.python.ipu.keras.model`."""

from tremula.tf.keras.models.model import IPUModel, IPUSequential, Model, Sequential

__all__ = ["IPUModel", "IPUSequential", "Model", "Sequential"]
