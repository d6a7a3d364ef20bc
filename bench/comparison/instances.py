"""ResNet-50's training in this process, which is one of some that poprun has started, or alone.

    poprun --num-replicas 2 --num-instances 2 python bench/comparison/instances.py

Instance 0 prints {"step", "processor", "first", "bytes", "messages", "weights", "small"} as
JSON: seconds of a step (the least of several runs of a loop), its processor time, seconds of the
first run, what it sends in a step, bytes of the trained variables, and seconds of an all-reduce of
one number on the hosts.
"""

import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
BATCH, STEPS, RUNS, SIZE = 4, 1, 6, 224


def build():
    """(step, initialiser, trained variables)"""
    import numpy as np
    import popdist
    import popdist.tensorflow
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu

    from first_step import network
    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config, 1)
    config.configure_ipu_system()
    ipu.utils.reset_ipu_seed(1)
    rng = np.random.default_rng(popdist.getInstanceIndex())
    dataset = tf.data.Dataset.from_tensors((
        rng.random((BATCH, SIZE, SIZE, 3), np.float32),
        rng.integers(0, 1000, BATCH).astype(np.int32))).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)

    def body(loss, images, labels):
        return network(images, labels, ipu.cross_replica_optimizer.CrossReplicaOptimizer)[0]

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(STEPS, body, [0.0], infeed))
    ipu.utils.move_variable_initialization_to_cpu()
    return step, [infeed.initializer, tf.global_variables_initializer()], tf.trainable_variables()


def processor_seconds():
    """Of this process; a busy machine changes them less than times."""
    return sum(os.times()[:2])


def least(function, count):
    """(seconds of the first call, the least of later ones)"""
    laps = []
    for _ in range(count):
        begin = time.perf_counter()
        function()
        laps.append(time.perf_counter() - begin)
    return laps[0], min(laps[1:])


def main():
    import numpy as np
    import popdist
    import tensorflow.compat.v1 as tf
    from tremula import group
    tf.disable_v2_behavior()
    popdist.init()
    step, initialiser, variables = build()
    with tf.Session() as session:
        session.run(initialiser)
        first, _ = least(lambda: session.run(step), 2)
        before, busy = group.traffic(), processor_seconds()
        _, best = least(lambda: session.run(step), RUNS)
        after, busy = group.traffic(), processor_seconds() - busy
    _, small = least(lambda: group.all_reduce("small", np.float32([1])), 200)
    if popdist.getInstanceIndex() == 0:
        print(json.dumps({
            "first": first, "step": best / STEPS, "processor": busy / RUNS / STEPS, "small": small,
            "bytes": (after.bytes_sent - before.bytes_sent) / RUNS / STEPS,
            "messages": (after.messages_sent - before.messages_sent) / RUNS / STEPS,
            "weights": sum(4 * one.shape.num_elements() for one in variables)}), flush=True)


if __name__ == "__main__":
    main()
