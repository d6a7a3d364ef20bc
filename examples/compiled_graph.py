# A small neural network, compiled into one program for an IPU and checked against NumPy.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

random = np.random.RandomState(7)
first_weights = random.randn(8, 16).astype(np.float32)
second_weights = random.randn(16, 3).astype(np.float32)
rows = random.randn(4, 8).astype(np.float32)

with tf.device("cpu"):
    features = tf.placeholder(np.float32, rows.shape, name="features")


def classify(inputs):
    hidden = tf.nn.relu(tf.matmul(inputs, first_weights))
    return tf.nn.softmax(tf.matmul(hidden, second_weights))


with ipu.scopes.ipu_scope("/device:IPU:0"):
    [probabilities] = ipu.ipu_compiler.compile(classify, [features])

with tf.Session() as session:
    result = session.run(probabilities, {features: rows})

scores = np.maximum(rows @ first_weights, 0) @ second_weights
scores = np.exp(scores - scores.max(axis=1, keepdims=True))
expected = scores / scores.sum(axis=1, keepdims=True)
print("classes:", result.argmax(axis=1))
print("agrees with NumPy:", np.allclose(result, expected, atol=1e-5))
