# Arithmetic on an IPU, without compiling: TensorFlow places the operations there.
import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

with tf.device("cpu"):
    prices = tf.placeholder(np.float32, [2], name="prices")
    discounts = tf.placeholder(np.float32, [2], name="discounts")

with ipu.scopes.ipu_scope("/device:IPU:0"):
    payable = 2.0 * prices - discounts

with tf.Session() as session:
    print(session.run(payable, {prices: [2.0, 5.0], discounts: [1.0, 2.0]}))
