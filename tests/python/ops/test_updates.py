"""Steps that update variables: SGD, momentum, Adam, by TensorFlow's own update ops.

A program's variables are inputs after its arguments, and outputs after its results that say by
input_output_alias which input they update. Each case takes several steps, every way with its own
variables, and compares the variables at the end.
"""

import numpy as np
import pytest
import tensorflow as tf
from bounds import BOUNDS, difference
from differential import FLOATS
from programs import Program, lower_step

STEPS = 4


def _apply(name):
    """A raw update op on handles, with the rest of its arguments."""
    op = getattr(tf.raw_ops, name)

    def apply(variables, **arguments):
        variables = {key: variable.handle for key, variable in variables.items()}
        dtype = arguments.pop("dtype")
        return op(**variables, **{key: tf.cast(value, dtype) if isinstance(value, float) else value
                                  for key, value in arguments.items()})
    return apply


def _adam(variables, gradient, dtype):
    _apply("ResourceApplyAdam")(
        dict(var=variables[0], m=variables[1], v=variables[2]), dtype=dtype, beta1_power=.729,
        beta2_power=.997, lr=.01, beta1=.9, beta2=.999, epsilon=1e-3, grad=gradient)


UPDATES = {
    "sgd": (1, lambda v, g, t: _apply("ResourceApplyGradientDescent")(
        dict(var=v[0]), dtype=t, alpha=.1, delta=g)),
    "momentum": (2, lambda v, g, t: _apply("ResourceApplyMomentum")(
        dict(var=v[0], accum=v[1]), dtype=t, lr=.1, momentum=.9, grad=g)),
    "nesterov": (2, lambda v, g, t: _apply("ResourceApplyMomentum")(
        dict(var=v[0], accum=v[1]), dtype=t, lr=.1, momentum=.9, grad=g, use_nesterov=True)),
    "keras_momentum": (2, lambda v, g, t: _apply("ResourceApplyKerasMomentum")(
        dict(var=v[0], accum=v[1]), dtype=t, lr=.1, momentum=.9, grad=g)),
    "adam": (3, _adam),
    "adagrad": (2, lambda v, g, t: _apply("ResourceApplyAdagrad")(
        dict(var=v[0], accum=v[1]), dtype=t, lr=.1, grad=g)),
    "rmsprop": (3, lambda v, g, t: _apply("ResourceApplyRMSProp")(
        dict(var=v[0], ms=v[1], mom=v[2]), dtype=t, lr=.01, rho=.9, momentum=.5, epsilon=1e-3,
        grad=g)),
    "assign": (1, lambda v, g, t: v[0].assign(v[0] * 2 + g)),
    "assign_add": (1, lambda v, g, t: v[0].assign_add(g)),
    "assign_sub": (1, lambda v, g, t: v[0].assign_sub(g)),
    "scatter_add": (1, lambda v, g, t: v[0].scatter_add(tf.IndexedSlices(g[:3], [1, 4, 1]))),
    "read_after_write": (2, lambda v, g, t: (v[0].assign_add(g), v[1].assign(v[0] * 2))),
    "swap": (2, lambda v, g, t: (lambda a, b: (v[0].assign(b), v[1].assign(a + g * 0)))(
        v[0] + 0, v[1] + 0)),
}


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UPDATES)
def test_update(name, dtype):
    count, update = UPDATES[name]
    rng = np.random.default_rng(7)
    first = [np.abs(rng.standard_normal((6, 5)) + .5).astype(dtype) for _ in range(count)]
    gradient = [rng.standard_normal((6, 5)).astype(dtype) for _ in range(STEPS)]

    def fresh():
        return [tf.Variable(value) for value in first]

    def stepper(variables):
        def step(g):
            before = tf.reduce_sum(tf.cast(variables[0], tf.float32))
            update(variables, g, dtype)
            return before
        return step

    variables = fresh()
    hlo, ordered, jitted = lower_step(stepper(variables), variables, [tf.constant(gradient[0])])
    order = [next(i for i, v in enumerate(variables) if v is variable) for variable in ordered]
    fast = Program(hlo, gradient[:1], ordered)
    reference = Program(hlo, gradient[:1], ordered, reference=True)
    eager = fresh()
    eagerly = stepper(eager)
    befores = []
    for g in gradient:
        befores.append((fast.step([g])[0], jitted(tf.constant(g)).numpy()))
        reference.step([g])
        eagerly(tf.constant(g))
    bound = BOUNDS["chain"]
    found = [difference(*pair, bound.f32, np.dtype(dtype)) for pair in befores]
    for i, value in enumerate(fast.values):
        for peer, want in (("reference", reference.values[i]), ("xla", ordered[i].numpy()),
                           ("tf", eager[order[i]].numpy())):
            words = difference(value, want, bound.against(peer, want.dtype))
            found.append(words and f"variable {i} differs from {peer}: {words}")
    assert not any(found), "\n".join(filter(None, found))


def test_a_variable_that_is_only_read_is_not_an_output():
    scale = tf.Variable([2., 3.])
    total = tf.Variable([0., 0.])

    def step(x):
        total.assign_add(x * scale)
        return total.read_value()
    hlo, ordered, _ = lower_step(step, [scale, total], [tf.constant([1., 1.])])
    program = Program(hlo, [0], ordered)
    x = np.array([1, 10], np.float32)
    assert program.step([x])[0].tolist() == [2, 30]
    assert program.step([x])[0].tolist() == [4, 60]
    assert sorted(program.engine.executable.aliases) == sorted([-1, 1 + [
        v is total for v in ordered].index(True)])
