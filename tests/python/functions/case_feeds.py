"""Feeds in TensorFlow 2: iterators and queues as arguments of functions."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf


def numbers(count=10):
    return tf.data.Dataset.range(count).map(lambda x: tf.cast(x, tf.float32))


@pytest.fixture
def scope(strategy):
    with strategy.scope():
        yield strategy


@tf.function(jit_compile=True)
def doubled(iterator, outfeed, n):
    for _ in tf.range(n):
        outfeed.enqueue(next(iterator) * 2.)


def test_iterators_and_outfeeds_are_arguments(scope, ipu, events):
    iterator, outfeed = iter(numbers()), ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    assert type(iterator) is ipu.ipu_infeed_queue.IPUOwnedIterator
    assert outfeed.dequeue() == [] and list(outfeed) == []
    traces = doubled.experimental_get_tracing_count()
    events()
    for start in (0, 3):
        scope.run(doubled, args=(iterator, outfeed, 3))
        assert [float(one) for one in outfeed] == [2. * (start + i) for i in range(3)]
    assert events().count("EXECUTE") == 2
    assert doubled.experimental_get_tracing_count() == traces + 1
    scope.run(doubled, args=(iter(numbers()), outfeed, 3))
    assert float(sum(outfeed)) == 6 and doubled.experimental_get_tracing_count() == traces + 2


def test_a_thread_reads_what_another_enqueues(scope, ipu):
    outfeed, found = ipu.ipu_outfeed_queue.IPUOutfeedQueue(), []

    def read():
        deadline = time.monotonic() + 60
        while len(found) < 6 and time.monotonic() < deadline:
            found.extend(float(one) for one in outfeed)
            time.sleep(.005)

    thread = threading.Thread(target=read)
    thread.start()  # there is nothing yet
    for _ in range(2):
        scope.run(doubled, args=(iter(numbers()), outfeed, 3))
    thread.join()
    assert found == [0, 2, 4, 0, 2, 4]


def test_the_end_of_the_data(scope, ipu):
    iterator, outfeed = iter(numbers(4)), ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with pytest.raises(tf.errors.OutOfRangeError):
        scope.run(doubled, args=(iterator, outfeed, 5))
    outfeed.dequeue()
    scope.run(doubled, args=(iter(numbers(4)), outfeed, 4))
    assert [float(one) for one in outfeed] == [0, 2, 4, 6]


def test_for_over_an_iterator_ends_by_break(scope, ipu, events):
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def below(iterator, limit):
        total = 0.
        for element in iterator:
            if element > limit:
                break
            total += element
        return total

    @tf.function(jit_compile=True)
    def first(iterator, limit):
        for element in iterator:
            outfeed.enqueue(element)
            if element > limit:
                break
        return limit

    iterator = iter(numbers())
    events()
    assert float(scope.run(below, args=(iterator, 3.))) == 0 + 1 + 2 + 3
    assert events().count("EXECUTE") == 1
    scope.run(first, args=(iterator, 6.))  # 4 is what ended the first loop
    assert [float(one) for one in outfeed] == [5, 6, 7]
    with pytest.raises(tf.errors.OutOfRangeError):
        scope.run(below, args=(iterator, 100.))


def test_for_over_an_iterator_without_an_end_is_refused(scope):
    @tf.function(jit_compile=True)
    def endless(iterator):
        total = 0.
        for element in iterator:
            total += element
        return total

    with pytest.raises(NotImplementedError, match=r"get_next_as_optional.* needs a break"):
        scope.run(endless, args=(iter(numbers()),))


def test_structures(scope, ipu):
    dataset = tf.data.Dataset.from_tensor_slices(
        {"a": np.float32([1, 2, 3, 4]), "b": (np.int32([1, 2, 3, 4]),)}).batch(
            2, drop_remainder=True)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    iterator = iter(dataset)
    assert iterator.element_spec == dataset.element_spec

    @tf.function(jit_compile=True)
    def step(iterator):
        element = iterator.get_next()
        if element["a"][0] > 0.:
            outfeed.enqueue((element["a"] * 2., {"b": element["b"][0]}))
        return tf.reduce_sum(element["a"])

    assert [float(scope.run(step, args=(iterator,))) for _ in range(2)] == [3, 7]
    a, rest = outfeed.dequeue()
    np.testing.assert_array_equal(a, [[2, 4], [6, 8]])
    np.testing.assert_array_equal(rest["b"], [[1, 2], [3, 4]])


def test_loops_with_an_infeed_queue(scope, ipu):
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(numbers())
    infeed.initializer  # pylint: disable=pointless-statement

    @tf.function(jit_compile=True)
    def step():
        return ipu.loops.repeat(4, lambda total, x: total + x, [0.], infeed)

    assert [float(scope.run(step)) for _ in range(2)] == [6, 22]


def test_two_functions_enqueue_to_one_queue(scope, ipu):
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def step(x, factor):
        outfeed.enqueue(x * factor)

    for factor in (1., 2.):  # traced for each
        scope.run(step, args=(tf.constant(3.), factor))
    assert [float(one) for one in outfeed] == [3, 6]

    @tf.function(jit_compile=True)
    def twice(x):
        outfeed.enqueue(x)
        outfeed.enqueue(x)

    with pytest.raises(ValueError, match="An outfeed can only be enqueued once"):
        scope.run(twice, args=(tf.constant(3.),))


def test_enqueued_is_told_of_the_function_that_is_traced(scope, ipu):
    """A function that enqueues once, however often it is called in a program, and in each of two
    programs; also where the computation is compiled inside the function."""
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def noted(x):
        if not outfeed.enqueued:
            outfeed.enqueue(x)
        with pytest.raises(ValueError, match="can only be enqueued once"):
            outfeed.enqueue(x)
        return x + 1.

    def compiled(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result, = ipu.ipu_compiler.compile(lambda x: noted(noted(x)), [x])
        assert outfeed.enqueued
        return result

    for one in (lambda x: noted(noted(x))), (lambda x: noted(x) * 2.):
        function = tf.function(one, jit_compile=True, autograph=False)
        scope.run(function, args=(tf.constant(5.),))
        assert outfeed.dequeue().numpy().tolist() == [5.]
    for value in 6., 7.:
        assert tf.function(compiled, autograph=False)(tf.constant(value)).numpy() == value + 2
        assert outfeed.dequeue().numpy().tolist() == [value]


def test_what_iterators_refuse(scope, ipu, tmp_path):
    iterator = iter(numbers())
    with pytest.raises(RuntimeError, match="^Accessing dataset elements can not be accessed in "
                                           "eager mode when inside 'IPUStrategy'."):
        next(iterator)
    with pytest.raises(NotImplementedError, match=r"does not support get_next_as_optional\(\)"):
        iterator.get_next_as_optional()
    with pytest.raises(NotImplementedError, match="is not currently saveable"):
        tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    spec = iterator.infeed_spec
    for arguments in ({}, {"infeed_spec": spec}, {"dataset": numbers(), "infeed_spec": spec}):
        with pytest.raises(ValueError, match="Either `dataset` or both `infeed_spec`"):
            ipu.ipu_infeed_queue.IPUIterator(**arguments)

    @tf.function(jit_compile=True)
    def second(one, other):
        return next(one) + next(other)

    with pytest.raises(tf.errors.FailedPreconditionError, match="multiple IPUInfeedQueue"):
        scope.run(second, args=(iterator, iter(numbers())))


def test_types_that_cannot_be_fed(scope):
    @tf.function(jit_compile=True)
    def step(iterator):
        return tf.cast(next(iterator), tf.float32)

    with pytest.raises(tf.errors.FailedPreconditionError, match="Unsupported datatype double"):
        scope.run(step, args=(iter(tf.data.Dataset.from_tensors(
            np.float64([1.])).repeat()),))
    with pytest.raises(ValueError, match="is not fully defined"):
        iter(numbers().batch(3))


def test_plain_iterators(ipu):
    plain = ipu.ipu_strategy.IPUStrategy(enable_dataset_iterators=False)
    with plain.scope():
        assert float(next(iter(numbers()))) == 0
    assert float(next(iter(numbers()))) == 0  # outside of a scope


def test_scoped_queues_and_owned_iterators_go(scope, ipu):
    outfeed = ipu.ipu_outfeed_queue.ScopedIPUOutfeedQueue()
    iterator = iter(numbers())
    queue = weakref.ref(iterator._queue)
    step = tf.function(lambda iterator, outfeed: outfeed.enqueue(next(iterator)) and None,
                       jit_compile=True, autograph=False)
    scope.run(step, args=(iterator, outfeed))
    assert float(outfeed.dequeue()[0]) == 0
    del iterator, outfeed
    gc.collect()
    assert queue() is None
    with tf.Graph().as_default(), pytest.raises(
            RuntimeError, match="ScopedIPUOutfeedQueue can only be created in eager mode"):
        ipu.ipu_outfeed_queue.ScopedIPUOutfeedQueue()
