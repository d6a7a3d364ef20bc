"""How gradients are built."""

from tremula.tf.inner import marks
from tremula.tf.inner.patches.wrapping import wrap


def wrap_gradients(enter):
    """Makes `tf.gradients` build the gradient of each operation inside `enter(operation)`, a
    context manager."""
    from tensorflow.python.ops import gradients_util

    def inside(build):
        def build_inside(scope, op, func, grad_fn):
            with enter(op):
                return build(scope, op, func, grad_fn)
        return build_inside

    wrap(gradients_util, "_MaybeCompile", inside)


def wrap_tape_gradients(attribute, enter):
    """Makes `tf.GradientTape`, where it records a graph, build the gradient of each operation
    that has `attribute` inside `enter(value)`, a context manager; `value` is bytes."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import backprop, execute

    build, record = backprop._gradient_function, execute.record_gradient

    def record_with_attribute(op_name, inputs, attrs, outputs):
        # A tape keeps these four, not the operation; the outputs only where a gradient needs them.
        operation = getattr(outputs[0], "op", None) if outputs else None
        value = marks.operation_attribute(operation, attribute) if operation is not None else None
        if value is not None:
            attrs = (*(attrs or ()), attribute, value)
        return record(op_name, inputs, attrs, outputs)

    def build_inside(op_name, attr_tuple, *rest):
        names, values = (attr_tuple or ())[::2], (attr_tuple or ())[1::2]
        value = dict(zip(names, values)).get(attribute)
        if value is None:
            return build(op_name, attr_tuple, *rest)
        with enter(value):
            return build(op_name, attr_tuple, *rest)

    execute.record_gradient = record_with_attribute
    backprop._gradient_function = build_inside
    pywrap_tfe.TFE_Py_RegisterGradientFunction(build_inside)
