"""Running the model classes of SDK 2.1: callbacks, results, kinds of data and of models, feeds."""

import contextlib
import gc
import importlib.util
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf
import fitting
from tensorflow import keras
from tensorflow.python import ipu
from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops

from tremula.tf.inner import eager, strategies

HAS_BOARD = importlib.util.find_spec("tensorboard") is not None
Dense = keras.layers.Dense
legacy = keras.optimizers.legacy
RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((48, 4)).astype("float32")
Y = X[:, :2] * 2 + 1


def batches(size=4):
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(size, drop_remainder=True)


def configured(ipus, events=False):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config._profiling.enable_ipu_events = events
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def events():
    with tf.device("/device:CPU:0"):
        found = gen_ipu_ops.ipu_event_trace().numpy()
    return ipu.utils.extract_all_types_from_event_trace(found)


@pytest.fixture
def scope(strategy):
    with strategy.scope():
        yield strategy


def layer(units=2, seed=1, **options):
    return Dense(units, kernel_initializer=keras.initializers.GlorotUniform(seed), **options)


def sequential(count=1, rate=0.1, **options):
    made = ipu.keras.Sequential([layer()], gradient_accumulation_count=count)
    made.compile(legacy.SGD(rate / count), "mse", **options)
    return made


def functional(graph, kind=ipu.keras.Model, **options):
    return kind(*graph(), **options)


def same_weights(ours, theirs):
    for one, other in zip(ours.get_weights(), theirs.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


class Calls(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_begin(self, logs=None):
        self.seen.append("train")

    def on_train_end(self, logs=None):
        self.seen.append("end of train")

    def on_epoch_begin(self, epoch, logs=None):
        self.seen.append(("epoch", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(("end of epoch", epoch, sorted(logs)))

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(("batch", batch, dict(logs)))

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(("end of batch", batch, dict(logs)))


# ---- Callbacks ----

def test_calls_of_callbacks(capsys):
    strategy = configured(2)
    with strategy.scope():
        made, calls = sequential(count=2, metrics=["mae"]), Calls()
        history = made.fit(batches(), epochs=3, initial_epoch=1, steps_per_run=1,
                           callbacks=[calls], verbose=2)
        fit, calls.seen = calls.seen, []
        found = made.evaluate(batches(), callbacks=[calls])
        evaluate, calls.seen = calls.seen, []
        made.predict(batches().map(lambda x, y: x), callbacks=[calls])

    def epoch(number, steps, per_run, logs):
        runs = [(kind, first, {"batch": first, "size": 1, "num_steps": per_run})
                for first in range(0, steps, per_run) for kind in ("batch", "end of batch")]
        return [("epoch", number), *runs, ("end of epoch", number, logs)]

    names = ["loss", "mae"]
    assert fit == ["train", *epoch(1, 3, 1, names), *epoch(2, 3, 1, names), "end of train"]
    assert evaluate == ["train", *epoch(0, 3, 3, names), "end of train"]
    assert calls.seen == ["train", *epoch(0, 3, 3, ["outputs"]), "end of train"]
    assert history.params["steps"] == 3 and history.epoch == [1, 2] and len(found) == 2
    assert isinstance(history, keras.callbacks.History) and made.history is history
    assert sorted(history.history) == names
    assert isinstance(found[0], np.float64)
    assert "Epoch 3/3" in capsys.readouterr().out


def test_the_progress_bar(scope, capsys):
    sequential(count=3).fit(batches(), steps_per_run=2)
    text = capsys.readouterr().out
    assert "2/4 [" in text and "4/4 [" in text and "loss" in text and "num_steps" not in text


def test_callbacks_that_change_the_training(strategy, tmp_path):
    rates = [0.1, 0.02, 0.0]
    reference = keras.Sequential([layer()])
    reference.compile(legacy.SGD(0.1), "mse")
    reference.fit(batches(), epochs=3, verbose=0, callbacks=[
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rates[epoch])])
    with strategy.scope():
        _change_training(rates, reference, tmp_path)


def _change_training(rates, reference, tmp_path):
    made = sequential()
    path = str(tmp_path / "weights.h5")
    log = tmp_path / "log.csv"
    made.fit(batches(), epochs=3, verbose=0, callbacks=[
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rates[epoch]),
        keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
        keras.callbacks.CSVLogger(str(log))])
    same_weights(made, reference)
    assert log.read_text().startswith("epoch,loss,lr")
    other = sequential()
    other.build((None, 4))
    other.load_weights(path)
    same_weights(other, made)

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    assert made.fit(batches(), epochs=5, verbose=0, callbacks=[Stop()]).epoch == [0]
    assert made.fit(batches(), epochs=2, verbose=0).epoch == [0, 1]


def test_checkpoints(scope, tmp_path):
    made = sequential()
    made.fit(batches(), verbose=0)
    path = tf.train.Checkpoint(model=made).save(str(tmp_path / "checkpoint"))
    before = made.get_weights()
    made.fit(batches(), verbose=0)
    tf.train.Checkpoint(model=made).restore(path)
    for one, other in zip(made.get_weights(), before):
        np.testing.assert_array_equal(one, other)


# ---- Data ----

def test_arrays_and_partial_batches(scope):
    made, reference = sequential(count=2), sequential(count=2)
    made.fit(X[:46], Y[:46], batch_size=4, epochs=2, verbose=0)  # 11 mini-batches and a half
    reference.fit(batches().take(10), epochs=2, verbose=0)
    same_weights(made, reference)
    outputs = made.predict(X[:46], batch_size=4)
    np.testing.assert_allclose(outputs, X[:40] @ made.get_weights()[0] + made.get_weights()[1],
                               rtol=1e-5, atol=1e-6)
    found = made.evaluate(tf.constant(X[:8]), tf.constant(Y[:8]), batch_size=4)
    np.testing.assert_allclose(found, [np.mean((outputs[:8] - Y[:8]) ** 2)], rtol=1e-5)


@pytest.mark.parametrize("kind", ["float64", "infinite", "unknown", "dict", "nested"])
def test_datasets(scope, kind):
    made, reference, options = sequential(), sequential(), {}
    dataset = batches()
    if kind == "float64":
        dataset = tf.data.Dataset.from_tensor_slices((X.astype("float64"), Y)).batch(
            4, drop_remainder=True).prefetch(2)
    elif kind == "infinite":
        dataset, options = dataset.repeat(), {"steps_per_epoch": 12}
    elif kind == "unknown":
        dataset, options = dataset.filter(lambda x, y: True), {"steps_per_epoch": 12}
    elif kind == "dict":
        dataset = dataset.map(lambda x, y: {"a": x, "b": y})
    else:
        dataset = dataset.map(lambda x, y: ({"x": x}, [y]))
    made.fit(dataset, epochs=2, verbose=0, **options)
    reference.fit(batches(), epochs=2, verbose=0)
    same_weights(made, reference)


def test_every_epoch_is_one_iteration_over_the_dataset(scope):
    """A shuffled dataset has another order in each."""
    def shuffled():
        tf.random.set_seed(1)
        return tf.data.Dataset.range(8).shuffle(8, seed=2).batch(1, drop_remainder=True).map(
            lambda one: tf.cast(one[:, None], tf.float32))

    made, dataset = ipu.keras.Sequential([keras.layers.Flatten()]), shuffled()
    found = [made.predict(dataset) for _ in range(3)]
    dataset = shuffled()
    expected = [[one.numpy()[0] for one in strategies.plain_iterator(dataset)] for _ in range(3)]
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(found[0], found[1])


def test_an_infinite_dataset_goes_on(scope):
    counter = tf.data.Dataset.counter().map(lambda i: tf.fill([1, 1], tf.cast(i, tf.float32)))
    made = ipu.keras.Sequential([keras.layers.Flatten()])
    seen = []

    class See(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.extend(logs["outputs"][0][:, 0])

    for _ in range(2):  # each call starts anew
        made.predict(counter, steps=3, callbacks=[See()])
    assert seen == [0, 1, 2, 0, 1, 2]


def test_replicas_take_turns():
    with configured(2).scope():
        made = ipu.keras.Sequential([keras.layers.Flatten()], gradient_accumulation_count=2)
        outputs = made.predict(X, batch_size=4, steps_per_run=3)
    np.testing.assert_array_equal(outputs, X)


# ---- Models ----

def stage(number):
    return (ipu.keras.PipelineStage(number) if tf.distribute.has_strategy()
            else contextlib.nullcontext())


def two_outputs():
    a, b = keras.Input((4,), name="a"), keras.Input((2,), name="b")
    with stage(0):
        hidden = layer(3, activation="tanh")(a)
    with stage(1):
        first = layer(2, seed=2, name="first")(hidden)
        last = keras.layers.Add(name="last")([layer(2, seed=4)(hidden), b])
    return [b, a], [first, last]


@pytest.mark.parametrize("kind", [ipu.keras.Model, ipu.keras.PipelineModel])
def test_several_inputs_and_outputs(kind):
    dataset = batches(8).map(lambda x, y: ({"a": x, "b": y}, {"first": y, "last": y * y}))
    count = 4 if kind is ipu.keras.PipelineModel else 2
    dataset = dataset.unbatch().batch(24 // count, drop_remainder=True)
    options = dict(loss=["mse", "mae"], loss_weights=[0.25, 2.0], metrics={"last": "mae"})
    with configured(2 if kind is ipu.keras.PipelineModel else 1).scope():
        made = functional(two_outputs, kind, gradient_accumulation_count=count)
        made.compile(legacy.SGD(0.05 / count), **options)
        history = made.fit(dataset, epochs=2, verbose=0).history
        outputs = made.predict(dataset.map(lambda x, y: x))
        found = made.evaluate(dataset)
    wide = dataset.unbatch().batch(24, drop_remainder=True)
    reference = keras.Model(*two_outputs())
    reference.compile(legacy.SGD(0.05), **options)
    wanted = reference.fit(wide, epochs=2, verbose=0).history
    same_weights(made, reference)
    assert list(history) == list(wanted) == ["loss", "first_loss", "last_loss", "last_mae"]
    for name in wanted:
        np.testing.assert_allclose(history[name], wanted[name], rtol=1e-5)
    assert isinstance(outputs, list)
    for one, other in zip(outputs, reference.predict(wide, verbose=0)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found, reference.evaluate(wide, verbose=0), rtol=1e-5)


# As many in every row are left out: Keras divides by the number of those that are not.
TOKENS = np.array([np.roll([0, 1, 2, 0, 3, 4], one) for one in range(32)], "int32")
NEXT = RANDOM.standard_normal((32, 6, 2)).astype("float32")


def masking_layers():
    return [keras.layers.Embedding(5, 3, mask_zero=True, embeddings_initializer=(
        keras.initializers.RandomUniform(seed=1))), keras.layers.TimeDistributed(layer())]


def masked():
    inputs = keras.Input((6,), dtype="int32")
    first, last = masking_layers()
    with ipu.keras.PipelineStage(0):
        x = first(inputs)
    with ipu.keras.PipelineStage(1):
        return inputs, last(x)


@pytest.mark.parametrize("make, ipus", [
    (lambda: ipu.keras.Model(*masked(), gradient_accumulation_count=4), 1),
    (lambda: ipu.keras.PipelineModel(*masked(), gradient_accumulation_count=4), 2),
    (lambda: ipu.keras.PipelineSequential([[one] for one in masking_layers()], 4), 2)])
def test_masks(make, ipus):
    with configured(ipus).scope():
        made = make()
        made.compile(legacy.SGD(0.25), "mse", metrics=["mae"])
        history = made.fit(TOKENS, NEXT, batch_size=4, verbose=0).history
    reference = keras.Sequential(masking_layers())
    reference.compile(legacy.SGD(1.0), "mse", metrics=["mae"])
    wanted = reference.fit(TOKENS, NEXT, batch_size=16, shuffle=False, verbose=0).history
    same_weights(made, reference)
    np.testing.assert_allclose(history["mae"], wanted["mae"], rtol=1e-4)


def test_layers_know_whether_they_train(scope):
    def graph():
        inputs = keras.Input((4,))
        x = keras.layers.Dropout(0.999)(inputs)
        x = keras.layers.Dropout(0.999)(x, training=False)
        inside = keras.Input((4,))
        nested = keras.Model(inside, keras.layers.Dropout(0.999)(inside))
        return inputs, layer(use_bias=False)(keras.layers.BatchNormalization()(nested(x)))

    made = functional(graph)
    made.compile(legacy.SGD(0.0), "mse")
    made.fit(batches(), verbose=0)
    scale, _, mean, variance, kernel = made.get_weights()
    assert np.all(variance < 0.99)  # hardly anything is left: the statistics are those of zeros
    outputs = made.predict(batches().map(lambda x, y: x))
    np.testing.assert_allclose(
        outputs, (X - mean) / np.sqrt(variance + 1e-3) * scale @ kernel, rtol=1e-3, atol=1e-4)


def test_the_type_of_sums(scope):
    seen = []

    def dtype(variable):
        seen.append(variable.name)
        return tf.float32

    made = ipu.keras.Sequential([layer(name="one")], gradient_accumulation_count=2,
                                gradient_accumulation_dtype=dtype)
    made.compile(legacy.SGD(0.05), "mse")
    made.fit(batches(), verbose=0)
    reference = sequential(count=2)
    reference.fit(batches(), verbose=0)
    assert seen == ["one/kernel:0", "one/bias:0"]
    same_weights(made, reference)


def test_weights_that_no_loss_reads_stay(scope):
    inputs = keras.Input((4,))
    outputs = [layer(name="read")(inputs), layer(seed=2, name="other")(inputs)]
    made = ipu.keras.Model(inputs, outputs, gradient_accumulation_count=2)
    made.compile(legacy.SGD(0.05), {"read": "mse"})
    kernel, _, other, _ = made.get_weights()
    made.fit(batches().map(lambda x, y: (x, (y, y))), verbose=0)
    np.testing.assert_array_equal(made.get_weights()[2], other)
    assert not np.array_equal(made.get_weights()[0], kernel)


def test_losses_of_layers_count_in_a_sequential(strategy):
    with strategy.scope():
        made = ipu.keras.Sequential([layer(kernel_regularizer="l2")])
        made.compile(legacy.SGD(0.1), "mse")
        history = made.fit(batches(), verbose=0).history
    reference = keras.Sequential([layer(kernel_regularizer="l2")])
    reference.compile(legacy.SGD(0.1), "mse")
    wanted = reference.fit(batches(), verbose=0).history
    same_weights(made, reference)
    np.testing.assert_allclose(history["loss"], wanted["loss"], rtol=1e-5)


# ---- Pipelines ----

def pipeline(**options):
    stages = [[layer(3, activation="tanh")], [], [layer(2, seed=4)]]
    made = ipu.keras.PipelineSequential(stages, gradient_accumulation_count=6, **options)
    made.compile(legacy.SGD(0.1 / 6), "mse", metrics=["mae"])
    return made


def test_options_of_pipelines():
    Schedule = ipu.pipelining_ops.PipelineSchedule
    options = [
        dict(), dict(pipeline_schedule=Schedule.Sequential, device_mapping=[0, 1, 0],
                     offload_weight_update_variables=True, batch_serialization_iterations=3),
        dict(gradient_accumulation_dtype=tf.float32, layer_replacement=True, name="mine",
             recomputation_mode=ipu.pipelining_ops.RecomputationMode.Auto)]
    found = []
    with configured(4).scope():
        for one in options:
            made = pipeline(**one)
            made.fit(batches(2 if one.get("device_mapping") else 4), epochs=2, verbose=0)
            found.append(made)
    assert found[2].name == "mine"
    same_weights(found[0], found[2])
    assert [one.shard_count for one in found] == [4, 2, 4]
    assert found[1].batch_serialization_iterations == 3


def test_accumulated_outfeed():
    with configured(4).scope():
        history = pipeline().fit(batches(), epochs=2, verbose=0).history
        names = []

        def dtype(like):
            names.append(like.name)
            return tf.float32

        made = pipeline()
        summed = made.fit(batches(), epochs=2, verbose=0, accumulate_outfeed=True,
                          accumulate_outfeed_dtype=dtype).history
        evaluated = made.evaluate(batches(), accumulate_outfeed=True)
        expected = made.evaluate(batches())
    assert names == ["PipelineStage:0", "PipelineStage:1"]
    np.testing.assert_allclose(summed["loss"], history["loss"], rtol=1e-5)
    np.testing.assert_allclose(evaluated[0], expected[0], rtol=1e-5)
    assert 0 < evaluated[1] < 2 * expected[1]


# ---- Feeds and programs ----

@pytest.fixture
def synthetic(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS",
                       "--use_synthetic_data --synthetic_data_categories=outfeed")


def test_synthetic_results(synthetic, scope):
    made = sequential(count=3, metrics=["mae"])
    history = made.fit(batches(), epochs=2, verbose=0).history
    assert np.isnan(history["loss"]).all() and np.isnan(history["mae"]).all()
    outputs = made.predict(batches().map(lambda x, y: x))
    assert outputs.shape == (48, 2) and np.isnan(outputs).all()


def test_nothing_is_compiled_twice():
    with configured(1, events=True).scope():
        made = sequential(metrics=["mae"])
        made.fit(batches(), verbose=0)
        made.evaluate(batches())
        events()
        for _ in range(2):
            made.fit(batches(), epochs=2, verbose=0)
            assert made.infeed is None and made.outfeed is None
        made.evaluate(batches().take(12))
        found = events()
    assert found.count(IpuTraceEvent.COMPILE_BEGIN) == 0
    assert found.count(IpuTraceEvent.EXECUTE) == 5


def test_weights_are_sent_once():
    for pipelined, epochs in ((False, 2), (True, 4)):
        with configured(2 if pipelined else 1, events=True).scope():
            inputs = keras.Input([4])
            if pipelined:
                with ipu.keras.PipelineStage(0):
                    x = layer(4)(inputs)
                with ipu.keras.PipelineStage(1):
                    outputs = layer()(x)
                made = ipu.keras.PipelineModel(inputs, outputs, gradient_accumulation_count=4)
            else:
                made = ipu.keras.Model(inputs, layer()(layer(4)(inputs)),
                                       gradient_accumulation_count=4)
            made.compile(legacy.SGD(0.001, decay=0.1), "mse")
            events()
            losses = made.fit(batches(), epochs=epochs, verbose=0).history["loss"]
            assert losses == sorted(losses, reverse=True)  # of each epoch by itself
            found = events()
        assert found.count(IpuTraceEvent.EXECUTE) == epochs
        assert found.count(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER) == 1
    ipu.config.reset_ipu_configuration()


@pytest.mark.skipif(not HAS_BOARD, reason="tensorboard is not installed")
def test_graph_for_tensorboard(scope, tmp_path):
    sequential().fit(batches(), verbose=0, callbacks=[keras.callbacks.TensorBoard(
        str(tmp_path), write_graph=True, write_steps_per_second=True)])
    assert fitting.written_graph(tmp_path)


def test_feeds_are_there_while_a_method_runs(scope):
    made = sequential()
    seen = []

    class See(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append((self.model.infeed, self.model.outfeed))

    made.fit(batches(), epochs=2, verbose=0, callbacks=[See()])
    assert isinstance(seen[0][0], ipu.ipu_infeed_queue.IPUInfeedQueue) and seen[0] == seen[1]
    made.compile("sgd", "mse")
    made.fit(batches(), verbose=0, callbacks=[See()])
    assert seen[2][0] is not seen[0][0]


def test_errors_leave_a_model_that_works(scope):
    made, reference = sequential(), sequential()

    class Broken(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyError("mine")

    weights = made.build((None, 4)) or made.get_weights()
    with pytest.raises(KeyError, match="mine"):
        made.fit(batches(), verbose=0, callbacks=[Broken()])

    def fails(x, y):
        with tf.control_dependencies([tf.debugging.assert_none_equal(x[0, 0], X[20, 0])]):
            return tf.identity(x), y

    with pytest.raises(tf.errors.InvalidArgumentError):
        made.fit(batches().map(fails), verbose=0)
    with pytest.raises(tf.errors.OutOfRangeError):
        made.fit(batches().filter(lambda x, y: True), steps_per_epoch=20, verbose=0)
    made.set_weights(weights)
    history = made.fit(batches(), verbose=0)
    reference.build((None, 4))
    reference.set_weights(weights)
    np.testing.assert_allclose(reference.fit(batches(), verbose=0).history["loss"],
                               history.history["loss"])
    same_weights(made, reference)


def keras_own():
    made = keras.Sequential([layer()])
    made.compile(legacy.SGD(0.1), "mse", steps_per_execution=12)
    return made


@pytest.mark.parametrize("make", [sequential, keras_own])
def test_queues_are_emptied_once_a_broken_off_run_has_stopped(scope, monkeypatch, make):
    """Results that such a run leaves would count in the next fit's loss."""
    made, asked, run = make(), [], eager.run_on_cpu

    def busy_at_first(op, **options):
        asked.append(op)
        if op == "IpuOutfeedDelete" and asked.count(op) < 4:
            raise tf.errors.FailedPreconditionError(None, None, "in use")
        return run(op, **options)

    monkeypatch.setattr(eager, "run_on_cpu", busy_at_first)
    first = made.fit(batches(), verbose=0, epochs=1)
    assert asked.count("IpuOutfeedDelete") == 4
    assert made.fit(batches(), verbose=0).history["loss"] < first.history["loss"]


def test_nothing_is_left_behind(scope):
    made, dataset = sequential(), batches()
    made.fit(batches(), verbose=0)
    made.fit(dataset, verbose=0)
    gone = weakref.ref(dataset)
    del dataset
    gc.collect()
    assert gone() is None
    threads = threading.active_count()
    functions = len(made._programs)
    for _ in range(20):
        made.fit(batches(), verbose=0)
    assert threading.active_count() <= threads and len(made._programs) == functions
    program = weakref.ref(next(iter(made._programs.values())))
    del made
    gc.collect()
    assert program() is None


def test_one_class_beside_the_other(scope):
    """They share layers and the strategy with models of Keras' own."""
    shared = layer()
    inputs = keras.Input((4,))
    made = ipu.keras.Model(inputs, shared(inputs))
    made.compile(legacy.SGD(0.1), "mse")
    plain = keras.Model(inputs, shared(inputs))
    made.fit(batches(), verbose=0)
    np.testing.assert_allclose(plain(X), made.predict(X, batch_size=4), rtol=1e-5, atol=1e-6)
    copy = ipu.keras.Sequential([shared])
    np.testing.assert_allclose(copy.predict(X, batch_size=4), plain(X), rtol=1e-5, atol=1e-6)
    made.summary(print_fn=lambda line: None)
    copy.summary(print_fn=lambda line: None)


@pytest.mark.parametrize("nest", [
    lambda a, b: {"b": b, "a": [a, (b,)]}, lambda a, b: (a, b), lambda a, b: {"a": a}])
def test_predict_keeps_the_nest_of_the_outputs(nest):
    with configured(1).scope():
        inputs = keras.Input((3,))
        outputs = nest(inputs * 2, inputs + 1)
        made = ipu.keras.Model(inputs, outputs)
        found = made.predict(tf.data.Dataset.from_tensors(np.ones([2, 3], "f")))
    wanted = nest(np.full([2, 3], 2.), np.full([2, 3], 2.))
    tf.nest.assert_same_structure(found, wanted)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted)):
        np.testing.assert_array_equal(one, other)
