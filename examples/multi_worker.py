"""Two workers, each with an IPU, train one model together.

    python multi_worker.py      starts both of them
    python multi_worker.py 0    starts one, and in another terminal
    python multi_worker.py 1    the other

Each worker computes gradients from its half of the data, and the workers' hosts add them up, so
both have the same weights after every step.
"""

import json
import os
import subprocess
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

BATCH = 8  # of each worker
WORKERS = ["localhost:3737", "localhost:3738"]

if "TF_CONFIG" not in os.environ:
    if len(sys.argv) < 2:
        both = [subprocess.Popen([sys.executable, __file__, index]) for index in "01"]
        sys.exit(max(abs(one.wait()) for one in both))
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"worker": WORKERS}, "task": {"type": "worker", "index": int(sys.argv[1])}})

# The strategy starts this worker's server and waits for the other worker.
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy(resolver)

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

random = np.random.RandomState(1)
inputs = random.randn(1024, 4).astype(np.float32)
targets = inputs @ np.array([[1], [-2], [3], [-4]], np.float32)


def share_of(context):
    """The part of the data that this worker trains with."""
    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets))
    return dataset.shard(context.num_input_pipelines, context.input_pipeline_id).batch(
        BATCH, drop_remainder=True)


with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))
    optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function(jit_compile=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((x @ weights - y) ** 2, axis=1)
            # Gradients are added up, so the loss is divided by the batch of all workers.
            loss = tf.nn.compute_average_loss(losses)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        return loss

    for number, batch in enumerate(strategy.distribute_datasets_from_function(share_of)):
        loss = strategy.run(step, args=batch)
        if number % 20 == 0:
            total = strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None)
            print(f"worker {resolver.task_id}: step {number:2d}, loss {total:.3f}", flush=True)

print(f"worker {resolver.task_id}: weights {np.round(weights.numpy().ravel(), 2)}", flush=True)
