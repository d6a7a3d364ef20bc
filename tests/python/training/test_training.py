"""Twenty steps of training: the loss curve follows that of stock TensorFlow.

Both start from the same weights and see the same data; TensorFlow runs its own CPU kernels, without
XLA. A step's loss is compared before its update, so the first loss tests the forward pass alone,
and the second one gradients and update as well.

The two round differently, and training magnifies any difference: a rounding error in a weight
changes the next gradient, and with rectifiers, pooling and a batch normalised over few numbers the
change grows with every step. So the bound is a few roundings of float32 (2**-24 = 6e-8, or of
float16, 5e-4, averaged over a batch) for the first loss, grows by a factor a step, and ends at
`last`; each is about ten times what was measured. All are parts of the largest loss.

The variables after the last step (weights, momenta, moving averages) agree to `variables`, a part
of their length. That bound is wider in ResNet-50: an activation that is zero but for rounding
passes a gradient on one side and not on the other. Against float64, gradients of one step are off
by 1e-7 to 5e-4 that way, in TensorFlow as often as in ours.
"""

import numpy as np
import pytest
import tensorflow as tf
from trained_networks import Lstm, ResNet50, images, sentences
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
    return np.array(ours), np.array(theirs), ends


def check(ours, theirs, ends, first, growth, last, variables):
    """The bounds: see above."""
    assert theirs[-4:].mean() < .8 * theirs[:4].mean(), "stock TensorFlow does not learn"
    allowed = np.minimum(first * growth ** np.arange(len(ours)), last) * np.abs(theirs).max()
    wrong = np.flatnonzero(~(np.abs(ours - theirs) <= allowed))
    assert wrong.size == 0, "\n".join(
        f"step {i}: {ours[i]:.7f} instead of {theirs[i]:.7f} (allowed {allowed[i]:.2g})"
        for i in wrong)
    ours, theirs = (np.concatenate([np.ravel(pair[side]) for pair in ends]) for side in (0, 1))
    assert np.linalg.norm(ours - theirs) <= variables * np.linalg.norm(theirs)


def test_resnet50():
    check(*curves(ResNet50, images(64, 4)), first=1e-6, growth=4.0, last=5e-3, variables=.03)


@pytest.mark.smoke
def test_lstm():
    check(*curves(Lstm, sentences(12, 8)), first=3e-7, growth=1.2, last=1e-5,
          variables=1e-4)


def test_lstm_halves():
    check(*curves(lambda: Lstm(dtype=tf.float16), sentences(12, 8)),
          first=1e-5, growth=1.3, last=1e-3, variables=.01)


@pytest.mark.long
def test_resnet50_large():
    check(*curves(lambda: ResNet50(classes=1000), images(224, 8, classes=1000)),
          first=1e-6, growth=1.5, last=1e-4, variables=.01)


@pytest.mark.long
def test_resnet50_halves():
    """TensorFlow's own convolutions of halves take 20 seconds a step."""
    check(*curves(lambda: ResNet50(dtype=tf.float16), images(64, 4, batches=2), steps=8),
          first=5e-3, growth=1.5, last=.1, variables=.1)
