"""Twenty steps of training: the loss curve follows that of stock TensorFlow.

Both start from the same weights and see the same data; TensorFlow runs its own CPU kernels, without
XLA. A step's loss is compared before its update, so the first loss tests the forward pass alone,
and the second one gradients and update as well.

The two round differently, and training magnifies any difference: a rounding error in a weight changes
the next gradient, and with rectifiers, pooling and a batch normalised over few numbers the change
grows with every step. So the bound starts at a few roundings and grows by a factor a step (`growth`);
the last losses still agree to a small part of how far the loss has fallen, which is what is checked
in the end.
"""

import os

import numpy as np
import pytest
import tensorflow as tf
from networks import Lstm, ResNet50, images, sentences
from programs import Program, lower_step

STEPS = 20


def curves(make, batches, steps=STEPS):
    """The losses of our library and of TensorFlow, and the variables after the last step."""
    network = make()
    x, y = (tf.constant(array) for array in batches[0])
    hlo, ordered, _ = lower_step(network.step, network.variables.all, [x, y])
    program = Program(hlo, batches[0], ordered)
    order = [next(i for i, v in enumerate(network.variables.all) if v is one) for one in ordered]

    stock = make()
    train = tf.function(stock.step, autograph=False)
    ours, theirs = [], []
    for step in range(steps):
        batch = batches[step % len(batches)]
        ours.append(float(program.step(batch)[0]))
        theirs.append(float(train(*map(tf.constant, batch))))
    ends = [(program.values[at], stock.variables.all[i].numpy()) for at, i in enumerate(order)]
    if os.environ.get("TREMULA_SHOW_CURVES"):
        for a, b in zip(ours, theirs):
            print(f"{a:.7f} {b:.7f} {abs(a - b) / b:.2e}")
    return np.array(ours), np.array(theirs), ends


def check(ours, theirs, first, growth, last):
    """`first`: relative difference of the first loss; `last`: share of the fall, in the end."""
    assert theirs[-4:].mean() < .8 * theirs[:4].mean(), "stock TensorFlow does not learn"
    allowed = np.minimum(first * growth ** np.arange(len(ours)), last) * np.abs(theirs).max()
    differences = np.abs(ours - theirs)
    wrong = np.flatnonzero(~(differences <= allowed))
    assert wrong.size == 0, "\n".join(
        f"step {i}: {ours[i]:.7f} instead of {theirs[i]:.7f} (allowed {allowed[i]:.2g})"
        for i in wrong)


def test_resnet50():
    ours, theirs, ends = curves(lambda: ResNet50(), images(64, 4))
    check(ours, theirs, first=1e-5, growth=2.0, last=.05)


def test_lstm():
    ours, theirs, ends = curves(lambda: Lstm(), sentences(12, 8))
    check(ours, theirs, first=1e-6, growth=1.5, last=.001)


def test_lstm_halves():
    ours, theirs, ends = curves(lambda: Lstm(dtype=tf.float16), sentences(12, 8))
    check(ours, theirs, first=1e-3, growth=1.2, last=.02)


@pytest.mark.long
def test_resnet50_large():
    ours, theirs, _ = curves(lambda: ResNet50(classes=1000), images(224, 8, classes=1000))
    check(ours, theirs, first=1e-5, growth=2.0, last=.05)
