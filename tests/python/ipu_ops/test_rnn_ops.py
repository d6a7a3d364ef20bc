"""Recurrent layers against a plain loop over time (values, and gradients by TensorFlow's own), and
against Keras's layers."""

import numpy as np
import pva
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import rnn_ops

from tremula.tf.runtime.device import plugin

TIME, BATCH, INPUTS, UNITS = 5, 3, 4, 6
LENGTHS = np.array([5, 2, 4], np.int32)


# ---- The plain loop, in float64 ----

FUNCTIONS = {"tanh": tf.tanh, "relu": tf.nn.relu, "softmax": tf.nn.softmax, "sigmoid": tf.sigmoid,
             "hard_sigmoid": lambda x: tf.clip_by_value(.2 * x + .5, 0., 1.)}


def masked(t, lengths, new, old):
    return new if lengths is None else tf.where_v2((t < lengths)[:, tf.newaxis], new, old)


def lstm_loop(x, h, c, kernel, biases, lengths, act, rec):
    act, rec = FUNCTIONS[act], FUNCTIONS[rec]
    outputs = []
    for t in range(TIME):
        z = tf.concat([x[t], h], 1) @ kernel + tf.reshape(biases, [-1])
        i, f, g, o = tf.split(z, 4, 1)
        new_c = rec(f) * c + rec(i) * act(g)
        new_h = rec(o) * act(new_c)
        outputs.append(masked(t, lengths, new_h, tf.zeros_like(h)))
        h, c = masked(t, lengths, new_h, h), masked(t, lengths, new_c, c)
    return tf.stack(outputs), h, c


def gru_loop(x, h, kernel, biases, lengths, scores, act, rec, reset_after):
    act, rec = FUNCTIONS[act], FUNCTIONS[rec]
    outputs = []
    kx, kh = (tf.split(one, 3, 1) for one in (kernel[:INPUTS], kernel[INPUTS:]))
    bx = [biases[n][0] if reset_after else biases[n] for n in range(3)]
    for t in range(TIME):
        if reset_after:
            z, r = (rec(x[t] @ kx[n] + bx[n] + h @ kh[n] + biases[n][1]) for n in range(2))
            g = act(x[t] @ kx[2] + bx[2] + r * (h @ kh[2] + biases[2][1]))
        else:
            z, r = (rec(x[t] @ kx[n] + bx[n] + h @ kh[n]) for n in range(2))
            g = act(x[t] @ kx[2] + bx[2] + (r * h) @ kh[2])
        if scores is not None:
            z *= 1 - scores[t][:, tf.newaxis]
        new = z * h + (1 - z) * g
        outputs.append(masked(t, lengths, new, tf.zeros_like(h)))
        h = masked(t, lengths, new, h)
    return tf.stack(outputs), h


def weighted(results):
    """A scalar that depends on every result, differently."""
    return tf.add_n([tf.reduce_sum(tf.cast(one, tf.float64) * tf.reshape(
        tf.cos(tf.range(int(np.prod(one.shape)), dtype=tf.float64)), one.shape))
                     for one in results])


known = {}


def reference(name, loop, *arrays):
    """[*results, *gradients for the arrays] of loop(*tensors) in float64, computed once for a name
    of the loop and arrays."""
    key = name, *(one.tobytes() for one in arrays)
    if key not in known:
        with tf.Graph().as_default(), tf.Session() as session:
            tensors = [tf.constant(one.astype(np.float64)) for one in arrays]
            results = loop(*tensors)
            known[key] = session.run([*results, *tf.gradients(weighted(results), tensors)])
    return list(known[key])


def check(got, want, tolerance):
    assert len(got) == len(want)
    for one, other in zip(got, want):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def scalar_loss(results):
    """As weighted(), on an IPU."""
    return tf.add_n([tf.reduce_sum(one * tf.constant(np.cos(np.arange(int(np.prod(one.shape)))),
                                                     one.dtype, one.shape)) for one in results])


# ---- The layers ----

def lstm_case(random, dtype=np.float32):
    return [random(*shape, dtype=dtype) * dtype(.7) for shape in (
        (TIME, BATCH, INPUTS), (BATCH, UNITS), (BATCH, UNITS))], {
            "kernel": random(INPUTS + UNITS, 4 * UNITS, dtype=dtype) * dtype(.5),
            "biases": random(4, UNITS, dtype=dtype)}


@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("activation, recurrent, dynamic", [
    ("tanh", "sigmoid", False), ("tanh", "sigmoid", True), ("relu", "hard_sigmoid", False),
    ("softmax", "softmax", False), ("sigmoid", "tanh", True)])
def test_lstm(run, random, where, activation, recurrent, dynamic):
    arrays, weights = lstm_case(random)

    def mine(x, h, c):
        kind = rnn_ops.PopnnDynamicLSTM if dynamic else rnn_ops.PopnnLSTM
        layer = kind(UNITS, activation=activation, recurrent_activation=recurrent)
        extra = [tf.constant(LENGTHS)] if dynamic else []
        outputs, state = layer(x, *extra, tf.nn.rnn_cell.LSTMStateTuple(c, h), training=True)
        results = [outputs, state.h, state.c]
        return [*results, *tf.gradients(scalar_loss(results), [x, h, c, layer.kernel,
                                                               layer.biases])]

    got = run(mine, *arrays, where=where, variables=weights)
    want = reference(("lstm", activation, recurrent, dynamic), lambda *tensors: lstm_loop(
        *tensors, LENGTHS if dynamic else None, activation, recurrent), *arrays, *weights.values())
    check(got, want, 3e-5)


@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("activation, recurrent", [
    ("tanh", "sigmoid"), ("relu", "hard_sigmoid"), ("softmax", "softmax")])
def test_gru(run, random, where, reset_after, activation, recurrent):
    arrays = [random(TIME, BATCH, INPUTS), random(BATCH, UNITS)]
    weights = {"kernel": random(INPUTS + UNITS, 3 * UNITS) * .5,
               "biases": random(*([3, 2, UNITS] if reset_after else [3, UNITS]))}

    def mine(x, h):
        layer = rnn_ops.PopnnGRU(UNITS, activation=activation, recurrent_activation=recurrent,
                                 reset_after=reset_after)
        results = layer(x, h)
        return [*results, *tf.gradients(scalar_loss(results), [x, h, layer.kernel, layer.biases])]

    got = run(mine, *arrays, where=where, variables=weights)
    want = reference(("gru", activation, recurrent, reset_after), lambda *tensors: gru_loop(
        *tensors, None, None, activation, recurrent, reset_after), *arrays, *weights.values())
    check(got, want, 3e-5)


@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("attention, time_major", [(False, True), (False, False), (True, True),
                                                   (True, False)])
def test_dynamic_gru_and_augru(run, random, where, reset_after, attention, time_major):
    arrays = [random(TIME, BATCH, INPUTS), random(BATCH, UNITS)]
    if attention:
        arrays.append(np.abs(random(TIME, BATCH)) % 1)
    given = list(arrays)
    if not time_major:
        given = [given[0].transpose(1, 0, 2), given[1], *[one.T for one in given[2:]]]
    weights = {"kernel": random(INPUTS + UNITS, 3 * UNITS) * .5, "bias_r_u": random(2, UNITS),
               "bias_c": random(1, UNITS)}

    def mine(x, h, *scores):
        kind = rnn_ops.PopnnAUGRU if attention else rnn_ops.PopnnDynamicGRU
        layer = kind(UNITS, reset_after=reset_after)
        results = layer(x, tf.constant(LENGTHS), *scores, initial_state=h, time_major=time_major)
        variables = {one.op.name.rpartition("/")[2]: one for one in layer.trainable_variables}
        inputs = [x, h, *scores, *[variables[name] for name in weights]]
        return [*results, *tf.gradients(scalar_loss(results), inputs)]

    def plain(x, h, *rest):
        *scores, kernel, bias_r_u, bias_c = rest
        biases = tf.concat([bias_r_u, bias_c], 0)
        if reset_after:
            biases = tf.stack([biases, biases], 1)
        return gru_loop(x, h, kernel, biases, LENGTHS, scores[0] if scores else None, "tanh",
                        "sigmoid", reset_after)

    got = run(mine, *given, where=where, variables=weights)
    want = reference(("dynamic", reset_after, attention), plain, *arrays, *weights.values())
    if not time_major:
        want[2] = want[2].transpose(1, 0, 2)
        if attention:
            want[4] = want[4].T
    check(got, want, 3e-5)
    np.testing.assert_array_equal(got[0][2:, 1], 0)


def test_float16(run, random):
    arrays, weights = lstm_case(random, np.float16)

    def mine(x, h, c):
        layer = rnn_ops.PopnnLSTM(UNITS, dtype=tf.float16, partials_dtype=tf.float16)
        outputs, state = layer(x, tf.nn.rnn_cell.LSTMStateTuple(c, h))
        results = [outputs, state.h, state.c]
        return [*results, *tf.gradients(scalar_loss(results), [x, h, c, layer.kernel,
                                                               layer.biases])]

    got = run(mine, *arrays, variables=weights)
    assert all(one.dtype == np.float16 for one in got)
    want = reference("float16", lambda *tensors: lstm_loop(*tensors, None, "tanh", "sigmoid"),
                     *arrays, *weights.values())
    check(got, want, 3e-2)


def starting(kernel, biases):
    """Initializers of a layer of Keras's."""
    return {"recurrent_activation": "sigmoid",
            "kernel_initializer": tf.constant_initializer(kernel[:INPUTS]),
            "recurrent_initializer": tf.constant_initializer(kernel[INPUTS:]),
            "bias_initializer": tf.constant_initializer(biases)}


def test_lstm_is_keras_lstm(run, random):
    (x, _, _), weights = lstm_case(random)

    def mine(x):
        outputs, state = rnn_ops.PopnnLSTM(UNITS)(x)
        return outputs, state.h, state.c

    def keras(x):
        return tf.keras.layers.LSTM(
            UNITS, return_sequences=True, return_state=True, time_major=True,
            unit_forget_bias=False, **starting(weights["kernel"], weights["biases"]))(x)

    check(run(mine, x, variables=weights), run(keras, x, where="cpu"), 1e-5)


@pytest.mark.parametrize("reset_after", [False, True])
def test_gru_is_keras_gru(run, random, reset_after):
    x = random(TIME, BATCH, INPUTS)
    weights = {"kernel": random(INPUTS + UNITS, 3 * UNITS),
               "biases": random(*([3, 2, UNITS] if reset_after else [3, UNITS]))}

    def keras(x):
        biases = weights["biases"]
        return tf.keras.layers.GRU(
            UNITS, return_sequences=True, return_state=True, time_major=True,
            reset_after=reset_after,
            **starting(weights["kernel"],
                       biases.transpose(1, 0, 2) if reset_after else biases))(x)

    mine = run(lambda x: rnn_ops.PopnnGRU(UNITS, reset_after=reset_after)(x), x, variables=weights)
    check(mine, run(keras, x, where="cpu"), 1e-5)


def test_training_in_a_loop(run, random):
    """Five steps of gradient descent on an IPU are five steps on the CPU."""
    x, start = random(TIME, BATCH, INPUTS), random(INPUTS + UNITS, 4 * UNITS)

    def step(x):
        layer = rnn_ops.PopnnLSTM(UNITS, name="lstm",
                                  weights_initializer=tf.constant_initializer(start))
        outputs, _ = layer(x, training=True)
        loss = tf.reduce_mean(tf.square(outputs - 0.5))
        return loss, tf.train.GradientDescentOptimizer(0.5).minimize(loss)

    def on_ipu(x):
        def body(loss):
            loss, train = step(x)
            return loss, train
        return ipu.loops.repeat(5, body, [tf.constant(0.)])

    mine = run(on_ipu, x)[0]
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=True):
        value = tf.constant(x)
        with tf.device("cpu"):
            loss, train = step(value)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, train])[0] for _ in range(5)]
    np.testing.assert_allclose(mine, losses[-1], rtol=1e-4)
    assert losses[-1] < losses[0]


def test_states_of_older_releases_and_of_newer_ones(run, random):
    (x, h, c), _ = lstm_case(random)

    def mine(x, h, c):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            one = {"weights_initializer": tf.constant_initializer(.1), "name": "one"}
            outputs, (new_h, new_c) = rnn_ops.PopnnLSTM(UNITS, **one)(x, (h, c))
            alone = rnn_ops.PopnnLSTM(UNITS, return_state=False, **one)(
                x, tf.nn.rnn_cell.LSTMStateTuple(c, h))
        return outputs, new_h, new_c, alone

    outputs, new_h, new_c, alone = run(mine, x, h, c)
    np.testing.assert_array_equal(outputs, alone)
    np.testing.assert_array_equal(outputs[-1], new_h)
    assert (new_h != new_c).any()


def test_the_name_in_the_place_of_before_activations():
    old = [UNITS, tf.float32, tf.float32, None, None, None]
    assert rnn_ops.PopnnLSTM(*old, "mine").name == "mine"
    assert rnn_ops.PopnnLSTM(*old, "relu", name="new")._activation == "relu"
    gru = rnn_ops.PopnnGRU(*old, "other", True)
    assert (gru.name, gru._reset_after, gru._activation) == ("other", True, "tanh")
    assert rnn_ops.PopnnLSTM(*old, None)._activation == "tanh"
    with pytest.raises(ValueError, match="activation must be one of"):
        rnn_ops.PopnnLSTM(*old, "selu")


def test_variables_and_shapes():
    x = tf.zeros([TIME, BATCH, INPUTS])
    layer = rnn_ops.PopnnLSTM(UNITS)
    with pytest.raises(ValueError, match="'input_size' is unknown since layer has not been built."):
        layer.input_size  # pylint: disable=pointless-statement
    with pytest.raises(RuntimeError, match="PopnnLSTM.canonical_weight_shape invoked before input "
                       "shape is known"):
        layer.canonical_weight_shape  # pylint: disable=pointless-statement
    outputs, state = layer(x)
    assert layer.input_size == INPUTS and layer.num_units == UNITS
    assert outputs.shape == [TIME, BATCH, UNITS] and state.c.shape == [BATCH, UNITS]
    assert layer.state_shape(2) == ([2, UNITS], [2, UNITS])
    rnn_ops.PopnnGRU(UNITS, name="gru")(x)
    rnn_ops.PopnnDynamicGRU(UNITS, name="dynamic", reset_after=True)(x, LENGTHS)
    rnn_ops.PopnnAUGRU(UNITS, name="augru")(x, LENGTHS, tf.zeros([TIME, BATCH]))
    layer(x)
    shapes = {one.op.name: one.shape.as_list() for one in tf.trainable_variables()}
    assert shapes == {
        "popnn_lstm/kernel": [10, 24], "popnn_lstm/biases": [4, 6],
        "gru/kernel": [10, 18], "gru/biases": [3, 6],
        "dynamic/kernel": [10, 18], "dynamic/bias_r_u": [2, 6], "dynamic/bias_c": [1, 6],
        "augru/kernel": [10, 18], "augru/bias_r_u": [2, 6], "augru/bias_c": [1, 6]}
    assert rnn_ops.PopnnGRU(3).state_shape(2) == [2, 3]
    built = rnn_ops.PopnnGRU(UNITS, name="by_hand")
    built.build([None, None, INPUTS])
    assert built(x)[0].shape == [TIME, BATCH, UNITS]


@pytest.mark.parametrize("kind", [rnn_ops.PopnnDynamicLSTM, rnn_ops.PopnnDynamicGRU])
def test_on_the_device_without_compile(random, kind):
    """A layer, which is loops, is placed on an IPU like one operation, and so is its gradient."""
    x = tf.constant(random(TIME, BATCH, INPUTS))

    def build(name):
        layer = kind(UNITS, weights_initializer=tf.constant_initializer(.3), name=name)
        outputs, state = layer(x, LENGTHS)
        return [outputs, *tf.gradients([outputs, *tf.nest.flatten(state)], [x, layer.kernel])]

    with tf.device("/device:IPU:0"), tf.variable_scope("", use_resource=True):
        placed = build("on_ipu")
    with tf.device("cpu"):
        plain = build("on_cpu")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        built = plugin.library().trm_tf_units_built()
        on_ipu = session.run(placed)
        assert plugin.library().trm_tf_units_built() == built + 1
        for one, other in zip(on_ipu, session.run(plain)):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_alone_it_is_a_program(random):
    """Where TensorFlow leaves the graph to the operations, they run one by one."""
    options = tf.ConfigProto()
    options.graph_options.rewrite_options.use_plugin_optimizers = (
        rewriter_config_pb2.RewriterConfig.OFF)
    x = tf.constant(random(TIME, BATCH, INPUTS))

    def build(name):
        layer = rnn_ops.PopnnLSTM(UNITS, weights_initializer=tf.constant_initializer(.3), name=name)
        outputs, _ = layer(x)
        return [outputs, *tf.gradients(outputs, x)]

    with tf.device("/device:IPU:0"), tf.variable_scope("", use_resource=True):
        placed = build("on_ipu")
    with tf.device("cpu"):
        plain = build("on_cpu")
    with tf.Session(config=options) as session:
        session.run(tf.global_variables_initializer())
        for one, other in zip(*session.run([placed, plain])):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_options_are_marks():
    marks = set()

    def program(x):
        layer = rnn_ops.PopnnLSTM(UNITS, partials_dtype=tf.float16,
                                  available_memory_proportion_fwd=.3,
                                  options={"availableMemoryProportion": "0.2"})
        result, _ = layer(x)
        marks.update(str(operation.get_attr("_XlaFrontendAttributes"))
                     for operation in tf.get_default_graph().get_operations()
                     if "PopnnLstmLayer" in operation.name and operation.type == "MatMul")
        return result

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        ipu.ipu_compiler.compile(program, [tf.zeros([TIME, BATCH, INPUTS])])
    assert marks and all(word in one for one in marks for word in (
        "popnn_options", "half", "0.3", "availableMemoryProportion"))


@pytest.mark.parametrize("layer", [rnn_ops.PopnnLSTM, rnn_ops.PopnnGRU])
@pytest.mark.parametrize("of", [
    lambda part: {"options": {"availableMemoryProportion": str(part)}},
    lambda part: {"available_memory_proportion_fwd": part}])
def test_a_smaller_proportion_takes_less_memory(layer, of, devices, monkeypatch):
    """256 units on 32 tiles, at 0.8 and at 0.1 of their memory."""
    del devices  # which configures one IPU again afterwards
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")

    def total(part):
        config = ipu.config.IPUConfig()
        config.ipu_model.tiles_per_ipu = 32
        helper = ipu.test_utils.ReportHelper()
        helper.set_autoreport_options(config)
        config.configure_ipu_system()
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [4, 256, 256])
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                result, = ipu.ipu_compiler.compile(
                    lambda x: layer(256, **of(part))(x, training=False)[0], [x])
            session.run(tf.global_variables_initializer())
            helper.clear_reports()
            session.run(result, {x: np.zeros(x.shape)})
        tiles = pva.openReport(helper.find_report()).compilation.tiles
        return sum(tile.memory.total.includingGaps for tile in tiles)

    assert total(.1) < .9 * total(.8)


def test_a_negative_proportion(run):
    layer = rnn_ops.PopnnLSTM(UNITS, available_memory_proportion_fwd=-1.)
    with pytest.raises(tf.errors.InternalError, match=r"\[Poplar\]\[Build graph\] invalid_option: "
                       ".*Value must be greater than or equal to 0"):
        run(lambda x: layer(x, training=False)[0], np.zeros([TIME, BATCH, INPUTS], np.float32))


def test_refusals(run, random):
    x = tf.zeros([TIME, BATCH, INPUTS])
    with pytest.raises(ValueError, match="Only support float16, float32, provided"):
        rnn_ops.PopnnLSTM(UNITS, dtype=tf.float64)
    with pytest.raises(ValueError, match="The recurrent_activation must be one of .* relu"):
        rnn_ops.PopnnGRU(UNITS, recurrent_activation="relu")
    with pytest.raises(TypeError, match="Could not interpret activation function identifier: 3"):
        rnn_ops.PopnnGRU(UNITS, activation=3)
    with pytest.raises(ValueError, match="Invalid initial_state type: `.*`, expecting "
                       "`LSTMStateTuple`."):
        rnn_ops.PopnnLSTM(UNITS)(x, [x, x])
    with pytest.raises(ValueError, match="Expecting input_shape with 3 dims, got 2"):
        rnn_ops.PopnnLSTM(UNITS).build([3, 4])
    with pytest.raises(ValueError, match="The last dimension of the inputs to `_PopnnRNN` should "
                       "be defined. Found `None`."):
        rnn_ops.PopnnLSTM(UNITS).build([3, 4, None])
    with pytest.raises(NotImplementedError, match="object-based saving"):
        rnn_ops.PopnnDynamicGRU(UNITS).saveable  # pylint: disable=expression-not-assigned
    for layer, name in ((rnn_ops.PopnnLSTM(UNITS), "PopnnLstmLayer"),
                        (rnn_ops.PopnnGRU(UNITS), "PopnnGRULayer")):
        outputs, _ = layer(x, training=False)
        with pytest.raises(ValueError, match=f"To use {name} in gradients, is_training must be set "
                           "to True."):
            tf.gradients(outputs, x)
    assert rnn_ops.PopnnLSTM(UNITS, activation=tf.keras.activations.tanh,
                             recurrent_activation=tf.sigmoid)(x)[0].shape == [TIME, BATCH, UNITS]


def test_inference_keeps_nothing(run, random):
    (x, _, _), weights = lstm_case(random)
    trained, plain = (run(lambda x, training=training: rnn_ops.PopnnLSTM(UNITS)(
        x, training=training)[0], x, variables=weights) for training in (True, False))
    np.testing.assert_array_equal(trained, plain)


def test_a_time_that_is_not_known(random):
    (x, _, _), _ = lstm_case(random)
    with tf.device("cpu"):
        given = tf.placeholder(tf.float32, [None, BATCH, INPUTS])

    def program(x):
        layer = rnn_ops.PopnnGRU(UNITS, name="gru")
        outputs, state = layer(x)
        return outputs, state, tf.gradients(outputs, layer.kernel)[0]

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(program, [given])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for time in (TIME, 2):
            outputs, state, _ = session.run(result, {given: x[:time]})
            assert outputs.shape == (time, BATCH, UNITS)
            np.testing.assert_array_equal(outputs[-1], state)
