"""Trains a small DeepLab on crops of satellite images.

    python train.py --config configs/base.json
"""
import argparse
import json
import pathlib

import tensorflow as tf

import data
import losses
from network import DeepLab
from utils.meter import AverageMeter, IoU


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument('--config', type=pathlib.Path)
    parser.add_argument('--records', default='records/*.tfrec')
    parser.add_argument('--resume', action='store_true')
    args = parser.parse_args()
    config = {'batch': 8, 'crop': 256, 'classes': 6, 'epochs': 40, 'lr': 1e-3, 'steps': 500}
    if args.config:
        config.update(json.loads(args.config.read_text()))
    return args, config


class Trainer:
    def __init__(self, config):
        self.config = config
        self.strategy = tf.distribute.MirroredStrategy()  #! gpu-only
        with self.strategy.scope():
            self.model = DeepLab(config['classes'])
            self.optimizer = tf.keras.optimizers.Adam(config['lr'])
            self.iou = IoU(config['classes'])
        self.checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.optimizer)

    def _step(self, images, labels):
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = losses.focal(labels, logits) + 0.5 * losses.lovasz(labels, logits)
            loss += tf.add_n(self.model.losses) if self.model.losses else 0.
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss

    @tf.function
    def train_step(self, batch):
        per_replica = self.strategy.run(self._step, args=batch)
        return self.strategy.reduce(tf.distribute.ReduceOp.MEAN, per_replica, axis=None)

    @tf.function
    def eval_step(self, images, labels):
        logits = self.model(images, training=False)
        self.iou.update(labels, tf.argmax(logits, axis=-1))

    def fit(self, train_ds, val_ds):
        manager = tf.train.CheckpointManager(self.checkpoint, 'ckpts', max_to_keep=5)
        train_ds = self.strategy.experimental_distribute_dataset(train_ds)
        for epoch in range(self.config['epochs']):
            meter = AverageMeter()
            for number, batch in enumerate(train_ds):
                loss = self.train_step(batch)  #! feed-without-queue
                meter.add(float(loss))  #! host-round-trip
                if number == self.config['steps']:
                    break
            for images, labels in val_ds:
                self.eval_step(images, labels)  #! feed-without-queue
            print(f'epoch {epoch}: loss {meter.mean:.4f}, mIoU {self.iou.result():.3f}')
            self.iou.reset()
            manager.save()


def main():
    args, config = parse()
    train_ds = data.pipeline(args.records, config, training=True)
    val_ds = data.pipeline(args.records.replace('train', 'val'), config, training=False)
    Trainer(config).fit(train_ds, val_ds)


if __name__ == '__main__':
    main()
