"""Connectionist temporal classification: the loss with its gradient, and the beam search.

A label sequence of length L is extended by blanks to S = 2 L + 1 states. Everything is computed in
float32, in logarithms; NOTHING stands for log(0), because infinities give NaN in differences.

Shapes: log_probs [T, B, C] (time, batch, classes), labels [B, L], lengths [B].
"""

import tensorflow.compat.v1 as tf

NOTHING = -1e30


def loss(log_probs, labels, label_lengths, data_lengths, blank):
    """The negative log probability of each label sequence: float32 [B]; infinite where the data
    is too short for the labels. `log_probs` is float32."""
    states = _States(labels, label_lengths, log_probs.shape[2], blank)
    data_lengths = tf.cast(data_lengths, tf.int32)

    @tf.custom_gradient
    def run(log_probs):
        total, _ = _forward(states, states.scores(log_probs), data_lengths, keep=False)
        possible = total > NOTHING / 2
        value = tf.where_v2(possible, -total, float("inf"))

        def gradient(d_loss):
            with tf.name_scope("PopnnCTCLossGrad"):
                return _gradient(states, log_probs, data_lengths,
                                 tf.where_v2(possible, d_loss, tf.zeros_like(d_loss)))

        return value, gradient

    return run(log_probs)


class _States:
    """The S states of each sequence: their classes, and which may be reached how."""

    def __init__(self, labels, label_lengths, classes, blank):
        labels = tf.cast(labels, tf.int32)
        label_lengths = tf.cast(label_lengths, tf.int32)
        batch, length = labels.shape.as_list()
        self.classes = int(classes)
        self.count = 2 * length + 1
        blanks = tf.fill(tf.shape(labels), blank)
        pairs = tf.reshape(tf.stack([blanks, labels], 2), [batch, 2 * length])
        self.labels = tf.concat([pairs, tf.fill([tf.shape(labels)[0], 1], blank)], 1)
        before = tf.pad(self.labels, [[0, 0], [2, 0]], constant_values=blank)[:, :self.count]
        # From a label straight to the next, where that is another one.
        self.skips = tf.logical_and(tf.not_equal(self.labels, blank),
                                    tf.not_equal(self.labels, before))
        number = tf.range(self.count)[tf.newaxis]
        last = 2 * label_lengths[:, tf.newaxis]
        self.is_first = number < 2
        self.is_last = tf.logical_or(tf.equal(number, last), tf.equal(number, last - 1))

    def scores(self, log_probs):
        """log_probs of the states' classes: [T, B, S]."""
        picked = tf.gather(tf.transpose(log_probs, [1, 0, 2]), self.labels, axis=2, batch_dims=1)
        return tf.transpose(picked, [1, 0, 2])

    def by_class(self, values):
        """The sum of values [T, B, S] over the states of each class: [T, B, C]."""
        return tf.einsum("tbs,bsc->tbc", values, tf.one_hot(self.labels, self.classes))


def _logsumexp(*values):
    most = values[0]
    for one in values[1:]:
        most = tf.maximum(most, one)
    return most + tf.math.log(tf.add_n([tf.exp(one - most) for one in values]))


def _shifted(values, by):
    """Values of the state `by` before (below 0: behind)."""
    count = values.shape.as_list()[1]
    pads = [[0, 0], [by, 0]] if by > 0 else [[0, 0], [0, -by]]
    padded = tf.pad(values, pads, constant_values=NOTHING)
    return padded[:, :count] if by > 0 else padded[:, -by:]


def _loop(steps, body, initial, count, dtype_shape=None):
    """Runs body(t, state) for t in `steps` order; returns the last state, and [count, ...] of what
    it gave if dtype_shape is the shape of that."""
    arrays = tf.TensorArray(tf.float32, count, element_shape=dtype_shape) if dtype_shape else None

    def step(i, state, kept):
        t = steps(i)
        state = body(t, state)
        return [i + 1, state, kept.write(t, state) if arrays is not None else kept]

    _, state, kept = tf.while_loop(
        lambda i, *_: i < count, step, [0, initial, arrays if arrays is not None else 0],
        maximum_iterations=count, parallel_iterations=1)
    return state, kept.stack() if arrays is not None else None


def _forward(states, scores, data_lengths, keep):
    """(log probability [B], alphas [T, B, S] if `keep`): alpha is the log probability of all ways
    to a state, its own score included."""
    count, shape = int(scores.shape[0]), scores.shape[1:]
    scores_at = tf.TensorArray(tf.float32, count).unstack(scores)

    def body(t, alpha):
        skipped = tf.where_v2(states.skips, _shifted(alpha, 2), NOTHING)
        arrived = _logsumexp(alpha, _shifted(alpha, 1), skipped)
        start = tf.where_v2(states.is_first, tf.zeros_like(alpha), NOTHING)
        new = tf.where_v2(tf.equal(t, 0), start, arrived) + scores_at.read(t)
        return tf.where_v2((t < data_lengths)[:, tf.newaxis], tf.maximum(new, NOTHING), alpha)

    alpha, kept = _loop(lambda i: i, body, tf.fill(tf.shape(scores)[1:], NOTHING), count,
                        shape if keep else None)
    ends = tf.where_v2(states.is_last, alpha, NOTHING)
    return tf.reduce_logsumexp(ends, 1), kept


def _backward(states, scores, data_lengths):
    """Betas [T, B, S]: the log probability of all ways from a state to the end, its own score not
    included."""
    count, shape = int(scores.shape[0]), scores.shape[1:]
    scores_at = tf.TensorArray(tf.float32, count, clear_after_read=False).unstack(scores)

    def body(t, beta):
        # What is behind has the score of its own step.
        behind = beta + scores_at.read(tf.minimum(t + 1, count - 1))
        skips = tf.pad(states.skips, [[0, 0], [0, 2]])[:, 2:]
        skipped = tf.where_v2(skips, _shifted(behind, -2), NOTHING)
        arrived = tf.maximum(_logsumexp(behind, _shifted(behind, -1), skipped), NOTHING)
        end = tf.where_v2(states.is_last, tf.zeros_like(beta), NOTHING)
        is_end = tf.equal(t, data_lengths - 1)[:, tf.newaxis]
        is_inside = (t < data_lengths - 1)[:, tf.newaxis]
        return tf.where_v2(is_end, end, tf.where_v2(is_inside, arrived, beta))

    return _loop(lambda i: count - 1 - i, body, tf.fill(tf.shape(scores)[1:], NOTHING), count,
                 shape)[1]


def _gradient(states, log_probs, data_lengths, d_loss):
    """The gradient for log_probs: the probability of each class, minus that of being in it given
    the labels. The first part, as in the original, is what log_softmax() would add for the logits;
    it takes that out of what goes through it."""
    scores = states.scores(log_probs)
    _, alphas = _forward(states, scores, data_lengths, keep=True)
    betas = _backward(states, scores, data_lengths)
    # The sum over the states is the total at every step; that of this step has its rounding.
    there = tf.nn.softmax(alphas + betas)
    times = tf.range(int(scores.shape[0]))[:, tf.newaxis] < data_lengths
    there = tf.where_v2(times[:, :, tf.newaxis], there, 0.0)
    classes = tf.where_v2(times[:, :, tf.newaxis], tf.exp(log_probs), 0.0)
    return (classes - states.by_class(there)) * d_loss[:, tf.newaxis]


def beam_search(log_probs, data_lengths, beam_width, top_paths, blank):
    """The most probable label sequences found with `beam_width` beams.

    Returns (log probabilities float32 [B, P], lengths int32 [B, P], labels int32
    [B, P, T], filled up with the blank) for P = top_paths.
    """
    count, batch, classes = (int(one) for one in log_probs.shape)
    blank %= classes
    width = beam_width
    data_lengths = tf.cast(data_lengths, tf.int32)
    rows_at = tf.TensorArray(tf.float32, count).unstack(log_probs)
    is_first = tf.equal(tf.range(width), 0)[tf.newaxis]
    zeros = tf.zeros([batch, width], tf.int32)

    # A beam: log probability of ending with a blank and not; length; last label; two hashes of
    # the labels and of all but the last; the labels.
    initial = [tf.tile(tf.where_v2(is_first, 0.0, NOTHING), [batch, 1]),
               tf.fill([batch, width], NOTHING), zeros, zeros - 1, zeros + 1, zeros + 1,
               zeros - 1, zeros - 1, tf.fill([batch, width, count], blank)]

    def step(t, *beams):
        new = _beam_step(rows_at.read(t), beams, width, classes, blank)
        goes_on = t < data_lengths
        kept = [tf.where_v2(tf.reshape(goes_on, [batch] + [1] * (one.shape.rank - 1)), one, old)
                for one, old in zip(new, beams)]
        return [t + 1, *kept]

    _, *beams = tf.while_loop(lambda t, *_: t < count, step, [0, *initial],
                              maximum_iterations=count, parallel_iterations=1)
    total, order = tf.math.top_k(_logsumexp(beams[0], beams[1]), top_paths)
    return (total, tf.gather(beams[2], order, batch_dims=1),
            tf.gather(beams[8], order, batch_dims=1))


def _extended(hash_value, label, factor):
    return hash_value * factor + label + 7


def _beam_step(row, beams, width, classes, blank):
    """One step: beams stay or are extended by a label; extensions that another beam is already
    are added to that."""
    ended, open_, lengths, last, hash_a, hash_b, parent_a, parent_b, labels = beams
    batch = row.shape.as_list()[0]
    total = _logsumexp(ended, open_)
    has_last = lengths > 0
    safe_last = tf.maximum(last, 0)
    at_last = tf.where_v2(has_last, tf.gather(row, safe_last, batch_dims=1), NOTHING)
    stay_ended = total + row[:, blank][:, tf.newaxis]
    stay_open = open_ + at_last

    numbers = tf.range(classes)
    repeats = tf.equal(numbers[tf.newaxis, tf.newaxis], last[:, :, tf.newaxis])
    extend = tf.where_v2(repeats, ended[:, :, tf.newaxis], total[:, :, tf.newaxis]) + row[
        :, tf.newaxis]
    extend = tf.where_v2(tf.equal(numbers, blank), NOTHING, extend)

    # is_child[b, i, j]: beam j is beam i and one label more.
    is_child = tf.logical_and(
        tf.equal(hash_a[:, :, tf.newaxis], parent_a[:, tf.newaxis]),
        tf.logical_and(tf.equal(hash_b[:, :, tf.newaxis], parent_b[:, tf.newaxis]),
                       tf.logical_and(has_last[:, tf.newaxis], tf.equal(
                           lengths[:, :, tf.newaxis] + 1, lengths[:, tf.newaxis]))))
    alive = total > NOTHING / 2
    is_child = tf.logical_and(is_child, tf.logical_and(alive[:, :, tf.newaxis],
                                                       alive[:, tf.newaxis]))
    into = tf.gather(extend, tf.tile(safe_last[:, tf.newaxis], [1, width, 1]), batch_dims=2)
    into = tf.reduce_logsumexp(tf.where_v2(is_child, into, NOTHING), 1)
    stay_open = _logsumexp(stay_open, into)
    merged = tf.matmul(tf.cast(is_child, tf.float32), tf.one_hot(safe_last, classes)) > 0.5
    extend = tf.where_v2(merged, NOTHING, extend)

    stay = _logsumexp(stay_ended, stay_open)
    every = tf.concat([stay, tf.reshape(extend, [batch, width * classes])], 1)
    _, chosen = tf.math.top_k(every, width)
    stays = chosen < width
    number = tf.maximum(chosen - width, 0)
    beam = tf.where_v2(stays, chosen, number // classes)
    label = number % classes

    def of(values):
        return tf.gather(values, beam, batch_dims=1)

    score = tf.gather(every, chosen, batch_dims=1)
    places = tf.range(labels.shape.as_list()[2])
    place = tf.logical_and(tf.equal(places, of(lengths)[:, :, tf.newaxis]),
                           tf.logical_not(stays)[:, :, tf.newaxis])
    return [tf.maximum(tf.where_v2(stays, of(stay_ended), NOTHING), NOTHING),
            tf.maximum(tf.where_v2(stays, of(stay_open), score), NOTHING),
            tf.where_v2(stays, of(lengths), of(lengths) + 1),
            tf.where_v2(stays, of(last), label),
            tf.where_v2(stays, of(hash_a), _extended(of(hash_a), label, 1000003)),
            tf.where_v2(stays, of(hash_b), _extended(of(hash_b), label, 69069)),
            tf.where_v2(stays, of(parent_a), of(hash_a)),
            tf.where_v2(stays, of(parent_b), of(hash_b)),
            tf.where_v2(place, label[:, :, tf.newaxis], of(labels))]
