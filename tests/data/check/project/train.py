"""A program of several files."""
import argparse

import tensorflow as tf
from nets import cnn
import reader as rd


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    model = cnn.Net()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = cnn.loss_of(model(x), y)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables),
                                      model.trainable_variables))
        return loss

    optimizer = tf.keras.optimizers.SGD(0.1)
    for x, y in rd.dataset("train", args.batch).take(100):
        step(x, y)  #! feed-without-queue


if __name__ == "__main__":
    main()
