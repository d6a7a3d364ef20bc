"""IPUStrategy: its scope, run, reductions and variables."""

import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal([16, 4]).astype(np.float32)
Y = X.sum(1, keepdims=True)
IPU_0 = "/job:localhost/replica:0/task:0/device:IPU:0"


def keras():
    """Keras 2: tf.keras, of which tf_keras makes TensorFlow 2.21's."""
    return tf.keras


# ---- Variables ----

def test_variables_are_made_on_the_host_for_the_ipu(strategy):
    places = []

    def initial():
        value = tf.random.stateless_normal([3], [1, 2])
        places.append(value.device)
        return value

    with strategy.scope():
        variables = [tf.Variable(initial), tf.Variable([1., 2.], dtype=tf.float16),
                     tf.Variable(3), tf.Variable(tf.ones([2]), trainable=False)]
        eager = tf.constant(1.) + 1.
    assert all(one.device == IPU_0 for one in variables)
    assert places[0].endswith("CPU:0") and eager.device.endswith("CPU:0")
    assert [one.dtype for one in variables] == [tf.float32, tf.float16, tf.int32, tf.float32]
    assert int(variables[2]) == 3
    np.testing.assert_array_equal(variables[0], tf.random.stateless_normal([3], [1, 2]))


def test_variables_stay_on_the_device(strategy, events):
    with strategy.scope():
        total, factor = tf.Variable([1., 1.]), tf.Variable(5.)

    @tf.function(jit_compile=True)
    def step(x):
        total.assign_add(x * factor)

    x = tf.constant([2., 2.])
    events()
    for _ in range(3):
        strategy.run(step, args=(x,))
    assert events() == ["COMPILE_BEGIN", "COMPILE_END", "LOAD_ENGINE", "HOST_TO_DEVICE_TRANSFER",
                        "EXECUTE", "EXECUTE", "EXECUTE"]
    assert float(total[0]) == 31
    assert events() == ["DEVICE_TO_HOST_TRANSFER"]
    total.assign([0., 0.])
    for _ in range(2):
        strategy.run(step, args=(x,))
    assert events() == ["HOST_TO_DEVICE_TRANSFER", "EXECUTE", "EXECUTE"] and float(total[0]) == 20


def test_variables_of_the_cpu_and_checkpoints(strategy, tmp_path):
    outside = tf.Variable(2.)
    with strategy.scope():
        inside = tf.Variable(3.)

    @tf.function(jit_compile=True)
    def step():
        outside.assign_add(inside)
        inside.assign(outside * 2.)
        return outside + inside

    assert float(strategy.run(step)) == 15 and outside.device.endswith("CPU:0")
    assert (float(outside), float(inside)) == (5, 10)
    checkpoint = tf.train.Checkpoint(a=outside, b=inside)
    path = checkpoint.save(str(tmp_path / "checkpoint"))
    strategy.run(step)
    checkpoint.restore(path)
    assert (float(outside), float(inside)) == (5, 10) and float(strategy.run(step)) == 45


# ---- run ----

def test_what_run_takes(strategy):
    with pytest.raises(ValueError, match="does not support eager execution. Either convert `fn`"):
        strategy.run(lambda x: x, args=(1,))

    seen = []

    @tf.function(jit_compile=True)
    def function(x):
        seen.append((tf.distribute.get_strategy(), tf.distribute.in_cross_replica_context()))
        return x * 2.

    assert float(strategy.experimental_run_v2(function, (tf.constant(1.),))) == 2
    assert seen == [(strategy, False)]
    with pytest.raises(ValueError, match="positional args must be a list or tuple"):
        strategy.run(function, args=tf.constant(1.))
    assert strategy.run(tf.function(lambda: None, jit_compile=True)) is None


@pytest.mark.parametrize("jit", [True, None])
def test_float64(strategy, jit):
    function = tf.function(lambda x: x, jit_compile=jit)
    with pytest.raises(TypeError, match="^Unsupported data type for input: float64$"):
        strategy.run(function, args=(tf.constant(1., tf.float64),))
    with pytest.raises(TypeError, match="^Unsupported data type for output: float64$"):
        strategy.run(tf.function(lambda x: tf.cast(x, tf.float64), jit_compile=jit),
                     args=(tf.constant(1.),))
    assert float(strategy.run(function, args=(tf.constant(1.),))) == 1


def test_functions_that_do_not_ask_to_be_compiled(strategy, events, capfd):
    v = tf.Variable(1.)

    @tf.function
    def whole(x):
        for _ in tf.range(3):
            v.assign_add(x)
        return v * 2.

    events()
    assert float(strategy.run(whole, args=(tf.constant(1.),))) == 8
    assert events().count("EXECUTE") == 1
    assert int(strategy.run(tf.function(lambda x: x + 1), args=(tf.constant(1),))) == 2

    inner = tf.function(lambda x: x * 2. + 1., jit_compile=True)

    @tf.function
    def text(x):
        return tf.strings.as_string(inner(x)), inner(x + 1.)

    found, value = strategy.run(text, args=(tf.constant(1.),))
    assert found.numpy() == b"3.000000" and float(value) == 5
    assert "The function text is no single program" in capfd.readouterr().err


def test_run_inside_of_a_function(strategy):
    @tf.function
    def outer(x):
        return strategy.run(lambda y, k: y * k, args=(x,), kwargs={"k": 3.}) + 1.

    assert float(outer(tf.constant(2.))) == 7


def test_run_inside_of_a_function_is_one_program(strategy, events):
    with strategy.scope():
        table, total = tf.Variable(tf.ones([4, 2])), tf.Variable(0.)
    made = []

    def step(x, ids):
        if not made:
            made.append(tf.Variable(0.))
        made[0].assign_add(1.)
        states = tf.TensorArray(tf.float32, 3)
        with tf.GradientTape() as tape:
            state = tf.nn.embedding_lookup(table, ids)
            for i in tf.range(3):
                state = tf.tanh(state + x)
                states = states.write(i, state)
            loss = tf.reduce_sum(states.stack())
        table.assign_sub(tf.convert_to_tensor(tape.gradient(loss, table)))
        total.assign_add(loss)
        return {"loss": loss, "ids": (ids, None), "name": "a"}

    @tf.function
    def outer(x, ids):
        found = strategy.run(step, args=(x,), kwargs={"ids": ids})
        assert found["name"] == "a" and found["ids"][1] is None
        return found["loss"] * 2., found["ids"][0]

    arguments = tf.constant(.5), tf.constant([1, 3])
    doubled, ids = outer(*arguments)
    events()
    outer(*arguments)
    assert events().count("EXECUTE") == 1
    np.testing.assert_array_equal(ids, [1, 3])
    assert float(made[0]) == 2 and float(doubled) > 0
    assert table.numpy()[0, 0] == 1 and table.numpy()[1, 0] < 1

    @tf.function
    def with_text(x):
        return strategy.run(lambda: (tf.strings.as_string(x), x * 2.))

    text, value = with_text(tf.constant(1.))
    assert text.numpy() == b"1.000000" and float(value) == 2


def test_a_function_of_gathers_in_a_device_scope(strategy):
    with strategy.scope():
        table = tf.Variable(np.arange(8.).reshape(4, 2).astype(np.float32))

    @tf.function
    def rows(ids):
        with tf.device("/device:IPU:0"):
            return tf.nn.embedding_lookup(table, ids)

    @tf.function
    def scattered(ids):
        with tf.device("/device:IPU:0"):
            found = tf.nn.embedding_lookup(table, ids)
            table.scatter_sub(tf.IndexedSlices(found, ids))
            return tf.reduce_sum(found)

    ids = tf.constant([3, 1])
    np.testing.assert_array_equal(rows(ids), [[6, 7], [2, 3]])
    assert float(scattered(ids)) == 18
    np.testing.assert_array_equal(table, [[0, 1], [0, 0], [4, 5], [0, 0]])


def test_a_function_that_is_called_in_the_scope(strategy, events):
    """Without variables of the IPU it is the CPU's; with them it is where they are."""
    with strategy.scope():
        v = tf.Variable([2., 2.])
        plain = tf.function(lambda x: x * 2., jit_compile=True)
        using = tf.function(lambda x: x * v, jit_compile=True)
        events()
        assert float(plain(tf.constant(1.))) == 2 and events() == []
        assert float(using(tf.constant(4.))[0]) == 8 and events().count("EXECUTE") == 1


def test_threads_take_turns(strategy):
    with strategy.scope():
        v = tf.Variable(tf.zeros([4]))
    step = tf.function(lambda x: v.assign_add(x), jit_compile=True)

    def run():
        for _ in range(20):
            strategy.run(step, args=(tf.ones([4]),))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    np.testing.assert_array_equal(v, [60.] * 4)


def test_saved_models(strategy, tmp_path):
    class Scale(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([2., 3.])

        @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([2], tf.float32)])
        def __call__(self, x):
            return x * self.w

    with strategy.scope():
        module = Scale()
    x = tf.constant([1., 2.])
    np.testing.assert_array_equal(strategy.run(module.__call__, args=(x,)), [2, 6])
    tf.saved_model.save(module, str(tmp_path / "model"))
    np.testing.assert_array_equal(tf.saved_model.load(str(tmp_path / "model"))(x), [2, 6])
    with strategy.scope():
        loaded = tf.saved_model.load(str(tmp_path / "model"))
    assert loaded.w.device == IPU_0
    np.testing.assert_array_equal(strategy.run(loaded.__call__, args=(x,)), [2, 6])


def test_several_devices(ipu, devices, events):
    devices([1, 1])
    strategies = [ipu.ipu_strategy.IPUStrategy(f"/device:IPU:{i}") for i in range(2)]
    for i, strategy in enumerate(strategies):
        with strategy.scope():
            v = tf.Variable([float(i)] * 2)
        value = strategy.run(tf.function(lambda x: x + v, jit_compile=True),  # noqa: B023
                             args=(tf.constant(1.),))
        assert float(value[0]) == 1 + i and v.device.endswith(f"IPU:{i}")
        assert value.device.endswith(f"IPU:{i}") and events().count("EXECUTE") == 1
        assert strategy._device_ordinal == i
    with strategies[0].scope(), pytest.raises(RuntimeError, match="(?i)strategy"):
        with strategies[1].scope():
            pass


# ---- Reductions, updates, datasets ----

def test_properties(ipu, strategy):
    extended = strategy.extended
    assert strategy.supports_loss_scaling and strategy.num_replicas_in_sync == 1
    assert extended.non_slot_devices([]) == "/device:IPU:0"
    assert extended.worker_devices == extended.parameter_devices == ("/device:IPU:0",)
    assert extended._global_batch_size and not extended._in_multi_worker_mode()
    assert not extended._support_per_replica_values and extended._get_local_replica_id(0) == 0
    assert strategy.experimental_local_results(3) == (3,) and extended.value_container(4) == 4
    assert float(strategy.reduce("SUM", tf.constant(3.), axis=None)) == 3
    assert ipu.ipu_strategy.IPUStrategy is ipu.ipu_strategy.IPUStrategyV1
    with pytest.raises(ValueError, match="'/device:CPU:0' is not the name of an IPU"):
        ipu.ipu_strategy.IPUStrategy("/device:CPU:0")


def test_reductions_over_replicas(ipu, devices):
    devices(2)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        v = tf.Variable(1.)
        optimizer = keras().optimizers.SGD(.1)
        elements = iter(tf.data.Dataset.range(10).map(lambda x: tf.cast(x, tf.float32)))

    @tf.function(jit_compile=True)
    def step(elements):
        x = next(elements)
        with tf.GradientTape() as tape:
            loss = x * v
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])
        context = tf.distribute.get_replica_context()
        return context.all_reduce("sum", x), context.all_reduce("mean", x)

    total, mean = strategy.run(step, args=(elements,))
    assert float(total) == 1 and float(mean) == .5
    assert float(v) == pytest.approx(1. - .1 * (0 + 1))  # gradients are summed
    with tf.device("/device:IPU:0"), pytest.raises(ValueError, match="^Unsupported reduce op: x$"):
        strategy.extended._reduce_to("x", 1., None)


def test_gradients_of_sums_over_replicas_by_a_tape(ipu, devices):
    devices(2)

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            total = ipu.cross_replica_ops.cross_replica_sum(x)
            squared = total * ipu.cross_replica_ops.cross_replica_mean(x)
            [part] = tf.while_loop(lambda *_: True, lambda part: [
                ipu.cross_replica_ops.cross_replica_sum(part)], [x], maximum_iterations=2)
        return tape.gradient(squared, x), tf.gradients(total * 2., x)[0], tape.gradient(part, x)

    results = ipu.ipu_strategy.IPUStrategy().run(step, args=(tf.constant(3.),))
    # Each replica's x is in 2x * x of both of them, in 2 * 2x, and in 4x.
    assert [float(one) for one in results] == [2 * (3. + 3.), 4., 4.]


def test_datasets_of_tensorflow_s_own(strategy):
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(3))
    assert [int(one) for one in dataset] == [0, 1, 2]
    given = strategy.distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(context.num_input_pipelines + 1))
    assert [int(one) for one in given] == [0, 1]


# ---- Training ----

def _train(make_optimizer, run, scope, jit):
    with scope:
        keras().utils.set_random_seed(3)
        model = keras().Sequential([keras().layers.Dense(8, activation="relu"),
                                    keras().layers.Dense(1)])
        model.build([None, 4])
        optimizer = make_optimizer()

    @tf.function(jit_compile=jit)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    losses = [float(run(step)) for _ in range(4)]
    return losses, [one.numpy() for one in model.weights]


@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adam", "RMSprop", "legacy.Adam"])
def test_keras_optimizers_by_a_tape(strategy, name):
    def make():
        optimizers = keras().optimizers
        if name == "Momentum":
            return optimizers.SGD(.05, momentum=.9, nesterov=True)
        module, _, leaf = name.rpartition(".")
        return getattr(getattr(optimizers, module) if module else optimizers, leaf)(.05)

    found = _train(make, lambda step: strategy.run(step, args=(X, Y)), strategy.scope(), True)
    expected = _train(make, lambda step: step(X, Y), contextlib.nullcontext(), None)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    for a, b in zip(found[1], expected[1]):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_an_optimizer_of_tensorflow_1(strategy):
    outside = tf.Variable([2., -1.])
    with strategy.scope():
        within = tf.Variable([2., -1.])
        optimizer = tf.compat.v1.train.MomentumOptimizer(.1, .9)

        @tf.function(jit_compile=True)
        def step():
            optimizer.minimize(
                lambda: tf.reduce_sum(within ** 2) + tf.reduce_sum(outside ** 2),
                var_list=[within, outside])

        for _ in range(2):
            strategy.run(step)
    w, moment = np.float32([2, -1]), 0.
    for _ in range(2):
        moment = .9 * moment + 2 * w
        w = w - .1 * moment
    np.testing.assert_allclose(within, w, rtol=1e-6)
    np.testing.assert_allclose(outside, w, rtol=1e-6)


# ---- Keras' hooks ----

def test_extensions_of_classes(ipu, strategy):
    class Base:
        pass

    class Kind:
        pass

    class Extension(Base):
        def __init__(self):
            self.extended = True

    class Other(Base):
        pass

    one = Kind()
    strategy._patch_keras_extension(one)
    assert type(one) is Kind
    strategy._register_keras_extension(Kind, Base, Extension)
    strategy._patch_keras_extension(one)
    strategy._patch_keras_extension(one)
    assert isinstance(one, (Kind,)) and isinstance(one, Extension) and one.extended
    assert type(one).__name__ == "Kind" and one.__original_class__ is Kind
    assert type(one)().extended
    strategy._register_keras_extension(Kind, Base, Other)
    with pytest.raises(RuntimeError, match="already patched with a different extension"):
        strategy._patch_keras_extension(one)
    strategy._delete_keras_extension(Kind, Base)
    assert strategy._get_keras_extension(Kind, Base) is None
    without = ipu.ipu_strategy.IPUStrategy(enable_keras_extensions=False)
    without._register_keras_extension(Kind, Base, Extension)
    two = Kind()
    without._patch_keras_extension(two)
    assert type(two) is Kind


def test_extensions_as_sdk_2_2_registered_them(strategy):
    from tensorflow.python.keras.engine import base_layer
    assert base_layer.TFKerasExtension is base_layer.KerasExtension

    class Kind:
        pass

    class Extension(base_layer.KerasExtension):
        def __init__(self):
            self.extended = True

    strategy._register_keras_extension(Kind, Extension)
    assert strategy._get_keras_extension(Kind) is Extension
    one = Kind()
    strategy._patch_keras_extension(one)
    assert isinstance(one, Extension) and one.extended
    strategy._delete_keras_extension(Kind)
    assert strategy._get_keras_extension(Kind) is None


# ---- Keras' own loops ----

def fit():
    model = keras().Sequential([keras().layers.Dense(2, input_shape=(3,), kernel_initializer="ones",
                                                     use_bias=False)])
    model.compile(keras().optimizers.SGD(.01), "mse")
    model.fit(np.ones([8, 3], np.float32), np.ones([8, 2], np.float32), batch_size=4, verbose=0)
    return model.get_weights()[0]


def test_keras_fit_takes_stock_iterators(ipu):
    with ipu.ipu_strategy.IPUStrategy(enable_keras_extensions=False).scope():
        weights = fit()
    np.testing.assert_allclose(weights, fit(), rtol=1e-6)


def test_an_eager_lookup_in_a_variable_of_the_ipu(strategy):
    with strategy.scope():
        table = tf.Variable(tf.reshape(tf.range(12.), [4, 3]))
        layer = tf.keras.layers.Embedding(4, 2, embeddings_initializer="ones")
        with tf.GradientTape() as tape:
            rows = tf.gather(table, [2, 0, 2])
            loss = tf.reduce_sum(rows * rows)
        np.testing.assert_array_equal(rows, [[6, 7, 8], [0, 1, 2], [6, 7, 8]])
        gradient = tf.convert_to_tensor(tape.gradient(loss, table))
        np.testing.assert_array_equal(
            gradient, [[0, 2, 4], [0, 0, 0], [24, 28, 32], [0, 0, 0]])
        np.testing.assert_array_equal(layer(tf.constant([[1, 3]])), np.ones([1, 2, 2]))
