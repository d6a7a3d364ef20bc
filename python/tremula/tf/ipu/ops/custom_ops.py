"""Operations of the user's own (`tensorflow.python.ipu.ops.custom_ops`): see docs/user_ops.md."""

import functools
import json
import logging
import os

import tensorflow.compat.v1 as tf

from tremula import custom_calls
from tremula.tf.inner import functions, graphs
from tremula.tf.ipu import config as ipu_config
from tremula.tf.ipu.ops import _building
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.device import settings, user_libraries
from tremula.tf.runtime.tracing import tracing

_TARGET = custom_calls.USER_OP
LOG = logging.getLogger("tremula")


def codelet_expression_op(vertex_expression, *args):
    """vertex_expression(*args), an elementwise expression: a tensor of the type of the first
    argument. It is compiled into one loop with what is around it, and has gradients.

    Raises ValueError without arguments, and for what is no tensor of the arguments' common shape.
    """
    if not args:
        raise ValueError("codelet_expression_op needs at least one tensor.")
    args = [tf.convert_to_tensor(one) for one in args]
    with tf.name_scope("codelet_expression_op"), _building.marked(
            internal="IpuCodeletExpressionOp"):
        result = tf.convert_to_tensor(vertex_expression(*args))
        shape = functools.reduce(tf.broadcast_static_shape, [one.shape for one in args])
        if not result.shape.is_compatible_with(shape):
            raise ValueError("The expression of a codelet_expression_op must be elementwise, but "
                             f"from tensors of the shape {shape} it made one of {result.shape}.")
        return tf.cast(result, args[0].dtype)


def precompiled_user_op(inputs, library_path, gp_path="", outs=None, name="UserOp",
                        op_name="Build", separate_gradients=False, inputs_with_gradients=None,
                        attributes=None, gradient_attributes=None):
    """Calls an operator of a shared library: C++ against Poplar's headers, compiled with Tremula's
    (docs/custom_operators.md), or a C function with the signature of include/tremula/user_op.h.

    inputs                 list of tensors
    library_path           the shared library
    gp_path                the operator's codelets: a .gp that popc made, or a C++ source. A C
                           function has none: a warning says so
    outs                   {"output_types": [types], "output_shapes": [shapes]}; None: no outputs
    name                   of the operation
    op_name                the function; its gradient is the function `<op_name>_grad`
    separate_gradients     whether the gradient is called once for each input, to give one output
    inputs_with_gradients  numbers of the inputs that the gradient has outputs for; None: all
    attributes, gradient_attributes   text that the function, or its gradient, gets

    Each execution calls the C function, or runs the program that the C++ function has built when
    the IPU program was compiled. Returns a list of tensors; without outputs
    the operation, which in the body of a loop or a branch must be returned or waited for. In the
    graph of a function that is no program, such as one in which Keras infers shapes, the results
    have types and shapes only.

    Raises NotFoundError for a library or function that is not there, FailedPreconditionError for a
    library made with Poplar itself, InternalError for one of an unknown API level, RuntimeError
    outside of a program and of any function, ValueError for other arguments that do not fit. A
    function that is run and is no program fails with InvalidArgumentError.
    """
    return _user_op(inputs, library_path, outs, name, op_name, separate_gradients,
                    inputs_with_gradients, attributes, gradient_attributes, callback=False,
                    gp_path=gp_path)


def cpu_user_operation(inputs, library_path, outs=None, name="UserOp", op_name="Callback",
                       separate_gradients=False, inputs_with_gradients=None, attributes=None,
                       gradient_attributes=None):
    """precompiled_user_op() for a function on the host, which besides may have the signature that
    the original has for it (C++ vectors and strings, of GCC's library): libraries that were written
    for that need no change.

    The arguments, with the types and shapes in `outs`, and the errors are those of
    precompiled_user_op(), such as NotFoundError for a library that is not there.
    """
    return _user_op(inputs, library_path, outs, name, op_name, separate_gradients,
                    inputs_with_gradients, attributes, gradient_attributes, callback=True)


def _user_op(inputs, library_path, outs, name, op_name, separate_gradients, inputs_with_gradients,
             attributes, gradient_attributes, callback, gp_path=""):
    if not _building.in_program() and not functions.is_traced():
        raise RuntimeError(_no_program(op_name))
    for argument, value in ("inputs", inputs), ("inputs_with_gradients", inputs_with_gradients):
        if not isinstance(value, (list, tuple)) and (value is not None or argument == "inputs"):
            raise TypeError(f"{argument} must be a list, but it is {value!r}.")
    checks.text("op_name", op_name)
    name = checks.text("name", name, optional=True) or "UserOp"
    attributes, gradient_attributes = (
        checks.text(argument, value.decode() if isinstance(value, bytes) else value, optional=True)
        for argument, value in (("attributes", attributes),
                                ("gradient_attributes", gradient_attributes)))
    inputs = checks.tensors("inputs", inputs)
    types, shapes = _outputs(outs)
    wanted = list(range(len(inputs))) if inputs_with_gradients is None else list(
        inputs_with_gradients)
    if not all(isinstance(i, int) and 0 <= i < len(inputs) for i in wanted):
        raise ValueError(f"inputs_with_gradients must be numbers of the {len(inputs)} inputs, but "
                         f"is {inputs_with_gradients}.")
    call = functools.partial(_call, user_libraries.absolute(library_path), callback=callback,
                             gp_path=os.fspath(gp_path or ""))
    if not types:
        return call(op_name, name, inputs, [], [], attributes)

    @tf.custom_gradient
    def operation(*inputs):
        outputs = call(op_name, name, inputs, types, shapes, attributes)

        def gradient(*grads):
            grads = [tf.zeros_like(output) if one is None else one
                     for one, output in zip(grads, outputs)]
            given = [*grads, *outputs, *inputs]
            size = len(grads)
            result = [None] * len(inputs)

            def backward(numbers, index):
                return call(f"{op_name}_grad", f"{name}_grad", given,
                            [inputs[i].dtype for i in numbers], [inputs[i].shape for i in numbers],
                            gradient_attributes, gradient_size=size,
                            partial_derivative_index=index)

            if separate_gradients:
                for i in wanted:
                    result[i], = backward([i], i)
            elif wanted:
                for i, one in zip(wanted, backward(wanted, 0)):
                    result[i] = one
            return result

        return outputs, gradient

    with tf.name_scope(name):
        return list(operation(*inputs))


def _outputs(outs):
    """The types and shapes that `outs` says."""
    if outs is None:
        return [], []
    try:
        types = [tf.as_dtype(one) for one in outs["output_types"]]
        shapes = [tf.TensorShape(one) for one in outs["output_shapes"]]
    except (KeyError, TypeError):
        raise ValueError("outs must be {'output_types': [...], 'output_shapes': [...]}, but is "
                         f"{outs!r}.") from None
    if len(types) != len(shapes):
        raise ValueError(f"outs has {len(types)} output_types and {len(shapes)} output_shapes.")
    for shape in shapes:
        if not shape.is_fully_defined():
            raise ValueError(f"outs has the shape {shape}, but an IPU program is static: all "
                             "shapes must be known.")
    return types, shapes


def _call(library, op_name, name, inputs, types, shapes, attributes, callback, gp_path, **gradient):
    """The custom call: its outputs, or the operation if it has none."""
    said = user_libraries.metadata(library, op_name, len(inputs), callback)
    if said.is_elementwise and inputs and shapes and not shapes[0].is_compatible_with(
            inputs[0].shape):
        raise ValueError(f"The user op '{op_name}' says that its first output has the shape of its "
                         f"first input, {inputs[0].shape}, but outs says {shapes[0]}.")
    for shape in shapes:
        if not shape.is_fully_defined():
            raise ValueError(f"The gradient '{op_name}' of a user op is of the shape {shape}, but "
                             "an IPU program is static: all shapes must be known.")
    config = {"library": library, "op": op_name, "name": name, "attributes": attributes or "",
              "is_hashable": bool(said.is_hashable), **gradient}
    if callback:
        config["callback"] = True
    codelets = []
    if said.is_poplar:
        codelets = user_libraries.codelets(gp_path)
        config.update(poplar=True, gp_path=",".join(codelets), **_machine())
    elif gp_path:
        LOG.warning("The codelets in %s are not used: the user op '%s' is a C function.", gp_path,
                    op_name)
    if said.is_hashable:
        config["digest"] = "".join(map(user_libraries.digest, [library, *codelets]))
    shapes = [one.as_list() for one in shapes]
    if not _building.in_program():
        return _stand_in(_no_program(op_name), types, shapes)
    if said.is_stateless:
        operation = graphs.apply_op(
            "XlaCustomCallV2", name=name, operands=list(inputs),
            call_target_name=_TARGET, backend_config=json.dumps(config), has_side_effect=False,
            result_dtypes=types, result_shapes=shapes)
    else:
        operation = tracing.side_effect(_TARGET, config, list(inputs), types, shapes, name)
    return list(operation.outputs) if types else operation


def _machine():
    """Of the configuration in force: what a Graph's Target is."""
    lines = dict(line.split("=", 1) for line in settings.compile_lines(
        ipu_config.snapshot()).splitlines())
    return {"target": lines.get("target", ""), "tiles_per_ipu": int(lines.get("tiles_per_ipu", 0))}


def _stand_in(message, types, shapes):
    """As _call(), in the graph of a function that is no program: fails if it is run."""
    failure = tf.Assert(False, [message])
    with tf.control_dependencies([failure]):
        return [tf.zeros(shape, dtype) for dtype, shape in zip(types, shapes)] or failure


def _no_program(op_name):
    return (f"The user op '{op_name}' must be part of a program: build it inside a computation "
            "that ipu_compiler.compile traces, or in a function that an IPUStrategy runs.")
