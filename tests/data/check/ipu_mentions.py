"""Names of older SDKs that are not called where they stand, arguments that are gone."""
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import keras as ik

tf.disable_v2_behavior()
make = ipu.utils.create_ipu_config  #! older-api
settings = make()
fitting = {"steps_per_run": 8, "epochs": 2}  #! older-api
dataset = tf.data.Dataset.from_tensors(tf.zeros([4])).repeat()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset, replication_factor=1)  #! older-api
run = ipu.ipu_strategy.IPUStrategy().experimental_run_v2  #! older-api
config = ipu.ipu_run_config.IPURunConfig(autosharding=True)  #! older-api


class Net(ik.Model):  #! older-api
    pass


def train(model: ik.Model):
    model.fit(dataset, **fitting)


def body(x):
    w = tf.get_variable("w", [4, 4])  #! random-initialiser
    with tf.variable_scope("zeros", initializer=tf.zeros_initializer()):
        b = tf.get_variable("b", [4])
    n = tf.get_variable("n", [], tf.int32)
    return tf.matmul(x, w) + b + tf.cast(n, tf.float32)


def network():
    return ipu.loops.repeat(10, body, tf.zeros([8, 4]))


with ipu.scopes.ipu_scope("/device:IPU:0"):
    compiled = ipu.ipu_compiler.compile(network)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
