# One update from many small batches: the gradients are summed on the IPU, which needs the memory of
# a small batch only. The result is that of the large batch.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()

SMALL, COUNT, STEPS = 4, 8, 20

random = np.random.RandomState(1)
inputs = random.normal(size=[SMALL * COUNT, 3]).astype(np.float32)
targets = inputs @ np.array([[1.0], [-2.0], [0.5]], np.float32)


def train(batch, optimizer, count):
    """The weights after STEPS updates of `count` batches each."""
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices((inputs, targets))
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
            dataset.repeat().batch(batch, drop_remainder=True))

        def step(x, y):
            w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
            return optimizer.minimize(tf.reduce_mean(tf.square(tf.matmul(x, w) - y)))

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(STEPS * count, step, infeed_queue=infeed))
        ipu.utils.move_variable_initialization_to_cpu()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            session.run(run)
            return session.run(tf.trainable_variables()[0]).ravel()


config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

large = train(SMALL * COUNT, tf.train.GradientDescentOptimizer(0.1), 1)
small = train(SMALL, ipu.gradient_accumulation_optimizer.GradientAccumulationOptimizerV2(
    tf.train.GradientDescentOptimizer(0.1), COUNT,
    reduction_method=ipu.gradient_accumulation.GradientAccumulationReductionMethod.MEAN), COUNT)
print("one batch of 32:  ", np.round(large, 3))
print("8 batches of 4:   ", np.round(small, 3))
print("equal:", np.allclose(large, small, atol=1e-5))
