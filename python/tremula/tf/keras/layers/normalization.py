"""Group, instance and layer normalization."""

import tensorflow as tf

from tremula.tf.ipu.ops import normalization_ops_grad
from tremula.tf.inner import keras as inner
from tremula.tf.keras.layers import ipu_layer


class _Normalization(ipu_layer.IPULayer):
    """The base of the layers: the variables `gamma` and `beta`."""

    def __init__(self, center, scale, epsilon, beta_initializer, gamma_initializer, trainable,
                 **kwargs):
        super().__init__(trainable=trainable, **kwargs)
        initializers = inner.public("initializers")
        self.center = center
        self.scale = scale
        self.epsilon = epsilon
        self.beta_initializer = initializers.get(beta_initializer)
        self.gamma_initializer = initializers.get(gamma_initializer)
        self.gamma = self.beta = None

    def _add_parameters(self, shape):
        for name, wanted, initializer in (("gamma", self.scale, self.gamma_initializer),
                                          ("beta", self.center, self.beta_initializer)):
            if wanted:
                setattr(self, name, self.add_weight(name, shape, initializer=initializer))

    def _normalize(self, inputs, cut, name):
        """Inputs normalized in the groups `cut`, with gamma and beta of the channels."""
        def parameter(variable, otherwise):
            if variable is None:
                return tf.fill([cut.channels], tf.cast(otherwise, inputs.dtype))
            return tf.cast(tf.reshape(variable, [cut.channels]), inputs.dtype)

        with tf.name_scope(name) as scope, cut.layer(scope, "training", inputs):
            return normalization_ops_grad.group_norm(
                inputs, parameter(self.gamma, 1), parameter(self.beta, 0), cut)

    def compute_output_shape(self, input_shape):
        """The shape of the inputs."""
        return tf.TensorShape(input_shape)

    def get_config(self):
        """The constructor's arguments."""
        serialize = inner.public("initializers").serialize
        return {**super().get_config(), "center": self.center, "scale": self.scale,
                "epsilon": self.epsilon, "beta_initializer": serialize(self.beta_initializer),
                "gamma_initializer": serialize(self.gamma_initializer)}


@ipu_layer.registered
class GroupNormalization(_Normalization):
    """Normalizes each group of channels of each sample to mean 0 and variance 1.

    groups                    number of groups; divides the number of channels
    channels_axis             1 or the last
    center, scale             whether to add a variable `beta`, to multiply by a variable `gamma`
    epsilon                   is added to the variance
    strided_channel_grouping  whether group g has the channels g, g + groups, ... instead of
                              neighbouring ones

    A variable without an initializer gets Keras' default.
    """

    def __init__(self, groups=2, channels_axis=-1, center=True, scale=True, epsilon=1e-3,
                 beta_initializer=None, gamma_initializer=None, strided_channel_grouping=True,
                 trainable=True, **kwargs):
        super().__init__(center, scale, epsilon, beta_initializer, gamma_initializer, trainable,
                         **kwargs)
        self.groups = groups
        self.channels_axis = channels_axis
        self.strided_channel_grouping = strided_channel_grouping

    def _group_count(self, channels):
        del channels
        return self.groups

    def build(self, input_shape):
        """Makes the variables [channels]. Raises ValueError for shapes that do not fit."""
        shape = tf.TensorShape(input_shape)
        if shape.rank is None:
            raise ValueError("Input has undefined rank.")
        if not -shape.rank <= self.channels_axis < shape.rank:
            raise ValueError("Axis is out of bounds.")
        axis = self.channels_axis % shape.rank
        channels = shape.as_list()[axis]
        if channels is None:
            raise ValueError(f"Input has undefined channel dimension: {axis}.")
        groups = self._group_count(channels)
        if groups > channels:
            raise ValueError(f"Invalid groups {groups} for {channels} channels.")
        if groups < 1 or channels % groups != 0:
            raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
        if axis not in (1, shape.rank - 1):
            raise ValueError("Unsupported data format, group norm only supports NCHW"
                             "(channel axis 1) and NHWC (channel axis -1).")
        self._cut = normalization_ops_grad.Groups(
            groups, channels, axis == 1, self.strided_channel_grouping, float(self.epsilon))
        self._add_parameters([channels])
        self.built = True

    def call(self, inputs, training=None):
        """The normalized inputs, a tensor like them; `training` makes no difference.

        `inputs` is float16 or float32, two dimensions or more, samples first. The first call raises
        ValueError for shapes that do not fit.
        """
        del training
        return self._normalize(inputs, self._cut, "PopnnGroupNormTraining")

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "groups": self.groups,
                "channels_axis": self.channels_axis,
                "strided_channel_grouping": self.strided_channel_grouping}


@ipu_layer.registered
class InstanceNormalization(GroupNormalization):
    """Normalizes each channel of each sample; arguments as GroupNormalization's."""

    def __init__(self, channels_axis=-1, center=True, scale=True, epsilon=1e-3,
                 beta_initializer=None, gamma_initializer=None, trainable=True, **kwargs):
        super().__init__(1, channels_axis, center, scale, epsilon, beta_initializer,
                         gamma_initializer, True, trainable, **kwargs)

    def _group_count(self, channels):
        return channels

    def get_config(self):
        """The constructor's arguments."""
        config = super().get_config()
        return {name: value for name, value in config.items()
                if name not in ("groups", "strided_channel_grouping")}


@ipu_layer.registered
class LayerNormalization(_Normalization):
    """Normalizes over `axis`, an int or a list of ints, as Keras' LayerNormalization does.

    center, scale   whether to add a variable `beta`, to multiply by a variable `gamma`
    epsilon         is added to the variance

    Regularizers and constraints raise NotImplementedError.
    """

    def __init__(self, axis=-1, epsilon=1e-3, center=True, scale=True, beta_initializer="zeros",
                 gamma_initializer="ones", beta_regularizer=None, gamma_regularizer=None,
                 beta_constraint=None, gamma_constraint=None, trainable=True, **kwargs):
        super().__init__(center, scale, epsilon, beta_initializer, gamma_initializer, trainable,
                         **kwargs)
        for name, value in (("beta_regularizer", beta_regularizer),
                            ("gamma_regularizer", gamma_regularizer),
                            ("beta_constraint", beta_constraint),
                            ("gamma_constraint", gamma_constraint)):
            self._check_unsupported(value, name)
        if isinstance(axis, (list, tuple)):
            self.axis = list(axis)
        elif isinstance(axis, int):
            self.axis = axis
        else:
            raise ValueError("Expected an int or a list/tuple of ints for the argument 'axis', but "
                             f"received instead: {axis}")

    def build(self, input_shape):
        """Makes the variables, of the sizes that are normalized over. Raises ValueError unless
        these sizes are known."""
        shape = tf.TensorShape(input_shape)
        if shape.rank is None:
            raise ValueError(f"Input shape {shape} has undefined rank.")
        given = [self.axis] if isinstance(self.axis, int) else self.axis
        axes = [one + shape.rank if one < 0 else one for one in given]
        for one in axes:
            if not 0 <= one < shape.rank:
                raise ValueError(f"Invalid axis: {one}")
        if len(set(axes)) != len(axes):
            raise ValueError(f"Duplicate axis: {tuple(axes)}")
        sizes = shape.as_list()
        if any(sizes[one] is None for one in axes):
            raise ValueError(f"Input shape {shape} has unknown dimensions - all dimensions need to "
                             "be fully specified.")
        others = [one for one in range(shape.rank) if one not in axes]
        # The variables have the order in which the axes are given, as Keras' have.
        self._order = [*others, *axes]
        self._back = [self._order.index(one) for one in range(shape.rank)]
        self._sizes = [sizes[one] for one in axes]
        self._add_parameters(self._sizes)
        self.built = True

    def call(self, inputs, training=None):
        """The normalized inputs, a tensor like them; `training` makes no difference.

        `inputs` is float16 or float32, whose sizes along `axis` are known. The first call raises
        ValueError for shapes that do not fit.
        """
        del training
        inputs = tf.convert_to_tensor(inputs)
        moved = inputs if self._order == sorted(self._order) else tf.transpose(inputs, self._order)
        count = 1
        for size in self._sizes:
            count *= size
        cut = normalization_ops_grad.Groups(1, count, False, True, float(self.epsilon))
        rows = self._normalize(tf.reshape(moved, [-1, count]), cut, "PopnnGroupNormTraining")
        result = tf.reshape(rows, tf.shape(moved))
        if moved is not inputs:
            result = tf.transpose(result, self._back)
        result.set_shape(inputs.shape)
        return result

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "axis": self.axis}


GroupNorm = GroupNormalization
InstanceNorm = InstanceNormalization
LayerNorm = LayerNormalization
