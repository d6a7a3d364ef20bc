from __future__ import annotations

import dataclasses
import typing as t

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    widths: t.Tuple[int, ...] = (32, 64, 128)
    batch: int = 16
    steps: int = 200
    lr: float = 3e-4
    half: bool = True


class ConvNet(tf.Module):
    """A network of plain tf.Module, without Keras."""

    def __init__(self, cfg: TrainConfig, classes: int = 10, name: t.Optional[str] = None):
        super().__init__(name)
        self.dtype = tf.float16 if cfg.half else tf.float32
        rng = tf.random.Generator.from_seed(7)
        ins = (3, *cfg.widths[:-1])
        self.kernels = [tf.Variable(rng.normal([3, 3, i, o], stddev=(2 / (9 * i)) ** .5)) for i, o in zip(ins, cfg.widths)]
        self.head = tf.Variable(tf.zeros([cfg.widths[-1], classes]))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        x = tf.cast(x, self.dtype)
        for k in self.kernels:
            x = tf.nn.relu(tf.nn.conv2d(x, tf.cast(k, self.dtype), 2, "SAME"))
        x = tf.reduce_mean(x, (1, 2))
        return tf.cast(x, tf.float32) @ self.head


class Trainer:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.net = ConvNet(cfg)
        self.slots = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self.net.trainable_variables]
        self.loss_scale = tf.Variable(2. ** 12, trainable=False)

    def data(self) -> tf.data.Dataset:
        def synth(i):
            s = tf.stack([i, i])
            x = tf.random.stateless_uniform([32, 32, 3], s)
            return x, tf.random.stateless_uniform([], s, 0, 10, tf.int32)
        ds = tf.data.Dataset.range(100_000).map(synth, tf.data.AUTOTUNE)
        return ds.batch(self.cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.net(x))
            loss = tf.reduce_mean(losses)
            scaled = loss * self.loss_scale
        grads = tape.gradient(scaled, self.net.trainable_variables)
        grads = [g / self.loss_scale for g in grads]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in grads])
        if finite:
            for v, s, g in zip(self.net.trainable_variables, self.slots, grads):
                s.assign(0.9 * s + g)
                v.assign_sub(self.cfg.lr * s)
        else:
            self.loss_scale.assign(self.loss_scale / 2.)
        return loss

    def run(self) -> None:
        seen = tf.keras.metrics.Mean()
        for n, (x, y) in enumerate(self.data().take(self.cfg.steps)):
            seen.update_state(self.step(x, y))  #! feed-without-queue
            if n % 50 == 0:
                tf.print("step", n, "loss", seen.result())
                seen.reset_state()


if __name__ == "__main__":
    Trainer(TrainConfig()).run()
