"""How the factor of automatic loss scaling follows the gradients."""

import dataclasses

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import statistics_ops

FLOAT16_MAX = 65504.0


def check_positive(**numbers):
    """Raises ValueError, with its name, for a number that is not positive."""
    for name, value in numbers.items():
        if value <= 0:
            raise ValueError(f"{name} must be nonzero and positive")


def check_factors(increase, decrease, largest):
    """Raises ValueError for factors by which the loss's factor cannot grow up to `largest`."""
    if decrease >= increase:
        raise ValueError("decrease_factor must be less than increase_factor")
    if largest <= 1:
        raise ValueError("max_loss_scaling_factor must be greater than one")


@dataclasses.dataclass
class Rule:
    """Gradients of type float16 are counted in two bins, small and large. Each `frequency` steps
    the factor is multiplied by `increase`, or by `decrease` if the fraction of large ones is
    above `threshold`, unless it would be below 1, or not below `largest`.

    accumulates     whether the gradients of all steps count, or of the last one
    edge            the magnitude from which on a gradient is large
    captured_only   whether only captured gradients count
    alpha           how much of the old bins each writing keeps
    first           steps that count as done at the start, and after a change
    """
    frequency: int
    increase: float
    decrease: float
    largest: float
    threshold: float
    accumulates: bool = True
    edge: float = FLOAT16_MAX
    captured_only: bool = False
    alpha: float = 0.0
    first: int = 0

    def step(self, bins, factor, before, seen, gradients, captured=(), is_last=True):
        """(bins, factor, factor before the last change, steps since the last change) after a step,
        from those before it: tensors float32 [2], float32, float32 and int32. A step may have
        several lots of gradients: it ends with those of which `is_last`, a bool or a scalar."""
        due = tf.constant(True) if self.frequency == 1 else tf.logical_and(
            seen > 0, tf.equal(seen % self.frequency, 0))
        counts = tf.constant(True) if self.accumulates else due

        def written(new):
            return new if self.alpha == 0 else self.alpha * bins + (1.0 - self.alpha) * new

        for gradient in () if self.captured_only else gradients:
            bins = written(self._counted(bins, gradient, counts))
        new = bins
        for gradient in captured:
            new = self._counted(new, gradient, counts)
        ratio = new[1] / tf.reduce_sum(new)
        wanted = factor * tf.where_v2(ratio > self.threshold, self.decrease, self.increase)
        is_possible = tf.math.is_finite(wanted) & (wanted < self.largest) & (wanted >= 1.0)
        ends = due & is_last
        changed = tf.where_v2(ends & is_possible, wanted, factor)
        return (tf.where_v2(ends, tf.zeros_like(new), written(new)), changed,
                tf.where_v2(tf.equal(changed, factor), before, factor),
                tf.where_v2(ends, self.first, seen + tf.cast(is_last, seen.dtype)))

    def _counted(self, bins, gradient, counts):
        if gradient.dtype.base_dtype != tf.float16:
            return bins
        values = tf.reshape(tf.cast(gradient, tf.float32), [-1])
        more = statistics_ops.histogram_update(bins, values, tf.constant([self.edge], tf.float32),
                                               absolute_of_input=True)
        return tf.where_v2(counts, more, bins)
