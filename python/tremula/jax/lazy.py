"""Results that stay on the accelerator until somebody reads them."""

import numpy as np

from tremula import core


class LazyArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A result of a function with outputs="lazy". Where an accelerator computed it, it stays there:
    a function of tremula.jax.jit that gets it finds it there, and numpy.asarray, arithmetic, an
    index, float() and print bring it home. It does not change: what NumPy gets is read-only."""

    def __init__(self, array):
        array.flags.writeable = False
        self._array, self._address = array, array.__array_interface__["data"][0]

    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    nbytes = property(lambda self: self._array.nbytes)

    def __array__(self, dtype=None, copy=None):
        core.fetch_resident(self._address)
        same = dtype is None or np.dtype(dtype) == self.dtype
        return self._array if same and not copy else self._array.astype(dtype or self.dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        inputs = [np.asarray(one) if isinstance(one, LazyArray) else one for one in inputs]
        return getattr(ufunc, method)(*inputs, **options)

    def __jax_array__(self):
        import jax.numpy as jnp
        return jnp.asarray(np.asarray(self))

    def unread(self):
        """The memory that stands for it, which need not have its contents."""
        return self._array[...]

    def block_until_ready(self):
        """Itself: a run has ended when its results are there."""
        return self

    def is_deleted(self):
        """Never."""
        return False

    def __getitem__(self, index):
        return np.asarray(self)[index]

    def __len__(self):
        return len(self._array)

    def __float__(self):
        return float(np.asarray(self))

    def __int__(self):
        return int(np.asarray(self))

    def __bool__(self):
        return bool(np.asarray(self))

    def __repr__(self):
        return f"LazyArray({np.asarray(self)!r})"

    def __del__(self, forget=core.forget_resident):
        if hasattr(self, "_address"):
            forget(self._address)
