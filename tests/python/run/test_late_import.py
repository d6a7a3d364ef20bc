"""Programs that use TensorFlow before they import the IPU API: notebooks, above all."""

import pytest

NOTEBOOK = """
    import numpy as np
    import tensorflow as tf
    x = np.random.RandomState(0).rand(16, 4).astype("float32")
    y = x @ np.float32([[1], [2], [3], [4]])
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4, drop_remainder=True)

    def make():
        model = tf.keras.Sequential([tf.keras.layers.Input([4]), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse", steps_per_execution=2)
        return model

    first = make()
    start = first.get_weights()
    first.fit(data, epochs=2, verbose=0)

    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        second = make()
        second.set_weights(start)
        second.fit(data, epochs=2, verbose=0)
    for one, other in zip(first.get_weights(), second.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    before = first.evaluate(data, verbose=0)
    first.fit(data, epochs=3, verbose=0)
    assert first.evaluate(data, verbose=0) < before
    print("trained on both")
"""

# Each kind of state that TensorFlow's eager context keeps.
STATE = """
    import tensorflow as tf
    variable = tf.Variable([1.0, 2.0])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    iterator = iter(tf.data.Dataset.range(8).map(lambda one: one * 2))
    generator = tf.random.Generator.from_seed(1)
    twin = tf.random.Generator.from_seed(1)
    next(iterator), generator.normal([2]), twin.normal([2])

    @tf.function
    def add(x):
        return variable.assign_add(x)

    @tf.function
    def add_twice(x):
        return add(x) + add(x)

    add(tf.constant([1.0, 1.0]))
    with tf.GradientTape() as tape:
        square = variable * variable

    from tensorflow.python import ipu
    assert [one.name for one in tf.config.list_logical_devices()] == [
        "/device:CPU:0", "/device:IPU:0", "/device:IPU:1"]
    assert tape.gradient(square, variable).numpy().tolist() == [4.0, 6.0]
    assert add(tf.constant([1.0, 1.0])).numpy().tolist() == [3.0, 4.0]
    assert add_twice(tf.constant([1.0, 0.0])).numpy().tolist() == [9.0, 8.0]
    assert table.lookup(tf.constant(["b"])).numpy() == [2]
    assert next(iterator).numpy() == 2
    assert (generator.normal([2]).numpy() == twin.normal([2]).numpy()).all()
    assert tf.identity(variable).device.endswith("CPU:0")
    with ipu.ipu_strategy.IPUStrategy().scope() as strategy:
        pass
    both = strategy.run(tf.function(lambda x: x * variable, jit_compile=True), [tf.constant(2.0)])
    assert both.numpy().tolist() == [10.0, 8.0]
    print("all state kept")
"""

NAMES_AN_IPU = """
    import sys
    import tensorflow as tf
    tf.constant(1) + 1
    with tf.device("CPU:0"):
        assert len(tf.config.list_physical_devices()) == 1
    assert "tremula.tf" not in sys.modules  # nothing of it for who names no IPU
    %s
    assert "tremula.tf" in sys.modules
    print("found")
"""


@pytest.mark.smoke
@pytest.mark.parametrize("program, end", [(NOTEBOOK, "trained on both"), (STATE, "all state kept")])
def test_devices_join_those_that_tensorflow_has(script, tmp_path, program, end):
    done = script(program, TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0 and done.stdout.endswith(end + "\n"), done.stderr[-2000:]


@pytest.mark.smoke
@pytest.mark.parametrize("name", [
    'assert len(tf.config.list_physical_devices("IPU")) == 2',
    'assert len(tf.config.list_logical_devices(device_type="IPU")) == 2',
    'with tf.device("/device:IPU:0"): assert "IPU:0" in (tf.constant([1.0]) * 2).device',
    'with tf.Graph().as_default(), tf.device("/device:IPU:0"): pass'])
def test_devices_are_there_for_who_names_them(script, tmp_path, name):
    done = script(NAMES_AN_IPU % name, TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0 and done.stdout == "found\n", done.stderr[-2000:]


def test_an_older_session_says_that_it_has_no_ipus(script, tmp_path):
    done = script("""
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        session = tf.Session()
        session.run(tf.constant(1.0))
        from tensorflow.python import ipu
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            total, = ipu.ipu_compiler.compile(lambda: tf.ones([2]) + 1.0, [])
        try:
            session.run(total)
        except tf.errors.FailedPreconditionError as error:
            print(error.message)
        print(tf.Session().run(total))
    """, TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    message, result = done.stdout.splitlines()
    assert "Make the session after the import." in message and len(message) < 250
    assert result == "[2. 2.]"


def test_a_context_with_a_server_says_what_to_do(script, tmp_path):
    done = script("""
        import tensorflow as tf
        tf.constant(1.0) + 1
        server = tf.distribute.Server.create_local_server()
        tf.config.experimental_connect_to_host(server.target)
        try:
            from tensorflow.python import ipu
        except RuntimeError as error:
            print(error)
        import os
        os._exit(0)  # TensorFlow's server has no end
    """, TREMULA_RUNTIME_DIR=str(tmp_path))
    assert "before the program makes its cluster" in done.stdout, done.stderr[-2000:]
