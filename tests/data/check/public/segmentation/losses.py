import tensorflow as tf

IGNORE = 255


def focal(labels, logits, gamma=2.0):
    """Focal loss of the labelled pixels."""
    valid = tf.not_equal(labels, IGNORE)
    labels = tf.boolean_mask(labels, valid)  #! value-dependent-shape
    logits = tf.boolean_mask(logits, valid)  #! value-dependent-shape
    ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    p = tf.exp(-ce)
    return tf.reduce_mean((1.0 - p) ** gamma * ce)


def lovasz_grad(sorted_truth):
    total = tf.reduce_sum(sorted_truth)
    intersection = total - tf.cumsum(sorted_truth)
    union = total + tf.cumsum(1. - sorted_truth)
    jaccard = 1. - intersection / union
    return tf.concat([jaccard[:1], jaccard[1:] - jaccard[:-1]], 0)


def lovasz(labels, logits):
    """Lovász-softmax over the classes of a batch, flat."""
    classes = logits.shape[-1]
    probabilities = tf.reshape(tf.nn.softmax(logits), [-1, classes])
    labels = tf.reshape(labels, [-1])
    result = []
    for c in range(classes):
        truth = tf.cast(tf.equal(labels, c), tf.float32)
        errors = tf.abs(truth - probabilities[:, c])
        errors_sorted, order = tf.nn.top_k(errors, k=tf.shape(errors)[0])
        result.append(tf.tensordot(errors_sorted, lovasz_grad(tf.gather(truth, order)), 1))
    return tf.add_n(result) / float(classes)
