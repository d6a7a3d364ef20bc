"""python train.py --epochs 5"""
import argparse
import datetime

import tensorflow as tf

import reviews
from model import build


def main(args):
    model = build(classes=args.classes)
    model.compile(
        optimizer=tf.keras.optimizers.Adam(learning_rate=args.lr),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=['accuracy'])
    logs = 'logs/' + datetime.datetime.now().strftime('%Y%m%d-%H%M%S')
    model.fit(
        reviews.dataset(args.train, args.batch, True), epochs=args.epochs,
        validation_data=reviews.dataset(args.test, args.batch, False),
        callbacks=[tf.keras.callbacks.TensorBoard(logs),
                   tf.keras.callbacks.EarlyStopping(patience=2)])
    model.save('saved_model')


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--train', default='train.csv')
    parser.add_argument('--test', default='test.csv')
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--classes', type=int, default=2)
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--lr', type=float, default=1e-3)
    main(parser.parse_args())
