"""Callbacks in fit, evaluate and predict: counted, synchronous and asynchronous; and what is left
after failures and deletions."""

import gc
import importlib.util
import threading

import numpy as np
import pytest
import tensorflow as tf

import fitting
from fitting import Calls, X, Y, compiled, data, keras
from tensorflow.python.keras.ipu.extensions import polling_thread

HAS_BOARD = importlib.util.find_spec("tensorboard") is not None


@pytest.fixture
def scope():
    with fitting.scope():
        yield


def steps(calls, name):
    return [one[1] for one in calls.calls if one[0] == name]


# ---- Once an execution ----

def test_synchronous(scope):
    made, calls = compiled(steps=4, metrics=["mae"]), Calls()
    history = made.fit(data(), epochs=2, verbose=0, callbacks=[calls], validation_data=data(16))
    assert steps(calls, "train_batch_begin") == [0, 4] * 2
    assert steps(calls, "train_batch_end") == [3, 7] * 2
    assert steps(calls, "test_batch_begin") == [0] * 2 and steps(calls, "test_batch_end") == [3] * 2
    assert steps(calls, "epoch_end") == [0, 1] and calls.params["steps"] == 8
    ends = [logs for name, _, logs in calls.calls if name == "train_batch_end"]
    assert ends[1] == {name: history.history[name][0] for name in ("loss", "mae")}
    assert set(history.history) == {"loss", "mae", "val_loss", "val_mae"}
    found = made.evaluate(data(16), verbose=0, callbacks=[calls], return_dict=True)
    assert found["loss"] == pytest.approx(history.history["val_loss"][-1], rel=1e-6)
    calls = Calls()
    outputs = made.predict(X, batch_size=8, verbose=0, callbacks=[calls])
    assert steps(calls, "predict_batch_begin") == [0, 4]
    ends = [logs for name, _, logs in calls.calls if name == "predict_batch_end"]
    np.testing.assert_array_equal(np.concatenate([one["outputs"] for one in ends]), outputs)


# ---- TensorFlow's profiler ----

def profiled(folder):
    """{name: the step numbers of the events of that name}; None for an event without a number."""
    try:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError:
        xplane_pb2 = pytest.importorskip("tensorflow.core.profiler.protobuf.xplane_pb2")
    file, = folder.glob("**/*.xplane.pb")
    found = {}
    for plane in xplane_pb2.XSpace.FromString(file.read_bytes()).planes:
        for event in (event for line in plane.lines for event in line.events):
            numbers = [stat.int64_value or stat.uint64_value for stat in event.stats
                       if plane.stat_metadata[stat.metadata_id].name == "step_num"]
            found.setdefault(plane.event_metadata[event.metadata_id].name, []).append(
                numbers[0] if numbers else None)
    return found


def test_profiler_shows_steps_by_name(scope, tmp_path):
    made = compiled(steps=4)
    made.fit(data(), epochs=1, verbose=0)
    with tf.profiler.experimental.Profile(str(tmp_path)):
        made.fit(data(), epochs=2, verbose=0)
        made.evaluate(data(16), verbose=0)
        made.predict(X, batch_size=8, verbose=0)
    found = profiled(tmp_path)
    assert sorted(found["train"]) == [0, 0, 4, 4]
    assert found["test"] == [0] and sorted(found["predict"]) == [0, 4]
    assert len(found["train_function on /device:IPU:0"]) == 4


# ---- Executions after the first ----

def test_the_program_is_called_again(scope, monkeypatch):
    strategy, found = tf.distribute.get_strategy(), []
    run = type(strategy).run
    monkeypatch.setattr(type(strategy), "run", lambda self, fn, **keywords: (
        found.append(fn), run(self, fn, **keywords))[1])
    made, counts = compiled(steps=2, metrics=["mae"]), []
    counted = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: counts.append(int(made._train_counter.numpy())))
    history = made.fit(data(), epochs=2, verbose=0, callbacks=[counted]).history
    assert len(found) == 2 and counts == [2, 4, 6, 8] * 2  # once an epoch; each execution
    unseen = compiled(steps=2, metrics=["mae"])
    assert unseen.fit(data(), epochs=2, verbose=0).history == history
    assert int(unseen._train_counter.numpy()) == 8
    assert unseen.evaluate(data(), verbose=0) == made.evaluate(data(), verbose=0)


# ---- After each step ----

def test_asynchronous(scope):
    made, calls = compiled(steps=4, metrics=["mae"]), Calls()
    made.set_asynchronous_callbacks(True)
    history = made.fit(data(), epochs=2, verbose=0, callbacks=[calls]).history
    assert steps(calls, "train_batch_begin") == steps(calls, "train_batch_end") == [*range(8)] * 2
    last = [logs for name, step, logs in calls.calls if (name, step) == ("train_batch_end", 7)]
    assert [one["loss"] for one in last] == history["loss"]
    plain, calls = compiled(steps=4, metrics=["mae"]), Calls()
    assert plain.fit(data(), epochs=2, verbose=0).history == history
    assert made.evaluate(data(), verbose=0, callbacks=[calls]) == plain.evaluate(data(), verbose=0)
    assert steps(calls, "test_batch_end") == [*range(8)]
    outputs = made.predict(X, batch_size=8, verbose=0, callbacks=[calls])
    assert steps(calls, "predict_batch_end") == [*range(8)]
    np.testing.assert_array_equal(outputs, plain.predict(X, batch_size=8, verbose=0))
    ends = [logs for name, _, logs in calls.calls if name == "predict_batch_end"]
    np.testing.assert_array_equal(np.concatenate([one["outputs"] for one in ends]), outputs)


def test_asynchronous_on_two_replicas():
    with fitting.scope(2):
        made, calls = compiled(steps=2), Calls()
        made.set_asynchronous_callbacks(True)
        made.fit(data(), epochs=2, verbose=0, callbacks=[calls])
        twice = [0, 0, 1, 1, 2, 2, 3, 3]
        assert steps(calls, "train_batch_end") == twice * 2 and calls.params["steps"] == 4
        made.evaluate(data(), verbose=0, callbacks=[calls])
        assert steps(calls, "test_batch_begin") == twice
        outputs = made.predict(X, batch_size=8, verbose=0, callbacks=[calls])
        assert steps(calls, "predict_batch_end") == twice
        np.testing.assert_array_equal(outputs, made.predict(X, batch_size=8, verbose=0))


def test_the_thread_adapts_its_wait():
    results, seen = iter([None, {"a": np.arange(2)}, None, {"a": np.arange(2, 4)}]), []
    thread = polling_thread.PollingThread(
        lambda: next(results), 4, 1, lambda step: seen.append(step),
        lambda step, logs: seen.append((step, logs["a"])))
    thread.start()
    assert thread.get_result() == {"a": 3} and not thread.cancelled()
    assert seen == [0, (0, 0), 1, (1, 1), 2, (2, 2), 3, (3, 3)]
    assert 0 < thread._wait <= .001
    thread = polling_thread.PollingThread(lambda: None, 1, 1, None, None)
    thread.start()
    thread.cancel()
    assert thread.cancelled() and not thread.is_alive() and thread.get_result() is None


# ---- Keras' own ----

def test_stock_callbacks(scope, tmp_path):
    seen = []
    callbacks = keras.callbacks
    made = compiled(optimizer=keras.optimizers.SGD(.1), steps=4)
    rates = [.05, .02, .01]
    history = made.fit(data(), epochs=3, verbose=0, callbacks=[
        callbacks.CSVLogger(str(tmp_path / "log.csv")),
        callbacks.LearningRateScheduler(lambda epoch: rates[epoch]),
        callbacks.LambdaCallback(on_batch_end=lambda step, logs: seen.append(step)),
        callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.weights.h5"), save_weights_only=True),
        callbacks.BackupAndRestore(str(tmp_path / "backup")),
        *([callbacks.TensorBoard(str(tmp_path / "board"), profile_batch=0, update_freq="batch")]
          if HAS_BOARD else []),
        callbacks.TerminateOnNaN()]).history
    assert history["lr"] == pytest.approx(rates) and seen == [3, 7] * 3
    lines = (tmp_path / "log.csv").read_text().split()
    assert len(lines) == 4 and float(lines[3].split(",")[1]) == pytest.approx(history["loss"][2])
    assert not HAS_BOARD or list((tmp_path / "board").rglob("events*"))
    expected = compiled(optimizer=keras.optimizers.SGD(.1), steps=4)
    for rate in rates:
        expected.optimizer.learning_rate = rate
        expected.fit(data(), verbose=0)
    fitting.same_weights(made, expected)
    second = compiled(steps=4)
    second.load_weights(str(tmp_path / "3.weights.h5"))
    fitting.same_weights(second, made, rtol=0, atol=0)


@pytest.mark.skipif(not HAS_BOARD, reason="tensorboard is not installed")
def test_graph_for_tensorboard(scope, tmp_path):
    made = compiled(steps=4)
    made.fit(data(), verbose=0, callbacks=[keras.callbacks.TensorBoard(
        str(tmp_path), write_graph=True, write_steps_per_second=True)])
    assert any("while" in name for name in fitting.written_graph(tmp_path))


def test_callbacks_that_stop(scope):
    made = compiled(steps=2, optimizer=keras.optimizers.SGD(0.))
    stop = keras.callbacks.EarlyStopping("loss", patience=1)
    assert len(made.fit(data(), epochs=9, verbose=0, callbacks=[stop]).history["loss"]) == 2
    calls = Calls()

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, step, logs=None):
            self.model.stop_training = True

    for asynchronous in (False, True):
        made.set_asynchronous_callbacks(asynchronous)
        calls = Calls()
        made.fit(data(), epochs=2, verbose=0, callbacks=[calls, Stop()])
        assert calls.count("epoch_end") == 1 and 1 <= calls.count("train_batch_end") <= 8
        assert asynchronous or calls.count("train_batch_end") == 1
    reduced = compiled(optimizer=keras.optimizers.SGD(.1), steps=8)
    reduced.fit(data(), epochs=3, verbose=0, callbacks=[
        keras.callbacks.ReduceLROnPlateau("loss", factor=.5, patience=1, min_delta=100.)])
    assert float(reduced.optimizer.learning_rate) == pytest.approx(.025)
    poisoned = compiled(steps=8)
    x = np.where(np.arange(64)[:, None] == 0, np.nan, X)
    history = poisoned.fit(data(x=x), epochs=3, verbose=0,
                           callbacks=[keras.callbacks.TerminateOnNaN()]).history
    assert len(history["loss"]) == 1


def test_the_progress_bar(scope, capsys):
    made = compiled(steps=4)
    made.fit(data(), verbose=1)
    assert "8/8 [====" in capsys.readouterr().out
    made.evaluate(data(), verbose=2)
    assert "8/8 - " in capsys.readouterr().out


# ---- Failures ----

@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failing_callback_leaves_a_model_that_fits(scope, asynchronous):
    class Fail(keras.callbacks.Callback):
        def on_train_batch_end(self, step, logs=None):
            raise KeyError("mine")

    made, expected = compiled(steps=2), compiled(steps=2)
    made.set_asynchronous_callbacks(asynchronous)
    start = made.get_weights()
    with pytest.raises(KeyError, match="mine"):
        made.fit(data(), verbose=0, callbacks=[Fail()])
    made.set_weights(start)
    calls = Calls()
    made.fit(data(), verbose=0, callbacks=[calls])
    expected.fit(data(), verbose=0)
    fitting.same_weights(made, expected)
    assert calls.count("train_batch_end") == (8 if asynchronous else 4)
    assert not [one for one in threading.enumerate() if one.name == "tremula-callbacks"]


def test_a_failing_dataset_leaves_a_model_that_fits(scope):
    made, expected = compiled(steps=2), compiled(steps=2)
    start = made.get_weights()
    with pytest.raises(tf.errors.InvalidArgumentError):
        made.fit(data().map(lambda x, y: (tf.debugging.check_numerics(
            x / tf.cast(tf.reduce_sum(x) < 1e9, tf.float32) * np.nan, "no number"), y)), verbose=0)
    made.set_weights(start)
    made.fit(data(), verbose=0)
    expected.fit(data(), verbose=0)
    fitting.same_weights(made, expected)


# ---- What is left ----

def test_the_second_fit_compiles_nothing(scope):
    made = compiled(steps=2)
    made.fit(data(), epochs=2, verbose=0, validation_data=data())
    made.predict(X, batch_size=8, verbose=0)
    traces = [getattr(made, f"_ipu_{kind}_function").experimental_get_tracing_count()
              for kind in ("train", "test", "predict")]
    feeds = len(made._infeed_manager._queues), len(made._outfeed_manager._queues)
    for _ in range(3):
        made.fit(data(x=X + 1.), epochs=1, verbose=0, validation_data=data(x=X - 1.))
        made.evaluate(X[:32], Y[:32], batch_size=8, verbose=0)
    assert traces == [1, 1, 1] == [
        getattr(made, f"_ipu_{kind}_function").experimental_get_tracing_count()
        for kind in ("train", "test", "predict")]
    assert feeds == (3, 3) == (len(made._infeed_manager._queues),
                               len(made._outfeed_manager._queues))


def test_what_is_loaded_and_launched(scope):
    """Metrics are reset on the host before an epoch; everything else stays on the device."""
    made = compiled(optimizer=keras.optimizers.legacy.SGD(
        keras.optimizers.schedules.ExponentialDecay(.1, 10, .9)), steps=1, metrics=["mae"])
    fitting.events()
    made.fit(data(), epochs=4, verbose=0)
    found = fitting.events()
    found.pop("DEVICE_TO_HOST_TRANSFER", None)  # of the program before
    assert found == {"COMPILE_BEGIN": 1, "COMPILE_END": 1, "LOAD_ENGINE": 1,
                     "HOST_TO_DEVICE_TRANSFER": 4, "EXECUTE": 32}
    made.fit(data(), epochs=4, verbose=0)
    assert fitting.events() == {"HOST_TO_DEVICE_TRANSFER": 4, "EXECUTE": 32}


def test_feeds_go_with_a_model(scope):
    from tremula.tf.runtime.base import feed_arguments
    made = compiled(steps=8)
    made.set_asynchronous_callbacks(True)
    made.fit(data(), verbose=0)
    feed = next(iter(made._infeed_manager._queues.values())).infeed_spec.feed_id
    assert feed_arguments.infeed(feed) is not None
    del made
    gc.collect()
    with pytest.raises(tf.errors.FailedPreconditionError, match="was deleted"):
        feed_arguments.infeed(feed)
    assert not [one for one in threading.enumerate() if one.name == "tremula-callbacks"]
