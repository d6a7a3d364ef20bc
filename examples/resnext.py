# ResNeXt-101 (32 groups) inference in half precision: images a second through the feeds.
import argparse
import time

import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

# Blocks in each of the four stages, by depth.
STAGES = {26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
GROUPS = 32


def variable(name, shape, initializer=None, dtype=tf.float16):
    return tf.get_variable(name, shape, dtype, initializer, trainable=False)


def convolution(x, size, filters, stride=1, groups=1):
    channels = int(x.shape[-1]) // groups
    spread = np.sqrt(2.0 / (size * size * channels))
    kernel = variable("kernel", [size, size, channels, filters],
                      tf.random_normal_initializer(stddev=spread, seed=1))
    return tf.nn.conv2d(x, filters=kernel, strides=[1, stride, stride, 1], padding="SAME")


def normalised(x):
    """Batch normalisation with stored statistics, which are single precision."""
    ones, zeros = tf.ones_initializer(), tf.zeros_initializer()
    parameters = [variable(name, [int(x.shape[-1])], start, tf.float32)
                  for name, start in (("scale", ones), ("offset", zeros),
                                      ("mean", zeros), ("variance", ones))]
    scale, offset, mean, variance = parameters
    return tf.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)[0]


def unit(name, x, size, filters, stride=1, groups=1, activate=True):
    with tf.variable_scope(name):
        x = normalised(convolution(x, size, filters, stride, groups))
    return tf.nn.relu(x) if activate else x


def block(name, x, width, stride):
    with tf.variable_scope(name):
        skipped = x
        if int(x.shape[-1]) != 2 * width:
            skipped = unit("skip", x, 1, 2 * width, stride, activate=False)
        x = unit("reduce", x, 1, width)
        x = unit("grouped", x, 3, width, stride, groups=GROUPS)
        # A small last scale, as trained networks have it, keeps the sums within half precision.
        x = 0.2 * unit("expand", x, 1, 2 * width, activate=False)
        return tf.nn.relu(x + skipped)


def resnext(images, stages):
    with tf.variable_scope("resnext", use_resource=True):
        x = unit("stem", images, 7, 64, stride=2)
        x = tf.nn.max_pool2d(x, 3, 2, padding="SAME")
        for stage, blocks in enumerate(stages):
            for index in range(blocks):
                stride = 2 if stage > 0 and index == 0 else 1
                x = block(f"stage{stage + 1}_{index + 1}", x, 128 << stage, stride)
        x = tf.reduce_mean(x, axis=[1, 2])
        weights = variable("classes", [int(x.shape[-1]), 1000],
                           tf.random_normal_initializer(stddev=0.02, seed=2))
        return tf.nn.softmax(tf.matmul(x, weights))


def main():
    parser = argparse.ArgumentParser(description="ResNeXt inference on an IPU")
    parser.add_argument("--depth", type=int, choices=sorted(STAGES), default=101)
    parser.add_argument("--size", type=int, default=224, help="pixels along a side")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--batches-per-run", type=int, default=4)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--memory-proportion", type=float, default=0.3,
                        help="share of a tile's memory for a convolution's temporary data")
    arguments = parser.parse_args()
    tf.disable_v2_behavior()

    shape = [arguments.batch, arguments.size, arguments.size, 4]
    images = np.random.RandomState(0).uniform(-1, 1, shape).astype(np.float16)
    dataset = tf.data.Dataset.from_tensors(images).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def classify(batch):
        return outfeed.enqueue(resnext(batch, STAGES[arguments.depth]))

    def classify_all():
        return ipu.loops.repeat(arguments.batches_per_run, classify, infeed_queue=infeed)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(classify_all, inputs=[])

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.convolutions.poplar_options["availableMemoryProportion"] = \
        str(arguments.memory_proportion)
    config.configure_ipu_system()
    ipu.utils.move_variable_initialization_to_cpu()
    dequeue = outfeed.dequeue()

    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        start = time.perf_counter()
        session.run(run)
        probabilities = session.run(dequeue)
        print(f"compiled and run once in {time.perf_counter() - start:.1f} s")
        seconds = []
        for _ in range(arguments.runs):
            start = time.perf_counter()
            session.run(run)
            probabilities = session.run(dequeue)
            seconds.append(time.perf_counter() - start)
    sums = probabilities.astype(np.float32).sum(axis=-1)
    images_per_run = arguments.batches_per_run * arguments.batch
    print(f"probabilities {probabilities.shape}, sums near 1: {np.allclose(sums, 1, atol=0.02)}")
    print(f"ResNeXt-{arguments.depth}, {arguments.size} x {arguments.size}, batch "
          f"{arguments.batch}: {images_per_run / min(seconds):.2f} images/s")


if __name__ == "__main__":
    main()
