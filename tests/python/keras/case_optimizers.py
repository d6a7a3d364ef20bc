"""Optimizers against Keras' own and formulas in NumPy, and captured gradients."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tensorflow.python import ipu
from tensorflow.python.ipu.eager import backprop
from tensorflow.python.ipu.keras import layers, optimizers
from tensorflow.python.ipu.ops import grad_util_ops
from tensorflow.python.ipu.optimizers import gradient_accumulation_optimizer as plain

legacy, v1 = keras.optimizers.legacy, tf.compat.v1.train
START = np.array([1.0, -2.0, 3.0], "float32")
GRADIENTS = np.random.default_rng(5).normal(size=(12, 3)).astype("float32")


def applied(optimizer, gradients=GRADIENTS, dtype=tf.float32, name="w"):
    """What a variable is after each of the gradients."""
    variable = tf.Variable(START, dtype=dtype, name=name)
    found = []
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient, dtype), variable)])
        found.append(variable.numpy().astype("float32"))
    return np.array(found)


@pytest.fixture
def strategy_of_two():
    """An IPUStrategy with two replicas."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    yield ipu.ipu_strategy.IPUStrategy()
    ipu.config.reset_ipu_configuration()


def same(ours, stock, gradients=GRADIENTS):
    np.testing.assert_allclose(applied(ours, gradients), applied(stock, gradients), rtol=1e-5,
                               atol=1e-6)


def adam_moments(gradients, beta_1=0.9, beta_2=0.999, debiasing=True):
    m = v = np.zeros(3)
    for step, g in enumerate(gradients.astype("float64"), 1):
        m, v = beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * g * g
        yield (m / (1 - beta_1 ** step), v / (1 - beta_2 ** step)) if debiasing else (m, v)


# ---- ipu_tensorflow_addons ----

@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd(momentum, nesterov):
    same(optimizers.SGDIpuOptimizer(0.1, momentum, nesterov),
         legacy.SGD(0.1, momentum, nesterov))


@pytest.mark.parametrize("amsgrad, debiasing", [(False, True), (True, True), (False, False)])
def test_adam(amsgrad, debiasing):
    w, most, expected = START.astype("float64"), np.zeros(3), []
    for m, v in adam_moments(GRADIENTS, debiasing=debiasing):
        most = np.maximum(most, v) if amsgrad else v
        w = w - 0.01 * m / (np.sqrt(most) + 1e-7)
        expected.append(w)
    found = applied(optimizers.AdamIpuOptimizer(0.01, amsgrad=amsgrad, debiasing=debiasing))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("options, decay, adapts", [
    ({}, 0.1, True), ({"exclude_from_weight_decay": ["^w$"]}, 0, True),
    ({"exclude_from_layer_adaptation": ["w"]}, 0.1, False),
    ({"weight_norm_clip": 0.5}, 0.1, True)])
def test_lamb(options, decay, adapts):
    w, expected = START.astype("float64"), []
    for m, v in adam_moments(GRADIENTS):
        u = m / (np.sqrt(v) + 1e-6) + decay * w
        norm = min(np.linalg.norm(w), options.get("weight_norm_clip", np.inf))
        w = w - 0.01 * (norm / np.linalg.norm(u) if adapts else 1) * u
        expected.append(w)
    found = applied(optimizers.LAMBIpuOptimizer(0.01, weight_decay_rate=0.1, **options))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_types_of_slots():
    for optimizer, names, types in (
            (optimizers.AdamIpuOptimizer(m_dtype=tf.float32, v_dtype=tf.float16), "mv",
             ["float32", "float16"]),
            (optimizers.LAMBIpuOptimizer(m_dtype="float32"), "mv", ["float32", "float16"]),
            (optimizers.SGDIpuOptimizer(0.1, 0.9, momentum_accum_dtype=tf.float32), ["momentum"],
             ["float32"])):
        variable = tf.Variable(START, dtype=tf.float16)
        optimizer.apply_gradients([(tf.ones_like(variable), variable)])
        assert [optimizer.get_slot(variable, name).dtype.name for name in names] == types


def test_outlined_steps():
    same(optimizers.AdamIpuOptimizer(0.01, outline_apply_gradients=True,
                                     outline_apply_gradients_kwargs={"unique_sharding": True}),
         optimizers.AdamIpuOptimizer(0.01))


@pytest.mark.parametrize("kind, label", [("AdamIpuOptimizer", "Adam"), ("LAMBIpuOptimizer", "LAMB"),
                                         ("SGDIpuOptimizer", "SGD")])
def test_what_these_refuse_and_their_configuration(kind, label):
    optimizer = getattr(optimizers, kind)(0.5)
    variable = tf.Variable(START)
    with pytest.raises(NotImplementedError) as error:
        optimizer.apply_gradients([(tf.IndexedSlices(tf.ones([1]), tf.constant([0])), variable)])
    assert str(error.value) == (
        f"_resource_apply_sparse is not implemented for the IPU Addons {label} optimizer.")
    config = optimizer.get_config()
    assert type(optimizer).from_config(config).get_config() == config
    assert config["learning_rate"] == 0.5


def test_what_the_base_and_lamb_refuse():
    with pytest.raises(ValueError, match="Must provide a list of two elements for the optimizer"):
        optimizers.LAMBIpuOptimizer(optimizer_compute_precisions=(tf.float32,))
    with pytest.raises(NotImplementedError, match="Must be implemented in subclasses."):
        applied(optimizers.IpuOptimizerBase("mine"))


# ---- Wrappers ----

@pytest.mark.parametrize("method, factor", [("SUM", 1), ("MEAN", 0.5), ("RUNNING_MEAN", 0.5)])
def test_gradient_accumulation(method, factor):
    halves = GRADIENTS.reshape(6, 2, 3).sum(1) * factor
    found = applied(optimizers.GradientAccumulationOptimizer(legacy.Adam(0.1), 2,
                                                             reduction_method=method))
    np.testing.assert_allclose(found[1::2], applied(legacy.Adam(0.1), halves), rtol=1e-5)
    np.testing.assert_array_equal(found[0], START)


def test_names_by_position_as_in_older_releases():
    for kind, opt in ((optimizers.GradientAccumulationOptimizer, legacy.SGD(0.1)),
                      (plain.GradientAccumulationOptimizerV2, v1.GradientDescentOptimizer(0.1)),
                      (plain.CrossReplicaGradientAccumulationOptimizerV2,
                       v1.GradientDescentOptimizer(0.1))):
        for given in (True, "mine"), (True, False, None, "mine"), (None, False, None, "mean",
                                                                  "mine"):
            assert kind(opt, 2, *given)._name == "mine"
    with pytest.raises(ValueError, match="Cannot parse mine as one of GradientAcc"):
        optimizers.GradientAccumulationOptimizer(legacy.SGD(0.1), 2, reduction_method="mine")


def test_what_accumulation_refuses():
    opt = legacy.SGD(0.1)
    assert optimizers.GradientAccumulationOptimizer(opt, 1) is opt
    with pytest.raises(ValueError, match="num_mini_batches must be >= 1"):
        optimizers.GradientAccumulationOptimizer(opt, 0)
    with pytest.raises(ValueError, match="can only be used with instances of ALSOptimizer."):
        optimizers.ALSGradientAccumulationOptimizer(opt, 2)
    assert issubclass(optimizers.ALSGradientAccumulationOptimizer,
                      optimizers.GradientAccumulationOptimizer)
    config = optimizers.GradientAccumulationOptimizer(opt, 2).get_config()
    with pytest.raises(ValueError, match="that have ALSOptimizer as the specified inner_type."):
        optimizers.ALSGradientAccumulationOptimizer.from_config(config)

    class Mine(optimizers.GradientAccumulationOptimizer):
        pass

    with pytest.raises(ValueError, match="the child class must implement its own from_config"):
        Mine.from_config(config)


@pytest.mark.parametrize("make", [
    lambda opt: optimizers.ALSOptimizer(opt, update_frequency=3),
    lambda opt: optimizers.IpuOptimizer(opt),
    lambda opt: optimizers.GradientAccumulationOptimizer(opt, 2, dtype=tf.float32),
    lambda opt: optimizers.ALSGradientAccumulationOptimizer(optimizers.ALSOptimizer(opt), 2)])
def test_wrappers(make):
    optimizer = make(legacy.SGD(0.25, 0.5))
    assert optimizer.learning_rate == 0.25 and optimizer.lr == 0.25 and optimizer.momentum == 0.5
    optimizer.learning_rate = 0.125
    config = optimizer.get_config()
    again = type(optimizer).from_config(config)
    assert again.get_config() == config and again.learning_rate == 0.125
    variable = tf.Variable(START)
    optimizer.apply_gradients([(tf.ones_like(variable), variable)])
    optimizer.set_weights([one * 0 for one in optimizer.get_weights()])
    assert not any(one.any() for one in optimizer.get_weights())


def test_a_new_optimizer_inside():
    same(optimizers.ALSOptimizer(keras.optimizers.SGD(0.1), update_frequency=99), legacy.SGD(0.1))
    with pytest.raises(ValueError, match="Only Keras optimizers can be wrapped"):
        optimizers.ALSOptimizer(3)


@pytest.mark.parametrize("config, words", [
    ({}, "must contain a configuration dict for the wrapped optimizer, inner_optimizer_config."),
    ({"inner_optimizer_config": {}}, "must contain a type for the wrapped optimizer, inner_"),
    ({"inner_optimizer_config": {}, "inner_optimizer_type": int}, "inner_optimizer_type must be a "
     "class derived from Keras OptimizerV2.")])
def test_configurations_that_are_refused(config, words):
    with pytest.raises(ValueError) as error:
        optimizers.ALSOptimizer.from_config(config)
    assert words in str(error.value)


def test_mapped_gradients():
    for kind, order in (("MapGradientOptimizer", "inner outer"),
                        ("MapGradientOptimizerInvertedChaining", "outer inner")):
        seen, make = [], getattr(optimizers, kind)

        def note(word, factor, seen=seen):
            return lambda gradient, variable: seen.append(word) or gradient * factor

        optimizer = make(make(legacy.SGD(1.0), note("inner", 0.5)), note("outer", 0.5))
        same(optimizer, legacy.SGD(0.25), GRADIENTS[:1])
        assert " ".join(seen) == order
    with pytest.raises(ValueError, match="gradient_mapping_function must be a callable."):
        optimizers.MapGradientOptimizerInvertedChaining(legacy.SGD(), 3)


# ---- Automatic loss scaling ----

def test_the_factor_follows_the_gradients():
    optimizer = optimizers.ALSOptimizer(legacy.SGD(0.0), update_frequency=2,
                                        initial_loss_scaling_factor=4, increase_factor=2,
                                        max_loss_scaling_factor=32, histogram_bin_edge=8)
    variable = tf.Variable(START, dtype=tf.float16)
    seen = []
    for size in (1, 1, 1, 1, 1, 1, 9, 1, 1):
        optimizer.apply_gradients([(tf.constant([size, 1, 1], tf.float16), variable)])
        seen.append((float(optimizer.loss_scaling_factor),
                     float(optimizer.previous_loss_scaling_factor),
                     int(optimizer.update_counter), [*optimizer.histogram.numpy()]))
    assert seen == [
        (4, 4, 1, [3, 0]), (4, 4, 2, [6, 0]), (8, 4, 0, [0, 0]),
        (8, 4, 1, [3, 0]), (8, 4, 2, [6, 0]), (16, 8, 0, [0, 0]),
        (16, 8, 1, [2, 1]), (16, 8, 2, [5, 1]), (8, 16, 0, [0, 0])]
    optimizer.apply_gradients([(tf.ones([3], tf.float16), variable)])
    optimizer.reset()
    assert float(optimizer.loss_scaling_factor) == 4 and not optimizer.histogram.numpy().any()


@pytest.mark.parametrize("accumulates", [True, False])
def test_accumulated_gradients_count_but_only_updates_change_the_factor(accumulates):
    """update_frequency is a number of updates of the weights, here of two mini-batches each; the
    gradients of all mini-batches, or of those of the last update, are in the histogram."""
    optimizer = optimizers.ALSGradientAccumulationOptimizer(optimizers.ALSOptimizer(
        legacy.SGD(0.0), update_frequency=2, initial_loss_scaling_factor=4, histogram_bin_edge=8,
        accumulate_statistics_over_update_period=accumulates), 2)
    variable = tf.Variable(START, dtype=tf.float16)
    seen = []
    for size in (1, 1, 1, 9, 1, 1, 1, 1, 1, 1, 9, 1):
        optimizer.apply_gradients([(tf.constant([size, 1, 1], tf.float16), variable)])
        seen.append((float(optimizer.loss_scaling_factor), int(optimizer.update_counter),
                     [*optimizer.histogram.numpy()]))
    before = [[3, 0], [6, 0], [9, 0], [11, 1], [14, 1]] if accumulates else [[0, 0]] * 4 + [[3, 0]]
    after = [[3, 0], [6, 0], [9, 0], [12, 0], [14, 1]] if accumulates else [[0, 0]] * 4 + [[2, 1]]
    factors = [4, 2, 1] if accumulates else [4, 8, 4]
    assert seen == [
        *zip([factors[0]] * 5, (0, 1, 1, 2, 2), before), (factors[1], 0, [0, 0]),
        *zip([factors[1]] * 5, (0, 1, 1, 2, 2), after), (factors[2], 0, [0, 0])]


def test_an_optimizer_inside_keeps_its_clipping():
    for wrap in (optimizers.IpuOptimizer,
                 lambda opt: optimizers.ALSOptimizer(opt, update_frequency=99)):
        same(wrap(legacy.SGD(0.1, clipvalue=0.25)), legacy.SGD(0.1, clipvalue=0.25))
    assert optimizers.IpuOptimizer(legacy.SGD(0.1, clipnorm=2.0), clipnorm=1.0).clipnorm == 1.0


def test_gradients_that_are_captured_inside_of_a_wrapper():
    """They reach an ALSOptimizer through what is around it."""
    als = optimizers.ALSOptimizer(legacy.SGD(0.1), captured_grads_only=True)
    optimizer = optimizers.MapGradientOptimizer(als, lambda gradient, variable: gradient)
    assert optimizer.supports_captured_grads
    assert not optimizers.IpuOptimizer(legacy.SGD()).supports_captured_grads
    variable = tf.Variable(START, dtype=tf.float16)
    with backprop.GradientCaptureTape() as tape:
        loss = tf.reduce_sum(grad_util_ops.capture_upstream_gradients(variable * 2, tag="t"))
    optimizer.minimize(loss, [variable], tape=tape)
    assert [*als.histogram.numpy()] == [3, 0]


def test_a_sum_in_a_sum_takes_whole_products():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        v = tf.Variable(0.)
        opt = optimizers.GradientAccumulationOptimizer(
            optimizers.GradientAccumulationOptimizer(legacy.SGD(1.), 2), 3)

        def steps_of(count):
            def run():
                for _ in tf.range(count):
                    opt.apply_gradients([(tf.constant(1.), v)])
            return tf.function(run, jit_compile=True)

        strategy.run(steps_of(6))
        assert v.numpy() == -6
        with pytest.raises(tf.errors.FailedPreconditionError, match="with 6 number of mini batch"):
            strategy.run(steps_of(3))
    ipu.config.reset_ipu_configuration()


@pytest.mark.parametrize("sums", [False, True])
def test_captured_gradients_in_nested_optimizers(sums):
    """The inner one gets them without the outer's factor, and added up as the gradients are."""
    kind = optimizers.ALSGradientAccumulationOptimizer if sums else (lambda one, number: one)
    kinds = {"max_loss_scaling_factor": 64, "captured_grads_only": True, "update_frequency": 100}
    inner = optimizers.ALSOptimizer(legacy.SGD(0.), 2, histogram_bin_edge=3, **kinds)
    outer = kind(optimizers.ALSOptimizer(inner, 4, histogram_bin_edge=9, **kinds), 2)
    x = tf.Variable([1.0], dtype=tf.float16)
    for value in (4., 8., 16.):  # 1, 2 and 4 for the inner one
        for _ in range(2 if sums else 1):
            outer.apply_gradients([(tf.ones([1], tf.float16), x)], captured_grads={
                "t": [tf.constant([value], tf.float16)]})
    found = [[*one.histogram.numpy()] for one in (outer, inner)]
    assert found == ([[4, 2], [1, 2]] if sums else [[2, 1], [2, 1]])


@pytest.mark.parametrize("by_variable", [False, True])
def test_captured_gradients_are_added_up_as_others_are(by_variable):
    """Each is 2, the factor; the sums of two mini-batches are above the edge of 3."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        als = optimizers.ALSOptimizer(legacy.SGD(0.), 2, update_frequency=100,
                                      max_loss_scaling_factor=64, captured_grads_only=True,
                                      histogram_bin_edge=3)
        inputs = keras.Input((3,), batch_size=1, dtype="float16")
        dense = keras.layers.Dense(1, use_bias=False, dtype="float16")
        model = keras.Model(inputs, layers.CaptureUpstreamGradients(dense, tag="t")(inputs))
        model.set_gradient_accumulation_options(
            2, use_v2_gradient_accumulation_optimizer=by_variable)
        model.compile(optimizers.MapGradientOptimizer(als, lambda gradient, variable: gradient),
                      lambda _, found: tf.reduce_sum(found), steps_per_execution=16)
        model.fit(np.ones([16, 3], "float16"), np.zeros([16, 1], "float16"), batch_size=1,
                  shuffle=False, verbose=0)
        assert [*als.histogram.numpy()] == [0, 8] and als.update_counter.numpy() == 8
    ipu.config.reset_ipu_configuration()


def test_replicas_sum_once(strategy_of_two):
    """Wrappers, and one that cannot be told that gradients are sums already."""
    class Old(legacy.SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            return super().apply_gradients(grads_and_vars, name)

    for make in (legacy.SGD, Old):
        for wrap in (lambda opt: opt, optimizers.IpuOptimizer, optimizers.ALSOptimizer,
                     lambda opt: optimizers.MapGradientOptimizerInvertedChaining(
                         opt, lambda gradient, variable: gradient),
                     lambda opt: optimizers.GradientAccumulationOptimizer(
                         optimizers.ALSOptimizer(opt), 2)):
            with strategy_of_two.scope():
                optimizer, variable = wrap(make(0.125)), tf.Variable(START)

                @tf.function(jit_compile=True)
                def step(optimizer=optimizer, variable=variable):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_sum(variable)
                    optimizer.minimize(loss, [variable], tape=tape)

                for _ in range(4):
                    strategy_of_two.run(step)
            np.testing.assert_array_equal(variable, START - 1)


@pytest.mark.parametrize("options, counted", [
    ({}, [5, 0]), ({"captured_grads_only": True}, [2, 0]), ({"lpf_alpha": 0.5}, [2.5, 0]),
    ({"accumulate_statistics_over_update_period": False}, [0, 0])])
def test_what_is_counted(options, counted):
    optimizer = optimizers.ALSOptimizer(legacy.SGD(0.0), **options)
    variables = [tf.Variable(START, dtype=tf.float16), tf.Variable(START)]
    optimizer.apply_gradients([(tf.ones_like(one), one) for one in variables],
                              captured_grads={"a": [tf.ones([2], tf.float16)]})
    assert [*optimizer.histogram.numpy()] == counted


def test_unscaled_gradients():
    optimizer = optimizers.ALSOptimizer(legacy.SGD(0.1), initial_loss_scaling_factor=8)
    variable = tf.Variable(START)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable ** 2)
    assert float(optimizer.get_scaled_loss(loss)) == 8 * float(loss)
    optimizer.minimize(loss, [variable], tape=tape)
    np.testing.assert_allclose(variable, START * 0.8, rtol=1e-6)


def scaled(kind, rule, options, steps=12, **als):
    """Compares an optimizer that keeps the factor in its steps with rule(state, g, s, p) -> dw."""
    optimizer = getattr(optimizers, kind)(0.01, **options, update_frequency=3,
                                          max_loss_scaling_factor=64, **als)
    variable, w, state = tf.Variable(START), START.astype("float64"), {}
    for gradient in GRADIENTS[:steps]:
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
        w = w - rule(state, gradient.astype("float64"), float(optimizer.loss_scaling_factor),
                     float(optimizer.previous_loss_scaling_factor))
        np.testing.assert_allclose(variable, w, rtol=1e-4)
    assert float(optimizer.loss_scaling_factor) > 1
    config = optimizer.get_config()
    assert "inner_optimizer_type" not in config
    assert type(optimizer).from_config(config).get_config() == config


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_als_sgd(momentum):
    def rule(state, g, s, p):
        state["m"] = momentum * s / p * state.get("m", 0) + g
        return 0.01 / s * state["m"]
    scaled("ALSOptimizerSGD", rule, {"momentum": momentum}, captured_grads_only=False)


def test_als_adam():
    def rule(state, g, s, p):
        t = state["t"] = state.get("t", 0) + 1
        state["v"] = 0.99 * s * s * state.get("v", 0) + (1 - 0.99) * g * g
        state["m"] = 0.9 * s * state.get("m", 0) + (1 - 0.9) * g
        rate = 0.01 * np.sqrt(1 - 0.99 ** t) / (1 - 0.9 ** t)
        return rate * state["m"] / (np.sqrt(state["v"]) + 1e-3 * s)
    scaled("ALSOptimizerAdam", rule, {"beta_2": 0.99, "epsilon": 1e-3})


@pytest.mark.parametrize("momentum, centered", [(0.0, False), (0.5, False), (0.5, True)])
def test_als_rmsprop(momentum, centered):
    def rule(state, g, s, p):
        v = (s / p) ** 2 * 0.9 * state.get("v", 0) + 0.1 * g * g
        under = v + 1e-3 * s * s
        if momentum and centered:
            state["v"] = v
            state["h"] = 0.9 * s / p * state.get("h", 0) + 0.1 * g
            under = under + state["h"] ** 2
        state["m"] = momentum * state.get("m", 0) * bool(momentum) + g / np.sqrt(under)
        return 0.01 * state["m"]
    scaled("ALSOptimizerRMSProp", rule, {"momentum": momentum, "centered": centered,
                                         "epsilon": 1e-3})


@pytest.mark.parametrize("options, words", [
    ({"update_frequency": 0}, "update_frequency must be nonzero and positive"),
    ({"increase_factor": 3}, "increase_factor must be a power of two"),
    ({"max_loss_scaling_factor": 3}, "max_loss_scaling_factor must be a power of two"),
    ({"initial_loss_scaling_factor": 3}, "initial_loss_scaling_factor must be a power of two"),
    ({"initial_loss_scaling_factor": 65536}, "initial_loss_scaling_factor must be less than max_"),
    ({"initial_loss_scaling_factor": 16384}, "initial_loss_scaling_factor x increase_factor must "),
    ({"ratio_threshold": 1.0}, "ratio_threshold must be greater than zero and less than one")])
def test_settings_that_are_refused(options, words):
    with pytest.raises(ValueError) as error:
        optimizers.ALSOptimizer(legacy.SGD(), **options)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("name", ["histogram", "normalized_histogram", "loss_scaling_factor",
                                  "previous_loss_scaling_factor", "update_counter",
                                  "decrease_factor"])
def test_what_is_read_only(name):
    optimizer = optimizers.ALSOptimizer(legacy.SGD())
    with pytest.raises(ValueError, match=f"^{name} is a read only property.$"):
        setattr(optimizer, name, 1)
    assert optimizer.supports_captured_grads and optimizer.get_name() == "ALSOptimizer"


def test_the_forerunner():
    make = optimizers.AutomaticLossScalingOptimizer
    optimizer = make(legacy.SGD(0.1), 10.0, increase_factor=1.5, decrease_factor=0.25)
    np.testing.assert_allclose(optimizer.get_unscaled_gradients(tf.constant([20.0])), [2.0])
    config = optimizer.get_config()
    assert make.from_config(config).get_config() == config and optimizer.decrease_factor == 0.25
    with pytest.raises(ValueError, match="decrease_factor must be less than increase_factor"):
        optimizer.decrease_factor = 3.0


def test_the_forerunner_counts_from_one():
    variable = tf.Variable(START, dtype=tf.float16)
    optimizer = optimizers.AutomaticLossScalingOptimizer(legacy.SGD(.1), 4.0, update_frequency=3)
    seen = []
    for _ in range(7):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable)
        optimizer.minimize(loss, [variable], tape=tape)
        seen.append(float(optimizer.loss_scaling_factor))
    assert seen == [4, 4, 8, 8, 8, 16, 16]
    optimizer.reset()
    assert int(optimizer.update_counter) == 1 and float(optimizer.loss_scaling_factor) == 4


def test_the_form_of_tensorflow_1():
    from tensorflow.python.ipu.optimizers import AutomaticLossScalingOptimizer
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", initializer=tf.constant(START, tf.float16),
                                   use_resource=True)
        optimizer = AutomaticLossScalingOptimizer(v1.train.GradientDescentOptimizer(0.25), 4.0,
                                                  update_frequency=2)
        train = optimizer.minimize(tf.reduce_sum(variable))
        session.run(v1.global_variables_initializer())
        factor = v1.global_variables("AutomaticLossScalingOptimizer/loss_scaling_factor")[0]
        seen = []
        for _ in range(6):
            session.run(train)
            seen.append(session.run(factor))
        assert seen == [4, 8, 8, 16, 16, 32]
        np.testing.assert_allclose(session.run(variable), START - 1.5, rtol=1e-3)
    with pytest.raises(ValueError, match="decrease_factor must be less than increase_factor"):
        AutomaticLossScalingOptimizer(v1.train.GradientDescentOptimizer(0.1), increase_factor=0.1)


# ---- Captured gradients ----

@pytest.mark.parametrize("kind", ["CaptureUpstreamGradients", "CaptureActivationGradients"])
@pytest.mark.parametrize("dtype", ["float16", "mixed_float16"])
def test_a_layer_that_captures_has_the_type_of_its_layer(kind, dtype):
    import ipu_tensorflow_addons.keras.layers as addons
    inside = tf.keras.layers.Dense(3, "relu", dtype=dtype)
    layer = getattr(addons, kind)(inside)
    assert (layer.dtype, layer.compute_dtype) == (inside.dtype, "float16")
    assert layer(np.ones([2, 4], "float32")).dtype == tf.float16


def test_contexts_and_tapes():
    x = tf.Variable(3.0)
    with backprop.GradientCaptureTape() as tape:
        y = tf.tanh(grad_util_ops.capture_upstream_gradients(x ** 2, tag="t"))
    assert backprop.num_gradient_collection_tapes() == 1
    gradient = tape.gradient(y, x)
    assert list(tape.captured_gradients) == ["t"]
    np.testing.assert_allclose(tape.captured_gradients["t"][0] * 6, gradient)
    assert backprop.num_gradient_collection_tapes() == 0
    with pytest.raises(ValueError, match="captured_gradients is read only."):
        tape.captured_gradients = 1
    with backprop.GradientCaptureContext() as outer, backprop.GradientCaptureContext() as inner:
        with tf.GradientTape() as tape:
            y = grad_util_ops.capture_upstream_gradients(x * 2, tag="t")
            y += grad_util_ops.capture_upstream_gradients(x * 3, tag="t")
        with pytest.raises(ValueError, match="Gradient exists in the captured grads frame."):
            tape.gradient(y, x)
    assert len(inner.captured_gradients["t"]) == 1 and outer.captured_gradients == {}


def test_layers_that_capture():
    x = tf.constant(np.random.default_rng(1).normal(size=(4, 3)).astype("float32"))
    dense = keras.layers.Dense(2, "tanh", name="d")
    for kind, tag in ((layers.CaptureUpstreamGradients, "d_cug"),
                      (layers.CaptureActivationGradients, "d_cag_activation")):
        layer = kind(dense)
        layer.build([4, 3])
        with backprop.GradientCaptureTape() as tape:
            y = layer(x)
            loss = tf.reduce_sum(y ** 2)
        gradients = tape.gradient(loss, layer.trainable_variables)
        captured = tape.captured_gradients[tag][0]
        expected = 2 * y * (1 if tag == "d_cug" else 1 - y ** 2)
        np.testing.assert_allclose(captured, expected, rtol=1e-5)
        inside = captured if tag != "d_cug" else captured * (1 - y ** 2)
        np.testing.assert_allclose(gradients[0], tf.matmul(x, inside, transpose_a=True), rtol=1e-4)
        assert len(layer.weights) == 2 and layer.name == tag.replace("_activation", "")
        config = layer.get_config()
        again = kind.from_config(config)
        assert again.layer.get_config() == layer.layer.get_config() and again.tag == layer.tag


def test_the_activations_of_a_capturing_layer():
    for inside, names in ((keras.layers.LSTM(2), {"activation", "recurrent_activation"}),
                          (keras.layers.Conv2D(1, 3), {"activation"})):
        layer = layers.CaptureActivationGradients(inside)
        assert set(layer._wrapped_activations) == names
        for name, one in layer._wrapped_activations.items():
            assert type(one).__name__ == "_ActivationCapture"
            assert one.get_config() == {"activation": inside.get_config()[name],
                                        "tag": f"{layer.tag}_{name}"}


def test_what_the_capturing_layers_refuse():
    with pytest.raises(ValueError, match="Expected an instance of a keras.engine.base_layer.Layer"):
        layers.CaptureUpstreamGradients(3)
    flat = keras.layers.Flatten(name="f")
    assert not layers.CaptureActivationGradients.layer_is_supported(flat)
    with pytest.raises(ValueError, match="Layer f does not use an activation function so is not"):
        layers.CaptureActivationGradients(flat)
    layer = layers.CaptureUpstreamGradients(keras.layers.Dense(2))
    model = keras.Sequential([keras.Input((3,)), layer])  # building one needs no context
    with tf.GradientTape() as tape:
        y = model(tf.ones([2, 3]))
    with pytest.raises(RuntimeError, match="Attempting to access grad frame in an empty stack."):
        tape.gradient(y, layer.trainable_variables)


# ---- On an IPU ----

@pytest.mark.parametrize("make", [
    lambda: optimizers.LAMBIpuOptimizer(0.01, outline_apply_gradients=True),
    lambda: optimizers.ALSOptimizer(legacy.SGD(0.1), update_frequency=1),
    lambda: optimizers.GradientAccumulationOptimizer(legacy.Adam(0.1), 2),
    lambda: optimizers.CrossReplicaOptimizer(legacy.SGD(0.1))])
def test_on_an_ipu(strategy, make):
    with strategy.scope():
        optimizer, variable = make(), tf.Variable(START)
        layer = layers.CaptureUpstreamGradients(keras.layers.Activation("linear"), tag="t")

        @tf.function(jit_compile=True)
        def step(gradient):
            with backprop.GradientCaptureTape() as tape:
                loss = tf.reduce_sum(layer(variable) * gradient)
            optimizer.minimize(loss, [variable], tape=tape)

        found = []
        for gradient in GRADIENTS[:3]:
            strategy.run(step, [tf.constant(gradient)])
            found.append(variable.numpy())
    is_sgd = isinstance(optimizer, (optimizers.CrossReplicaOptimizer, optimizers.ALSOptimizer))
    stock = legacy.SGD(0.1) if is_sgd else make()
    np.testing.assert_allclose(found, applied(stock, GRADIENTS[:3]), rtol=1e-4)
