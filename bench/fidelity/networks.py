"""Whole networks against Graphcore's publications: rates, and networks that are known to fit.

    python bench/fidelity/networks.py [--update FILE.md]

Builds the networks as graphs of TensorFlow, plans them with `tremula plan`, and prints two tables,
or puts them between the marks of a document. Needs TensorFlow and takes some minutes. No formula is
fitted to these numbers. docs/fidelity.md has their sources.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

import tensorflow.compat.v1 as tf

from tool import find_tremula, replace_between

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


def _group_norm_unit(name, x, size, filters, stride=1, groups=1, activate=True):
    """The same with normalisation over 32 groups of each image's channels, in two passes."""
    with tf.variable_scope(name):
        kernel = _variable("kernel", [size, size, int(x.shape[-1]) // groups, filters])
        x = tf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME")
        shape = [-1, int(x.shape[1]), int(x.shape[2]), 32, filters // 32]
        y = tf.reshape(x, shape)
        y = y - tf.reduce_mean(y, [1, 2, 4], keepdims=True)
        variance = tf.reduce_mean(tf.square(y), [1, 2, 4], keepdims=True)
        y = tf.reshape(y * tf.rsqrt(variance + 1e-3), [-1, *x.shape[1:]])
        y = y * _variable("scale", [filters]) + _variable("offset", [filters])
        return tf.nn.relu(y) if activate else y


def residual(blocks, groups=1, width=1, unit=_unit):
    """ResNet v1.5 and ResNeXt of 224 x 224 images, four channels; classes, softmax."""
    x = tf.placeholder(HALF, [None, 224, 224, 4], "x")
    y = tf.nn.max_pool2d(unit("stem", x, 7, 64, 2), 3, 2, "SAME")
    for stage, count in enumerate(blocks):
        filters = 64 << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            with tf.variable_scope(f"stage{stage + 1}_{block + 1}"):
                skip = y if block else unit("skip", y, 1, 4 * filters, stride, activate=False)
                y = unit("reduce", y, 1, filters * width)
                y = unit("window", y, 3, filters * width, stride, groups)
                y = tf.nn.relu(unit("expand", y, 1, 4 * filters, activate=False) + skip)
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


def resnext101_group_norm():
    residual((3, 4, 23, 3), groups=32, width=2, unit=_group_norm_unit)


def bert_base():
    transformer(4, 32, 768, 12)


def bert_large():
    transformer(7, 8, 1024, 16)


def bert_base_384():
    transformer(4, 8, 768, 12, 384)


def bert_base_512():
    transformer(4, 8, 768, 12, 512)


def bert_large_384():
    transformer(7, 2, 1024, 16, 384)


def vit_base():
    transformer(3, 8, 768, 12, 197)


def vit_base_17():
    transformer(3, 17, 768, 12, 197)


# ---- Publications --------------------------------------------------------------------------------

@dataclasses.dataclass
class Rate:
    """Items a second on 16 Bow IPUs. We assume stages of equal length in a pipeline on `ipus` IPUs.
    The published rate includes the update of the weights after `accumulated` mini-batches, and
    parts that our graphs lack (embeddings, dropout, the heads' losses)."""
    what: str
    network: object
    items: int      # in a mini-batch
    ipus: int       # over which our graph is spread
    replicas: int
    rate: float
    proportion: float
    training: str = "momentum"
    batch: bool = True  # whether the graph is lowered for a batch size


# BERT's optimizer keeps its state in streaming memory, so it counts as one without a state.
OFFLOADED = "sgd"

RATES = [
    Rate("ResNet-50 training, 22 images, recomputed", resnet50, 22, 1, 16, 44059, 0.15),
    Rate("ResNeXt-101 training, 6 images, 2 stages, recomputed", resnext101, 6, 2, 8, 12277, 0.6),
    Rate("BERT-Base pre-training, 32 sequences of 128, a stage of 4 layers, recomputed", bert_base,
         32, 1, 4, 15173, 0.28, OFFLOADED, False),
    Rate("BERT-Large pre-training, 8 sequences of 128, a stage of 7 layers, recomputed", bert_large,
         8, 1, 4, 4527, 0.25, OFFLOADED, False),
    # Held out: from the last SDK before 3.0, with other numbers of images.
    Rate("ResNet-50 training, 20 images, recomputed, SDK 2.5 (held out)", resnet50, 20, 1, 16,
         42029, 0.15),
    Rate("ResNeXt-101 training, the same with group norms written out (as its configuration has)",
         resnext101_group_norm, 6, 2, 8, 12277, 0.6),
    # Held out: we looked for no cause in these.
    Rate("BERT-Base pre-training, 8 sequences of 512, a stage of 4 layers, recomputed, PopART "
         "(held out)", bert_base_512, 8, 1, 4, 3656, 0.2, OFFLOADED, False),
    Rate("ViT-Base fine-tuning, 17 images, a stage of 3 layers, recomputed (held out)", vit_base_17,
         17, 1, 4, 7319, 0.3, OFFLOADED, False),
    Rate("BERT-Base pre-training, 8 sequences of 384, a stage of 4 layers, recomputed (held out)",
         bert_base_384, 8, 1, 4, 4387, 0.28, OFFLOADED, False),
    Rate("ViT-Base pre-training, 8 images, a stage of 3 layers, recomputed (held out)", vit_base,
         8, 1, 4, 7615, 0.3, OFFLOADED, False),
]


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
        """The case: a dict as `tremula plan --json` prints it. `batch` 0: the graph's own."""
        options = json.dumps({"partialsType": "half", "availableMemoryProportion": str(proportion)})
        command = [find_tremula(), "plan", self._graph(network), "--feed", "x", "--fetch", "out",
                   "--json", "--target", target, "--option", f"convolution_options={options}",
                   "--option", f"matmul_options={options}", "--option", "compile_ipu_code=true",
                   "--option", f"recompute={'true' if recompute else 'false'}"]
        command += ["--batch", str(batch)] if batch else []
        command += ["--training", training] if training else []
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env={"TREMULA_PYTHON": sys.executable, **os.environ})
        if done.returncode not in (0, 3):
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)["cases"][0]

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
    """Cycles of a mini-batch of a Rate: published, and the model's."""
    batch = one.items if one.batch else 0
    step = planner.plan(one.network, batch, one.training, "bow", one.proportion)
    forward = planner.plan(one.network, batch, None, "bow", one.proportion)
    published = one.items / (one.rate / one.replicas) * 1.85e9
    return published, (_on_chip(step) + _on_chip(forward)) / one.ipus


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
