"""Where an operation is being built, and marks for it: helpers of this package's modules."""

import contextlib
import functools

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs
from tremula.tf.runtime.launching import launching
from tremula.tf.runtime.tracing import tracing


def in_program():
    """Whether operations that are built now belong to a compiled program, where custom calls are
    possible. Operations that are placed on an IPU one by one must be TensorFlow's own."""
    return graphs.in_static_program()


def whole(function):
    """Makes function(*tensors), which is built of many operations, one node where it is placed on
    an IPU outside of a program: loops are no operations that can be placed one by one.

    `function` takes tensors and returns a tensor or a tuple of tensors; it must use nothing else of
    the graph. The gradient is a node that computes it again.
    """
    @functools.wraps(function)
    def call(*tensors):
        tensors = [tf.convert_to_tensor(one) for one in tensors]
        device = "" if tf.executing_eagerly() or in_program() else tf.no_op().device
        if "ipu:" not in device.lower():
            return function(*tensors)
        return _as_node(function, tensors, device)

    return call


def _as_node(function, tensors, device):
    def node(function, tensors):
        trace = tracing.Trace("part", device)
        returned = trace.run(function, list(tensors))
        trace.finish(returned if isinstance(returned, (list, tuple)) else [returned])
        return launching.launch_part(trace, "IpuLaunch")

    @tf.custom_gradient
    def run(*tensors):
        outputs = node(function, tensors)

        def gradient(*d_outputs):
            wanted = [i for i, one in enumerate(tensors) if one.dtype.is_floating]

            def backward(*values):
                inputs, given = values[:len(tensors)], values[len(tensors):]
                made = function(*inputs)
                made = list(made) if isinstance(made, (list, tuple)) else [made]
                floats = [i for i, one in enumerate(made) if one.dtype.is_floating]
                found = tf.gradients([made[i] for i in floats], [inputs[i] for i in wanted],
                                     [given[i] for i in floats])
                return [tf.zeros_like(inputs[i]) if one is None else one
                        for i, one in zip(wanted, found)]

            placed = dict(zip(wanted, node(backward, [*tensors, *d_outputs])))
            return [placed.get(i) for i in range(len(tensors))]

        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), gradient

    return run(*tensors)


@contextlib.contextmanager
def marked(**attributes):
    """Marks what is built with frontend attributes (names and text; None: not), which the cost
    model reads."""
    from tremula.tf.ipu import scopes
    with contextlib.ExitStack() as stack:
        for name, value in attributes.items():
            if value is not None:
                stack.enter_context(scopes.frontend_attribute(name, str(value)))
        yield


@contextlib.contextmanager
def layer(scope, word, key):
    """Marks what is built as one layer of a library: profiles call it by the name scope `scope` and
    the library's `word` for it, and layers of the same word and `key` (any value; None: no key)
    share their code, as in the original."""
    with marked(popnn_word=word, popnn_scope=scope_of(scope), popnn_key=key), one_op():
        yield


def scope_of(scope):
    """The name of the operation whose name scope it is; that of a custom gradient is the one's
    that it is of."""
    return scope.rstrip("/").replace("/IdentityN_grad", "_grad")


def part(name):
    """Marks a part of a layer by what the library calls it."""
    return marked(popnn_part=name)


def one_op():
    """For what is one operation in the original: casts to float16 before it round, as do its own,
    though it begins and ends with casts (src/passes/halves.c)."""
    return marked(KEEP_CASTS="true")
