"""Layers of Keras exchanged for the IPU's (`ipu.keras.layer_replacement`)."""

import inspect

from tremula.tf.inner import keras as inner
from tremula.tf.keras import layers

_NOT_REPLACED = ("GroupNorm", "InstanceNorm", "SerialDense")
# The IPU's layers that came after this module, and those that capture gradients.
_OTHERS = ("CaptureActivationGradients", "CaptureUpstreamGradients", "ConvertFromF8", "ConvertToF8",
           "Dense", "IPULayer")


class IPULayerReplacer:
    """A call with a layer of Keras gives the IPU's layer of the same name, with its arguments and
    weights. A layer without such a name is returned as it is."""

    def get_ipu_layer_names(self):
        """The names of the IPU's layers, sorted."""
        return [name for name in layers.__all__ if name not in _OTHERS]

    def get_blacklisted_ipu_layer_names(self):
        """The names of the IPU's layers that replace none of Keras."""
        return sorted(_NOT_REPLACED)

    def __call__(self, layer_instance):
        """Raises TypeError for what is no layer, RuntimeError where the layer's arguments do not
        fit the IPU's."""
        layer = layer_instance
        if not isinstance(layer, inner.layer_class()):
            raise TypeError("_LayerInstanceDescriptor may only be used with classes derived from "
                            "keras.Layer.")
        name = type(layer).__name__
        if name not in self.get_ipu_layer_names() or name in _NOT_REPLACED:
            return layer
        if name == "GroupNormalization":
            return layer  # Keras' own, later than this module, makes other groups of the channels
        kind = getattr(layers, name)
        config = layer.get_config()
        if isinstance(layer, kind) or name == "GRU" and config.get("implementation") == 2:
            return layer
        accepted = inspect.signature(kind.__init__).parameters
        basic = ("name", "trainable", "dtype")
        config.pop("batch_input_shape", None)  # of what comes in, and no argument
        known = {key: value for key, value in config.items() if key in accepted or key in basic}
        lost = [key for key in config if key not in known and config[key]]
        try:
            if lost:
                raise ValueError(f"unknown arguments: {', '.join(lost)}")
            made = kind(**known)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise RuntimeError(f"Could not substitute Keras {name} layer for it's IPU counterpart. "
                               f"{error}") from error
        if layer.built and layer.weights:
            made.build(_built_shape(layer))
            made.set_weights(layer.get_weights())
        return made


def _built_shape(layer):
    """The shape that `layer` was built with. A layer that was not called may not have kept it; then
    LayerNormalization's weights have the sizes of its axes, and Embedding needs none."""
    config = layer.get_build_config()
    if config is not None:
        return config["input_shape"]
    axes = getattr(layer, "axis", [])
    shape = [None] * (1 + max(axes, default=1))
    for axis, size in zip(axes, layer.weights[0].shape):
        shape[axis] = size
    return shape
