"""Loops on the IPU (`tensorflow.python.ipu.loops`)."""

import contextlib
import inspect
import threading

from tremula.tf.inner import python_code
from tremula.tf.runtime.base import checks, feed_arguments


def repeat(n, body, inputs=None, infeed_queue=None, use_while_v1=True):
    """Runs `body` `n` times on the IPU. Call it in a computation that is compiled
    (`examples/feeds.py` is a whole program).

    n             an integer, or a scalar tensor of integers
    body          a function; gets what it returned before, the first time `inputs`, and then the
                  next element of the infeed queue (by name if it is a dict)
    inputs        a list of tensors of any shape and type
    infeed_queue  an IPUInfeedQueue, whose dataset gives the elements

    The body returns as many tensors as there are inputs, of the same types and shapes, and after
    them operations, which are run. Returns a list of tensors, the tensor if there is one, or an
    operation if there is none. `use_while_v1` makes no difference.

    Raises TypeError for a body that does not take or return what it must, ValueError if it does not
    return tensors before operations.
    """
    checks.boolean("use_while_v1", use_while_v1)
    import tensorflow.compat.v1 as tf
    checks.scalar("The number of iterations", n)
    n = tf.cast(tf.convert_to_tensor(n), tf.int32)
    count = tf.get_static_value(n)
    # TensorFlow's own count of iterations ends a loop of a known number of them.
    goes_on = (lambda *_: True) if count is not None else lambda counter, *_: counter < n
    return _loop(goes_on, body, inputs, infeed_queue, "repeat", count)


def while_loop(condition, body, inputs=None, infeed_queue=None, maximum_iterations=None,
               use_while_v1=True):
    """Runs body(*inputs, *elements) while condition(*inputs), a scalar bool, holds, and not more
    than `maximum_iterations` times. The rest, with shapes, types and errors, is as in repeat().
    Raises TypeError also for a condition that is no function."""
    checks.boolean("use_while_v1", use_while_v1)
    import tensorflow.compat.v1 as tf
    checks.function("The condition of a loop", condition)
    if maximum_iterations is not None:
        checks.scalar("maximum_iterations", maximum_iterations)
        maximum_iterations = tf.cast(tf.convert_to_tensor(maximum_iterations), tf.int32)

    def goes_on(counter, *values):
        holds = python_code.user_function(condition)(*values)
        holds = tf.reshape(tf.convert_to_tensor(holds), [])
        return holds if maximum_iterations is None else tf.logical_and(
            holds, counter < maximum_iterations)

    return _loop(goes_on, body, inputs, infeed_queue, "while_loop")


def current():
    """The innermost loop that is being built in this thread, as (counter, trip_count), or None.

    counter     a scalar int32 tensor of the loop's body: how many iterations are done
    trip_count  an int, or None where it is not known while building
    """
    loops = getattr(_local, "loops", None)
    return loops[-1] if loops else None


_local = threading.local()


@contextlib.contextmanager
def _inside(counter, trip_count):
    if not hasattr(_local, "loops"):
        _local.loops = []
    _local.loops.append((counter, trip_count))
    try:
        yield
    finally:
        _local.loops.pop()


def _loop(goes_on, body, inputs, infeed_queue, name, trip_count=None):
    """The loop with a counter before the loop's variables: goes_on(counter, *values)."""
    import tensorflow.compat.v1 as tf
    checks.function("The body of a loop", body)
    if infeed_queue is not None and not hasattr(infeed_queue, "_dequeue"):
        raise TypeError("infeed_queue must be an ipu_infeed_queue.IPUInfeedQueue, not "
                        f"{infeed_queue!r}.")
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    inputs = checks.tensors("The inputs of a loop", inputs or [])
    _check_arity(body, inputs, infeed_queue)

    def step(counter, *values):
        with _inside(counter, trip_count):
            returned = _call(body, values, infeed_queue)
        tensors, operations = _split(returned)
        _check_types(values, tensors)
        with tf.control_dependencies(operations):
            return [counter + 1, *[tf.identity(one) for one in tensors]]

    counter, *results = tf.while_loop(
        goes_on, step, [tf.constant(0), *inputs], parallel_iterations=1,
        # A gradient keeps values of every iteration: in a static program, in lists of that size.
        maximum_iterations=trip_count, return_same_structure=True, name=name)
    if infeed_queue is not None and not infeed_queue.dequeued:
        raise ValueError("The infeed queue has not been dequeued.")
    if not results:
        return tf.group(counter, name=f"{name}_done")
    return results if len(results) > 1 else results[0]


def _call(body, values, infeed_queue):
    body = python_code.user_function(body)
    if infeed_queue is None:
        return body(*values)
    positional, named = feed_arguments.of_element(infeed_queue._dequeue())
    return body(*values, *positional, **named)


def _split(returned):
    """What a body returned, as tensors and operations."""
    import tensorflow.compat.v1 as tf
    if returned is None:
        returned = []
    if not isinstance(returned, (list, tuple)):
        returned = [returned]
    returned = [one for one in returned if one is not None]
    operations = [one for one in returned if isinstance(one, tf.Operation)]
    tensors = returned[:len(returned) - len(operations)]
    if any(isinstance(one, tf.Operation) for one in tensors):
        raise ValueError("A loop body must return tensors first and then operations, but it "
                         f"returned {returned}.")
    return [tf.convert_to_tensor(one) for one in tensors], operations


def _check_types(values, tensors):
    before = [one.dtype.base_dtype for one in values]
    after = [one.dtype.base_dtype for one in tensors]
    if before != after:
        raise TypeError(f"Mismatch between input types and output types for loop body: {before} "
                        f"vs {after}.")


def _check_arity(body, inputs, infeed_queue):
    """Raises TypeError if body cannot be called as the loop will call it."""
    names, count = [], len(inputs)
    if infeed_queue is not None:
        positional, names = feed_arguments.of_element(infeed_queue._structure)
        count += len(positional)
    try:
        signature = inspect.signature(body)
    except (TypeError, ValueError):
        return  # a builtin, which has none
    try:
        signature.bind(*range(count), **dict.fromkeys(names))
    except TypeError as error:
        raise TypeError(
            "Supplied loop body function cannot be called with the specified inputs. You "
            f"specified {len(inputs)} inputs: {[one.name for one in inputs]}"
            + (f", and {infeed_queue.number_of_tuple_elements} additional inputs come from the "
               "infeed" if infeed_queue is not None else "")
            + f", but the loop body is {signature}: {error}.") from None
