"""ResNet-50 as a pipeline of eight stages on one IPU: batches that are known to fit an MK2.

    python bench/fidelity/pipelines.py [--update FILE.md]

Lowers the training step of 16 mini-batches, plans it with `tremula plan`, and prints a table, or
puts it between the marks of a document. Needs TensorFlow and takes a minute. docs/fidelity.md has
the source of the two rows; no formula is fitted to them.
"""

import argparse
import glob
import os
import subprocess
import sys
import tempfile

from tool import plan, replace_between

MARKS = "<!-- pipelines: begin -->\n", "<!-- pipelines: end -->"
STAGES, MINI_BATCHES = 8, 16
FITS = ((16, 0.2), (20, 0.15))  # images of a mini-batch, availableMemoryProportion


# ---- The program, in a process of its own --------------------------------------------------------

def write(images):
    """Compiles the step for an IPU that is never attached; XLA_FLAGS say where its module goes."""
    # pylint: disable=import-outside-toplevel
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu

    import stages
    tf.disable_v2_behavior()
    operations = ipu.pipelining_ops
    parts = [stages.stem, *stages.blocks((3, 4, 6, 3)), stages.classes]
    cuts = [round(number * (len(parts) - 1) / STAGES) for number in range(STAGES)] + [len(parts)]

    def stage(begin, end):
        def run(y, labels):
            for part in parts[begin:end]:
                y = part(y, norm=stages.group_norm)
            if end < len(parts):
                return y, labels
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                logits=tf.cast(y, tf.float32), labels=labels))
        return run

    image = tf.zeros([images, 224, 224, 4], tf.float16), tf.zeros([images], tf.int32)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensors(image).repeat())
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def network():
        return operations.pipeline(
            [stage(*ends) for ends in zip(cuts, cuts[1:])], MINI_BATCHES, infeed_queue=infeed,
            outfeed_queue=outfeed, device_mapping=[0] * STAGES,
            offload_weight_update_variables=True,
            pipeline_schedule=operations.PipelineSchedule.Sequential,
            optimizer_function=lambda loss: operations.OptimizerFunctionOutput(
                tf.train.MomentumOptimizer(0.01, 0.9), loss))

    with tf.variable_scope("", use_resource=True), ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(network, [])
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.allow_recompute = True
    config.device_connection.type = ipu.utils.DeviceConnectionType.PRE_COMPILE
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(infeed.initializer)
        session.run(step)


# ---- The table -----------------------------------------------------------------------------------

def lower(images, folder):
    """The path of the step's module."""
    dump = os.path.join(folder, str(images))
    cache = os.path.join(folder, "cache")
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--write", str(images)], check=False,
        capture_output=True, text=True,
        env={**os.environ, "XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text",
             "TF_POPLAR_FLAGS": f"--executable_cache_path={cache}"})
    modules = glob.glob(os.path.join(glob.escape(dump), "*.before_optimizations.txt"))
    if done.returncode != 0 or not modules:
        sys.exit(done.stderr)
    return max(modules, key=os.path.getsize)  # the others are initialisers


def table():
    """The table as text."""
    lines = ["| images, memory proportion | known | fullest tile without code | with code | fits |",
             "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for images, proportion in FITS:
            path = lower(images, folder)
            cases = [plan([path], "mk2", proportion, recompute=True, code=code)
                     for code in (False, True)]
            shares = [100 * case["memory"]["worst_tile_bytes"] / case["memory"]["bytes_per_tile"]
                      for case in cases]
            close = ", within the model's error" if cases[1]["is_close"] else ""
            lines.append(f"| {images}, {proportion:g} | fits | {shares[0]:.1f} % | "
                         f"{shares[1]:.1f} % | {'yes' if cases[1]['fits'] else 'no'}{close} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="a pipeline on one IPU that is known to fit")
    parser.add_argument("--update", metavar="FILE.md")
    parser.add_argument("--write", metavar="IMAGES", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write is not None:
        write(arguments.write)
        return
    text = table()
    print(text, end="")
    if arguments.update:
        replace_between(arguments.update, MARKS, text)


if __name__ == "__main__":
    main()
