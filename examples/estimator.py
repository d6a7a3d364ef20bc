# An IPUEstimator: training, evaluation and prediction, with checkpoints between them.
import shutil
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

BATCH, STEPS_A_LOOP = 16, 10

random = np.random.RandomState(1)
inputs = random.normal(size=[160, 4]).astype(np.float32)
labels = (inputs[:, 0] > inputs[:, 1]).astype(np.int32)


def input_fn():
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels))
    return dataset.batch(BATCH, drop_remainder=True).repeat()


def predict_fn():
    return tf.data.Dataset.from_tensor_slices(inputs).batch(BATCH, drop_remainder=True)


def model_fn(features, labels, mode):
    logits = tf.layers.dense(tf.layers.dense(features, 16, tf.nn.relu), 2)
    classes = tf.argmax(logits, axis=-1, output_type=tf.int32)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"class": classes})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.metrics.accuracy(labels, classes)
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    return tf.estimator.EstimatorSpec(mode, loss=loss,
                                      train_op=tf.train.AdamOptimizer(0.02).minimize(loss))


config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
run_config = ipu.ipu_run_config.RunConfig(
    ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=STEPS_A_LOOP,
                                                   ipu_options=config))
folder = tempfile.mkdtemp()
estimator = ipu.ipu_estimator.IPUEstimator(model_fn, model_dir=folder, config=run_config)
estimator.train(input_fn, steps=100)
result = estimator.evaluate(input_fn, steps=10)
print("steps:", result["global_step"])
print("accuracy above 0.9:", result["accuracy"] > 0.9)
predicted = [next_one["class"] for next_one in estimator.predict(predict_fn, num_predictions=160)]
print("predictions:", len(predicted), "right:", np.mean(predicted == labels) > 0.9)
shutil.rmtree(folder)
