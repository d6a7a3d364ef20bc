"""model.fit of a small network: ours, stock Keras, and stock Keras with jit_compile=True, each with
1 and with 100 steps an execution, in new processes.

    python bench/comparison/keras_fit.py ours|tf|xla 1|100

prints {"started", "overhead", "steps_a_second"} as JSON: when the first execution was finished, by
the clock that the caller has in TREMULA_BENCH_START; the first epoch less a later one, which is
tracing, lowering and compiling; steps a second of the best later epoch.
"""

import json
import os
import subprocess
import sys
import time

BATCH, STEPS, EPOCHS = 32, 200, 4
TITLE = f"model.fit of 784-256-10, batch {BATCH}, {STEPS} steps an epoch"
PEERS = {"ours": "ours", "tf": "stock Keras", "xla": "stock Keras, jit_compile=True"}
KINDS = {f"{peer} {steps}": f"{name}, {steps} a launch"
         for peer, name in PEERS.items() for steps in (1, 100)}


def measure(rounds):
    """{"kinds": {kind: {"seconds": [records], "best": {...}}}}, or {kind: {"error": ...}}."""
    from comparison import startup
    record = startup.in_turns(list(KINDS), rounds, _run)
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


def main(peer, steps):
    import contextlib

    import numpy as np
    import tensorflow as tf
    keras = tf.keras
    scope = contextlib.nullcontext()
    if peer == "ours":
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        scope = ipu.ipu_strategy.IPUStrategy().scope()
    rng = np.random.default_rng(1)
    x = rng.random((BATCH * STEPS, 784), np.float32)
    y = rng.integers(0, 10, BATCH * STEPS).astype(np.int32)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)
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
        model = keras.Sequential([keras.layers.Dense(256, "relu", input_shape=(784,)),
                                  keras.layers.Dense(10)])
        options = {"jit_compile": True} if peer == "xla" else {}
        model.compile(keras.optimizers.SGD(.01),
                      keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      steps_per_execution=steps, **options)
        clock = Clock()
        model.fit(data, epochs=EPOCHS, verbose=0, callbacks=[clock])
    best = min(times[1:])
    print(json.dumps({"started": clock.started, "overhead": times[0] - best,
                      "steps_a_second": STEPS / best}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
