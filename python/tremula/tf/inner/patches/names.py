"""Types that TensorFlow refuses, and names that it has moved."""

import importlib
import sys

from tremula.tf.inner import old_names, versions
from tremula.tf.inner.patches.wrapping import wrap


def accept_half_batch_norm():
    """Makes `tf.nn.fused_batch_norm` take scale, offset, mean and variance in float16, as IPU
    programs give them: TensorFlow's own operation has them in float32 always. The statistics that
    come out are float16 then, too."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import gen_nn_ops, math_ops

    def of_any_type(normalise):
        def normalise_any(x, scale, offset, mean, variance, *arguments, **keywords):
            scale = ops.convert_to_tensor(scale)
            if scale.dtype.base_dtype != dtypes.float16:
                return normalise(x, scale, offset, mean, variance, *arguments, **keywords)
            wide = [math_ops.cast(value, dtypes.float32)
                    for value in (scale, offset, mean, variance)]
            result = normalise(x, *wide, *arguments, **keywords)
            return result._replace(
                batch_mean=math_ops.cast(result.batch_mean, dtypes.float16),
                batch_variance=math_ops.cast(result.batch_variance, dtypes.float16))
        return normalise_any

    wrap(gen_nn_ops, "fused_batch_norm_v3", of_any_type)


def keep_half_batch_norm_parameters(load=False):
    """Makes the parameters of Keras 2's and tf.layers' batch normalization float16 where the layer
    is, as in the original: Keras has them in float32 always. `load` loads Keras if it is not."""
    name = f"{versions.keras_package()}.src.layers.normalization.batch_normalization"
    module = importlib.import_module(name) if load else sys.modules.get(name)
    base = getattr(module, "BatchNormalizationBase", None)  # Keras 3 has none
    if base is None:
        return

    def parameters_type(self):
        # bfloat16, which no IPU has, stays as it is.
        return "float32" if self.dtype in (None, "bfloat16") else self.dtype

    base._param_dtype = property(parameters_type)


def restore_initialized_value():
    """Gives resource variables `initialized_value()` again: the value, or the initial one before
    the variable has any."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import cond, resource_variable_ops

    def initialized_value(self):
        with ops.init_scope():
            return cond.cond(self.is_initialized(), self.read_value, lambda: self.initial_value)

    resource_variable_ops.BaseResourceVariable.initialized_value = initialized_value


def restore_moved_names():
    """Gives TensorFlow's private modules names that programs import from there, and that later
    versions moved (old_names.MOVED). Each is looked up when it is first used; what a module has
    stays as it is."""
    for name, moved in old_names.MOVED.items():
        module = sys.modules.get(name) or importlib.import_module(name)
        missing = {one: place for one, place in moved.items() if one not in vars(module)}
        if missing and not hasattr(vars(module).get("__getattr__"), "_tremula_moved"):
            module.__getattr__ = _getter(module, missing)


def _getter(module, missing):
    before = vars(module).get("__getattr__")

    def get(name):
        if name in missing:
            place, _, attribute = missing[name].partition(":")
            value = getattr(importlib.import_module(place), attribute)
            setattr(module, name, value)
            return value
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    get._tremula_moved = True
    return get
