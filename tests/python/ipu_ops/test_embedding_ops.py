"""Lookups in a table against gather, with gradients."""

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


def test_layer_in_tensorflow_1():
    """A layer of TensorFlow 1 has the type of its inputs, which are integers here."""
    with tf.Graph().as_default(), tf.Session() as session:
        layer = ipu.layers.Embedding(10, 4)
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            rows, = ipu.ipu_compiler.compile(layer, [tf.constant([[1, 9], [0, 1]])])
        ipu.utils.move_variable_initialization_to_cpu()
        session.run(tf.global_variables_initializer())
        rows, table = session.run([rows, layer.embeddings])
    np.testing.assert_array_equal(rows, table[[[1, 9], [0, 1]]])
    assert rows.dtype == np.float32
