"""The IPU's own operations, in programs on an IPU, next to TensorFlow's, Keras's and numpy's.

The fixtures are those of end-to-end tests, and some of their own.
"""


import numpy as np
import pytest

from end_to_end import *  # noqa: F401,F403
from end_to_end import ipu, tf


class Runner:
    """Runs a function of tensors: compiled for an IPU, or plainly on the CPU.

    Random numbers are the same each time: on the CPU by the graph's seed, on the IPU by its own.
    """

    def __call__(self, function, *arrays, where="ipu", runs=1, variables=None):
        """function(*tensors) for arrays, as a list of arrays. `variables`: {name: value} that the
        variables get. With runs > 1 a list of such lists."""
        with tf.device("cpu"):
            inputs = [tf.placeholder(one.dtype, one.shape) for one in arrays]
        if where == "ipu":
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                results = ipu.ipu_compiler.compile(function, inputs)
        else:
            tf.set_random_seed(1)
            with tf.device("cpu"), tf.variable_scope("", use_resource=True):
                results = function(*inputs)
            tf.set_random_seed(None)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for variable in tf.global_variables():
                for name, value in (variables or {}).items():
                    if variable.op.name.endswith(name):
                        variable.load(value, session)
            feed = dict(zip(inputs, arrays))
            found = [session.run(results, feed) for _ in range(runs)]
        found = [one if isinstance(one, (list, tuple)) else [one] for one in found]
        return found if runs > 1 else found[0]


@pytest.fixture
def run():
    return Runner()


@pytest.fixture
def random():
    """random(*shape) -> float32 numbers around 0; random.dtype changes the type."""
    generator = np.random.default_rng(7)
    return lambda *shape, dtype=np.float32: generator.standard_normal(shape).astype(dtype)
