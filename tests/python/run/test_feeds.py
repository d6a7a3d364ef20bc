"""Infeed and outfeed queues, and the loops that use them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

from tremula.tf.runtime.device import plugin

pytestmark = pytest.mark.smoke

IPUInfeedQueue = ipu.ipu_infeed_queue.IPUInfeedQueue
IPUOutfeedQueue = ipu.ipu_outfeed_queue.IPUOutfeedQueue
IPUOutfeedMode = ipu.ipu_outfeed_queue.IPUOutfeedMode


def counting(stop=10 ** 6):
    return tf.data.Dataset.range(stop).map(lambda i: tf.cast(i, tf.float32))


def summing(on_ipu, infeed, n, outfeed=None):
    """A program that adds up `n` elements."""
    def body(total, x):
        total += x
        return (total, outfeed.enqueue(x)) if outfeed else total
    return on_ipu(lambda: ipu.loops.repeat(n, body, [0.], infeed))


def test_runs_go_on_where_the_last_one_stopped(on_ipu, session):
    infeed = IPUInfeedQueue(counting())
    run = summing(on_ipu, infeed, 5)
    with session() as s:
        s.run(infeed.initializer)
        assert s.run(run) == [0 + 1 + 2 + 3 + 4]
        assert s.run(run) == [5 + 6 + 7 + 8 + 9]
        assert s.run(run) == [10 + 11 + 12 + 13 + 14]


def test_program_that_takes_less_than_the_queue_holds(on_ipu, session):
    infeed = IPUInfeedQueue(counting(), prefetch_depth=1)
    run = summing(on_ipu, infeed, 1)
    with session() as s:
        s.run(infeed.initializer)
        assert [s.run(run)[0] for _ in range(20)] == list(range(20))


def test_initialising_again_starts_from_the_beginning(on_ipu, session):
    infeed = IPUInfeedQueue(counting())
    run = summing(on_ipu, infeed, 3)
    start = infeed.initializer
    with session() as s:
        for _ in range(2):
            s.run(start)
            assert s.run(run) == [3]


def test_end_of_data(on_ipu, session):
    infeed = IPUInfeedQueue(counting(8))
    run = summing(on_ipu, infeed, 4)
    start = infeed.initializer
    with session() as s:
        s.run(start)
        assert s.run(run) == [6]
        assert s.run(run) == [22]
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError, match="iterator out of range"):
                s.run(run)
        s.run(start)
        assert s.run(run) == [6]


def test_error_of_the_dataset(on_ipu, session):
    """It arrives when the element is read, which is a few elements before it is needed."""
    dataset = counting().map(lambda x: tf.check_numerics(1. / (x - 10.), "ten is bad"))
    infeed = IPUInfeedQueue(dataset)
    run = on_ipu(lambda: ipu.loops.repeat(4, lambda total, x: total + x * 0. + 1., [0.], infeed))
    start = infeed.initializer
    with session() as s:
        s.run(start)
        assert s.run(run) == [4]
        with pytest.raises(tf.errors.InvalidArgumentError, match="ten is bad"):
            for _ in range(2):
                s.run(run)
    with session() as s:
        s.run(start)
        assert s.run(run) == [4]


def test_dataset_that_needs_a_tensor_of_the_graph(on_ipu, session):
    offset = tf.constant(100.)
    infeed = IPUInfeedQueue(counting().map(lambda x: x + offset))
    run = summing(on_ipu, infeed, 2)
    with session() as s:
        s.run(infeed.initializer)
        assert s.run(run) == [201]


def test_not_initialised(on_ipu, session):
    run = summing(on_ipu, IPUInfeedQueue(counting()), 2)
    with session() as s, pytest.raises(tf.errors.FailedPreconditionError):
        s.run(run)


def test_tuples_and_dicts(on_ipu, session):
    pairs = IPUInfeedQueue(counting().map(lambda x: (x, 2. * x)))
    named = IPUInfeedQueue(counting().map(lambda x: {"a": x, "b": {"c": x + 1.}}))
    run_pairs = on_ipu(lambda: ipu.loops.repeat(3, lambda t, x, y: t + x * y, [0.], pairs))
    run_named = on_ipu(
        lambda: ipu.loops.repeat(3, lambda t, a, b: t + a * b["c"], [0.], named))
    with session() as s:
        s.run([pairs.initializer, named.initializer])
        assert s.run(run_pairs) == [0 + 2 + 8]
        assert s.run(run_named) == [0 + 2 + 6]


# ---- Outfeeds ----

def test_all(on_ipu, session):
    infeed, outfeed = IPUInfeedQueue(counting()), IPUOutfeedQueue()
    run = summing(on_ipu, infeed, 4, outfeed)
    dequeue = outfeed.dequeue()
    with session() as s:
        s.run(infeed.initializer)
        assert s.run(dequeue).shape == (0,)
        s.run(run)
        s.run(run)
        np.testing.assert_array_equal(s.run(dequeue), np.arange(8))
        assert s.run(dequeue).shape == (0,)


def test_last(on_ipu, session):
    infeed = IPUInfeedQueue(counting())
    outfeed = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    run = summing(on_ipu, infeed, 4, outfeed)
    dequeue = outfeed.dequeue()
    with session() as s:
        s.run(infeed.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="before it was executed"):
            s.run(dequeue)
        s.run(run)
        assert s.run(dequeue) == 3
        assert s.run(dequeue) == 3
        s.run(run)
        assert s.run(dequeue) == 7


def test_structure_and_no_infeed(on_ipu, session):
    outfeed = IPUOutfeedQueue()

    def body(x):
        return x + 1., outfeed.enqueue({"x": x, "pair": (x * 2., tf.ones([2, 3]) * x)})

    run = on_ipu(lambda: ipu.loops.repeat(3, body, [1.]))
    dequeue = outfeed.dequeue()
    with session() as s:
        assert s.run(run) == [4]
        value = s.run(dequeue)
    np.testing.assert_array_equal(value["x"], [1, 2, 3])
    np.testing.assert_array_equal(value["pair"][0], [2, 4, 6])
    assert value["pair"][1].shape == (3, 2, 3) and value["pair"][1][2, 1, 1] == 3


def test_old_signatures(on_ipu, session):
    infeed = IPUInfeedQueue(counting(), "feed", 0, 1, data_to_prefetch=2)
    outfeed = IPUOutfeedQueue("out", replication_factor=1, io_batch_size=1)
    assert IPUOutfeedQueue("out", outfeed_all=False)._mode is IPUOutfeedMode.LAST
    run = summing(on_ipu, infeed, 2, outfeed)
    dequeue = outfeed.dequeue()
    with session() as s:
        s.run(infeed.initializer)
        s.run(run)
        np.testing.assert_array_equal(s.run(dequeue), [0, 1])
    with pytest.raises(TypeError, match="unexpected argument 'depth'"):
        IPUInfeedQueue(counting(), depth=3)


def test_enqueue_twice(on_ipu):
    outfeed = IPUOutfeedQueue()

    def body(x):
        return x, outfeed.enqueue(x), outfeed.enqueue(x)

    with pytest.raises(ValueError, match="can only be enqueued once"):
        on_ipu(lambda: ipu.loops.repeat(2, body, [1.]))


def test_dequeue_before_enqueue():
    with pytest.raises(ValueError, match="before it was enqueued"):
        IPUOutfeedQueue().dequeue()


def test_names_of_queues_and_inputs_make_no_other_program(session):
    def program(start):
        infeed, outfeed = IPUInfeedQueue(counting().map(lambda x: x + start)), IPUOutfeedQueue()
        with tf.device("cpu"):
            first = tf.placeholder(tf.float32, [2])  # named Placeholder, Placeholder_1

        def body(total, x):
            return total + x, outfeed.enqueue(x)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(
                lambda v: ipu.loops.repeat(3, body, [v], infeed), [first])
        return first, infeed.initializer, run, outfeed.dequeue()

    built = plugin.library().trm_tf_units_built()
    with session() as s:
        for start in 0, 10:
            first, initializer, run, dequeue = program(start)
            s.run(initializer)
            total, = s.run(run, {first: [100, 200]})
            np.testing.assert_array_equal(total, np.array([103, 203]) + 3 * start)
            np.testing.assert_array_equal(s.run(dequeue), np.arange(3) + start)
    assert plugin.library().trm_tf_units_built() == built + 1


# ---- Loops ----

def test_what_repeat_returns(on_ipu, session):
    one = on_ipu(lambda: ipu.loops.repeat(3, lambda x: x * 2., [1.]))
    two = on_ipu(lambda: ipu.loops.repeat(3, lambda x, y: (x + y, y), [1., 2.]))

    def body():
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        return v.assign_add(1.).op

    none = on_ipu(lambda: ipu.loops.repeat(3, body))
    assert isinstance(none, tf.Operation)
    with session() as s:
        s.run(tf.global_variables_initializer())
        assert s.run(one) == [8]
        assert s.run(two) == [7, 2]
        s.run(none)
        assert s.run(tf.global_variables()[0]) == 3


def test_trip_count_from_a_tensor(on_ipu, session):
    with tf.device("cpu"):
        n = tf.placeholder(tf.int32, [])
    run = on_ipu(lambda n: ipu.loops.repeat(n, lambda x: x + 1., [0.]), [n])
    with session() as s:
        assert s.run(run, {n: 4}) == [4]
        assert s.run(run, {n: 0}) == [0]


def test_while_loop(on_ipu, session):
    run = on_ipu(lambda: ipu.loops.while_loop(lambda x: x < 100., lambda x: x * 3., [1.]))
    cut = on_ipu(lambda: ipu.loops.while_loop(lambda x: x < 100., lambda x: x * 3., [1.],
                                              maximum_iterations=2))
    with session() as s:
        assert s.run(run) == [243]
        assert s.run(cut) == [9]


def test_wrong_arity(on_ipu):
    with pytest.raises(TypeError, match="cannot be called with the specified inputs. You "
                                        "specified 1 inputs"):
        on_ipu(lambda: ipu.loops.repeat(2, lambda x, y: x, [1.]))


def test_wrong_types(on_ipu):
    with pytest.raises(TypeError, match="Mismatch between input types and output types"):
        on_ipu(lambda: ipu.loops.repeat(2, lambda x: tf.cast(x, tf.int32), [1.]))


def test_operations_before_tensors(on_ipu):
    with pytest.raises(ValueError, match="tensors first"):
        on_ipu(lambda: ipu.loops.repeat(2, lambda x: (tf.no_op(), x), [1.]))


# ---- What queues refuse ----

def test_initializer_once():
    infeed = IPUInfeedQueue(counting())
    assert infeed.number_of_tuple_elements == 1 and not infeed.dequeued
    infeed.initializer  # pylint: disable=pointless-statement
    with pytest.raises(ValueError, match="can only be accessed once"):
        infeed.initializer  # pylint: disable=pointless-statement


def test_unknown_shape():
    with pytest.raises(ValueError, match="drop_remainder=True"):
        IPUInfeedQueue(counting().batch(4))


@pytest.mark.parametrize("depth", [-1, 0, 256])
def test_depth_out_of_range(depth):
    with pytest.raises(ValueError, match="greater than zero and less than 256"):
        IPUInfeedQueue(counting(), prefetch_depth=depth)


def test_type_that_cannot_be_fed(on_ipu, session):
    infeed = IPUInfeedQueue(tf.data.Dataset.range(5))
    on_ipu(lambda: ipu.loops.repeat(2, lambda x: None, [], infeed))
    with session() as s, pytest.raises(tf.errors.FailedPreconditionError,
                                       match="Unsupported datatype int64 on index 0"):
        s.run(infeed.initializer)


def test_loops_one_after_the_other_on_one_queue(on_ipu, session):
    infeed = IPUInfeedQueue(counting())

    def network():
        first = ipu.loops.repeat(3, lambda total, x: total + x, [0.], infeed)
        return ipu.loops.repeat(2, lambda total, x: 100 * total + x, [first], infeed)

    run = on_ipu(network)
    with session() as s:
        s.run(infeed.initializer)
        assert s.run(run) == [(0 + 1 + 2) * 10000 + 3 * 100 + 4]
        assert s.run(run) == [(5 + 6 + 7) * 10000 + 8 * 100 + 9]


def test_an_element_without_a_loop(on_ipu, session):
    infeed = IPUInfeedQueue(counting())
    run = on_ipu(lambda: infeed._dequeue() + 1)
    with session() as s:
        s.run(infeed.initializer)
        assert [s.run(run)[0] for _ in range(3)] == [1, 2, 3]


def test_a_tuple_that_holds_a_dict_is_passed_by_name(on_ipu, session):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(
        ({"a": [1., 2.], "b": [30., 40.]},)))
    run = on_ipu(lambda: ipu.loops.repeat(2, lambda total, b, a: total + b - a, [0.], infeed))
    with session() as s:
        s.run(infeed.initializer)
        assert s.run(run) == [67.]


def test_deleter_of_a_queue_that_has_not_been_started(on_ipu, session):
    infeed = IPUInfeedQueue(counting())
    run = summing(on_ipu, infeed, 3)
    start, delete = infeed.initializer, infeed.deleter
    with session() as s:
        for _ in range(2):
            with pytest.raises(tf.errors.NotFoundError, match="Infeed with id='infeed"):
                s.run(delete)
            s.run(start)
            assert s.run(run) == [0 + 1 + 2]
            s.run(delete)


def test_enqueued_is_told_of_the_default_graph(session):
    outfeed = IPUOutfeedQueue()
    for _ in range(2):
        with tf.Graph().as_default(), session() as s:
            assert not outfeed.enqueued
            with pytest.raises(ValueError, match="before it was enqueued"):
                outfeed.dequeue()
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                run = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(
                    2, lambda x: (x + 1, outfeed.enqueue(x)), [5.]))
            assert outfeed.enqueued
            s.run(run)
            assert s.run(outfeed.dequeue()).tolist() == [5., 6.]


def test_dimension_of_size_zero(on_ipu, session):
    infeed = IPUInfeedQueue(counting().map(lambda x: tf.zeros([0])))
    on_ipu(lambda: ipu.loops.repeat(2, lambda x: None, [], infeed))
    with session() as s, pytest.raises(tf.errors.InvalidArgumentError, match="dimension of size 0"):
        s.run(infeed.initializer)


def test_an_outfeed_of_a_dimension_of_size_zero(on_ipu, session):
    outfeed = IPUOutfeedQueue()
    compiled = on_ipu(lambda: ipu.loops.repeat(2, lambda: outfeed.enqueue(tf.zeros([0, 3]))))
    with session() as s, pytest.raises(
            tf.errors.InvalidArgumentError,
            match="Detected an input tensor to an outfeed queue with a dimension of size 0"):
        s.run(compiled)


def test_two_infeeds(on_ipu, session):
    a, b = IPUInfeedQueue(counting()), IPUInfeedQueue(counting())

    def program():
        first = ipu.loops.repeat(2, lambda t, x: t + x, [0.], a)
        return ipu.loops.repeat(2, lambda t, x: t + x, [first], b)

    compiled = on_ipu(program)
    with session() as s:
        s.run([a.initializer, b.initializer])
        with pytest.raises(tf.errors.FailedPreconditionError, match="multiple IPUInfeedQueue"):
            s.run(compiled)


def test_a_name_as_the_outfeed_s_mode(on_ipu, session):
    """Programs of both generations hand the name on as the first argument."""
    feed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode="losses")
    run = on_ipu(lambda: ipu.loops.repeat(3, lambda i: (i + 1, feed.enqueue(i)), [0]))
    values = feed.dequeue()
    with session() as s:
        s.run(run)
        assert s.run(values).tolist() == [0, 1, 2]
    for wrong in (3, "LAST", "last"):
        with pytest.raises(ValueError, match="must be an IPUOutfeedMode"):
            ipu.ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode=wrong)
