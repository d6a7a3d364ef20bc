import argparse, pathlib
import tensorflow as tf
from tensorflow.keras import Model, mixed_precision
from tensorflow.keras.layers import *
from tensorflow.keras.callbacks import ModelCheckpoint, EarlyStopping, ReduceLROnPlateau, TensorBoard


def conv_block(t, n, drop=0.0):
    t = Conv2D(n, 3, padding='same', kernel_initializer='he_normal')(t)
    t = BatchNormalization()(t)
    t = Activation('relu')(t)
    if drop:
        t = SpatialDropout2D(drop)(t)
    t = Conv2D(n, 3, padding='same', kernel_initializer='he_normal')(t)
    t = BatchNormalization()(t)
    return Activation('relu')(t)


def unet(size, classes, base=16, depth=3):
    inp = Input((size, size, 3))
    t, skips = inp, []
    for d in range(depth):
        t = conv_block(t, base * 2 ** d)
        skips.append(t)
        t = MaxPooling2D(2)(t)
    t = conv_block(t, base * 2 ** depth, 0.2)
    for d in reversed(range(depth)):
        t = Conv2DTranspose(base * 2 ** d, 2, strides=2, padding='same')(t)
        t = Concatenate()([t, skips[d]])
        t = conv_block(t, base * 2 ** d)
    t = Conv2D(classes, 1)(t)
    out = Activation('softmax', dtype='float32')(t)
    return Model(inp, out, name='unet')


def dice_coef(y_true, y_pred, smooth=1.0):
    y_true = tf.cast(y_true, tf.float32)
    inter = tf.reduce_sum(y_true * y_pred, axis=[1, 2])
    union = tf.reduce_sum(y_true, axis=[1, 2]) + tf.reduce_sum(y_pred, axis=[1, 2])
    return tf.reduce_mean((2. * inter + smooth) / (union + smooth))


def dice_loss(y_true, y_pred):
    return 1 - dice_coef(y_true, y_pred)


def load(img, mask, size, classes):
    img = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(img), channels=3), (size, size)) / 255.
    mask = tf.image.resize(tf.io.decode_png(tf.io.read_file(mask), channels=1), (size, size), method='nearest')
    return img, tf.one_hot(tf.squeeze(mask, -1), classes)


def synthetic(size, classes, n):
    for _ in range(n):
        yield tf.random.uniform((size, size, 3)), tf.one_hot(tf.random.uniform((size, size), 0, classes, tf.int32), classes)


def main(args):
    if args.amp:
        mixed_precision.set_global_policy('mixed_float16')
    if args.data:
        imgs = sorted(map(str, pathlib.Path(args.data, 'images').glob('*.jpg')))
        masks = sorted(map(str, pathlib.Path(args.data, 'masks').glob('*.png')))
        ds = tf.data.Dataset.from_tensor_slices((imgs, masks)).map(
            lambda i, m: load(i, m, args.size, args.classes), num_parallel_calls=tf.data.AUTOTUNE)
    else:
        ds = tf.data.Dataset.from_generator(
            lambda: synthetic(args.size, args.classes, 64),
            output_signature=(tf.TensorSpec((args.size, args.size, 3), tf.float32),
                              tf.TensorSpec((args.size, args.size, args.classes), tf.float32)))
    train = ds.skip(16).shuffle(32).repeat().batch(args.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    val = ds.take(16).batch(args.batch, drop_remainder=True)
    model = unet(args.size, args.classes)
    model.summary()
    model.compile(optimizer=tf.keras.optimizers.Adam(args.lr), loss=dice_loss, metrics=[dice_coef, 'accuracy'])
    model.fit(train, validation_data=val, epochs=args.epochs, steps_per_epoch=12, callbacks=[
        ModelCheckpoint('unet_best.h5', save_best_only=True, monitor='val_loss'),
        EarlyStopping(patience=8, restore_best_weights=True),
        ReduceLROnPlateau(factor=0.3, patience=3),
        TensorBoard('logs')])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='U-Net')
    parser.add_argument('--data')
    parser.add_argument('--size', type=int, default=64)
    parser.add_argument('--classes', type=int, default=4)
    parser.add_argument('--batch', type=int, default=8)
    parser.add_argument('--epochs', type=int, default=30)
    parser.add_argument('--lr', type=float, default=1e-3)
    parser.add_argument('--amp', action='store_true')
    main(parser.parse_args())
