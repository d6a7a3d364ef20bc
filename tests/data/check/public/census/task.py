"""python -m census.task --train_files 'data/*.csv' --job_dir /tmp/census"""
import argparse
import logging
import os

import tensorflow as tf

from census import data
from census import features as feats


def model_fn(features, labels, mode, params):
  net = tf.compat.v1.feature_column.input_layer(features, params['columns'])  #! unsupported-op
  for i, units in enumerate(params['hidden']):
    with tf.compat.v1.variable_scope('hidden_%d' % i):
      net = tf.compat.v1.layers.dense(net, units, activation=tf.nn.relu)
      if mode == tf.estimator.ModeKeys.TRAIN and params['dropout'] > 0:
        net = tf.compat.v1.layers.dropout(net, params['dropout'], training=True)
  logits = tf.squeeze(tf.compat.v1.layers.dense(net, 1), axis=-1)
  probs = tf.sigmoid(logits)
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions={'p': probs})
  loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
  metrics = {
      'accuracy': tf.compat.v1.metrics.accuracy(labels, tf.round(probs)),
      'auc': tf.compat.v1.metrics.auc(labels, probs),
  }
  if mode == tf.estimator.ModeKeys.EVAL:
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
  opt = tf.compat.v1.train.AdagradOptimizer(params['learning_rate'])
  train_op = opt.minimize(loss, global_step=tf.compat.v1.train.get_global_step())  #! estimator-step
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def run(hparams):
  config = tf.estimator.RunConfig(model_dir=hparams.job_dir, save_checkpoints_steps=500)
  est = tf.estimator.Estimator(model_fn, config=config, params={
      'columns': feats.get_deep_columns(hparams.embedding_size),
      'hidden': [max(2, int(hparams.first_layer_size * hparams.scale ** i))
                 for i in range(hparams.num_layers)],
      'dropout': 0.1,
      'learning_rate': hparams.learning_rate,
  })
  train_spec = tf.estimator.TrainSpec(
      data.make_input_fn(hparams.train_files, hparams.batch_size), max_steps=hparams.train_steps)
  eval_spec = tf.estimator.EvalSpec(
      data.make_input_fn(hparams.eval_files, hparams.batch_size, shuffle=False, num_epochs=1),
      steps=100, throttle_secs=30)
  tf.estimator.train_and_evaluate(est, train_spec, eval_spec)


if __name__ == '__main__':
  p = argparse.ArgumentParser()
  p.add_argument('--job_dir', default=os.path.join('/tmp', 'census'))
  p.add_argument('--train_files', default='train*.csv')
  p.add_argument('--eval_files', default='eval*.csv')
  p.add_argument('--batch_size', type=int, default=40)
  p.add_argument('--train_steps', type=int, default=5000)
  p.add_argument('--embedding_size', type=int, default=8)
  p.add_argument('--first_layer_size', type=int, default=100)
  p.add_argument('--num_layers', type=int, default=4)
  p.add_argument('--scale', type=float, default=0.7)
  p.add_argument('--learning_rate', type=float, default=0.05)
  logging.getLogger('tensorflow').setLevel(logging.INFO)
  run(p.parse_args())
