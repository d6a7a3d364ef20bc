"""Compute sets of small programs have the names that the original's tests ask for, and no others.

tests/data/compute_sets.json says of each program (named_programs.py, layer_programs.py,
sized_programs.py) which test of the original's builds a graph like it, and the patterns there:
"all" (each compute set fits one, each fits one; but what every program may have, and what is
`allowed`), "contain", "absent", "count". `said` has the original's pattern where ours is wider.
Bytes and cycles (tests/data/profile_numbers.json) are compared in docs/fidelity.md.
"""

import json
import pathlib

import layer_programs
import named_programs
import pytest
import sized_programs
import tensorflow.compat.v1 as tf
from program_parts import compiled, feed, run
from tensorflow.python.framework import test_util
from tensorflow.python.ipu import test_utils as tu  # noqa: F401  (adds the assertions)
from tensorflow.python.ipu.ops import nn_ops

DATA = pathlib.Path(__file__).resolve().parents[2] / "data/compute_sets.json"
CASES = json.loads(DATA.read_text())


class Case(test_util.TensorFlowTestCase):
    __test__ = False

    def runTest(self):
        pass


@pytest.fixture(scope="module", autouse=True)
def one_ipu_afterwards():
    yield
    from end_to_end import _configure
    _configure(1)


@pytest.mark.parametrize("case", CASES, ids=[case["program"] for case in CASES])
def test_names(case, monkeypatch):
    if "tiles" in case:  # the IPU Model's are those asked for
        monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    with tf.Graph().as_default():
        name = case["program"]
        program = next(getattr(one, name) for one in (named_programs, layer_programs,
                                                      sized_programs) if hasattr(one, name))
        report = run(program, case.get("tiles", 0), ipus=case.get("ipus", 1),
                     initialize=case.get("initialize", False), options=case.get("options"))
    test = Case()
    if "all" in case:
        allowed = case.get("allowed", [])
        names = [one.name for one in report.compilation.computeSets]
        patterns = case["all"] + [one for one in allowed
                                  if not tu.missing_whitelist_entries_in_names(names, [one])]
        test.assert_all_compute_sets_and_list(report, patterns)
    test.assert_compute_sets_contain_list(report, case.get("contain", []))
    test.assert_compute_sets_not_in_blacklist(report, case.get("absent", []))
    for pattern, count in case.get("count", {}).items():
        test.assert_compute_sets_matches(report, pattern, count)


def test_activations_of_the_library():
    """popnn computes a gelu in a vertex, and its gradient in another."""
    def network(x, dy):
        y = nn_ops.gelu(x)
        return y, tf.gradients(y, x, dy)[0]

    with tf.Graph().as_default():
        half = tf.float16
        report = run(lambda: compiled(network, feed(64, dtype=half), feed(64, dtype=half)))
    Case().assert_all_compute_sets_and_list(report, [
        "IpuGelu/gelu/Nonlinearity", "IpuGelu_grad/IpuGeluGrad/gelu-grad/NonLinearityGrad"])


def test_equal_work_on_other_shapes_has_names_of_its_own():
    def network(x, y, z):
        return [tf.nn.max_pool(one, 2, 2, "VALID", name=name)
                for one, name in ((x, "first"), (y, "other"), (z, "like_first"))]

    with tf.Graph().as_default():
        report = run(lambda: compiled(network, feed(1, 4, 4, 2), feed(1, 8, 2, 2),
                                      feed(1, 4, 4, 2)))
    Case().assert_all_compute_sets_and_list(report, ["first/max-pool*", "other/max-pool*"])
