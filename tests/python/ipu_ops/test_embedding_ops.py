"""Lookups against gather, with gradients; host embeddings against a table of numpy's."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import embedding_ops

IDS = np.array([[3, 0], [3, 5], [1, 3]], np.int32)


@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("factor", [1, 3])
def test_lookup(run, random, where, dtype, factor):
    table, d = random(6, 4, 2, dtype=dtype), random(3, 2, 4, 2, dtype=dtype)

    def mine(table, ids, d):
        rows = embedding_ops.embedding_lookup(table, ids, serialization_factor=factor)
        return rows, tf.gradients(rows, table, d)[0]

    rows, gradient = run(mine, table, IDS, d, where=where)
    np.testing.assert_array_equal(rows, table[IDS])
    want = np.zeros(table.shape)
    np.add.at(want, IDS, d.astype(np.float64))
    np.testing.assert_allclose(gradient, want, rtol=1e-6 if dtype == np.float32 else 2e-3,
                               atol=1e-6 if dtype == np.float32 else 2e-3)


def test_orders_of_arguments(run, random):
    table = random(6, 4)
    rows = run(lambda table, ids: [
        embedding_ops.embedding_lookup(table, ids, "name", 2),
        embedding_ops.embedding_lookup(table, ids, None, 1, 0, 1216),
        embedding_ops.embedding_lookup(table, ids, 2, True, "name"),
        embedding_ops.embedding_lookup(table, ids, one_hot_threshold=1)], table, IDS)
    for one in rows:
        np.testing.assert_array_equal(one, table[IDS])


def test_refusals():
    table, ids = tf.zeros([6, 4]), tf.constant(IDS)
    with pytest.raises(ValueError, match="serialization_factor has to be at least 1, but was 0."):
        embedding_ops.embedding_lookup(table, ids, serialization_factor=0)
    with pytest.raises(ValueError, match=r"The serialization_factor \(4\) must divide the size of "
                       r"the 0th dimension of params \(6\)."):
        embedding_ops.embedding_lookup(table, ids, serialization_factor=4)


def trained(spec, steps, start, looped):
    """A table that was trained to be 1 where it is looked up."""
    table = embedding_ops.create_host_embedding(
        "table", start.shape, tf.float32, optimizer_spec=spec,
        initializer=tf.constant_initializer(start))

    def step(ids):
        rows = table.lookup(ids)
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        loss = tf.reduce_sum(tf.square(rows * weight - 1)) / 2
        return loss, tf.train.GradientDescentOptimizer(0.).minimize(loss)

    def program(ids):
        if not looped:
            return step(ids)
        return ipu.loops.repeat(steps, lambda loss: step(ids), [tf.constant(0.)])

    with tf.device("cpu"):
        ids = tf.placeholder(tf.int32, IDS.shape)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(program, [ids])
    ipu.utils.move_variable_initialization_to_cpu()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with table.register(session) as registered:
            assert registered is table
            for _ in range(1 if looped else steps):
                session.run(result, {ids: IDS})
        return session.run(table.get_embedding_tensor())


def expected(start, rate, steps, every=1):
    table, total = start.astype(np.float64), np.zeros(start.shape)
    for n in range(steps):
        np.add.at(total, IDS, table[IDS] - 1)
        if (n + 1) % every == 0:
            table = table - rate * total
            total[:] = 0
    return table


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("every", [1, 3])
def test_host_embedding_trains(random, looped, every):
    start = random(6, 4)
    spec = (embedding_ops.HostEmbeddingSGDGAOptimizerSpec(0.1, every) if every > 1
            else embedding_ops.HostEmbeddingOptimizerSpec(0.1))
    np.testing.assert_allclose(trained(spec, 5, start, looped), expected(start, 0.1, 5, every),
                               rtol=1e-5, atol=1e-6)


def test_host_embedding_that_is_not_trained(random):
    start = random(6, 4)
    np.testing.assert_array_equal(trained(None, 2, start, False), start)


def test_clipped_indices_and_other_spellings(run, random):
    values = random(6, 4)

    def mine(ids):
        table = embedding_ops.create_host_embedding(
            "t", [6, 4], tf.float32, embedding_ops.HostEmbeddingOptimizerSpec(0.5),
            tf.constant_initializer(values))
        return table.lookup(ids), table.lookup(ids, 1, True), table.lookup(ids, clip_indices=False)

    for rows in run(mine, np.array([-1, 2, 6], np.int32))[:2]:
        np.testing.assert_array_equal(rows, values[[0, 2, 5]])


def test_host_embedding_refusals():
    table = embedding_ops.create_host_embedding("table", [6, 4], tf.float32)
    assert [one.op.name for one in tf.global_variables()] == ["table"]
    with pytest.raises(ValueError, match="HostEmbedding.register requires a session"):
        table.register()
    with pytest.raises(ValueError, match="HostEmbedding embedding_tensor is not a tensorflow "):
        embedding_ops.HostEmbedding("a", "banana")
    with pytest.raises(ValueError, match="optimizer_spec is not a HostEmbeddingOptimizerSpec or "
                       "None"):
        embedding_ops.HostEmbedding("a", tf.zeros([2, 2]), "TOKEN", 3)
    with pytest.raises(ValueError, match="Unknown partition strategy BANANA"):
        embedding_ops.HostEmbedding("a", tf.zeros([2, 2]), "BANANA")
    with pytest.raises(ValueError, match="must be a resource variable"):
        embedding_ops.HostEmbedding("a", tf.get_variable("ref", [2, 2], use_resource=False))
    with pytest.raises(ValueError, match="iteration count must be positive, but it is 0"):
        table(iteration_count=0)
    with pytest.raises(NotImplementedError, match="training=False"):
        table(iteration_count=3, training=False)
    with tf.Session() as session:
        session.run(table(iteration_count=3, replication_factor=2))
    spec = embedding_ops.HostEmbeddingSGDGAOptimizerSpec(0.5, 4)
    assert spec.get_learning_rate() == 0.5 and spec.get_accumulation_factor() == 4
