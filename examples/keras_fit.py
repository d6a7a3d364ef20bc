# Keras: from model.fit on the CPU to four IPUs. docs/keras.md goes through this program.
import os
import tempfile

import numpy as np
import tensorflow as tf

from tensorflow.python import ipu

keras = tf.keras
random = np.random.RandomState(1)
x = random.uniform(-1, 1, size=[512, 20]).astype(np.float32)
y = np.argmax(x @ random.normal(size=[20, 4]), axis=1).astype(np.int32)


def batches(size):
    data = tf.data.Dataset.from_tensor_slices((x, y))
    return data.batch(size, drop_remainder=True)


def network():
    keras.utils.set_random_seed(1)  # all models begin with the same weights
    inputs = keras.Input([20])
    hidden = keras.layers.Dense(32, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(4)(hidden))


def compiled(model, rate=0.1, **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(rate), loss, **options)
    return model


def configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def same(model, other):
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-6)
               for a, b in zip(model.get_weights(), other.get_weights()))


class Counts(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.calls = 0

    def on_train_batch_end(self, batch, logs=None):
        self.calls += 1


# On the CPU, with batches of 16 and of 64.
cpu = compiled(network())
losses = cpu.fit(batches(16), epochs=2, verbose=0).history["loss"]
print("CPU: a loss of %.2f, then of %.2f" % tuple(losses))
large = compiled(network())
large.fit(batches(64), epochs=2, verbose=0)

# On one IPU: the scope, and how many steps are one launch.
counts = Counts()
with configure(ipus=1).scope():
    model = compiled(network(), steps_per_execution=32)
    model.fit(batches(16), epochs=2, verbose=0, callbacks=[counts])
    print("one IPU: the CPU's weights:", same(model, cpu), "- batch callbacks:", counts.calls)

    inputs = batches(16).map(lambda x, y: x)
    print("evaluate and predict as on the CPU:",
          np.allclose(model.evaluate(batches(16), verbose=0),
                      cpu.evaluate(batches(16), verbose=0), rtol=1e-4) and
          np.allclose(model.predict(inputs, verbose=0), cpu.predict(inputs, verbose=0),
                      rtol=1e-3, atol=1e-4))

    model.set_asynchronous_callbacks(True)
    model.fit(batches(16), epochs=1, verbose=0, callbacks=[counts])
    print("asynchronous: batch callbacks:", counts.calls)

    # One weight update in 4 steps.
    model = compiled(network(), steps_per_execution=32)
    model.set_gradient_accumulation_options(
        gradient_accumulation_steps_per_replica=4, gradient_accumulation_reduction_method="mean")
    model.fit(batches(16), epochs=2, verbose=0)
    print("accumulated: the weights of batches of 64:", same(model, large))

# On four IPUs a model of one IPU has four replicas. Their gradients are summed.
with configure(ipus=4).scope():
    model = compiled(network(), rate=0.1 / 4, steps_per_execution=8)
    model.fit(batches(16), epochs=2, verbose=0, callbacks=[counts])
    print("four replicas: the weights of batches of 64:", same(model, large),
          "- steps of each:", counts.params["steps"])

    # Two stages on two IPUs: two replicas of the pipeline.
    model = compiled(network(), rate=0.1 / 2, steps_per_execution=16)
    stages = model.get_pipeline_stage_assignment()
    for stage, one in enumerate(stages):
        one.pipeline_stage = stage
    model.set_pipeline_stage_assignment(stages)
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=2, gradient_accumulation_reduction_method="mean",
        pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Sequential)
    model.print_pipeline_stage_assignment_summary()
    model.fit(batches(16), epochs=2, verbose=0)
    print("two replicas of two stages: the weights of batches of 64:", same(model, large))
    model.set_pipelining_options(pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped)
    outputs = model.predict(inputs, verbose=0)
    print("predictions:", outputs.shape)

    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    print("loaded in the scope, stages:",
          [one.pipeline_stage for one in loaded.get_pipeline_stage_assignment()])
plain = keras.models.load_model(path)
print("loaded outside of it, a stock model:", not hasattr(plain, "set_pipelining_options"))
