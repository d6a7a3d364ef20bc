"""The IPU's own operations on an IPU without `compile`: they give what they give in a program."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

from tremula.tf.runtime.device import plugin

OPS = ipu.ops
VALUES = np.arange(12, dtype=np.float32).reshape(3, 4) / 4 - 1

OPERATIONS = {
    "cross_replica_sum": lambda x: OPS.cross_replica_ops.cross_replica_sum(x),
    "cross_replica_mean": lambda x: OPS.cross_replica_ops.cross_replica_mean(x * 2.) + 1.,
    "all_gather": lambda x: OPS.all_to_all_op.all_gather(x, replication_factor=2),
    "all_to_all": lambda x: OPS.all_to_all_op.all_to_all(x[:2], 0, 0, 2),
    "reduce_scatter": lambda x: OPS.reduce_scatter_op.reduce_scatter(
        tf.reshape(x, [-1]), replication_factor=2),
    "replication_index": lambda x: x + tf.cast(OPS.replication_ops.replication_index(), tf.float32),
    "barrier": lambda x: OPS.control_flow_ops.barrier([x, x * 2.]),
    "assume_equal": lambda x: OPS.cross_replica_ops.assume_equal_across_replicas(x),
    "replication_normalise": lambda x: OPS.replication_ops.replication_normalise(x) + x,
    "gradient_of_normalise": lambda x: tf.gradients(
        tf.square(OPS.replication_ops.replication_normalise(x)), x)[0],
    "dropout": lambda x: OPS.rand_ops.dropout(x, rate=1e-9),
    "group_norm": lambda x: OPS.normalization_ops.group_norm(x[:, None, None, :], groups=2),
    "gradient": lambda x: tf.gradients(
        tf.reduce_sum(tf.square(OPS.cross_replica_ops.cross_replica_sum(x))), x)[0],
}


@pytest.mark.parametrize("ipus", [1, 2])
@pytest.mark.parametrize("name", OPERATIONS)
def test_as_in_a_program(devices, session, name, ipus):
    if ipus == 1 and name in ("all_gather", "all_to_all", "reduce_scatter"):
        pytest.skip("these name two replicas")
    devices(ipus)
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, VALUES.shape)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        compiled = ipu.ipu_compiler.compile(OPERATIONS[name], [x])
        placed = OPERATIONS[name](x)
    with session() as s:
        s.run(tf.global_variables_initializer())
        expected, value = s.run([compiled, placed], {x: VALUES})
    tf.nest.map_structure(np.testing.assert_array_equal, tf.nest.flatten(expected),
                          tf.nest.flatten(value))


def test_normalising_is_part_of_the_program_around(devices, session):
    devices(2)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        y = OPS.replication_ops.replication_normalise(tf.constant(VALUES) * 3.) + VALUES
    built = plugin.library().trm_tf_units_built()
    with session() as s:
        np.testing.assert_array_equal(s.run(y), VALUES * 3 / 2 + VALUES)
    assert plugin.library().trm_tf_units_built() == built + 1


@pytest.mark.parametrize("ipus", [1, 2])
def test_an_outfeed(devices, session, ipus):
    """Two queues, one of which a variable's update waits for."""
    devices(ipus)
    first, second = (ipu.ipu_outfeed_queue.IPUOutfeedQueue() for _ in range(2))
    with tf.device("cpu"):
        x = tf.placeholder(tf.float32, [3])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        v = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
        with tf.control_dependencies([first.enqueue(x * 2.)]):
            update = v.assign_add(x)
        alone = second.enqueue({"a": x, "b": tf.reduce_sum(v.read_value())})
    got, both = first.dequeue(), second.dequeue()
    with session() as s:
        s.run(tf.global_variables_initializer())
        for _ in range(2):
            s.run(update, {x: [1, 2, 3]})
        s.run(alone, {x: [4, 5, 6]})
        values, pair = s.run([got, both])
        np.testing.assert_array_equal(s.run(v), [2, 4, 6])
    shape = [2, 3] if ipus == 1 else [2, 2, 3]
    np.testing.assert_array_equal(values, np.broadcast_to(np.float32([2, 4, 6]), shape))
    assert got.shape.rank == values.ndim
    np.testing.assert_array_equal(np.unique(pair["a"]), [4, 5, 6])
    assert np.all(pair["b"] == 12)


def test_on_the_cpu_they_say_where_to_go(session):
    with tf.device("cpu"):
        y = OPS.cross_replica_ops.cross_replica_sum(tf.ones([2]))
    with session() as s, pytest.raises(tf.errors.FailedPreconditionError, match="ipu_scope"):
        s.run(y)
