"""Programs of JAX on Tremula.

    import tremula.jax

    step = tremula.jax.jit(train_step, donate_argnums=0)    # as jax.jit
    params, loss = step(params, batch)                      # numpy arrays

    compiled = tremula.jax.compile(train_step, params, batch)
    print(compiled.plan())                                  # what an IPU would need

JAX traces and differentiates; Tremula compiles and runs what it lowers. docs/jax.md says what
differs from jax.jit.
"""

try:
    import jax as _jax
except ImportError as error:
    raise ImportError(
        "tremula.jax needs JAX, version 0.4.30 or newer, which is not installed: "
        "pip install 'jax[cpu]'") from error

if tuple(map(int, _jax.__version__.split(".")[:3])) < (0, 4, 30):
    raise ImportError(f"tremula.jax needs JAX 0.4.30 or newer; this is {_jax.__version__}: "
                      "pip install --upgrade 'jax[cpu]'")

from tremula.jax.executable import Executable  # noqa: E402
from tremula.jax.lazy import LazyArray  # noqa: E402
from tremula.jax.transform import compile, jit  # noqa: E402

__all__ = ["Executable", "LazyArray", "compile", "jit"]
