"""IPUMultiWorkerStrategy: two workers, in processes of their own, train the same small CNN."""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import subprocess
import textwrap

import built
import cluster
import interpreter
import numpy as np
import pytest

MESSAGE = "The worker /job:worker/replica:0/task:1 ({}) has ended"


def _run(case, folder):
    with cluster.addresses(cluster.WORKERS) as addresses:
        return (*cluster.run(case, folder, [addresses]), addresses)


def _check_variables(name, first, second, reference, key="variables"):
    """The workers have the same bits, and those of the double batch but for its roundings."""
    for one, other, expected in zip(first[f"{name}{key}"], second[f"{name}{key}"], reference,
                                    strict=True):
        assert np.array_equal(one, other), name
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The runs of two cases at once, as their workers wait more than they compute."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return {case: pool.submit(_run, case, tmp_path_factory.mktemp(case.split(".")[0]))
                for case in ("case_graph.py", "case_eager.py")}


@pytest.fixture(scope="module")
def sessions(runs):
    """What the workers of case_graph.py tell."""
    first, second, addresses = runs["case_graph.py"].result()
    assert first[0] == 0, first[1][-6000:]
    assert second[0] == -9, second[1][-6000:]
    return first[2], second[2], addresses


@pytest.mark.parametrize("name", ["compiled", "placed", "host"])
def test_sessions_train_as_one_with_the_double_batch(sessions, name):
    first, second, _ = sessions
    _check_variables(f"{name} ", first, second, first["reference"])
    assert first[f"{name} losses"] == second[f"{name} losses"]


def test_a_trace_has_the_collectives(sessions):
    """That of the loss, and one for each gradient, which the program runs by the session."""
    for i, one in enumerate(sessions[:2]):
        assert one["compiled traced"] == [f"/job:worker/replica:0/task:{i}/device:CPU:0"] * (
            1 + len(one["compiled variables"]))


def test_devices(sessions):
    for i, one in enumerate(sessions[:2]):
        task = f"/job:worker/replica:0/task:{i}/device:"
        for name, place in (("compiled", "IPU:0"), ("placed", "IPU:0"), ("host", "CPU:0")):
            devices = one[f"{name} devices"]
            assert devices["variables"] == devices["slots"] == [task + place]
            assert devices["total"] == task + "CPU:0"
        assert one["placed devices"]["loss"] == task + "IPU:0"
        assert one["on host"] == [task + "IPU:0", task + "CPU:0", task + "IPU:0"]
        assert one["initial value"] == [task + "CPU:0", ["loc:@cpu"]]


def test_reductions(sessions):
    for one in sessions[:2]:
        assert one["square"] == [5, 2.5]
        assert one["initial"] == 1, "the first worker's"
        assert one["on write"] == 3.5
        assert one["on read"] == 3
        assert one["restored"] == 3
        assert one["kinds"] == [True, True]


def test_arguments_of_run_are_this_workers_values(sessions, loops):
    for case in (sessions[:2], loops):
        for i, one in enumerate(case):
            assert set(one["per replica"]) == {6. * (i + 1)}
            assert one["per replica devices"] == [
                f"/job:worker/replica:0/task:{i}/device:IPU:0"]


def test_properties(sessions):
    first, second, _ = sessions
    assert first["properties"] == [2, True, True, True, True]
    assert second["properties"] == [2, True, True, False, False]


def test_messages(sessions):
    first = sessions[0]
    assert first["colocated"] == ("ValueError: Unexpected colocated variable device: "
                                  "/job:worker/replica:0/task:0/device:IPU:0")
    assert first["hosts"] == "ValueError: Expected one host device per worker"
    assert "'/device:CPU:0' is not the name of an IPU device" in first["device"]


def test_a_session_ends_when_a_worker_is_gone(sessions):
    first, _, addresses = sessions
    assert first["lost"].startswith("InternalError: ")
    assert MESSAGE.format(addresses[1]) in first["lost"]
    assert first["seconds"] < 30


@pytest.fixture(scope="module")
def loops(runs):
    """What the workers of case_eager.py tell."""
    first, second, _ = runs["case_eager.py"].result()
    assert first[0] == 0, first[1][-6000:]
    assert second[0] == -9, second[1][-6000:]
    return first[2], second[2]


@pytest.mark.parametrize("name", ["compiled", "placed", "host"])
def test_loops_train_as_one_with_the_double_batch(loops, name):
    first, second = loops
    _check_variables(f"{name} ", first, second, first["reference"])
    for i, one in enumerate(loops):
        place = "CPU:0" if name == "host" else "IPU:0"
        assert one[f"{name} devices"] == [f"/job:worker/replica:0/task:{i}/device:{place}"]


def test_a_function_is_one_program_without_saying_so(loops):
    for one in loops:
        assert one["placed programs"] == one["compiled programs"]
        assert one["sum"] == 3


def test_a_loop_ends_when_a_worker_is_gone(loops):
    assert "/job:worker/replica:0/task:1" in loops[0]["lost"]
    assert loops[0]["seconds"] < 30


@pytest.fixture(scope="module")
def estimators(tmp_path_factory):
    """What the workers of case_estimator.py tell."""
    pytest.importorskip("tensorflow_estimator", reason="needs TensorFlow's estimators")
    first, second, _ = _run("case_estimator.py", tmp_path_factory.mktemp("estimators"))
    for one in (first, second):
        assert one[0] == 0, one[1][-6000:]
    return first[2], second[2]


def test_estimators_train_as_one_with_the_double_batch(estimators):
    first, second = estimators
    _check_variables("", first, second, first["reference"])
    assert first["losses"] == second["losses"], "the mean of both"


def test_the_first_worker_alone_writes_checkpoints(estimators):
    first, second = estimators
    assert first["step"] == 20
    assert all(map(np.array_equal, first["saved"], first["variables"]))
    assert first["files"] == ["checkpoint", "events", "graph", "model"]
    assert second["files"] == []


def test_input_functions_get_a_context_and_their_share(estimators):
    assert [one["input context"] for one in estimators] == [[2, 0, 4], [2, 1, 4]]


def test_messages_of_estimators(estimators):
    for one in estimators:
        assert one["loop"] == ("NotImplementedError: iterations_per_loop > 1 (got 2) not supported "
                               "with distribution")
        assert one["batch"] == ("ValueError: train_batch_size (got 5) must be divisible by "
                                "num_workers * num_replicas (2 * 1)")


def test_the_loss_of_a_pipeline_is_the_sum_of_the_workers(tmp_path):
    pytest.importorskip("tensorflow_estimator", reason="needs TensorFlow's estimators")
    for code, output, told in _run("case_pipeline_estimator.py", tmp_path)[:2]:
        assert code == 0, output[-6000:]
        assert told["losses"] == [3., 3.]


ALONE = """
    import sys
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": [sys.argv[1]]}), task_type="worker", task_id=0,
        rpc_layer="grpc")
    strategy = ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy(resolver)
    server = tf.distribute.Server(resolver.cluster_spec(), job_name="worker", task_index=0,
                                  protocol="grpc",
                                  config=strategy.update_config_proto(tf.ConfigProto()))

    def step(x):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        loss = tf.reduce_sum(v * x)
        with tf.control_dependencies([tf.train.GradientDescentOptimizer(.5).minimize(loss)]):
            return tf.identity(loss)

    with strategy.scope():
        loss, = strategy.run(ipu.ipu_compiler.compile, args=(step, [tf.constant([1., 2.])]))
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
        print([float(session.run(loss)) for _ in range(3)])
"""


@pytest.mark.smoke
def test_a_worker_that_is_alone(tmp_path):
    """Nothing is reduced, but devices are those of a server."""
    with cluster.addresses(1) as (address,):
        done = interpreter.run(["-c", textwrap.dedent(ALONE), address],
                               env={**os.environ, "TREMULA_RUNTIME_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "[3.0, 0.5, -2.0]\n"


def test_the_example(tmp_path):
    with cluster.addresses(cluster.WORKERS) as addresses:
        variables = [{"TF_CONFIG": json.dumps({
            "cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}})}
            for i in range(cluster.WORKERS)]
        runs = cluster.run(built.ROOT / "examples/multi_worker.py", tmp_path, [addresses],
                           variables=variables)
    for i, (status, output, _) in enumerate(runs):
        assert status == 0, output[-6000:]
        assert f"worker {i}: weights [ 1. -2.  3. -4.]" in output
    assert re.findall("loss .*", runs[0][1]) == re.findall("loss .*", runs[1][1])


# ---- Two hosts ----

@contextlib.contextmanager
def _two_hosts():
    """Two network namespaces that reach each other: (what commands in them begin with, addresses).
    """
    names = ["tremula-test-0", "tremula-test-1"]

    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=60)

    if shutil.which("ip") is None:
        pytest.skip("needs `ip netns`, of iproute2")
    try:
        ip("netns", "add", names[0])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"`ip netns` does not work here: {error.stderr.decode().strip()}")
    try:
        ip("netns", "add", names[1])
        ip("link", "add", "tremula0", "netns", names[0], "type", "veth", "peer", "name",
           "tremula1", "netns", names[1])
        for i, name in enumerate(names):
            inside = ("netns", "exec", name, "ip")
            ip(*inside, "addr", "add", f"10.77.0.{i + 1}/24", "dev", f"tremula{i}")
            ip(*inside, "link", "set", f"tremula{i}", "up")
            ip(*inside, "link", "set", "lo", "up")
        yield ([["ip", "netns", "exec", name] for name in names],
               [f"10.77.0.{i + 1}:3737" for i in range(2)])
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.long
@pytest.mark.parametrize("case", ["case_graph.py", "case_eager.py", "case_estimator.py"])
def test_workers_on_two_hosts(case, tmp_path):
    if case == "case_estimator.py":
        pytest.importorskip("tensorflow_estimator", reason="needs TensorFlow's estimators")
    with _two_hosts() as (commands, addresses):
        first, second = cluster.run(case, tmp_path, [addresses], commands)
    assert first[0] == 0, first[1][-6000:]
    name = "" if case == "case_estimator.py" else "compiled "
    _check_variables(name, first[2], second[2], first[2]["reference"])
