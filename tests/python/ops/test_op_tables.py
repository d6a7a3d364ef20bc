"""Tables of ops in the runtime that are copied from TensorFlow, against its op registry."""
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tremula.tf.inner import errors, registry
from tremula.tf.runtime.lowering import known_values, staging
from tremula.tf.runtime.nodes import rewriting
from tremula.tf.runtime.ops import kernel_list, node_kinds, random_functions, support
from tremula.tf.runtime.sessions import plain_graphs
from tremula.tf.runtime.tracing import pruning

pytestmark = pytest.mark.smoke

OF_OPS = {
    "node_kinds.SHAPE_OPS": node_kinds.SHAPE_OPS,
    "node_kinds.RENAMES": node_kinds.RENAMES,
    "node_kinds._NEVER": node_kinds._NEVER,
    "node_kinds.READS": node_kinds.READS,
    "node_kinds.ADDS": {*node_kinds.ADDS, node_kinds.ASSIGN},
    "node_kinds._KNOWN": node_kinds._KNOWN_BY_OP,
    "kernel_list.EXCLUDED": kernel_list.EXCLUDED,
    "kernel_list.IPU_OPS": kernel_list.IPU_OPS,
    "known_values._NOT_NEEDED": known_values._NOT_NEEDED,
    "known_values._STRICT": known_values._STRICT,
    "known_values._UNKNOWN_THROUGH": known_values._UNKNOWN_THROUGH,
    "plain_graphs._PLAIN": plain_graphs._PLAIN,
    "plain_graphs._PLAIN_ON_CPU": plain_graphs._PLAIN_ON_CPU,
    "pruning.UNKNOWN": pruning.UNKNOWN,
    "random_functions.MAKERS": random_functions.MAKERS,
    "rewriting.CALLS": rewriting.CALLS,
    "rewriting.RANDOM_OPS": rewriting.RANDOM_OPS,
    "rewriting._STATELESS": rewriting._STATELESS.values(),
    "staging._READING_OPS": staging._READING_OPS,
    "support._ALWAYS": support._ALWAYS,
}

# Prefixes of the names of ops.
OF_PREFIXES = {
    "node_kinds._BLOCKING": node_kinds._BLOCKING,
    "kernel_list._ONLY_COMPILED": kernel_list._ONLY_COMPILED,
    "kernel_list._ON_VARIABLES": kernel_list._ON_VARIABLES,
    "pruning.UPDATES": pruning.UPDATES,
}

# Inputs that are shapes, axes or the like in whatever op they are: lowering must know them.
ALWAYS_KNOWN = frozenset((
    "block_shape", "crops", "filter_sizes", "input_sizes", "ksize", "multiples", "num_segments",
    "orig_input_shape", "paddings", "perm", "size_splits", "split_dim", "strides"))


def inputs(op):
    return [one.name for one in registry.op_definition(op).input_arg]


@pytest.fixture(scope="module", autouse=True)
def loaded():
    assert ipu.config.IPUConfig is not None  # the plugin's own ops are in the tables too
    yield


@pytest.mark.parametrize("table", OF_OPS)
def test_every_op_is_in_the_registry(table):
    ops = sorted(OF_OPS[table])
    assert ops and [op for op in ops if registry.op_definition(op) is None] == []


@pytest.mark.parametrize("table", OF_PREFIXES)
def test_every_prefix_is_that_of_an_op(table):
    known = {kernel.op for kernel in registry.registered_kernels().kernel}
    assert [one for one in OF_PREFIXES[table]
            if not any(op.startswith(one) for op in known)] == []


def test_known_inputs_are_inputs_of_their_ops():
    wrong = [(op, name) for op, names in node_kinds._KNOWN_BY_OP.items()
             for name in names if name not in inputs(op)]
    assert not wrong


def test_no_op_that_an_ipu_has_is_missing_among_those_with_known_inputs():
    # Updates of variables are always part of a program, whatever is known (late.py).
    ops = [op for op in kernel_list.lowered() if not kernel_list.needs_variables(op)]
    missing = [(op, name) for op in ops for name in inputs(op)
               if name in ALWAYS_KNOWN and name not in node_kinds._KNOWN_BY_OP.get(op, ())]
    assert not missing


def test_strict_ops_have_known_inputs():
    for op in known_values._STRICT:
        assert node_kinds._KNOWN_BY_OP.get(op), op
    for op, number in known_values._NOT_NEEDED.items():
        assert inputs(op)[number] in node_kinds._KNOWN_BY_OP[op]


def test_values_go_through_ops_without_a_state():
    for op in known_values._UNKNOWN_THROUGH | node_kinds.RENAMES | node_kinds.SHAPE_OPS:
        assert not registry.op_definition(op).is_stateful, op


def test_ops_that_call_functions():
    for op, count in rewriting.CALLS.items():
        definition = registry.op_definition(op)
        assert any(one.type in ("func", "list(func)") for one in definition.attr), op
        lists = [bool(one.type_list_attr) for one in definition.input_arg]
        assert lists.index(True) == count, op


def test_random_ops_are_stateful_and_have_a_stateless_one():
    assert rewriting._STATELESS.keys() == rewriting.RANDOM_OPS.keys()
    for op, stateless in rewriting._STATELESS.items():
        assert registry.op_definition(op).is_stateful
        assert not registry.op_definition(stateless).is_stateful and "seed" in inputs(stateless)


def test_numbers():
    assert (rewriting._INT32, rewriting._BOOL) == (
        tf.int32.as_datatype_enum, tf.bool.as_datatype_enum)
    assert (errors.CANCELLED, errors.INVALID_ARGUMENT, errors.FAILED_PRECONDITION) == (
        tf.errors.CANCELLED, tf.errors.INVALID_ARGUMENT, tf.errors.FAILED_PRECONDITION)
