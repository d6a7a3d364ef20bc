"""Forms of whole programs in small, each step by step next to TensorFlow on the CPU: a pipelined
ResNet, inference with an imported frozen graph, a 3-D CNN of Keras's layers."""

import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu


def compiled(computation, *inputs):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(computation, list(inputs))


def values_of(session):
    """{name: value} of the variables of a session's graph, by the names of their layers."""
    variables = session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    return {one.op.name: session.run(one) for one in variables}


def load(session, values):
    for one in session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
        one.load(values[one.op.name], session)


def assert_close(actual, expected, rtol=2e-4, atol=2e-5):
    assert sorted(actual) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=atol, err_msg=name)


# ---- A ResNet as a pipeline, with a dict between its stages ----

BATCH, SIZE, CLASSES, MINI_BATCHES, UPDATES = 2, 8, 3, 6, 2


def conv(x, name, filters, stride=1):
    kernel = tf.get_variable(f"{name}/kernel", [3, 3, int(x.shape[-1]), filters],
                             initializer=tf.glorot_uniform_initializer(seed=len(name)),
                             use_resource=True)
    scale = tf.get_variable(f"{name}/scale", [filters], initializer=tf.ones_initializer(),
                            use_resource=True)
    offset = tf.get_variable(f"{name}/offset", [filters], initializer=tf.zeros_initializer(),
                             use_resource=True)
    x = tf.nn.conv2d(x, kernel, stride, "SAME")
    return tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-2)[0]


def block(values, name, filters, stride):
    shortcut = x = values.pop("x")
    x = conv(tf.nn.relu(conv(x, f"{name}/first", filters, stride)), f"{name}/second", filters)
    if stride > 1:
        shortcut = conv(shortcut, f"{name}/shortcut", filters, stride)
    values["x"] = tf.nn.relu(x + shortcut)
    return values


def resnet_stages():
    def stem(image, label):
        x = tf.nn.relu(conv(image, "stem", 4))
        return {"x": x, "labels": [label]}

    def body(values):
        return block(block(values, "block1", 4, 1), "block2", 8, 2)

    def head(values):
        x = tf.reduce_mean(values.pop("x"), [1, 2])
        weight = tf.get_variable("head", [8, CLASSES], use_resource=True,
                                 initializer=tf.glorot_uniform_initializer(seed=3))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=values["labels"].pop(), logits=x @ weight))

    return [stem, body, head]


def optimizer():
    return tf.train.MomentumOptimizer(0.05, 0.9)


def images():
    random = np.random.RandomState(7)
    count = BATCH * MINI_BATCHES * UPDATES
    return (random.randn(count, SIZE, SIZE, 3).astype(np.float32),
            random.randint(0, CLASSES, count).astype(np.int32))


def train_resnet_on_the_cpu(initial):
    """(losses, variables after each update)."""
    inputs, labels = images()
    with tf.Graph().as_default(), tf.Session() as session:
        image = tf.placeholder(tf.float32, [BATCH, SIZE, SIZE, 3])
        label = tf.placeholder(tf.int32, [BATCH])
        first, second, third = resnet_stages()
        loss = third(second(first(image, label)))
        chosen = optimizer()
        gradients, variables = zip(*chosen.compute_gradients(loss))
        fed = [tf.placeholder(one.dtype, one.shape) for one in gradients]
        apply = chosen.apply_gradients(zip(fed, variables))
        session.run(tf.global_variables_initializer())
        load(session, initial)
        losses, after = [], []
        for update in range(UPDATES):
            sums = [0.0] * len(gradients)
            for i in range(MINI_BATCHES):
                begin = (update * MINI_BATCHES + i) * BATCH
                value, *new = session.run([loss, *gradients], {
                    image: inputs[begin:begin + BATCH], label: labels[begin:begin + BATCH]})
                losses.append(value)
                sums = [one + more for one, more in zip(sums, new)]
            session.run(apply, dict(zip(fed, sums)))
            after.append(values_of(session))
        return losses, after


def test_a_resnet_in_stages_that_change_their_dict(devices):
    devices(4)
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(images()).batch(BATCH, drop_remainder=True)
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset.repeat())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        step = compiled(lambda: ipu.pipelining_ops.pipeline(
            resnet_stages(), MINI_BATCHES, infeed_queue=infeed, outfeed_queue=outfeed,
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Interleaved,
            optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                optimizer(), loss)))
        dequeued = outfeed.dequeue()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            initial = values_of(session)
            losses, after = train_resnet_on_the_cpu(initial)
            seen = []
            for expected in after:
                session.run(step)
                seen += list(session.run(dequeued)[0])
                assert_close(values_of(session), expected)
            np.testing.assert_allclose(seen, losses, rtol=1e-4)


# ---- Inference with a frozen graph ----

def frozen_cnn():
    """The GraphDef of a CNN whose variables are constants, with what training leaves in a graph."""
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="images")
        label = tf.placeholder(tf.int64, [None], name="labels")
        rate = tf.placeholder_with_default(0.5, [], name="keep")
        tf.set_random_seed(1)
        kernel = tf.get_variable("kernel", [3, 3, 3, 4],
                                 initializer=tf.glorot_uniform_initializer(seed=1))
        weight = tf.get_variable("weight", [4, 5],
                                 initializer=tf.glorot_uniform_initializer(seed=2))
        x = tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "SAME"))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        logits = tf.matmul(tf.reduce_mean(x, [1, 2]), weight, name="logits")
        tf.nn.softmax(logits, name="probabilities")
        right = tf.equal(tf.argmax(logits, 1), label)
        tf.summary.scalar("accuracy", tf.reduce_mean(tf.cast(right, tf.float32)) * rate)
        tf.as_string(logits, name="text")
        session.run(tf.global_variables_initializer())
        return tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["probabilities", "accuracy", "text"])


def imported(graph_def, x):
    found, = tf.import_graph_def(graph_def, input_map={"images:0": x},
                                 return_elements=["probabilities:0"], name="network")
    return found


def test_inference_with_a_frozen_graph():
    graph_def = frozen_cnn()
    batches = np.random.RandomState(3).randn(6, 2, 8, 8, 3).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 8, 8, 3])
        y = imported(graph_def, x)
        expected = [session.run(y, {x: batch}) for batch in batches]
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(batches).repeat()
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        step = compiled(lambda: ipu.loops.repeat(
            3, lambda x: outfeed.enqueue({"y": imported(graph_def, x)}), [], infeed))
        fed = tf.placeholder(tf.float32, [2, 8, 8, 3])
        once, = compiled(lambda x: imported(graph_def, x), fed)
        dequeued = outfeed.dequeue()
        with tf.Session() as session:
            session.run(infeed.initializer)
            for i in range(0, 6, 3):
                session.run(step)
                np.testing.assert_allclose(session.run(dequeued)["y"], expected[i:i + 3],
                                           rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(session.run(once, {fed: batches[4]}), expected[4],
                                       rtol=1e-5, atol=1e-6)


# ---- A 3-D CNN of Keras's layers in a TensorFlow 1 program ----

def volumes_network(x):
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Conv3D(3, 3, activation="relu", padding="same", input_shape=(6, 6, 6, 2),
                      kernel_initializer=tf.keras.initializers.glorot_uniform(seed=1)),
        layers.MaxPooling3D(2),
        layers.Conv3D(4, 2, activation="tanh",
                      kernel_initializer=tf.keras.initializers.glorot_uniform(seed=2)),
        layers.BatchNormalization(),
        layers.AveragePooling3D(2),
        layers.Flatten(),
        layers.Dense(3, kernel_initializer=tf.keras.initializers.glorot_uniform(seed=3))])
    return model(x)


def volumes_step(x, labels):
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=volumes_network(x)))
    return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def test_a_3d_cnn_of_keras_layers():
    random = np.random.RandomState(5)
    batches = [(random.randn(4, 6, 6, 6, 2).astype(np.float32), random.randint(0, 3, 4))
               for _ in range(3)]

    def placeholders():
        return tf.placeholder(tf.float32, [4, 6, 6, 6, 2]), tf.placeholder(tf.int32, [4])

    with tf.Graph().as_default(), tf.Session() as session:
        x, labels = placeholders()
        loss = compiled(volumes_step, x, labels)
        session.run(tf.global_variables_initializer())
        initial = values_of(session)
        losses, after = [], []
        for batch in batches:
            losses += session.run(loss, dict(zip((x, labels), batch)))
            after.append(values_of(session))
    with tf.Graph().as_default(), tf.Session() as session:
        x, labels = placeholders()
        loss, update = volumes_step(x, labels)
        session.run(tf.global_variables_initializer())
        load(session, initial)
        for batch, ours, variables in zip(batches, losses, after):
            value, _ = session.run([loss, update], dict(zip((x, labels), batch)))
            np.testing.assert_allclose(ours, value, rtol=1e-4)
            assert_close(variables, values_of(session))
