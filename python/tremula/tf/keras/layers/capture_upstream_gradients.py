"""Layers around layers that capture gradients for the optimizer."""

import functools
import inspect

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.inner import patches
from tremula.tf.ipu.ops import grad_util_ops, grad_util_ops_grad
from tremula.tf.keras.layers import ipu_layer


class _GradientCaptureLayerBase(inner.layer_class()):
    """A layer with the variables and the type of the layer inside, whose name is `tag`."""

    def __init__(self, layer, tag):
        _check_is_layer(layer)
        super().__init__(name=tag, dtype=layer._dtype_policy)
        _save_without_capturing()
        self._layer = layer
        self._tag = tag

    def _call_inner(self, inputs, *args, **kwargs):
        """The results of the call of the layer inside."""
        call = self._layer.call
        if "training" in kwargs:
            parameters = inspect.signature(call).parameters
            takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD
                            for one in parameters.values())
            if "training" not in parameters and not takes_any:
                training = kwargs.pop("training")
                if training is not None and any(one.kind is inspect.Parameter.KEYWORD_ONLY
                                                for one in parameters.values()):
                    tf.compat.v1.logging.warn(
                        f"Layer {self._layer.name} does not take a 'training' kwarg to its call "
                        "method, but one was passed to _GradientCaptureLayerBase.call. This "
                        "keyword argument cannot be delegated to the wrapped layer's call method, "
                        "so is being dropped.")
        return call(inputs, *args, **kwargs)

    def build(self, input_shape):
        """Builds the layer inside."""
        if not self._layer.built:
            with tf.name_scope(self._layer.name):
                self._layer.build(input_shape)
            self._layer.built = True
        self.built = True

    def compute_output_shape(self, input_shape):
        """The output shape of the layer inside."""
        return self._layer.compute_output_shape(input_shape)

    @property
    def tag(self):
        """The name of the captured gradients."""
        return self._tag

    @property
    def layer(self):
        """The layer inside."""
        return self._layer

    # The variables are those of the layer inside.
    trainable_variables = property(lambda self: self._layer.trainable_variables)
    non_trainable_variables = property(lambda self: self._layer.non_trainable_variables)
    variables = property(lambda self: self._layer.variables)
    trainable_weights = property(lambda self: self._layer.trainable_weights)
    non_trainable_weights = property(lambda self: self._layer.non_trainable_weights)
    weights = property(lambda self: self._layer.weights)

    def _config_of_layer(self):
        return self._layer.get_config()

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "wrapped_layer_type": inner.saved_name(type(self._layer)),
                "tag": self._tag, "wrapped_layer_config": self._config_of_layer()}

    @classmethod
    def from_config(cls, config):
        """The layer of a configuration; the type of the layer inside is a class or its name. Raises
        ValueError for the name of a class that Keras does not know."""
        layer_type = inner.saved_class(config["wrapped_layer_type"], "layers")
        if layer_type is None:
            raise ValueError(f"Unknown layer: {config['wrapped_layer_type']}. Register the class "
                             "with `keras.utils.register_keras_serializable()`, or load it in a "
                             "`keras.utils.custom_object_scope`.")
        return cls(layer_type.from_config(config["wrapped_layer_config"]), tag=config["tag"])


@ipu_layer.registered
class CaptureUpstreamGradients(_GradientCaptureLayerBase):
    """Captures the gradients at the outputs of `layer`, under `tag`; by default the layer's name
    and "_cug"."""

    def __init__(self, layer, tag=None):
        _check_is_layer(layer)
        super().__init__(layer, f"{layer.name}_cug" if tag is None else tag)

    def call(self, inputs, *args, **kwargs):
        """The outputs of the layer, with its shapes and types. Raises what the layer raises, such
        as ValueError."""
        return grad_util_ops.captured(self._call_inner(inputs, *args, **kwargs), self._tag)


@ipu_layer.registered
class CaptureActivationGradients(_GradientCaptureLayerBase):
    """Captures the gradients at the inputs of the activations of `layer`, under `tag` (by default
    the layer's name and "_cag"), "_" and the activation's name in the layer's configuration."""

    def __init__(self, layer, tag=None):
        _check_is_layer(layer)
        tag = f"{layer.name}_cag" if tag is None else tag
        config = layer.get_config()
        wrapped = _activations(config)
        if not wrapped:
            raise ValueError(f"Layer {layer.name} does not use an activation function so is not "
                             "supported by keras.ipu.layers.CaptureActivationGradients")
        copy = type(layer).from_config(
            {**config, **{key: "linear" for key in wrapped}})
        super().__init__(copy, tag)
        self._original = layer.get_config
        # Not an attribute of Keras, which would track the activations.
        self.__dict__["_wrapped_activations"] = {
            key: _ActivationCapture(one, f"{tag}_{key}") for key, one in wrapped.items()}
        for key, activation in self._wrapped_activations.items():
            _set_activation(copy, key, activation)

    @staticmethod
    def layer_is_supported(layer):
        """Whether a layer has activations."""
        _check_is_layer(layer)
        return bool(_activations(layer.get_config()))

    def call(self, inputs, *args, **kwargs):
        """The outputs of the layer, with its shapes and types. Raises what the layer raises, such
        as ValueError."""
        return self._call_inner(inputs, *args, **kwargs)

    def _config_of_layer(self):
        return self._original()


def _check_is_layer(layer):
    if not isinstance(layer, inner.layer_class()):
        raise ValueError("Expected an instance of a keras.engine.base_layer.Layer")


@functools.cache
def _save_without_capturing():
    """Lets Keras write SavedModels, for which TensorFlow takes the gradients of all layers."""
    def make(save):
        def save_without(*arguments, **keywords):
            with grad_util_ops_grad.dropping():
                return save(*arguments, **keywords)
        return save_without

    patches.wrap_keras_methods(inner.module("saving.legacy.saved_model.save"), ["save"], make)


def _activations(config):
    """{item of a layer's configuration: activation} of its activations."""
    deserialize = inner.public("activations").deserialize
    found = {}
    for key, value in config.items():
        if "activation" in key:
            try:
                found[key] = deserialize(value) if not callable(value) else value
            except (TypeError, ValueError):
                continue
    return {key: one for key, one in found.items() if one is not None}


class _ActivationCapture:
    """An activation with its gradient at its input captured."""

    def __init__(self, activation, tag):
        self._activation, self._tag = activation, tag

    def __call__(self, x):
        return self._activation(grad_util_ops.captured(x, self._tag))

    def get_config(self):
        """The constructor's arguments."""
        serialize = inner.public("activations").serialize
        return {"activation": serialize(self._activation), "tag": self._tag}


def _set_activation(layer, key, activation):
    # Recurrent layers have theirs in the cell.
    for owner in (layer, getattr(layer, "cell", None)):
        if owner is not None and isinstance(getattr(type(owner), key, None), property) is False \
                and hasattr(owner, key):
            setattr(owner, key, activation)
