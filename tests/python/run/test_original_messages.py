"""The original's messages that no other test provokes, and a list of where each of them is tested.

MESSAGES has all that the original's users met. A message that is not to be had here says why.
"""

import pathlib
import re
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

IPUInfeedQueue = ipu.ipu_infeed_queue.IPUInfeedQueue
IPUOutfeedQueue = ipu.ipu_outfeed_queue.IPUOutfeedQueue
IPUOutfeedMode = ipu.ipu_outfeed_queue.IPUOutfeedMode
pipelining_ops = ipu.pipelining_ops

_BEGINNING = """
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()

    def build(device):
        with ipu.scopes.ipu_scope(device):
            return ipu.ipu_compiler.compile(lambda: tf.ones([2]) + 1.)

    def attempt(act):
        try:
            print(act())
        except Exception as error:
            print(type(error).__name__, str(error), flush=True)
"""


def refused(error, words, function, *arguments, **keywords):
    with pytest.raises(error, match=words):
        function(*arguments, **keywords)


# ---- Devices ----

def test_nothing_is_configured(script):
    done = script(_BEGINNING + """
    with tf.Session() as session:
        attempt(lambda: session.run(build("/device:IPU:1")))
    """)
    assert ("FailedPreconditionError" in done.stdout and
            "No device target has been configured for /device:IPU:1. Did you configure the IPU "
            "devices by running" in done.stdout), done.stdout + done.stderr


def test_no_hardware(script, tmp_path):
    inventory = tmp_path / "nothing.json"
    inventory.write_text('{"name": "nothing", "ipus": []}')
    done = script(_BEGINNING + """
    attempt(lambda: ipu.config.IPUConfig().configure_ipu_system())
    """, TREMULA_INVENTORY=str(inventory))
    assert done.stdout.startswith(
        "InvalidArgumentError Target configuration failed: model disabled and no hardware IPU "
        "found. (Are you sure you enabled the Poplar driver ?)"), done.stdout + done.stderr


def test_pre_compilation_without_a_cache(script):
    done = script(_BEGINNING + """
    config = ipu.config.IPUConfig()
    config.device_connection.type = ipu.config.DeviceConnectionType.PRE_COMPILE
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    with tf.Session() as session:
        attempt(lambda: session.run(build("/device:IPU:0")))
    """, TF_POPLAR_FLAGS="")
    assert ("FailedPreconditionError" in done.stdout and
            "IPU devices have been configured for pre-compilation, however "
            "'executable_cache_path' in 'TF_POPLAR_FLAGS' has not been set" in done.stdout)


@pytest.mark.parametrize("cached", [False, True])
def test_notice_of_programs_that_are_compiled_again(script, tmp_path, cached):
    """Once, and not where a cache keeps them."""
    done = script(_BEGINNING + """
    def configure(**options):
        config = ipu.config.IPUConfig()
        config.from_dict(options)
        config.configure_ipu_system()

    def count(act):
        print("|", file=sys.stderr, flush=True)
        act()

    import sys
    configure(auto_select_ipus=1)
    with tf.Session() as session:
        count(lambda: configure(auto_select_ipus=2))
        count(lambda: session.run(build("/device:IPU:0")))
        count(lambda: configure(auto_select_ipus=1))
        count(lambda: session.run(build("/device:IPU:0")))
        count(lambda: configure(auto_select_ipus=2))
    """, TF_POPLAR_FLAGS=f"--executable_cache_path={tmp_path}" if cached else "")
    assert done.returncode == 0, done.stderr
    told = ["Clearing XLA compilation cache of device" in part and
            "set the 'executable_cache_path' option" in part
            for part in done.stderr.split("|\n")]
    assert told == [False, False, False, not cached, False, False]


# ---- Feeds ----

class Held:
    """A dataset that gives one element and then waits until it is let go."""

    def __init__(self):
        self.waits, self.go = threading.Event(), threading.Event()
        self.dataset = tf.data.Dataset.from_generator(self._elements, tf.float32, [])

    def _elements(self):
        yield 1.
        self.waits.set()
        self.go.wait(600)
        yield 2.


def test_deleting_what_is_in_use(on_ipu):
    held, outfeed = Held(), IPUOutfeedQueue()
    infeed = IPUInfeedQueue(held.dataset)
    run = on_ipu(lambda: ipu.loops.repeat(2, lambda x: outfeed.enqueue(x), [], infeed))
    start, dequeue = infeed.initializer, outfeed.dequeue()
    delete_in, delete_out = infeed.deleter, outfeed.deleter
    with tf.Session() as session:
        refused(tf.errors.NotFoundError, f"Infeed with id='{infeed._id}'", session.run, delete_in)
        refused(tf.errors.NotFoundError, f"Outfeed with id='{outfeed._id}'", session.run,
                delete_out)
        session.run(start)
        failures = []

        def work():
            try:
                session.run(run)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        assert held.waits.wait(600)
        for kind, feed, delete in ("infeed", infeed, delete_in), ("outfeed", outfeed, delete_out):
            refused(tf.errors.FailedPreconditionError,
                    f"Cannot delete {kind} with id='{feed._id}' while in use", session.run, delete)
        held.go.set()
        thread.join()
        assert not failures
        session.run([delete_in, delete_out])
        assert session.run(dequeue).size == 0


def test_a_step_that_has_failed_uses_no_feeds(on_ipu):
    def elements():
        yield 1.
        raise ValueError("broken")

    infeed = IPUInfeedQueue(tf.data.Dataset.from_generator(elements, tf.float32, []))
    outfeed = IPUOutfeedQueue()
    run = on_ipu(lambda: ipu.loops.repeat(2, lambda x: outfeed.enqueue(x), [], infeed))
    start, delete = infeed.initializer, [infeed.deleter, outfeed.deleter]
    with tf.Session() as session:
        for _ in range(2):
            session.run(start)
            refused(tf.errors.InvalidArgumentError, "broken", session.run, run)
            session.run(delete)


def test_deleting_the_last_element(on_ipu, session):
    outfeed = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    run = on_ipu(lambda: ipu.loops.repeat(2, lambda x: (x + 1, outfeed.enqueue(x)), [1.]))
    dequeue, delete = outfeed.dequeue(), outfeed.deleter
    with session() as s:
        for _ in range(2):
            refused(tf.errors.FailedPreconditionError,
                    "Trying to get the last value from an outfeed queue before it was executed",
                    s.run, dequeue)
            s.run(run)
            assert [s.run(dequeue) for _ in range(2)] == [2., 2.]
            s.run(delete)


def test_shapes_of_an_infeed():
    refused(ValueError, r"Output shape \(.*, 2\) is not fully defined. If using "
            "tf.Dataset.batch, set `drop_remainder=True`", IPUInfeedQueue,
            tf.data.Dataset.from_tensors([1., 2.]).batch(3))


# ---- Programs ----

def test_operations_of_an_ipu_outside_of_programs(session):
    with tf.device("cpu"):
        result = ipu.cross_replica_ops.cross_replica_sum(tf.ones([2]))
    with session() as s:
        refused(tf.errors.FailedPreconditionError, "Cannot return or take as an argument an opaque "
                "type in the entry computation: IpuCrossReplicaSum", s.run, result)


def test_what_is_compiled_for_no_ipu():
    with tf.device("cpu"):
        refused(Exception, "A computation has been compiled, however it was not placed on an IPU "
                "device", ipu.ipu_compiler.compile, lambda x: x + 1., [tf.constant(1.)])


def test_outside_compilation_outside_of_programs():
    def build():
        with ipu.scopes.outside_compilation_scope():
            pass

    refused(ValueError, "outside_compilation_scope is only allowed in XLA context", build)


def test_arity_of_a_loop(on_ipu):
    refused(TypeError, "Supplied loop body function cannot be called with the specified inputs. "
            "You specified 2 inputs", on_ipu,
            lambda: ipu.loops.repeat(2, lambda x: x, [tf.ones([2]), 1.]))


# ---- Training ----

def test_options_of_an_estimator():
    try:
        from tensorflow.python.ipu import ipu_run_config as estimator
    except ImportError as error:  # no estimators in TensorFlow
        pytest.skip(str(error))
    refused(TypeError, "ipu_options must be an IPUConfig instance", estimator.IPURunConfig,
            ipu_options={"auto_select_ipus": 1})


def test_two_updates_in_a_loop(on_ipu, session):
    """The first generation of these optimizers had no resource update."""
    from tensorflow.python.ipu import gradient_accumulation_optimizer as accumulating

    def program(kind):
        def body():
            updates = []
            for name in ("v", "w"):
                value = tf.get_variable(name, [], initializer=tf.ones_initializer())
                optimizer = kind(tf.train.GradientDescentOptimizer(0.25), 2)
                updates.append(optimizer.minimize(value * value, var_list=[value]))
            return updates
        with tf.variable_scope(kind.__name__):
            return on_ipu(lambda: ipu.loops.repeat(4, body, []))

    both = [program(accumulating.GradientAccumulationOptimizerV2),
            program(accumulating.CrossReplicaGradientAccumulationOptimizerV2)]
    first = [program(accumulating.GradientAccumulationOptimizer),
             program(accumulating.CrossReplicaGradientAccumulationOptimizer)]
    with session() as s:
        s.run(tf.global_variables_initializer())
        for run in both:
            refused(tf.errors.FailedPreconditionError,
                    "Detected multiple resource update instructions inside of a training loop - "
                    "only one resource update is allowed", s.run, run)
        for run in first:
            s.run(run)
        assert set(s.run(tf.global_variables())) == {1., 0.}


def test_pipeline_depth_that_only_a_run_knows(devices, session):
    devices(2)
    with tf.device("cpu"):
        count = tf.placeholder(tf.int32, [])
    outfeed = IPUOutfeedQueue()

    def program(count):
        return pipelining_ops.pipeline(
            [lambda x: x + 1., lambda x: x * 2.], count, inputs=[tf.constant(1.)],
            outfeed_queue=outfeed)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(program, [count])
    dequeue = outfeed.dequeue()
    with session() as s:
        for wrong in (0, 1, 3):
            refused(tf.errors.InternalError, r"Pipeline depth is invalid\. .*overlap length \(2\)",
                    s.run, run, {count: wrong})
        assert s.run(dequeue)[0].size == 0
        for right in (2, 4):
            s.run(run, {count: right})
            np.testing.assert_array_equal(s.run(dequeue), [[4.] * right])


def test_pipeline_without_an_outfeed(on_ipu):
    refused(ValueError, "The last computational stage has tensor outputs: .*, but no outfeed_queue "
            "has been provided", on_ipu, lambda: pipelining_ops.pipeline(
                [lambda x: x + 1., lambda x: x * 2.], 4, inputs=[tf.constant(1.)]))


# ---- The list ----

HERE = "run/test_original_messages.py"
MESSAGES = {
    # text of the message: the file that provokes it, or why it is not to be had
    "already been set in this process": "api/test_config.py",
    "attached to IPU": "devices/test_connection.py",
    "No IPU device was configured for /device:IPU:0": "events/test_dumps.py",
    "Could not find an available device for TensorFlow": "devices/test_connection.py",
    "No device matches the requested": "../c/device/test_attach.c",
    "Target configuration failed": HERE,
    "No device target has been configured": HERE,
    "Unsupported number of IPUs": "../c/device/test_attach.c",
    "not in device configuration list": "api/test_utils.py",
    "Badly initialized IpuOptions": "api/test_config.py",
    "The number of shards needs to divide the number": "../c/exec/test_replicas.c",
    "Cannot assign a device for operation": "run/test_clusters.py",
    "Detected unsupported operations when trying to compile": "host/test_applications.py",
    "HLO not implemented": None,  # every instruction that TensorFlow lowers to is
    "graph_memory_allocation_error": "events/test_dumps.py",
    "Tiles in excepted state": "run/test_floating_point.py",
    "application_runtime_error": "run/test_floating_point.py",
    "IPU will be reset the next time": "host/test_applications.py",
    "recoverable_runtime_error": None,  # of broken hardware
    "Clearing XLA compilation cache": HERE,
    "which cannot be safely": "host/test_user_ops.py",
    "IPU devices have been configured for pre-compilation": HERE,
    "A pre-compiled Poplar program has been saved": "devices/test_connection.py",
    "configured for compilation": "devices/test_connection.py",
    "Infeed with id='x' already exists": None,  # names of queues are made unique
    "already exists but with a different tensor shape": "replicas/test_replicated_feeds.py",
    "Cannot delete {kind} with id=": HERE,
    "has already been setup with a replication factor": "replicas/test_replicated_feeds.py",
    "Cannot return or take as an argument an opaque": HERE,
    "Detected a gradient accumulation operation": "pipelines/test_gradient_accumulation.py",
    "IpuStatefulGradientAccumulate op": "pipelines/test_gradient_accumulation.py",
    "Detected multiple resource update instructions": HERE,
    "evenly divide the total number of replicas": "replicas/test_cross_replica_ops.py",
    "outside_compilation_scope is only allowed": HERE,
    "Illegal nesting": "api/test_scopes.py",
    "however it was not placed on an IPU": HERE,
    "contains an EstimatorSpec": "run/test_compile.py",
    "Supplied loop body function cannot be called": HERE,
    "Mismatch between input": "run/test_feeds.py",
    "The infeed queue has not been dequeued": "sessions/test_feed_messages.py",
    "is not fully defined": HERE,
    "can only be accessed once": "run/test_feeds.py",
    "Unsupported datatype": "run/test_feeds.py",
    "dimension of size 0": "run/test_feeds.py",
    "which has not been created": "sessions/test_feed_messages.py",
    "out of range": "run/test_feeds.py",
    "multiple times on the same": "sessions/test_feed_messages.py",
    "multiple IPUInfeedQueue": "run/test_feeds.py",
    "Unsupported use of infeed operation": "sessions/test_feed_messages.py",
    "can only be enqueued once": "run/test_feeds.py",
    "Trying to get the last value": HERE,
    "Pipeline requires at least two": "pipelines/test_pipelining.py",
    "Each stage must be mapped to an IPU": "pipelines/test_pipelining.py",
    "Batch serialization is only supported": "pipelines/test_pipelining.py",
    "The last computational stage has tensor outputs": HERE,
    "Trying to capture the tensor": "pipelines/test_pipelining.py",
    "must be a multiple of": "pipelines/test_pipelining.py",
    "Pipeline depth is invalid": HERE,
    "ipu_options must be an IPUConfig": HERE,
    "configured with 2 devices": "estimators/test_estimators.py",
    "unknown synthetic": "api/test_flags.py",
}


@pytest.mark.parametrize("message", [one for one, file in MESSAGES.items() if file])
def test_list(message):
    """The file says the message, in one string or in several that follow each other."""
    root = pathlib.Path(__file__).resolve().parents[1]
    text = (root / MESSAGES[message]).read_text()
    text = text[:text.index("# ---- The list ----")] if MESSAGES[message] == HERE else text
    assert message in re.sub(r'"\s*f?r?"', "", text).replace("\\", "")


@pytest.mark.parametrize("option, prefix", [
    ("compilation_poplar_options", r"\[Poplar\]\[Compile engine\] invalid_option: "),
    ("matmuls.poplar_options", r"\[Poplar\]\[Build graph\] invalid_option: "),
    ("convolutions.poplar_options", r"\[Poplar\]\[Build graph\] invalid_option: ")])
def test_an_option_that_poplar_has_not(on_ipu, session, devices, option, prefix):
    del devices  # configures again afterwards
    x = tf.placeholder(tf.float32, [2, 2])
    product = on_ipu(lambda x: tf.matmul(x, x), [x])
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.from_dict({option: {"notAnOption": "1"}})
    config.configure_ipu_system()
    with session() as s, pytest.raises(tf.errors.InternalError,
                                       match=prefix + "Unrecognised option 'notAnOption'"):
        s.run(product, {x: np.ones([2, 2])})
