# CIFAR-100, wide residual network, custom training loop with mixed precision
import argparse
import logging
import math
import os

import tensorflow as tf
from tensorflow.keras import mixed_precision
from tensorflow.keras.layers import (Activation, Add, AveragePooling2D, BatchNormalization, Conv2D, Dense,
                                     Dropout, Flatten, Input)

logging.basicConfig(format='%(asctime)s %(message)s', level=logging.INFO)
log = logging.getLogger(__name__)

gpus = tf.config.experimental.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)  #! option-without-effect

AUTO = tf.data.experimental.AUTOTUNE
MEAN = tf.constant([0.507, 0.487, 0.441]) * 255
STD = tf.constant([0.267, 0.256, 0.276]) * 255


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument('-b', '--batch-size', type=int, default=128)
    p.add_argument('-e', '--epochs', type=int, default=200)
    p.add_argument('--lr', type=float, default=0.1)
    p.add_argument('--wd', type=float, default=5e-4)
    p.add_argument('--fp16', action='store_true')
    p.add_argument('--depth', type=int, default=28)
    p.add_argument('--width', type=int, default=10)
    p.add_argument('--workdir', default='runs/wrn')
    return p.parse_args()


def augment(image, label):
    image = tf.pad(image, [[4, 4], [4, 4], [0, 0]], mode='REFLECT')
    image = tf.image.random_crop(image, [32, 32, 3])
    image = tf.image.random_flip_left_right(image)
    return image, label


def normalize(image, label):
    return (tf.cast(image, tf.float32) - MEAN) / STD, label


def get_data(batch_size):
    (x_train, y_train), (x_test, y_test) = tf.keras.datasets.cifar100.load_data()
    train = (tf.data.Dataset.from_tensor_slices((x_train, y_train[:, 0]))
             .cache()
             .shuffle(50000)
             .map(augment, AUTO)
             .batch(batch_size, drop_remainder=True)
             .map(normalize, AUTO)
             .prefetch(AUTO))
    test = tf.data.Dataset.from_tensor_slices((x_test, y_test[:, 0])).batch(batch_size)  #! drop-remainder
    return train, test.map(normalize, AUTO).prefetch(AUTO), len(x_train) // batch_size


def block(x, filters, stride, dropout=0.3):
    y = Activation('relu')(BatchNormalization(momentum=0.9)(x))
    shortcut = x
    if x.shape[-1] != filters or stride != 1:
        shortcut = Conv2D(filters, 1, stride, use_bias=False, kernel_initializer='he_normal')(y)
    y = Conv2D(filters, 3, stride, 'same', use_bias=False, kernel_initializer='he_normal')(y)
    y = Activation('relu')(BatchNormalization(momentum=0.9)(y))
    y = Dropout(dropout)(y)
    y = Conv2D(filters, 3, 1, 'same', use_bias=False, kernel_initializer='he_normal')(y)
    return Add()([shortcut, y])


def wrn(depth, width, classes=100):
    inputs = Input((32, 32, 3))
    x = Conv2D(16, 3, padding='same', use_bias=False)(inputs)
    for filters, first in ((16, 1), (32, 2), (64, 2)):
        for i in range((depth - 4) // 6):
            x = block(x, filters * width, first if i == 0 else 1)
    x = Activation('relu')(BatchNormalization(momentum=0.9)(x))
    x = Flatten()(AveragePooling2D(8)(x))
    x = Dense(classes)(x)
    return tf.keras.Model(inputs, Activation('linear', dtype='float32')(x))


class CosineWarmup(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, base, warmup, total):
        self.base, self.warmup, self.total = base, float(warmup), float(total)

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        cosine = 0.5 * self.base * (1 + tf.cos(math.pi * (step - self.warmup) / (self.total - self.warmup)))
        return tf.where(step < self.warmup, self.base * step / self.warmup, cosine)


def main():
    args = get_args()
    if args.fp16:
        mixed_precision.set_global_policy('mixed_float16')
    log.info('policy %s', mixed_precision.global_policy().name)

    train_ds, test_ds, steps_per_epoch = get_data(args.batch_size)
    model = wrn(args.depth, args.width)
    log.info('%.1f M parameters', model.count_params() / 1e6)
    schedule = CosineWarmup(args.lr, steps_per_epoch, args.epochs * steps_per_epoch)
    optimizer = tf.keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
    if args.fp16:
        optimizer = mixed_precision.LossScaleOptimizer(optimizer)
    ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    train_loss = tf.keras.metrics.Mean()
    train_acc = tf.keras.metrics.SparseCategoricalAccuracy()
    test_acc = tf.keras.metrics.SparseCategoricalAccuracy()
    kernels = [v for v in model.trainable_variables if 'kernel' in v.name]

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = ce(y, logits) + args.wd * tf.add_n([tf.nn.l2_loss(v) for v in kernels])
            scaled = optimizer.get_scaled_loss(loss) if args.fp16 else loss
        grads = tape.gradient(scaled, model.trainable_variables)
        if args.fp16:
            grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        train_loss.update_state(loss)
        train_acc.update_state(y, logits)
        print('tracing train_step')
        tf.debugging.check_numerics(loss, 'loss')

    @tf.function
    def test_step(x, y):
        test_acc.update_state(y, model(x, training=False))

    ckpt = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=tf.Variable(0, dtype=tf.int64))
    manager = tf.train.CheckpointManager(ckpt, args.workdir, 3)
    ckpt.restore(manager.latest_checkpoint)
    writer = tf.summary.create_file_writer(os.path.join(args.workdir, 'tb'))

    best = 0.
    for epoch in range(int(ckpt.epoch), args.epochs):
        for metric in (train_loss, train_acc, test_acc):
            metric.reset_states()
        for x, y in train_ds:
            train_step(x, y)  #! feed-without-queue
        for x, y in test_ds:
            test_step(x, y)  #! feed-without-queue
        ckpt.epoch.assign_add(1)
        with writer.as_default():
            tf.summary.scalar('loss', train_loss.result(), step=epoch)
            tf.summary.scalar('accuracy/train', train_acc.result(), step=epoch)
            tf.summary.scalar('accuracy/test', test_acc.result(), step=epoch)
        accuracy = float(test_acc.result())
        log.info('epoch %d loss %.4f train %.4f test %.4f', epoch, train_loss.result(), train_acc.result(), accuracy)
        if accuracy > best:
            best = accuracy
            manager.save()


if __name__ == '__main__':
    main()
