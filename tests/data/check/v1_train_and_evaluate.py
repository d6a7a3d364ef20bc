import tensorflow as tf

feature = tf.feature_column.numeric_column("x", shape=[8])


def train_input():
    ds = tf.data.Dataset.from_tensors(({"x": tf.zeros([8])}, 1)).repeat()
    return ds.batch(16, True).prefetch(1)


estimator = tf.estimator.DNNClassifier([16, 16], [feature])
train_spec = tf.estimator.TrainSpec(train_input, max_steps=100)
eval_spec = tf.estimator.EvalSpec(lambda: train_input(), steps=2)
tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
