"""Columns of the census table."""
import tensorflow as tf

CSV_COLUMNS = ['age', 'workclass', 'education_num', 'hours_per_week', 'native_country', 'income']
DEFAULTS = [[0.], [''], [0.], [0.], [''], ['']]
LABEL = 'income'


def get_deep_columns(embedding_size=8):
  age = tf.feature_column.numeric_column('age')
  edu = tf.feature_column.numeric_column('education_num')
  hours = tf.feature_column.numeric_column('hours_per_week')
  work = tf.feature_column.categorical_column_with_hash_bucket('workclass', 50)
  country = tf.feature_column.categorical_column_with_hash_bucket('native_country', 100)
  return [
      age, edu, hours,
      tf.feature_column.indicator_column(work),
      tf.feature_column.embedding_column(country, dimension=embedding_size),
  ]
