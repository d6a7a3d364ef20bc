"""Batch norms with the statistics of several replicas, against plain TensorFlow's of their joined
batches: training step by step."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

STEPS, BATCH, SIZE, CHANNELS = 4, 3, 4, 5


def configure(ipus, group, **options):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.norms.experimental.distributed_batch_norm_replica_group_size = group
    for name, value in options.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()


def data(replicas, dtype=np.float32):
    """Images of another mean and spread on each replica: [steps, replicas, batch, ...]."""
    generator = np.random.default_rng(5)
    images = generator.standard_normal((STEPS, replicas, BATCH, SIZE, SIZE, CHANNELS))
    place = np.arange(1, replicas + 1).reshape(1, -1, 1, 1, 1, 1)
    return (images * place + 3 * place).astype(dtype)


def variable(name, value, dtype):
    return tf.get_variable(name, value.shape, dtype, tf.constant_initializer(value),
                           use_resource=True)


def network(x, layout):
    """(the batch norm's output, mean and variance; the loss)."""
    dtype = x.dtype.as_numpy_dtype
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
        kernel = variable("kernel", np.eye(CHANNELS) * 0.5 + 0.1, dtype)
        scale = variable("scale", np.linspace(0.5, 1.5, CHANNELS), np.float32)
        offset = variable("offset", np.linspace(-1, 1, CHANNELS), np.float32)
        weight = variable("weight", np.linspace(1, 2, CHANNELS), dtype)
        x = tf.reshape(tf.matmul(tf.reshape(x, [-1, CHANNELS]), kernel), x.shape)
        if layout == "NCHW":
            x = tf.transpose(x, [0, 3, 1, 2])
        y, mean, var = tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3, data_format=layout)
        if layout == "NCHW":
            y = tf.transpose(y, [0, 2, 3, 1])
        loss = tf.reduce_mean(tf.square(tf.nn.relu(y * weight) - 0.5))
        return y, mean, var, loss


def distributed(images, replicas, optimizer, layout):
    """What the batch norm gave, [steps, replicas, ...] each, and the variables after all."""
    flat = images.reshape(-1, *images.shape[2:])
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(flat),
                                                 feed_name="images")
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="seen")

    def body(x):
        y, mean, var, loss = network(x, layout)
        train = ipu.optimizers.CrossReplicaOptimizer(optimizer).minimize(loss)
        with tf.control_dependencies([train]):
            return outfeed.enqueue((y, mean, var))

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, body, [], infeed))
    taken = outfeed.dequeue()
    ipu.utils.move_variable_initialization_to_cpu()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        session.run(result)
        seen = session.run(taken)
        return seen, session.run({one.op.name: one for one in tf.trainable_variables()})


def joined(images, replicas, group, optimizer, layout):
    """The same of plain TensorFlow: each group's batch is one, the loss is the mean of all."""
    with tf.Graph().as_default(), tf.device("cpu"):
        parts = images.reshape(STEPS, replicas // group, group * BATCH, *images.shape[3:])
        feed = tf.placeholder(images.dtype, parts.shape[1:])
        made = [network(feed[g], "NHWC") for g in range(replicas // group)]
        train = optimizer().minimize(tf.add_n([one[3] for one in made]) / len(made))
        seen = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(STEPS):
                seen.append(session.run([one[:3] for one in made], {feed: parts[step]}))
                session.run(train, {feed: parts[step]})
            return seen, session.run({one.op.name: one for one in tf.trainable_variables()})


def unbiased(count):
    """What TensorFlow multiplies the variance by that it gives."""
    return count / (count - 1)


@pytest.mark.parametrize("replicas,group,layout", [
    (2, 2, "NHWC"), (4, 4, "NHWC"), (4, 2, "NHWC"), (4, 1, "NHWC"), (2, 2, "NCHW")])
def test_training(replicas, group, layout, devices):
    del devices  # configures one IPU again afterwards
    configure(replicas, group)
    images = data(replicas)
    seen, variables = distributed(images, replicas, tf.train.MomentumOptimizer(0.1, 0.9), layout)
    wanted, expected = joined(images, replicas, group,
                              lambda: tf.train.MomentumOptimizer(0.1, 0.9), layout)
    pixels = BATCH * SIZE * SIZE
    for step in range(STEPS):
        for replica in range(replicas):
            y, mean, var = (one[step][replica] for one in seen)
            whole, all_mean, all_var = wanted[step][replica // group]
            at = replica % group * BATCH
            np.testing.assert_allclose(y, whole[at:at + BATCH], rtol=2e-4, atol=2e-4)
            np.testing.assert_allclose(mean, all_mean, rtol=1e-4)
            np.testing.assert_allclose(var / unbiased(pixels), all_var / unbiased(group * pixels),
                                       rtol=1e-4)
    for name, value in expected.items():
        np.testing.assert_allclose(variables[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_float16(devices):
    """The statistics are float32, the images are not."""
    del devices
    configure(2, 2)
    images = data(2, np.float16)
    seen, variables = distributed(images, 2, tf.train.GradientDescentOptimizer(0.1), "NHWC")
    configure(2, 2)
    wanted, expected = joined(images.astype(np.float32), 2, 2,
                              lambda: tf.train.GradientDescentOptimizer(0.1), "NHWC")
    del seen, wanted
    for name, value in expected.items():
        np.testing.assert_allclose(variables[name], value, rtol=2e-2, atol=1e-2, err_msg=name)


def test_inference_has_no_part_in_it(devices, on_ipu):
    """With one replica, and without training, nothing changes."""
    del devices
    images = data(1)[0, 0]

    def program(x):
        ones = tf.ones([CHANNELS])
        training = tf.nn.fused_batch_norm(x, ones, ones)[0]
        inference = tf.nn.fused_batch_norm(x, ones, ones, ones, ones, is_training=False)[0]
        return training, inference

    results = []
    for group, ipus in ((1, 1), (2, 1)):
        configure(ipus, group)
        with tf.Graph().as_default(), tf.Session() as session:
            with tf.device("cpu"):
                x = tf.placeholder(tf.float32, images.shape)
            results.append(session.run(on_ipu(program, [x]), {x: images}))
    for one, two in zip(*results):
        np.testing.assert_array_equal(one, two)


def test_refusals(devices, on_ipu):
    del devices
    config = ipu.config.IPUConfig()
    with pytest.raises(ValueError, match="distributed_batch_norm_replica_group_size` must be 1 or "
                       "more, not 0"):
        config.norms.experimental.distributed_batch_norm_replica_group_size = 0
    configure(4, 3)
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [BATCH, SIZE, SIZE, CHANNELS])
    ones = np.ones([CHANNELS], np.float32)
    trained = on_ipu(lambda x: tf.nn.fused_batch_norm(x, ones, ones)[0], [x])
    other = on_ipu(lambda x: ipu.cross_replica_ops.cross_replica_sum(x), [x])
    with tf.Session() as session:
        feed = {x: np.ones(x.shape, np.float32)}
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match=r"The replica group size \(got 3\) does not evenly divide the "
                           r"total number of replicas \(got 4\)"):
            session.run(trained, feed)
        session.run(other, feed)  # has no batch norm
