"""model.fit of a small network and of ResNet-50: ours, stock Keras, and stock Keras with
jit_compile=True, each with 1 and with 100 steps an execution, in new processes.

    python bench/comparison/keras_fit.py ours|tf|xla 1|100 mlp|resnet

prints {"started", "overhead", "steps_a_second"} as JSON: when the first execution was finished, by
the clock whose start is in TREMULA_BENCH_START; the first epoch minus a later one, which is the
time of tracing, lowering and compiling; steps a second of the best later epoch.
"""

import collections
import json
import os
import subprocess
import sys
import time

Case = collections.namedtuple("Case", "title batch steps epochs rounds")
CASES = {
    "mlp": Case("784-256-10, batch 32", 32, 200, 4, 3),
    "resnet": Case("ResNet-50, images of 32 x 32, batch 4", 4, 100, 2, 1),
}
PEERS = {"ours": "ours", "tf": "stock Keras", "xla": "stock Keras, jit_compile=True"}


def kinds(case):
    """{kind: description} of a case."""
    return {f"{peer} {steps} {case}": f"{name}, {steps} a launch"
            for peer, name in PEERS.items() for steps in (1, 100)}


def measure(case, rounds):
    """{"kinds": {kind: {"seconds": [records], "best": {...}}}}, or {kind: {"error": ...}}."""
    from comparison import startup
    record = startup.in_turns(list(kinds(case)), rounds or CASES[case].rounds, _run)
    for entry in record["kinds"].values():
        if entry["seconds"]:
            entry["best"] = {part: (max if part == "steps_a_second" else min)(
                one[part] for one in entry["seconds"]) for part in entry["seconds"][0]}
    return record


def _run(kind, home):
    from comparison import startup
    environment = dict(startup.environment(kind, home), TREMULA_BENCH_START=str(time.time()))
    done = subprocess.run([sys.executable, __file__, *kind.split()], env=environment,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"exit code {done.returncode}: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _data(case, numpy):
    rng = numpy.random.default_rng(1)
    count = case.batch * case.steps
    shape = (784,) if case is CASES["mlp"] else (32, 32, 3)
    return (rng.random((count, *shape), numpy.float32),
            rng.integers(0, 10, count).astype(numpy.int32))


def _model(case, keras):
    if case is CASES["mlp"]:
        return keras.Sequential([keras.layers.Dense(256, "relu", input_shape=(784,)),
                                 keras.layers.Dense(10)])
    return keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10,
                                       classifier_activation=None)


def main(peer, steps, case):
    import contextlib

    import numpy as np
    import tensorflow as tf
    keras, case = tf.keras, CASES[case]
    scope = contextlib.nullcontext()
    if peer == "ours":
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        scope = ipu.ipu_strategy.IPUStrategy().scope()
    data = tf.data.Dataset.from_tensor_slices(_data(case, np)).batch(
        case.batch, drop_remainder=True)
    times = []

    class Clock(keras.callbacks.Callback):
        started = None

        def on_train_batch_end(self, batch, logs=None):
            if self.started is None:
                self.started = time.time() - float(os.environ["TREMULA_BENCH_START"])

        def on_epoch_begin(self, epoch, logs=None):
            times.append(time.perf_counter())

        def on_epoch_end(self, epoch, logs=None):
            times[-1] = time.perf_counter() - times[-1]

    with scope:
        model = _model(case, keras)
        options = {"jit_compile": True} if peer == "xla" else {}
        model.compile(keras.optimizers.SGD(.01),
                      keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      steps_per_execution=steps, **options)
        clock = Clock()
        model.fit(data, epochs=case.epochs, verbose=0, callbacks=[clock])
    best = min(times[1:])
    print(json.dumps({"started": clock.started, "overhead": times[0] - best,
                      "steps_a_second": case.steps / best}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
