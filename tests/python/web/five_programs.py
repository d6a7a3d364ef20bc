"""The programs whose profiles show every view of the analyser, each run in a process of its own.

    python tests/python/web/five_programs.py FOLDER [NAME...]

makes FOLDER/NAME/tf_report__... of each, for scripts/analyser_pictures.py and a long test.
"""

import json
import os
import pathlib
import sys
import textwrap

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "shared"))
import interpreter  # noqa: E402
from analyser import ROOT, environment  # noqa: E402

_GRAPH = """
    import numpy as np
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    tf.set_random_seed(1)

    def run(ipus, build, data):
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data.repeat())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(lambda: build(infeed, outfeed))
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = ipus
        config.configure_ipu_system()
        ipu.utils.move_variable_initialization_to_cpu()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            for _ in range(2):
                session.run(step)
"""

_RESNET = _GRAPH + """
    def convolution(name, x, size, filters, stride=1, relu=True):
        with tf.variable_scope(name):
            kernel = tf.get_variable("kernel", [size, size, x.shape[-1], filters], tf.float16,
                                     tf.random_normal_initializer(stddev=0.02, seed=1))
            x = tf.nn.conv2d(x, kernel, stride, "SAME")
            parameters = [tf.get_variable(part, [filters], tf.float32, start)
                          for part, start in (("scale", tf.ones_initializer()),
                                              ("offset", tf.zeros_initializer()))]
            x = tf.nn.fused_batch_norm(x, *parameters, is_training=True)[0]
        return tf.nn.relu(x) if relu else x

    def network(images, labels):
        with tf.variable_scope("resnet50", use_resource=True):
            x = convolution("stem", images, 7, 64, 2)
            x = tf.nn.max_pool2d(x, 3, 2, "SAME")
            for stage, blocks in enumerate((3, 4, 6, 3)):
                for block in range(blocks):
                    stride = 2 if stage and block == 0 else 1
                    with tf.variable_scope(f"stage{stage + 1}_{block + 1}"):
                        skip = x
                        if block == 0:
                            skip = convolution("skip", x, 1, 256 << stage, stride, False)
                        x = convolution("reduce", x, 1, 64 << stage, stride)
                        x = convolution("middle", x, 3, 64 << stage)
                        x = convolution("expand", x, 1, 256 << stage, 1, False)
                        x = tf.nn.relu(0.2 * x + skip)
            logits = tf.layers.dense(tf.reduce_mean(x, [1, 2]), 1000, name="classes")
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=tf.cast(logits, tf.float32)))

    def build(infeed, outfeed):
        def step(images, labels):
            optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(
                tf.train.MomentumOptimizer(0.001, 0.9))
            loss = network(images, labels)
            with tf.control_dependencies([optimizer.minimize(loss)]):
                return outfeed.enqueue(loss)
        return ipu.loops.repeat(4, step, infeed_queue=infeed)

    images = np.random.RandomState(0).uniform(-1, 1, [1, 224, 224, 4]).astype(np.float16)
    data = tf.data.Dataset.from_tensors((images, np.zeros([1], np.int32)))
    run(4, build, data)
"""

_PIPELINE = _GRAPH + """
    WIDTH, LENGTH, STAGES = 256, 32, 16

    def block(number, x):
        with tf.variable_scope(f"block{number}", use_resource=True):
            wide = lambda x, units, name: tf.layers.dense(x, units, name=name)
            q, k, v = (wide(x, WIDTH, name) for name in ("query", "key", "value"))
            weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / WIDTH ** 0.5)
            x = x + wide(tf.matmul(weights, v), WIDTH, "out")
            x = x - tf.reduce_mean(x, -1, keepdims=True)
            return x + wide(tf.nn.relu(wide(x, 4 * WIDTH, "up")), WIDTH, "down")

    def stage(number):
        def compute(x, y):
            x = block(number, x)
            if number == STAGES - 1:
                return tf.reduce_mean(tf.square(x - y))
            return x, y
        return compute

    def build(infeed, outfeed):
        return ipu.pipelining_ops.pipeline(
            [stage(number) for number in range(STAGES)], gradient_accumulation_count=32,
            repeat_count=2, infeed_queue=infeed, outfeed_queue=outfeed,
            optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                tf.train.MomentumOptimizer(0.001, 0.9), loss),
            device_mapping=list(range(STAGES)),
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped,
            reduction_method=ipu.gradient_accumulation.GradientAccumulationReductionMethod.MEAN)

    data = np.random.RandomState(0).normal(size=[2, LENGTH, WIDTH]).astype(np.float32)
    run(STAGES, build, tf.data.Dataset.from_tensors((data, data)))
"""

_KERAS = """
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu
    keras = tf.keras
    keras.utils.set_random_seed(1)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = np.random.RandomState(1).uniform(size=[256, 28, 28, 1]).astype(np.float32)
    y = np.arange(256, dtype=np.int32) % 10
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential([
            keras.layers.Conv2D(32, 3, activation="relu", input_shape=[28, 28, 1]),
            keras.layers.MaxPooling2D(), keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dropout(0.5),
            keras.layers.Dense(10)])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      steps_per_execution=16)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8, drop_remainder=True)
        model.fit(data, epochs=1, verbose=0)
"""

# ResNeXt-101 with more images than an IPU has memory for fails, and has a profile.
_RESNEXT = [str(ROOT / "examples/resnext.py"), "--depth", "101", "--runs", "1"]
PROGRAMS = {
    "inference": [*_RESNEXT, "--batches-per-run", "1"],
    "replicas": ["-c", "import tremula._finder\n" + textwrap.dedent(_RESNET)],
    "pipeline": ["-c", "import tremula._finder\n" + textwrap.dedent(_PIPELINE)],
    "memory": [*_RESNEXT, "--batch", "512"],
    "keras": ["-c", "import tremula._finder\n" + textwrap.dedent(_KERAS)],
}


def make(name, folder):
    """The profile of a program, which is run in an empty folder."""
    done = interpreter.run(
        PROGRAMS[name], cwd=pathlib.Path(folder).resolve(),
        env=environment(POPLAR_ENGINE_OPTIONS=json.dumps({"autoReport.all": "true"}),
                        PVTI_OPTIONS='{"enable":"true"}',
                        TREMULA_RUNTIME_DIR=str(pathlib.Path(folder).resolve())))
    found = sorted(pathlib.Path(folder).glob("tf_report__*"),
                   key=lambda one: (one / "profile.pop").stat().st_size)
    assert found and (done.returncode == 0) == (name != "memory"), done.stderr[-3000:]
    return found[-1]  # the others initialise variables


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or PROGRAMS:
        os.makedirs(folder / name)
        print(name, make(name, folder / name), flush=True)


if __name__ == "__main__":
    main()
