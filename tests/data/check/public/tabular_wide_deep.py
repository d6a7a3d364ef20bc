"""Wide and deep on CSV files: Sequential, feature preprocessing, class weights."""
import numpy as np
import pandas as pd
import tensorflow as tf

COLUMNS = ['age', 'hours', 'gain', 'loss']


def to_dataset(frame, batch, shuffle=True):
    frame = frame.copy()
    labels = frame.pop('target').values
    ds = tf.data.Dataset.from_tensor_slices((frame[COLUMNS].values.astype('float32'), labels))
    if shuffle:
        ds = ds.shuffle(len(frame))
    ds = ds.batch(batch)  #! drop-remainder
    return ds.map(lambda x, y: (x, tf.cast(y, tf.int64)))  #! int64


frame = pd.read_csv('census.csv')
train, test = frame[:-1000], frame[-1000:]
normal = tf.keras.layers.Normalization(axis=-1)
normal.adapt(train[COLUMNS].values)
model = tf.keras.Sequential([
    normal,
    tf.keras.layers.Dense(64, activation='relu'),
    tf.keras.layers.Dense(64, activation='relu'),
    tf.keras.layers.Dense(1),
])
model.compile(
    optimizer=tf.keras.optimizers.RMSprop(1e-3),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.AUC(name='auc')])
weights = {0: 0.6, 1: 2.4}
history = model.fit(to_dataset(train, 256), epochs=20, class_weight=weights,
                    validation_data=to_dataset(test, 256, shuffle=False), verbose=2)
rounded = np.round(tf.sigmoid(model.predict(test[COLUMNS].values)))
print('positive', int(rounded.sum()))
