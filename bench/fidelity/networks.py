"""Whole networks against Graphcore's publications: rates, and networks that are known to fit.

    python bench/fidelity/networks.py [--update FILE.md]

Builds the networks as graphs of TensorFlow, plans them with `tremula plan`, and prints two tables,
or puts them between the marks of a document: step times of the stages in stages.py, and whether
networks fit. Needs TensorFlow and takes some minutes. No formula is fitted to these numbers.
docs/fidelity.md has their sources.
"""

import argparse
import dataclasses
import json
import os
import tempfile

import tensorflow.compat.v1 as tf

import stages
from tool import plan, replace_between

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "targets",
                       "bow.json"), encoding="utf-8") as _file:
    BOW = json.load(_file)
HALF = tf.float16
MARKS = "<!-- networks: begin -->\n", "<!-- networks: end -->"


# ---- The networks --------------------------------------------------------------------------------

def _variable(name, shape, dtype=HALF):
    return tf.get_variable(name, shape, dtype, tf.zeros_initializer(), use_resource=True)


def _unit(name, x, size, filters, stride=1, groups=1, activate=True):
    """A convolution, batch normalisation and ReLU; x [batch, height, width, channels]."""
    with tf.variable_scope(name):
        kernel = _variable("kernel", [size, size, int(x.shape[-1]) // groups, filters])
        x = tf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME")
        parameters = [_variable(one, [filters], tf.float32)
                      for one in ("scale", "offset", "mean", "variance")]
        x = tf.nn.fused_batch_norm(x, *parameters, is_training=False)[0]
        return tf.nn.relu(x) if activate else x


def residual(blocks, groups=1, width=1):
    """ResNet v1.5 and ResNeXt of 224 x 224 images, four channels; classes, softmax."""
    x = tf.placeholder(HALF, [None, 224, 224, 4], "x")
    y = tf.nn.max_pool2d(_unit("stem", x, 7, 64, 2), 3, 2, "SAME")
    for stage, count in enumerate(blocks):
        filters = 64 << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            with tf.variable_scope(f"stage{stage + 1}_{block + 1}"):
                skip = y if block else _unit("skip", y, 1, 4 * filters, stride, activate=False)
                y = _unit("reduce", y, 1, filters * width)
                y = _unit("window", y, 3, filters * width, stride, groups)
                y = tf.nn.relu(_unit("expand", y, 1, 4 * filters, activate=False) + skip)
    y = tf.reduce_mean(y, [1, 2])
    y = tf.matmul(y, _variable("classes", [int(y.shape[-1]), 1000])) + _variable("bias", [1000])
    tf.nn.softmax(y, name="out")


def _dense(name, x, size):
    with tf.variable_scope(name):
        return tf.matmul(x, _variable("w", [int(x.shape[-1]), size])) + _variable("b", [size])


def _layer_norm(name, x):
    with tf.variable_scope(name):
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        size = [int(x.shape[-1])]
        return centred * tf.rsqrt(variance + 1e-3) * _variable("g", size) + _variable("o", size)


def transformer(layers, batch, width, heads, length=128):
    """Layers of BERT's encoder. GELU is x sigmoid(1.702 x), which keeps about as much for its
    gradient as the IPU's own (TensorFlow's formula keeps three times that)."""
    x = tf.placeholder(HALF, [batch * length, width], "x")
    y, depth = x, width // heads
    for layer in range(layers):
        with tf.variable_scope(f"layer{layer}"):
            query, key, value = (
                tf.transpose(tf.reshape(part, [batch, length, heads, depth]), [0, 2, 1, 3])
                for part in tf.split(_dense("qkv", y, 3 * width), 3, -1))
            scores = tf.matmul(query, key, transpose_b=True) * HALF.as_numpy_dtype(depth ** -0.5)
            mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
            mixed = _dense("project", tf.reshape(mixed, [batch * length, width]), width)
            y = _layer_norm("first", y + mixed)
            wide = _dense("up", y, 4 * width)
            wide = wide * tf.sigmoid(HALF.as_numpy_dtype(1.702) * wide)
            y = _layer_norm("second", y + _dense("down", wide, width))
    tf.identity(y, name="out")


def resnet50():
    residual((3, 4, 6, 3))


def resnext101():
    residual((3, 4, 23, 3), groups=32, width=2)


def bert_base():
    transformer(4, 32, 768, 12)


def bert_large():
    transformer(7, 8, 1024, 16)


def bert_base_512():
    transformer(4, 8, 768, 12, 512)


def bert_large_384():
    transformer(7, 2, 1024, 16, 384)


def vit_base_17():
    transformer(3, 17, 768, 12, 197)


# ---- Publications --------------------------------------------------------------------------------

IMAGE = 224 * 224 * 3 * 2  # bytes: halves


def _tokens(length):
    """Bytes of a sequence: integers for tokens, segments and the mask."""
    return 3 * 4 * length


@dataclasses.dataclass
class Rate:
    """Items a second on 16 Bow IPUs. Stages of a pipeline are equally long, except that the heads
    of BERT have IPUs of their own; the others update their weights too seldom to count."""
    what: str
    stage: object   # see stages.py
    items: int      # in a mini-batch
    replicas: int
    rate: float
    proportion: float
    ipus: int = 1     # over which the stage is spread
    sent: int = 0     # bytes of the activations between two stages
    item: int = None  # bytes of an item of the host; None: I/O tiles bring it


def _bert(batch, length, width=768, heads=12, layers=4):
    return lambda: stages.bert(batch, length, width, heads, layers)


RATES = [
    Rate("ResNet-50 training, 22 images, recomputed", lambda: stages.residual(22, (3, 4, 6, 3)),
         22, 16, 44059, 0.15),
    Rate("ResNeXt-101 training, 6 images, 2 stages, group norms, recomputed",
         lambda: stages.residual(6, (3, 4, 23, 3), 32, 2, stages.group_norm), 6, 8, 12277, 0.6,
         ipus=2, sent=6 * 14 * 14 * 1024 * 2),
    Rate("BERT-Base pre-training, 32 sequences of 128, a stage of 4 layers, recomputed",
         _bert(32, 128), 32, 4, 15173, 0.28, sent=32 * 128 * 768 * 2, item=_tokens(128)),
    Rate("BERT-Large pre-training, 8 sequences of 128, a stage of 7 layers, recomputed",
         _bert(8, 128, 1024, 16, 7), 8, 4, 4527, 0.25, sent=8 * 128 * 1024 * 2, item=_tokens(128)),
    # Held out until their rows were first printed.
    Rate("ResNet-50 training, 20 images, recomputed, SDK 2.5 (held out)",
         lambda: stages.residual(20, (3, 4, 6, 3)), 20, 16, 42029, 0.15),
    Rate("BERT-Base pre-training, 8 sequences of 512, a stage of 4 layers, recomputed, PopART "
         "(held out)", _bert(8, 512), 8, 4, 3656, 0.2, sent=8 * 512 * 768 * 2, item=_tokens(512)),
    Rate("ViT-Base fine-tuning, 17 images, a stage of 3 layers, recomputed (held out)",
         lambda: stages.vit(17), 17, 4, 7319, 0.3, sent=17 * 197 * 768 * 2, item=IMAGE),
    Rate("BERT-Base pre-training, 8 sequences of 384, a stage of 4 layers, recomputed (held out)",
         _bert(8, 384), 8, 4, 4387, 0.28, sent=8 * 384 * 768 * 2, item=_tokens(384)),
    Rate("ViT-Base pre-training, 8 images, a stage of 3 layers, recomputed (held out)",
         lambda: stages.vit(8), 8, 4, 7615, 0.3, sent=8 * 197 * 768 * 2, item=IMAGE),
]


# BERT's optimizer keeps its state in streaming memory, so it counts as one without a state.
OFFLOADED = "sgd"


@dataclasses.dataclass
class Fit:
    what: str
    network: object
    batch: int
    training: str  # or None: inference
    target: str
    proportion: float
    fits: bool


FITS = [
    Fit("ResNet-50 inference, 90 images, one MK2", resnet50, 90, None, "mk2", 0.6, True),
    Fit("ResNeXt-101 inference, 16 images, one MK2", resnext101, 16, None, "mk2", 0.6, True),
    Fit("ResNeXt-101 inference, 4 images, one GC2 (the guide's example)", resnext101, 4, None,
        "mk1", 0.3, True),
    Fit("ResNet-50 training, 8 images, allow_recompute, one MK2", resnet50, 8, "momentum",
        "mk2", 0.6, True),
    Fit("ResNet-50 training, 4 images, allow_recompute, one GC2 (four were taken)", resnet50, 4,
        "momentum", "mk1", 0.6, False),
    Fit("BERT-Base, 4 layers, 32 sequences, allow_recompute, one MK2", bert_base, 0, OFFLOADED,
        "mk2", 0.28, True),
    Fit("BERT-Large, 7 layers, 8 sequences, allow_recompute, one MK2", bert_large, 0,
        OFFLOADED, "mk2", 0.25, True),
    # Held out.
    Fit("ResNet-50 inference, 80 images, one MK2 (held out)", resnet50, 80, None, "mk2", 0.6, True),
    Fit("BERT-Base, 4 layers, 8 sequences of 512, allow_recompute, one MK2 (held out)",
        bert_base_512, 0, OFFLOADED, "mk2", 0.2, True),
    Fit("BERT-Large, 7 layers, 2 sequences of 384, allow_recompute, one MK2 (held out)",
        bert_large_384, 0, OFFLOADED, "mk2", 0.4, True),
    Fit("ViT-Base, 3 layers, 17 images, allow_recompute, one MK2 (held out)", vit_base_17, 0,
        OFFLOADED, "mk2", 0.3, True),
]


# ---- Planning ------------------------------------------------------------------------------------

class Planner:
    """Graphs in a folder, and the cases of `tremula plan` of them."""

    def __init__(self, folder):
        self.folder = folder

    def plan(self, network, batch, training, target, proportion, recompute=False):
        """The case of a network: a dict as `tremula plan --json` prints it. `batch` 0: the graph's
        own."""
        return plan([self._graph(network), "--feed", "x", "--fetch", "out",
                      *(["--batch", str(batch)] if batch else []),
                      *(["--training", training] if training else [])],
                     target, proportion, recompute)

    def plan_stage(self, stage, step, proportion):
        """The case of a stage's step, or of its forward pass alone, on a Bow."""
        path = os.path.join(self.folder, "stage.hlo.pb")
        stages.write(stage, path, step)
        return plan([path], "bow", proportion, False)

    def _graph(self, network):
        path = os.path.join(self.folder, f"{network.__name__}.pb")
        if not os.path.exists(path):
            with tf.Graph().as_default() as graph:
                network()
            with open(path, "wb") as file:
                file.write(graph.as_graph_def().SerializeToString())
        return path


def _on_chip(case):
    return case["cycles"]["total"] - case["cycles"]["host"]


def compare(planner, one):
    """Cycles of a mini-batch of a Rate: published, and the model's: the forward pass twice, the
    gradients, the transfers."""
    passes = sum(_on_chip(planner.plan_stage(one.stage, step, one.proportion))
                 for step in (True, False))
    seconds = one.sent / (BOW["ipuLinkBytesPerSecond"] * BOW["ipuLinkEfficiency"])
    if one.item is not None:
        seconds += BOW["hostLatencySeconds"] + one.items * one.item / BOW["hostBytesPerSecond"]
    clock = BOW["tileClockFrequency"]
    published = one.items / (one.rate / one.replicas) * clock
    return published, passes / one.ipus + seconds * clock


def fit(planner, one):
    """The case of a Fit."""
    return planner.plan(one.network, one.batch, one.training, one.target, one.proportion,
                        recompute=one.training is not None)


def tables(planner):
    """The two tables as text."""
    lines = ["| 16 Bow IPUs | published items/s | cycles of a mini-batch | model | error |",
             "|---|---|---|---|---|"]
    for one in RATES:
        published, model = compare(planner, one)
        lines.append(f"| {one.what} | {one.rate:.0f} | {published:.0f} | {model:.0f} | "
                     f"{100 * (model / published - 1):+.1f} % |")
    lines += ["", "| | known | model, with code: fullest tile | fits |", "|---|---|---|---|"]
    for one in FITS:
        case = fit(planner, one)
        memory = case["memory"]
        share = 100 * memory["worst_tile_bytes"] / memory["bytes_per_tile"]
        close = ", within the model's error" if case["is_close"] else ""
        lines.append(f"| {one.what} | {'fits' if one.fits else 'does not fit'} | {share:.1f} % | "
                     f"{'yes' if case['fits'] else 'no'}{close} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="networks against published numbers")
    parser.add_argument("--update", metavar="FILE.md")
    arguments = parser.parse_args()
    tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as folder:
        text = tables(Planner(folder))
    print(text, end="")
    if arguments.update:
        replace_between(arguments.update, MARKS, text)


if __name__ == "__main__":
    main()
