"""Pipelines of Keras models: stages, accumulation, and where the models are made."""
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

strategy = ipu.ipu_strategy.IPUStrategy()
early = keras.Sequential([keras.layers.Dense(1)])
early.set_infeed_queue_options(prefetch_depth=2)  #! keras-pipeline


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)


class Files(keras.utils.Sequence):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return tf.zeros([8, 4]), tf.zeros([8, 1])


def batches():
    yield tf.zeros([8, 4]), tf.zeros([8, 1])


def staged(stage):
    x = keras.Input([4])
    with keras.ipu.PipelineStage(0):
        y = keras.layers.Dense(4)(x)
    with keras.ipu.PipelineStage(2):  #! keras-pipeline
        y = keras.layers.Dense(1)(y)
    return keras.Model(x, y)


with strategy.scope():
    net = Net()
    net.set_pipeline_stage_assignment([])  #! keras-pipeline
    built = Net()
    built.build((8, 4))
    built.set_pipeline_stage_assignment(built.get_pipeline_stage_assignment())
    three = keras.Sequential([keras.Input([4]), keras.layers.Dense(4), keras.layers.ReLU(),
                              keras.layers.Dense(1)])
    three.set_pipeline_stage_assignment([0] * 2)  #! keras-pipeline
    three.set_pipeline_stage_assignment([0] * 2 + [1])
    three.set_pipeline_stage_assignment([0, 1, 0])  #! keras-pipeline
    three.set_pipeline_stage_assignment()  #! keras-pipeline
    three.set_pipelining_options(accumulate_outfeed=True, gradient_accumulation_steps_per_replica=8)
    three.compile("sgd", "mse", steps_per_execution=16)
    three.compile("sgd", "mse", steps_per_execution=12)  #! keras-pipeline
    three.compile("sgd", "mse", run_eagerly=True)  #! keras-data
    three.run_eagerly = True  #! keras-data
    model = staged(1)
    model.fit(batches(), steps_per_epoch=4)  #! keras-data
    model.fit(tf.zeros([8, 4]), tf.zeros([8, 1]), validation_data=Files())  #! keras-data
    images = keras.preprocessing.image.ImageDataGenerator()
    model.fit(images.flow_from_directory("x"))  #! keras-data
    model.fit(tf.data.Dataset.from_generator(batches, (tf.float32, tf.float32)))  #! unknown-shape
    model.fit(tf.data.Dataset.from_generator(batches, (tf.float32, tf.float32), ([4], [1])))


def train(data):
    with strategy.scope():
        other = staged(1)
        other.set_pipelining_options(accumulate_outfeed=True)  #! keras-pipeline
        other.compile("sgd", "mse", steps_per_execution=3)
        other.fit(data)


def rate(data):
    with strategy.scope():
        other = staged(1)
        other.set_pipelining_options(accumulate_outfeed=True)
        return other.evaluate(data)
