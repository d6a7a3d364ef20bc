"""An IPUEstimator, an embedding and recurrent layers."""
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import embedding_ops, ipu_estimator, ipu_run_config, rnn_ops, utils
from tensorflow.python.ipu.optimizers import cross_replica_optimizer


def model_fn(features, labels, mode, params):
    table = tf.get_variable("table", [100, 8])
    words = embedding_ops.embedding_lookup(table, features)
    outputs, _ = rnn_ops.PopnnLSTM(16)(words)
    loss = tf.losses.mean_squared_error(labels, outputs[-1])
    optimizer = cross_replica_optimizer.CrossReplicaOptimizer(
        tf.train.AdamOptimizer(params["rate"]))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


options = utils.auto_select_ipus(utils.create_ipu_config(), 2)
ipu_config = ipu_run_config.IPURunConfig(
    iterations_per_loop=10, num_replicas=2, ipu_options=options)
run_config = ipu_run_config.RunConfig(ipu_run_config=ipu_config, log_step_count_steps=10)
estimator = ipu_estimator.IPUEstimator(
    config=run_config, model_fn=model_fn, params={"rate": 0.01})
estimator.train(input_fn=None, steps=20)
