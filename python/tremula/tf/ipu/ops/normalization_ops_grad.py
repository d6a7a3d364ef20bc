"""Group normalization and its gradient.

Between the two passes only the input, and the mean and the inverse of the standard deviation of
each group are kept. Statistics and sums are float32 whatever the input's type is.
"""

import dataclasses

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import _building


@dataclasses.dataclass
class Groups:
    """How an input [N, ..., C] (channels_first: [N, C, ...]) is cut in groups.

    strided: group g has the channels g, g + groups, ...; otherwise neighbours are together
    """
    groups: int
    channels: int
    channels_first: bool
    strided: bool
    epsilon: float

    def _layout(self):
        """The sizes that C is cut in, where C is in [N, positions, C] and the axes of the
        statistics."""
        members = self.channels // self.groups
        sizes = [members, self.groups] if self.strided else [self.groups, members]
        start = 1 if self.channels_first else 2
        member_axis = start if self.strided else start + 1
        return sizes, start, [3 if self.channels_first else 1, member_axis]

    def cut(self, x):
        """x as float32 [N, positions, C', C''] (channels_first: [N, C', C'', positions])."""
        sizes, start, _ = self._layout()
        shape = x.shape.as_list()
        spatial = shape[2:] if self.channels_first else shape[1:-1]
        if None in spatial:
            positions = -1
            batch = tf.shape(x)[0] if shape[0] is None else shape[0]
        else:
            positions = 1
            for size in spatial:
                positions *= size
            batch = -1 if shape[0] is None else shape[0]
        new = [batch, *sizes, positions] if start == 1 else [batch, positions, *sizes]
        return tf.cast(tf.reshape(x, new), tf.float32)

    def cut_parameter(self, parameter):
        """A vector of one value a channel, so that it fits what cut() gives."""
        sizes, start, _ = self._layout()
        shape = [1, *sizes, 1] if start == 1 else [1, 1, *sizes]
        return tf.cast(tf.reshape(parameter, shape), tf.float32)

    def paste(self, cut, like):
        """The opposite of cut()."""
        result = tf.reshape(tf.cast(cut, like.dtype), tf.shape(like))
        result.set_shape(like.shape)
        return result

    def statistics(self, cut):
        """(mean, inverse of the standard deviation) of each group of each sample."""
        axes = self._layout()[2]
        with _building.part("Norm/statistics"):
            mean = tf.reduce_mean(cut, axes, keepdims=True)
            variance = tf.reduce_mean(tf.square(cut - mean), axes, keepdims=True)
        with _building.part("iStdDev"):
            return mean, tf.math.rsqrt(variance + self.epsilon)

    def whiten(self, cut, mean, inverse):
        """(cut - mean) inverse."""
        with _building.part("Whiten"):
            return (cut - mean) * inverse

    def scale(self, whitened, gamma, beta):
        """whitened, times gamma, plus beta; vectors of one value a channel."""
        with _building.part("Norm"):
            return whitened * self.cut_parameter(gamma) + self.cut_parameter(beta)

    def layer(self, scope, word, x):
        """The mark of a layer that normalises x (profiles show it)."""
        key = f"{x.shape} {x.dtype.name} {dataclasses.astuple(self)}"
        return _building.layer(scope, f"group-norm-{word}", key)

    def group_mean(self, cut):
        """The mean of each group of each sample."""
        return tf.reduce_mean(cut, self._layout()[2], keepdims=True)

    def channel_sum(self, cut):
        """The sum over everything for each channel: a vector."""
        return tf.reshape(tf.reduce_sum(cut, [0, 3] if self.channels_first else [0, 1]),
                          [self.channels])


def group_norm(x, gamma, beta, groups):
    """x normalized by `groups` (a Groups), times gamma, plus beta; vectors of one value a
    channel."""
    @tf.custom_gradient
    def normalize(x, gamma, beta):
        cut = groups.cut(x)
        mean, inverse = groups.statistics(cut)
        y = groups.scale(groups.whiten(cut, mean, inverse), gamma, beta)

        def gradient(dy):
            with tf.name_scope("PopnnGroupNormGrad") as scope, groups.layer(scope, "grad", x):
                return group_norm_grad(x, gamma, mean, inverse, dy, groups)

        return groups.paste(y, x), gradient

    return normalize(x, gamma, beta)


def group_norm_grad(x, gamma, mean, inverse, dy, groups):
    """Gradients for (x, gamma, beta)."""
    dy_cut = groups.cut(dy)
    normalized = groups.whiten(groups.cut(x), mean, inverse)
    d_beta = groups.channel_sum(dy_cut)
    d_gamma = groups.channel_sum(dy_cut * normalized)
    d_normalized = dy_cut * groups.cut_parameter(gamma)
    d_x = inverse * (d_normalized - groups.group_mean(d_normalized)
                     - normalized * groups.group_mean(d_normalized * normalized))
    return (groups.paste(d_x, x), tf.cast(d_gamma, gamma.dtype), tf.cast(d_beta, gamma.dtype))
