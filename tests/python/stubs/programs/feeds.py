"""TensorFlow 1: feeds and a loop."""
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import ipu_compiler, loops, scopes, utils
from tensorflow.python.ipu.ops import normalization_ops, rand_ops

tf.disable_v2_behavior()
data = tf.data.Dataset.from_tensors(np.ones([4, 8], np.float32)).repeat()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data, feed_name="infeed")
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue("outfeed")


def body(total, x):
    x = normalization_ops.layer_norm(rand_ops.dropout(x, rate=0.1))
    return total + tf.reduce_sum(x), outfeed.enqueue({"x": x})


def program():
    return loops.repeat(10, body, [0.0], infeed)


with scopes.ipu_scope("/device:IPU:0"):
    result = ipu_compiler.compile(program, inputs=[])
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.ipu_model.version = "ipu2"
config.matmuls.poplar_options = {"availableMemoryProportion": "0.3"}
config.configure_ipu_system()
utils.move_variable_initialization_to_cpu()
with tf.Session() as session:
    session.run(infeed.initializer)
    session.run(result)
    print(session.run(outfeed.dequeue())["x"].shape)
