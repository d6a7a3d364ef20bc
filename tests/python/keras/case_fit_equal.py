"""fit equals stock Keras on the CPU: three kinds of models, plain, accumulated and on two replicas,
by six optimizers; case_optimizers.py has the IPU's next to their formulas."""

import functools

import numpy as np
import pytest

import fitting
from fitting import compiled, data, keras
from tremula.tf.keras import optimizers

RATES = {"sgd": .02, "momentum": .02, "adam": .01, "rmsprop": .01, "ipu_adam": .01, "lamb": .01}
OF_THE_IPU = {"ipu_adam": optimizers.AdamIpuOptimizer, "lamb": optimizers.LAMBIpuOptimizer}


def optimizer(name, rate, legacy=False):
    if name in OF_THE_IPU:
        return OF_THE_IPU[name](rate)
    module = keras.optimizers.legacy if legacy else keras.optimizers
    if name == "momentum":
        return module.SGD(rate, .9)
    return {"sgd": module.SGD, "adam": module.Adam, "rmsprop": module.RMSprop}[name](rate)


def pairs(functional):
    """Kinds of models and optimizers. Those that are not quick are long: models do not see whose an
    optimizer is, and gradients are summed before it sees them."""
    quick = {"functional": functional, "sequential": ["adam"], "subclass": ["sgd"]}
    return pytest.mark.parametrize("kind, name", [
        pytest.param(kind, name, marks=[] if name in quick[kind] else [pytest.mark.long])
        for kind in quick for name in RATES if kind == "functional" or name not in OF_THE_IPU])


def fitted(made, batch):
    history = made.fit(data(batch), epochs=2, verbose=0)
    return made, history.history


@functools.cache
def stock(name, batch, legacy=False):
    made = optimizer(name, RATES[name], legacy)
    return fitted(compiled(optimizer=made, metrics=["mae"], steps=1), batch)


def is_legacy(name, legacy):
    """The older optimizers of these names compute something else."""
    return legacy and name in ("adam", "rmsprop")


@pairs(RATES)
def test_plain(kind, name):
    legacy = is_legacy(name, kind == "sequential")
    with fitting.scope():
        made = compiled(kind, optimizer(name, RATES[name], legacy), metrics=["mae"])
        found, history = fitted(made, 8)
    expected, wanted = stock(name, 8, legacy)
    fitting.same_weights(found, expected)
    assert set(history) == set(wanted) == {"loss", "mae"}
    for key, value in wanted.items():
        assert type(history[key][0]) is float
        np.testing.assert_allclose(history[key], value, rtol=1e-5)


@pairs(["momentum", "adam", "lamb"])
def test_accumulated(kind, name):
    method = "running_mean" if kind == "sequential" else "mean"
    by_variable = kind == "subclass"
    legacy = is_legacy(name, kind == "functional" or by_variable)
    with fitting.scope():
        made = compiled(kind, optimizer(name, RATES[name], legacy))
        made.set_gradient_accumulation_options(
            4, method, use_v2_gradient_accumulation_optimizer=by_variable)
        found, _ = fitted(made, 8)
    fitting.same_weights(found, stock(name, 32, legacy)[0])
    assert by_variable or int(found.optimizer.iterations) == 4


@pairs(["sgd", "rmsprop", "ipu_adam"])
def test_two_replicas(kind, name):
    """Gradients are summed: SGD's rate or the loss is divided by the number of summands."""
    by_rate = name in ("sgd", "momentum")

    def half(wanted, found):
        return keras.losses.mean_squared_error(wanted, found) / 2.

    with fitting.scope(2):
        made = compiled(kind, optimizer(name, RATES[name] / (2 if by_rate else 1)), metrics=["mae"],
                        loss="mse" if by_rate else half)
        made.set_replication_options("mean")
        found, history = fitted(made, 8)
    expected, wanted = stock(name, 16)
    fitting.same_weights(found, expected)
    np.testing.assert_allclose(history["mae"], wanted["mae"], rtol=1e-5)
    np.testing.assert_allclose(history["loss"], np.divide(wanted["loss"], 1 if by_rate else 2),
                               rtol=1e-5)


def test_accumulated_on_two_replicas():
    with fitting.scope(2):
        made = compiled(optimizer=optimizer("sgd", RATES["sgd"] / 4), steps=4)
        made.set_gradient_accumulation_options(2)  # sums
        found, _ = fitted(made, 8)
    fitting.same_weights(found, stock("sgd", 32)[0])
