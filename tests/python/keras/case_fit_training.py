"""What fit, evaluate and predict compute beside plain training: weights of samples and classes,
losses of layers, several inputs and outputs, metrics of replicas, mixed precision, schedules."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import fitting
from fitting import X, Y, compiled, data, keras, layers
from tensorflow.python.ipu.keras import layers as ipu_layers

CLASSES = (np.arange(64) % 3).astype("int32")
WEIGHTS = np.linspace(.1, 2., 64).astype("float32")


def same(build, x=X, y=Y, batch_size=8, rtol=1e-5, check=None, **options):
    """fit and evaluate of build() on an IPU equal those on the CPU."""
    results = []
    for on_ipu in (True, False):
        if on_ipu:
            with fitting.scope():
                made = build()
        else:
            made = build()
        arguments = dict(options)
        if not isinstance(x, tf.data.Dataset):
            arguments.update(y=y, batch_size=batch_size)
        history = made.fit(x, epochs=2, verbose=0, shuffle=False, **arguments).history
        if check is not None and on_ipu:
            check(made)
        results.append((made, history))
    (found, history), (expected, wanted) = results
    fitting.same_weights(found, expected, rtol)
    assert set(history) == set(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4, err_msg=name)
    return found, expected


def classifier():
    keras.utils.set_random_seed(2)
    made = keras.Sequential([layers.Dense(6, activation="tanh"), layers.Dense(3)])
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                 metrics=["accuracy"], weighted_metrics=["accuracy"], steps_per_execution=8)
    return made


def test_class_weight_sample_weight_and_validation():
    same(classifier, y=CLASSES, class_weight={0: .5, 1: 2., 2: 1.})
    same(classifier, y=CLASSES, sample_weight=WEIGHTS, validation_split=.5, validation_freq=2)
    triples = tf.data.Dataset.from_tensor_slices((X, CLASSES, WEIGHTS)).batch(
        8, drop_remainder=True)
    found, expected = same(classifier, triples, validation_data=(X[:32], CLASSES[:32],
                                                                 WEIGHTS[:32]))
    np.testing.assert_allclose(found.evaluate(triples, verbose=0),
                               expected.evaluate(triples, verbose=0), rtol=1e-5)
    np.testing.assert_allclose(found.predict(X, batch_size=16, verbose=0),
                               expected.predict(X, batch_size=16, verbose=0), rtol=1e-4, atol=1e-6)


def test_losses_of_layers_and_regularizers():
    def build():
        keras.utils.set_random_seed(3)
        inputs = keras.Input((4,))
        hidden = layers.Dense(6, kernel_regularizer="l2", activity_regularizer="l1")(inputs)
        made = keras.Model(inputs, layers.Dense(1, bias_constraint="non_neg")(hidden))
        made.add_loss(.1 * tf.reduce_sum(hidden ** 2))
        made.add_metric(tf.reduce_mean(hidden), name="hidden")
        made.compile("sgd", "mse", steps_per_execution=4)
        return made

    same(build)


class Noisy(keras.Model):
    """Has losses and metrics of its own, and state that training changes."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = layers.BatchNormalization(), layers.Dense(1)

    def call(self, inputs, training):
        hidden = self.norm(inputs, training=training)
        self.add_loss(.01 * tf.reduce_sum(hidden ** 2))
        return self.out(hidden)


def test_a_subclass_with_losses_and_state():
    def build():
        keras.utils.set_random_seed(4)
        made = Noisy()
        made.compile("sgd", "mse", steps_per_execution=4)
        return made

    found, expected = same(build)
    np.testing.assert_allclose(found.predict(X, batch_size=8, verbose=0),
                               expected.predict(X, batch_size=8, verbose=0), rtol=1e-4, atol=1e-6)


def test_several_inputs_and_outputs():
    def build():
        keras.utils.set_random_seed(5)
        a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
        hidden = layers.Concatenate()([a, layers.Dense(4)(b)])
        made = keras.Model({"a": a, "b": b}, {"sum": layers.Dense(1, name="sum")(hidden),
                                              "kind": layers.Dense(3, name="kind")(hidden)})
        made.compile("sgd", {"sum": "mse", "kind": keras.losses.SparseCategoricalCrossentropy(
            from_logits=True)}, loss_weights={"sum": .5, "kind": 2.},
            metrics={"kind": ["accuracy"]}, steps_per_execution=4)
        return made

    found, expected = same(build, {"a": X, "b": X * 2.}, {"sum": Y, "kind": CLASSES})
    outputs = [one.predict({"a": X, "b": X}, batch_size=8, verbose=0)
               for one in (found, expected)]
    assert set(outputs[0]) == {"sum", "kind"}
    for name in outputs[0]:
        np.testing.assert_allclose(outputs[0][name], outputs[1][name], rtol=1e-4, atol=1e-6)
    with fitting.scope():
        assert [one.shape for one in _listed().predict((X, X), batch_size=8, verbose=0)] == [
            (64, 1), (64, 2)]


def _listed():
    a, b = keras.Input((4,)), keras.Input((4,))
    return keras.Model([a, b], [layers.Dense(1)(a), layers.Dense(2)(b)])


def test_schedules_and_frozen_layers():
    def build(legacy):
        def make():
            schedule = keras.optimizers.schedules.ExponentialDecay(.1, 4, .5, staircase=True)
            optimizers = keras.optimizers.legacy if legacy else keras.optimizers
            made = fitting.model()
            made.layers[1].trainable = False
            made.compile(optimizers.SGD(schedule, clipnorm=.5), "mse", steps_per_execution=4)
            return made
        return make

    for legacy in (True, False):
        same(build(legacy), check=lambda made: (int(made.optimizer.iterations) == 16) or 1 / 0)


def test_schedules_go_by_weight_updates():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [.1, 0.])
    with fitting.scope():
        made = compiled(optimizer=keras.optimizers.SGD(schedule), steps=8)
        made.set_gradient_accumulation_options(2)
        made.fit(data(), verbose=0)
    assert int(made.optimizer.iterations) == 4


def test_an_optimizer_of_tensorflow_1():
    same(lambda: compiled(optimizer=tf.compat.v1.train.MomentumOptimizer(.01, .9), steps=8))
    with fitting.scope():
        accumulated = compiled(optimizer=tf.compat.v1.train.MomentumOptimizer(.01, .9), steps=8)
        accumulated.set_gradient_accumulation_options(4, "mean", dtype=tf.float32)
        accumulated.fit(data(), verbose=0)
    large = compiled(optimizer=tf.compat.v1.train.MomentumOptimizer(.01, .9), steps=1)
    large.fit(data(32), verbose=0)
    fitting.same_weights(accumulated, large)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_loss_scaling(legacy, count):
    mixed = keras.mixed_precision

    def build(accumulate=1):
        optimizer = (keras.optimizers.legacy if legacy else keras.optimizers).SGD(.02)
        made = compiled(optimizer=mixed.LossScaleOptimizer(optimizer, initial_scale=1024.,
                                                           dynamic_growth_steps=3), steps=8)
        if accumulate > 1:
            made.set_gradient_accumulation_options(accumulate, "mean")
        return made

    with fitting.scope():
        found = build(count)
        found.fit(data(), epochs=2, verbose=0)
    expected = build()
    expected.fit(data(8 * count), epochs=2, verbose=0)
    fitting.same_weights(found, expected)
    assert float(found.optimizer.loss_scale) == float(expected.optimizer.loss_scale) > 1024


def test_mixed_precision():
    try:
        with fitting.logged() as lines, fitting.scope():
            keras.mixed_precision.set_global_policy("mixed_float16")
            made = compiled(steps=8, metrics=["mae"])
            history = made.fit(data(), epochs=4, verbose=0).history
        assert not any("compatib" in one.lower() for one in lines)
        assert isinstance(made.optimizer, keras.mixed_precision.LossScaleOptimizer)
        assert history["loss"][-1] < history["loss"][0] and np.isfinite(history["loss"]).all()
        assert {one.dtype for one in made.weights} == {tf.float32}
        assert made.predict(X, batch_size=8, verbose=0).dtype == np.float16
    finally:
        keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize("method, expect", [
    ("none", lambda a, b: b), ("list", lambda a, b: [a, b]), ("sum", lambda a, b: a + b),
    ("mean", lambda a, b: (a + b) / 2)])
def test_metrics_of_replicas(method, expect):
    made = fitting.model()
    made.compile("sgd", "mse")
    parts = [made.evaluate(data().shard(2, i), verbose=0) for i in range(2)]
    with fitting.scope(2):
        found = compiled(steps=2)
        found.set_replication_options(method)
        value = found.evaluate(data(), verbose=0)
        outputs = found.predict(X, batch_size=8, verbose=0)
    np.testing.assert_allclose(value, expect(*parts), rtol=1e-5)
    assert outputs.shape[0] == 64 * (2 if method == "list" else 1) or method == "list"


def test_too_few_ipus():
    with fitting.scope():
        made = compiled()
        made._get_shard_count = lambda: 3
        with pytest.raises(ValueError) as error:
            made.fit(data(), verbose=0)
    assert str(error.value) == ("Current device has 1 IPUs attached, however the current model "
                                "requires a multiple of 4 IPUs.")


def test_called_outside_of_the_scope_and_across_epochs():
    with fitting.scope():
        made, whole = compiled(steps=2), compiled(steps=2)
    made.fit(data().repeat(), epochs=2, steps_per_epoch=4, verbose=0)  # goes on in the data
    whole.fit(data(), verbose=0)
    fitting.same_weights(made, whole)
    assert made.distribute_strategy is whole.distribute_strategy
    with fitting.scope():
        made = compiled(steps=1)  # as these methods of Keras want it
    made.train_on_batch(X[:8], Y[:8])
    np.testing.assert_allclose(made.predict_on_batch(X), made.predict(X, verbose=0), rtol=1e-5)
    assert made.test_on_batch(X, Y) == pytest.approx(made.evaluate(X, Y, verbose=0), rel=1e-5)


WORDS = np.arange(12).reshape(4, 3) % 9


def _of_words():
    keras.utils.set_random_seed(1)
    made = keras.Sequential([layers.Embedding(9, 4), layers.LSTM(3), layers.Dense(1)])
    made.compile("sgd", "mse", metrics=["mae"])
    return made


@functools.cache
def _stock_of_words():
    """(stock Keras' model after three batches, what its methods gave)."""
    made = _of_words()
    found = [made.train_on_batch(WORDS, Y[:4]) for _ in range(3)]
    return made, [*found, made.test_on_batch(WORDS, Y[:4]), made.predict_on_batch(WORDS)[:2, 0]]


@pytest.mark.parametrize("extensions", [True, False])
def test_batches_of_words_one_by_one(extensions):
    """Stock Keras' step, which no function of the program's says to compile."""
    with fitting.scope(enable_keras_extensions=extensions):
        made = _of_words()
        found = [made.train_on_batch(WORDS, Y[:4]) for _ in range(2)]
        fitting.events()
        found.append(made.train_on_batch(WORDS, Y[:4]))
        assert fitting.events()["EXECUTE"] == 1
        found += [made.test_on_batch(WORDS, Y[:4]), made.predict_on_batch(WORDS)[:2, 0]]
    stock, expected = _stock_of_words()
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    fitting.same_weights(made, stock)


def test_captured_gradients():
    from tensorflow.python.keras.ipu import layers as keras_layers, optimizers
    seen = []

    class Optimizer(optimizers.ALSOptimizer):
        def apply_gradients(self, grads_and_vars, captured_grads=None, **keywords):
            seen.append(sorted(captured_grads or {}))
            return super().apply_gradients(grads_and_vars, captured_grads=captured_grads,
                                           **keywords)

    with fitting.scope():
        made = keras.Sequential([keras_layers.CaptureUpstreamGradients(layers.Dense(4), "mine"),
                                 layers.Dense(1)])
        made.compile(Optimizer(keras.optimizers.SGD(.01)), "mse", steps_per_execution=8)
        made.fit(data(), verbose=0)
    assert seen and set(map(tuple, seen)) == {("mine",)}


def test_targets_and_metrics_by_names_of_outputs():
    def build():
        inputs = [keras.Input([4], name="a"), keras.Input([4], name="b")]
        made = keras.Model(inputs, [layers.Dense(1, name="c")(inputs[0]),
                                    layers.Dense(1, name="d")(inputs[1])])
        made.set_weights([np.full(one.shape, .1) for one in made.weights])
        made.compile("sgd", ["mse", "mae"], metrics=["mae"])
        return made

    same(build, {"a": X, "b": X}, {"c": Y, "d": -Y})


def test_losses_of_layers_need_no_targets():
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(tf.reduce_mean(x ** 2))
            return x

    with fitting.scope():
        made = keras.Sequential([layers.Dense(1), Penalty()])
        made.compile("sgd", "mse", steps_per_execution=8)
        history = made.fit(data().map(lambda x, _: x), epochs=2, verbose=0).history["loss"]
        assert 0 < history[1] < history[0]
        without = keras.Sequential([layers.Dense(1)])
        without.compile("sgd", "mse", steps_per_execution=8)
        with pytest.raises(ValueError, match="Target data is missing"):
            without.fit(data().map(lambda x, _: x), verbose=0)


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.legacy.SGD])
@pytest.mark.parametrize("prepare", [
    lambda made: None,
    lambda made: made.set_gradient_accumulation_options(2),
    lambda made: (made.set_pipeline_stage_assignment([0, 1]),
                  made.set_pipelining_options(gradient_accumulation_steps_per_replica=2))])
def test_a_weight_that_the_loss_does_not_depend_on(optimizer, prepare):
    class Unused(layers.Layer):
        def build(self, shape):
            self.unused = self.add_weight("unused", shape=[2])

    with fitting.scope(2):
        made = keras.Sequential([layers.Dense(1), Unused()])
        prepare(made)
        made.compile(optimizer(), "mse", steps_per_execution=4)
        with pytest.raises(ValueError, match="unused.* has `None` for gradient"):
            made.fit(data(), verbose=0)


def test_empty_arrays():
    with fitting.scope():
        made = compiled()
        with pytest.raises(TypeError, match="dataset length is unknown"):
            made.fit(np.zeros([0, 5]), np.zeros([0, 3]), verbose=0)


def test_layers_of_the_ipu():
    with fitting.scope():
        made = keras.Sequential([layers.Dense(8), ipu_layers.LayerNormalization(),
                                 ipu_layers.Dropout(.5), layers.Dense(1)])
        made.compile("sgd", "mse", steps_per_execution=8)
        history = made.fit(data(), epochs=3, verbose=0).history["loss"]
        assert history[-1] < history[0]
        np.testing.assert_array_equal(made.predict(X, verbose=0), made.predict(X, verbose=0))


def test_without_extensions():
    with fitting.scope(enable_keras_extensions=False):
        made = compiled()
        made.fit(data(), verbose=0)
    expected = compiled()
    expected.fit(data(), verbose=0)
    fitting.same_weights(made, expected)


def test_the_epochs_of_a_fit_share_one_optimised_dataset(monkeypatch):
    """TensorFlow optimises a dataset when its first iterator starts, which takes longer than a
    short epoch, and keeps the result with the dataset."""
    from tremula.tf.inner import datasets
    started = []
    restart = datasets.restart_iterator
    monkeypatch.setattr(datasets, "restart_iterator", lambda iterator, dataset: (
        started.append(dataset), restart(iterator, dataset)))
    with fitting.scope():
        compiled().fit(data(), epochs=4, verbose=0)
    assert len(started) == 3 and all(one is started[0] for one in started)
