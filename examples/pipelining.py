# A network in four stages on four IPUs: while one works on a batch, the next has the one before.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()
tf.set_random_seed(1)  # the same first weights in every run

BATCH, MICRO_BATCHES, STEPS = 8, 16, 10

random = np.random.RandomState(1)
inputs = random.normal(size=[512, 8]).astype(np.float32)
targets = np.tanh(inputs[:, :4] - inputs[:, 4:])
dataset = tf.data.Dataset.from_tensor_slices((inputs, targets))
dataset = dataset.repeat().batch(BATCH, drop_remainder=True)

infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def layer(x, units, name, activation=tf.nn.relu):
    with tf.variable_scope(name, use_resource=True):
        return tf.layers.dense(x, units, activation)


def first(x, y):
    return layer(x, 32, "first"), y


def second(x, y):
    return layer(x, 32, "second"), y


def third(x, y):
    return layer(x, 32, "third"), y


def last(x, y):
    return tf.reduce_mean(tf.square(layer(x, 4, "last", None) - y))


def optimizer_function(loss):
    return ipu.pipelining_ops.OptimizerFunctionOutput(tf.train.AdamOptimizer(0.01), loss)


def train():
    return ipu.pipelining_ops.pipeline(
        [first, second, third, last], gradient_accumulation_count=MICRO_BATCHES,
        repeat_count=STEPS, infeed_queue=infeed, outfeed_queue=outfeed,
        optimizer_function=optimizer_function, device_mapping=[0, 1, 2, 3],
        pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped,
        reduction_method=ipu.gradient_accumulation.GradientAccumulationReductionMethod.MEAN)


with ipu.scopes.ipu_scope("/device:IPU:0"):
    run = ipu.ipu_compiler.compile(train)

config = ipu.config.IPUConfig()
config.auto_select_ipus = 4
config.configure_ipu_system()
ipu.utils.move_variable_initialization_to_cpu()
losses = outfeed.dequeue()

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), infeed.initializer])
    means = []
    for _ in range(4):
        session.run(run)
        means.append(session.run(losses)[0].mean())
        print(f"{STEPS} steps of {MICRO_BATCHES} batches: loss {means[-1]:.3f}")
print("learned:", means[-1] < 0.5 * means[0])
