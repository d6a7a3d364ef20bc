"""Queues, layers and reports of older SDKs, and an estimator's hooks."""
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import rnn_ops  #! older-api
from tensorflow.python.ipu.keras.layers import LayerNorm
from tensorflow.python.ipu.layers import Embedding

dataset = tf.data.Dataset.from_tensors([1.0]).repeat()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset, feed_name="infeed", prefetch_depth=2)  #! older-api
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(
    feed_name="outfeed",  #! older-api
    outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST)
replicated = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="a", replication_factor=2)  #! older-api older-api
ipu.utils.extract_compile_reports([])  #! older-api


def model_fn(features, labels, mode):
    x = ipu.layers.Dropout(0.1)(features)  #! older-api
    x = LayerNorm()(Embedding(9, 8)(x))  #! older-api older-api
    x, _ = rnn_ops.PopnnGRU(8)(x)
    x = ipu.rnn_ops.PopnnLSTM(8)(x)  #! older-api
    loss = tf.reduce_mean(x)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.1, step, 100, 0.9)
    optimizer = tf.train.GradientDescentOptimizer(rate)
    grads = optimizer.compute_gradients(loss)
    train = optimizer.apply_gradients(grads, global_step=step)  #! estimator-step
    train = tf.group(train, step.assign_add(1))  #! estimator-step
    nan = tf.train.NanTensorHook(loss)  #! estimator-hook
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, training_hooks=[nan])


estimator = ipu.ipu_estimator.IPUEstimator(model_fn)
estimator.train(lambda: dataset, hooks=[tf.train.StepCounterHook()])
