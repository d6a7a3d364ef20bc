"""Training programs of published networks: what one IPU computes of a mini-batch, as HLO modules.

A stage is a function that makes a graph and returns its activations and its result. write() lowers
two programs of it: the forward pass, which recomputation runs a second time, and a step, which is
forward pass, gradients, and the sums to which accumulation adds these. What another IPU sends (the
activations, the gradient of the result) is an input. The layers are those of the IPU's library
where the published programs have such: group and layer norms, GELU, dropout.
"""

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import func_graph
from tensorflow.python.ipu import nn_ops, normalization_ops, rand_ops

from tremula.tf.inner import graphs
from tremula.tool import lower

HALF = tf.float16


# ---- Layers --------------------------------------------------------------------------------------

def _weight(name, shape, dtype=HALF):
    return tf.get_variable(name, shape, dtype)


def batch_norm(x):
    parameters = [_weight(one, [int(x.shape[-1])], tf.float32)
                  for one in ("scale", "offset", "mean", "variance")]
    return tf.nn.fused_batch_norm(x, *parameters, is_training=True, exponential_avg_factor=0.01)[0]


def group_norm(x):
    return normalization_ops.group_norm(x, groups=32)


def _unit(name, x, size, filters, norm, stride=1, groups=1, activate=True):
    with tf.variable_scope(name):
        kernel = _weight("kernel", [size, size, int(x.shape[-1]) // groups, filters])
        x = norm(tf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME"))
        return tf.nn.relu(x) if activate else x


def stem(x, norm=batch_norm):
    """The first layers of a ResNet; x [images, 224, 224, 4]."""
    return tf.nn.max_pool2d(_unit("stem", x, 7, 64, norm, 2), 3, 2, "SAME")


def blocks(counts, groups=1, width=1):
    """The residual blocks of a ResNet v1.5 or ResNeXt: functions of (y, norm)."""
    def make(stage, block):
        filters, stride = 64 << stage, 2 if stage and not block else 1

        def run(y, norm=batch_norm):
            with tf.variable_scope(f"stage{stage + 1}_{block + 1}"):
                skip = y if block else _unit("skip", y, 1, 4 * filters, norm, stride,
                                             activate=False)
                y = _unit("reduce", y, 1, filters * width, norm)
                y = _unit("window", y, 3, filters * width, norm, stride, groups)
                return tf.nn.relu(_unit("expand", y, 1, 4 * filters, norm, activate=False) + skip)
        return run

    return [make(stage, block) for stage, count in enumerate(counts) for block in range(count)]


def classes(y, norm=None):
    """The mean of each image's channels, and its 1000 logits."""
    del norm
    y = tf.reduce_mean(y, [1, 2])
    return tf.matmul(y, _weight("classes", [int(y.shape[-1]), 1000])) + _weight("bias", [1000])


def residual(images, counts, groups=1, width=1, norm=batch_norm):
    """ResNet v1.5 and ResNeXt of 224 x 224 images, four channels."""
    y = stem(tf.placeholder(HALF, [images, 224, 224, 4], "x"), norm)
    for block in blocks(counts, groups, width):
        y = block(y, norm)
    return [], classes(y)


def _dense(name, x, size):
    with tf.variable_scope(name):
        return tf.matmul(x, _weight("w", [int(x.shape[-1]), size])) + _weight("b", [size])


def _layer_norm(name, x):
    with tf.variable_scope(name):
        return normalization_ops.layer_norm(x, epsilon=1e-3)


def _attention(x, batch, heads, mask, drop):
    rows, width = (int(size) for size in x.shape)
    length, depth = rows // batch, width // heads
    query, key, value = (
        tf.transpose(tf.reshape(one, [batch, length, heads, depth]), [0, 2, 1, 3])
        for one in tf.split(_dense("qkv", x, 3 * width), 3, -1))
    scores = tf.matmul(query, key, transpose_b=True) * HALF.as_numpy_dtype(depth ** -0.5)
    scores = scores if mask is None else scores + mask
    mixed = tf.transpose(tf.matmul(drop(tf.nn.softmax(scores)), value), [0, 2, 1, 3])
    return drop(_dense("project", tf.reshape(mixed, [rows, width]), width))


def _dropout(x):
    return rand_ops.dropout(x, rate=0.1)


def bert(batch, length, width, heads, layers):
    """Layers of BERT's encoder."""
    x = tf.placeholder(HALF, [batch * length, width], "x")
    mask = tf.placeholder(HALF, [batch, 1, 1, length], "mask")
    y = x
    for layer in range(layers):
        with tf.variable_scope(f"layer{layer}"):
            y = _layer_norm("first", y + _attention(y, batch, heads, mask, _dropout))
            wide = nn_ops.gelu(_dense("up", y, 4 * width))
            y = _layer_norm("second", y + _dropout(_dense("down", wide, width)))
    return [x], y


def vit(images, layers=3):
    """The first stage of ViT-Base: patches of 16 x 16 become tokens, then layers, whose norms come
    first. There is no dropout."""
    x = tf.placeholder(HALF, [images, 224, 224, 3], "x")
    kernel = _weight("patches", [16, 16, 3, 768])
    y = tf.nn.conv2d(x, kernel, [1, 16, 16, 1], "VALID")
    y = tf.reshape(y, [images, 196, 768]) + _weight("bias", [768])
    y = tf.concat([tf.broadcast_to(_weight("class", [1, 1, 768]), [images, 1, 768]), y], 1)
    y = tf.reshape(y + _weight("positions", [197, 768]), [images * 197, 768])
    for layer in range(layers):
        with tf.variable_scope(f"layer{layer}"):
            y += _attention(_layer_norm("first", y), images, 12, None, tf.identity)
            wide = nn_ops.gelu(_dense("up", _layer_norm("second", y), 4 * 768))
            y += _dense("down", wide, 768)
    return [], y


# ---- Programs ------------------------------------------------------------------------------------

def write(stage, path, step):
    """Writes the module of a stage: its step, or only its forward pass."""
    graph = func_graph.FuncGraph("stage")
    with graphs.static_program(graph):
        weights = []

        def make_input(getter, name, shape, dtype, **rest):
            del getter, rest
            weights.append(tf.placeholder(dtype, shape, "weight/" + name))
            return weights[-1]

        with tf.variable_scope("", custom_getter=make_input):
            activations, result = stage()
        given = [one.outputs[0] for one in graph.get_operations() if one.type == "Placeholder"]
        outputs, updates = [result], []
        if step:
            outgoing = tf.placeholder(result.dtype, result.shape, "gradient")
            given.append(outgoing)
            gradients = tf.gradients(result, [*activations, *weights], outgoing)
            outputs = gradients[:len(activations)]
            for weight, gradient in zip(weights, gradients[len(activations):]):
                if gradient is None:  # moving averages, which the layer's other results update
                    continue
                given.append(tf.placeholder(weight.dtype, weight.shape, "sum"))
                updates.append((len(outputs), len(given) - 1))
                outputs.append(given[-1] + gradient)
        module = lower.lower(graph, given, outputs, [one.op.name for one in given],
                             [str(number) for number in range(len(outputs))], updates)
    with open(path, "wb") as file:
        file.write(module)
