"""The original's inner operations that a library of a user's own calls."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.compiler.plugin.poplar.ops import (
    gen_pop_datastream_ops, gen_poprand_ops, gen_poputil_ops)
from tensorflow.python import ipu
from tensorflow.python.ipu import embedding_ops
from tensorflow.python.ipu.ops import op_util


def test_feeds_by_their_names(on_ipu, session):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype="f").reshape(3, 2)).repeat()
    feed = {"feed_id": "numbers", "output_types": [tf.float32], "output_shapes": [[2]]}
    with pytest.raises(ValueError, match="There is no feed 'nothing' yet"):
        gen_pop_datastream_ops.pop_datastream_infeed_dequeue("nothing", [tf.float32], [[2]])
    start = gen_pop_datastream_ops.ipu_create_dataset_iterator(
        tf.data.experimental.to_variant(dataset), prefetch_depth=2, **feed)

    def body(total):
        [value] = gen_pop_datastream_ops.pop_datastream_infeed_dequeue(**feed)
        out = gen_pop_datastream_ops.pop_datastream_outfeed_enqueue(
            [value * 2], feed_id="doubled", output_shapes=[[2]])
        return total + value, out

    total = on_ipu(lambda: ipu.loops.repeat(3, body, [tf.zeros([2])]))
    [doubled] = gen_pop_datastream_ops.pop_datastream_outfeed_dequeue(
        output_types=[tf.float32], output_shapes=[[2]], feed_id="doubled")
    ends = [gen_pop_datastream_ops.ipu_delete_dataset_iterator("numbers"),
            gen_pop_datastream_ops.ipu_delete_outfeed("doubled")]
    with session() as sess:
        sess.run(start)
        np.testing.assert_array_equal(sess.run(total)[0], [6, 9])
        np.testing.assert_array_equal(sess.run(doubled), [[0, 2], [4, 6], [8, 10]])
        sess.run(ends)


class OwnDescent(embedding_ops.HostEmbeddingOptimizerSpec):
    """An optimizer of embeddings as a library writes it: out of the inner operations."""

    def create_lookup_instruction(self, embedding_tensor, indices, slot_vars, partition_strategy,
                                  name):
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE, use_resource=True):
            dummy = tf.get_variable("own", [], tf.float32, tf.zeros_initializer())
        return gen_pop_datastream_ops.ipu_device_embedding_lookup_trainable(
            dummy, indices, embedding_id=name, embedding_shape=embedding_tensor.shape,
            partition_strategy=partition_strategy, optimizer="SGD",
            learning_rate=self.get_learning_rate())

    def create_register_instruction(self, embedding_tensor, slot_vars, name):
        return gen_pop_datastream_ops.ipu_host_embedding_register(embedding_tensor, name)

    def create_deregister_instruction(self, embedding_tensor, slot_vars, name):
        return gen_pop_datastream_ops.ipu_host_embedding_deregister(embedding_tensor, name)


@pytest.mark.parametrize("is_resource", [False, True])
def test_lookups_before_the_table_is_known(is_resource, on_ipu, session):
    known = {"embedding_id": "late_rows", "embedding_shape": [4, 2]}
    start = np.arange(8, dtype="f").reshape(4, 2)

    def program():
        rows = gen_pop_datastream_ops.ipu_device_embedding_lookup([2], dtype=tf.float32, **known)
        return rows, gen_pop_datastream_ops.ipu_device_embedding_update_add(
            rows, 10 * rows, tf.constant([0]), **known)

    run = on_ipu(program)
    with tf.device("cpu"):
        table = tf.get_variable("late_table", initializer=start, use_resource=is_resource)
        other = tf.get_variable("other", [5, 2], use_resource=is_resource)
    begin = gen_pop_datastream_ops.ipu_host_embedding_register(table, "late_rows")
    end = gen_pop_datastream_ops.ipu_host_embedding_deregister(table, "late_rows")
    with pytest.raises(ValueError, match=r"is float32 \(4, 2\), not float32 \(5, 2\)"):
        gen_pop_datastream_ops.ipu_host_embedding_register(other, "late_rows")
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(run)
        sess.run(begin)
        np.testing.assert_array_equal(sess.run(run)[0], [[4, 5]])
        wanted = start + [[40, 50], [0, 0], [0, 0], [0, 0]]
        np.testing.assert_array_equal(sess.run(end), wanted)
        np.testing.assert_array_equal(sess.run(table), wanted)


def test_a_table_of_another_kind_is_registered_by_a_copy():
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.get_variable("old_rows", [4, 2], use_resource=False)
        with pytest.raises(ValueError, match="old_rows must be a resource variable"):
            embedding_ops.HostEmbedding("old_rows", table)
        begin = gen_pop_datastream_ops.ipu_host_embedding_register(table, "old_rows")
        end = gen_pop_datastream_ops.ipu_host_embedding_deregister(table, "old_rows")
        sess.run(table.initializer)
        sess.run(begin)
        np.testing.assert_array_equal(sess.run(end), sess.run(table))


def test_an_optimizer_of_embeddings_of_ones_own(on_ipu, session):
    table = np.arange(8, dtype="f").reshape(4, 2)
    embedding = embedding_ops.create_host_embedding(
        "rows", [4, 2], tf.float32, optimizer_spec=OwnDescent(0.5),
        initializer=tf.constant_initializer(table))

    def program():
        rows = embedding.lookup(tf.constant([1, 3]))
        loss = tf.reduce_sum(rows * rows)
        return rows, tf.train.GradientDescentOptimizer(0.5).minimize(loss)

    run = on_ipu(program)
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        with embedding.register(sess):
            np.testing.assert_array_equal(sess.run(run)[0], table[[1, 3]])
        wanted = table.copy()
        wanted[[1, 3]] -= 0.5 * 2 * table[[1, 3]]
        np.testing.assert_allclose(sess.run(embedding.get_embedding_tensor()), wanted)


def test_lookups_and_updates_of_an_embedding_by_its_name(on_ipu, session):
    table = np.arange(8, dtype="f").reshape(4, 2)
    embedding = embedding_ops.create_host_embedding(
        "plain_rows", [4, 2], tf.float32, initializer=tf.constant_initializer(table))
    known = {"embedding_id": "plain_rows", "embedding_shape": [4, 2]}

    def program():
        rows = gen_pop_datastream_ops.ipu_device_embedding_lookup([2], dtype=tf.float32, **known)
        with tf.control_dependencies([rows]):
            added = gen_pop_datastream_ops.ipu_device_embedding_update_add(
                tf.zeros([]), 10 * rows, tf.constant([0]), **known)
        return rows, added

    run = on_ipu(program)
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        with embedding.register(sess):
            np.testing.assert_array_equal(sess.run(run)[0], [[4, 5]])
        np.testing.assert_array_equal(sess.run(embedding.get_embedding_tensor())[0], [40, 51])
    with pytest.raises(ValueError, match=r"is float32 \(4, 2\), not float32 \[5, 2\]"):
        embedding_ops.tensor_of("plain_rows", [5, 2], tf.float32)


def test_sums_of_gradients_in_parts(on_ipu, session):
    def body(last):
        total = gen_poputil_ops.gradient_accumulator_create(last, tf.float32)
        total = gen_poputil_ops.gradient_accumulator_add_with_scale(total, [1.0, 2.0], 0.5)
        return gen_poputil_ops.gradient_accumulator_sink(total)

    run = on_ipu(lambda: ipu.loops.repeat(3, body, [tf.zeros([2])]))
    with session() as sess:
        for _ in range(2):  # a run begins with zeros
            np.testing.assert_allclose(sess.run(run)[0], [1.75, 3.5])
    with pytest.raises(ValueError, match="is no sum of gradients"):
        gen_poputil_ops.gradient_accumulator_sink(tf.zeros([2]))
    plain = on_ipu(lambda x: gen_poputil_ops.gradient_accumulator_add_with_scale(
        x, [1.0, 2.0], 0.5), [tf.constant([4.0, 6.0])])
    with session() as sess:
        np.testing.assert_array_equal(sess.run(plain)[0], [3, 5])


def test_accumulated_gradients_of_op_util(on_ipu, session):
    with tf.variable_scope("", use_resource=True), tf.device("/device:IPU:0"):
        v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())

    def body(last):
        (total, first), (none, second) = op_util.accumulate_gradients(
            [(tf.constant([1.0, 2.0]), v), (None, v)], tf.float32, accum_scale=0.5, grad_scale=2)
        assert none is None and first is v and second is v
        return total

    run = on_ipu(lambda: ipu.loops.repeat(3, body, [tf.zeros([2])]))
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(sess.run(run)[0], [3.5, 7])


def test_an_update_of_ones_own_after_some_mini_batches(on_ipu, session):
    with tf.variable_scope("", use_resource=True), tf.device("/device:IPU:0"):
        v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())

    def body(number):
        [(total, _)] = op_util.accumulate_gradients(
            [(tf.fill([2], tf.cast(number, tf.float32)), v)], None)
        seen = op_util.accumulate_tagged_gradients(
            {"a": [tf.cast(number, tf.float16), None]}, lambda gradient: tf.float32, grad_scale=2)
        assert seen["a"][0].dtype == tf.float32 and seen["a"][1] is None
        ran = []

        def update():
            ran.append(v.assign_add(total * 10.))
            ran.append(w.assign_add(seen["a"][0]))

        return number + 1, op_util.create_resource_update(update, "mine", ran, None, None, 3)

    run = on_ipu(lambda: ipu.loops.repeat(6, body, [tf.constant(1)]))
    short = on_ipu(lambda: ipu.loops.repeat(4, body, [tf.constant(1)]))
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(run)
        np.testing.assert_array_equal(sess.run(v), [210, 210])  # 10 x (1 + ... + 6)
        assert sess.run(w) == 42
        with pytest.raises(tf.errors.FailedPreconditionError, match="with 3 number of mini batch"):
            sess.run(short)


def test_accumulation_with_momentum_ends_with_the_loop(on_ipu, session):
    with tf.variable_scope("", use_resource=True), tf.device("/device:IPU:0"):
        accumulated = tf.get_variable("n", [1], initializer=tf.zeros_initializer())
    run = on_ipu(lambda: ipu.loops.repeat(8, lambda x: (
        gen_poputil_ops.ipu_stateful_gradient_accumulate_with_momentum(
            accumulated.handle, x, 0.5, 5)), [tf.ones([1])]))
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.FailedPreconditionError, match=(
                "Detected a gradient accumulation operation with 5 number of mini batches inside a "
                "loop with 8 iterations.")):
            sess.run(run)


def test_accumulation_with_momentum_in_a_variable(on_ipu, session):
    with tf.variable_scope("", use_resource=True), tf.device("/device:IPU:0"):
        accumulated = tf.get_variable("m", [1], initializer=tf.constant_initializer(8.0))

    def body(outputs, number):
        gradient = tf.reshape(tf.cast(number, tf.float32) + 1, [1])
        output = gen_poputil_ops.ipu_stateful_gradient_accumulate_with_momentum(
            accumulated.handle, gradient, 0.5, 2)
        return tf.concat([outputs[1:], output], 0), number + 1

    run = on_ipu(lambda: ipu.loops.repeat(4, body, [tf.zeros([4]), tf.constant(0)]))
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        first = 8 * 0.5 + 1 + 2
        second = first * 0.5 + 3 + 4
        np.testing.assert_allclose(sess.run(run)[0], [0, first, 0, second])
        np.testing.assert_allclose(sess.run(accumulated), [second])


def test_dropouts_have_the_names_of_their_operations():
    x = tf.ones([4])
    one = gen_poprand_ops.ipu_dropout_with_seed(x, [1, 2], 0.5, 2.0)
    two = gen_poprand_ops.ipu_dropout_with_seed_and_reference(x, [1, 2], one.reference, 0.5, 2.0)
    assert one.output.name.startswith("IpuDropoutWithSeed/")
    assert two.output.name.startswith("IpuDropoutWithSeedAndReference/")
