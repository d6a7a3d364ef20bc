"""Keras' fit in several instances, whose replicas train one model:

    poprun --num-replicas 4 --num-instances 2 python distributed_fit.py

It prints the same numbers for every number of instances.
"""

import numpy as np
import popdist
import popdist.tensorflow
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.distributed import popdist_strategy

strategy = popdist_strategy.PopDistStrategy()
config = popdist.tensorflow.set_ipu_config(ipu.config.IPUConfig())
config.configure_ipu_system()

tf.keras.utils.set_random_seed(1)
random = np.random.RandomState(1)
inputs = random.randn(1024, 4).astype(np.float32)
targets = inputs @ np.array([[1], [-2], [3], [-4]], np.float32)

# Each replica takes batches of 8; a step of all of them is a block of the data.
replicas, first = popdist.getNumTotalReplicas(), popdist.getReplicaIndexOffset()
blocks = np.arange(len(inputs)).reshape([-1, replicas, 8])
own = blocks[:, first:first + popdist.getNumLocalReplicas()].reshape(-1)
dataset = tf.data.Dataset.from_tensor_slices((inputs[own], targets[own])).batch(
    8, drop_remainder=True)

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.1), "mse", steps_per_execution=len(blocks))
    model.set_replication_options(replicated_metric_reduction_method="MEAN")
    history = model.fit(dataset, epochs=2, verbose=0).history

print("losses:", *("%.3g" % loss for loss in history["loss"]))
print("weights:", *("%.2f" % weight for weight in model.get_weights()[0].ravel()))
