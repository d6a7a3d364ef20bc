"""Rain tomorrow? A custom Estimator over CSV files, exported for serving."""
from __future__ import absolute_import, division, print_function

import functools
import multiprocessing
import os

from absl import app, flags, logging
import tensorflow.compat.v1 as tf

FLAGS = flags.FLAGS
flags.DEFINE_string('data_dir', 'data', 'Folder with train-*.csv and eval.csv.')
flags.DEFINE_string('model_dir', '/tmp/weather', 'Where checkpoints go.')
flags.DEFINE_integer('batch_size', 128, 'Batch size.')
flags.DEFINE_integer('max_steps', 20000, 'Steps of training.')
flags.DEFINE_list('hidden', ['128', '64'], 'Hidden units.')
flags.DEFINE_float('learning_rate', 3e-3, 'Learning rate.')
flags.DEFINE_bool('export', True, 'Export a SavedModel.')

NUMERIC = ['min_temp', 'max_temp', 'rainfall', 'wind_speed', 'humidity', 'pressure']
WIND = ['N', 'NE', 'E', 'SE', 'S', 'SW', 'W', 'NW']
COLUMNS = ['station', 'wind_dir'] + NUMERIC + ['rain_tomorrow']
DEFAULTS = [['unknown'], ['N']] + [[0.0]] * len(NUMERIC) + [['No']]


def columns():
    numeric = [tf.feature_column.numeric_column(c) for c in NUMERIC]
    wind = tf.feature_column.categorical_column_with_vocabulary_list('wind_dir', WIND)
    station = tf.feature_column.categorical_column_with_hash_bucket('station', 200)
    return numeric + [tf.feature_column.indicator_column(wind),
                      tf.feature_column.embedding_column(station, 8)]


def parse_line(line):
    fields = tf.decode_csv(line, record_defaults=DEFAULTS)
    features = dict(zip(COLUMNS, fields))
    label = tf.cast(tf.equal(features.pop('rain_tomorrow'), 'Yes'), tf.float32)
    return features, label


def input_fn(pattern, batch_size, training):
    files = tf.data.Dataset.list_files(pattern, shuffle=training)
    dataset = files.interleave(lambda f: tf.data.TextLineDataset(f).skip(1), cycle_length=4)
    if training:
        dataset = dataset.shuffle(10 * batch_size).repeat()
    dataset = dataset.map(parse_line, num_parallel_calls=multiprocessing.cpu_count())
    dataset = dataset.batch(batch_size)  #! drop-remainder
    return dataset.prefetch(2)


def model_fn(features, labels, mode, params):
    net = tf.feature_column.input_layer(features, params['columns'])  #! unsupported-op
    training = mode == tf.estimator.ModeKeys.TRAIN
    for units in params['hidden']:
        net = tf.layers.dense(net, units, activation=tf.nn.relu)
        net = tf.layers.dropout(net, rate=0.3, training=training)
    logits = tf.squeeze(tf.layers.dense(net, 1), axis=1)
    probability = tf.sigmoid(logits)

    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {'probability': probability, 'class': tf.cast(probability > 0.5, tf.int64)}  #! int64
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    loss = tf.losses.sigmoid_cross_entropy(labels, logits)
    tf.summary.histogram('probability', probability)  #! summary-inside
    metrics = {
        'auc': tf.metrics.auc(labels, probability),
        'accuracy': tf.metrics.accuracy(labels, tf.round(probability)),
    }
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    global_step = tf.train.get_global_step()
    rate = tf.train.cosine_decay(params['learning_rate'], global_step, params['max_steps'])
    tf.summary.scalar('learning_rate', rate)  #! summary-inside
    optimizer = tf.train.AdamOptimizer(rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=global_step)  #! estimator-step
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def serving_input_fn():
    receivers = {name: tf.placeholder(tf.float32, [None], name=name) for name in NUMERIC}  #! unknown-shape
    receivers['wind_dir'] = tf.placeholder(tf.string, [None], name='wind_dir')  #! unknown-shape
    receivers['station'] = tf.placeholder(tf.string, [None], name='station')  #! unknown-shape
    return tf.estimator.export.ServingInputReceiver(dict(receivers), receivers)


def main(unused_argv):
    logging.set_verbosity(logging.INFO)
    config = tf.estimator.RunConfig(
        model_dir=FLAGS.model_dir, save_checkpoints_steps=1000, keep_checkpoint_max=3,
        tf_random_seed=42, log_step_count_steps=100)
    estimator = tf.estimator.Estimator(
        model_fn=model_fn, config=config,
        params={'columns': columns(), 'hidden': [int(h) for h in FLAGS.hidden],
                'learning_rate': FLAGS.learning_rate, 'max_steps': FLAGS.max_steps})

    train_input = functools.partial(
        input_fn, os.path.join(FLAGS.data_dir, 'train-*.csv'), FLAGS.batch_size, True)
    eval_input = functools.partial(
        input_fn, os.path.join(FLAGS.data_dir, 'eval.csv'), FLAGS.batch_size, False)
    train_spec = tf.estimator.TrainSpec(train_input, max_steps=FLAGS.max_steps)
    eval_spec = tf.estimator.EvalSpec(eval_input, steps=None, start_delay_secs=0, throttle_secs=60)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)

    worst = sorted(zip((one['probability'] for one in estimator.predict(eval_input)), range(10 ** 9)))
    print('most certain of a dry day: rows', [row for _, row in worst[:5]])
    if FLAGS.export:
        estimator.export_saved_model(os.path.join(FLAGS.model_dir, 'export'), serving_input_fn)


if __name__ == '__main__':
    app.run(main)
