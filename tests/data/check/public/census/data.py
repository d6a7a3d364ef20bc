import tensorflow as tf

from census import features as feats


def parse_csv(line):
  cols = tf.io.decode_csv(line, record_defaults=feats.DEFAULTS)
  row = dict(zip(feats.CSV_COLUMNS, cols))
  label = row.pop(feats.LABEL)
  return row, tf.cast(tf.equal(label, ' >50K'), tf.float32)


def make_input_fn(pattern, batch_size, shuffle=True, num_epochs=None):
  def _input_fn():
    ds = tf.data.Dataset.list_files(pattern)
    ds = ds.interleave(lambda f: tf.data.TextLineDataset(f).skip(1), cycle_length=4)
    if shuffle:
      ds = ds.shuffle(10 * batch_size)
    ds = ds.repeat(num_epochs).map(parse_csv, num_parallel_calls=4)
    ds = ds.batch(batch_size)  #! drop-remainder
    return ds.prefetch(1)
  return _input_fn
