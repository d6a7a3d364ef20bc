"""Utilities for operations (`tensorflow.python.ipu.ops.op_util`).

What marks operations as parts of the forward or the backward pass or of the weight update: on the
IPU it chose plans, here it is a mark for the cost model.
"""

import contextlib
import enum

import tensorflow.compat.v1 as tf

from tremula.tf.inner import marks, registry
from tremula.tf.ipu import scopes
from tremula.tf.runtime.nodes import node_marks, op_types
from tremula.tf.runtime.tracing import accumulation, program_state

_ML_TYPE = "ML_TYPE"


class MLType(enum.IntEnum):
    """Parts of training and inference."""
    NONE = 0
    INFERENCE_FWD = 1
    TRAINING_FWD = 2
    TRAINING_BWD = 3
    TRAINING_WU = 4

    __str__ = enum.Enum.__str__  # the name in every Python


def SetMlType(op, ml_type):
    """Marks an operation, or the operation of a tensor, with an MLType; returns `op`. Nothing is
    marked in eager mode, nor for None or MLType.NONE."""
    if tf.executing_eagerly() or not ml_type:
        return op
    operation = op if isinstance(op, tf.Operation) else op.op
    name = node_marks.FRONTEND_ATTRIBUTES
    attributes = node_marks.decode_attributes(marks.operation_attribute(operation, name) or b"")
    attributes[_ML_TYPE] = MLType(ml_type).name
    marks.set_operation_attribute(operation, name, node_marks.encode_attributes(attributes))
    return op


def SetOpAsFwd(op):
    """Marks a part of the forward pass."""
    return SetMlType(op, MLType.TRAINING_FWD)


def SetOpAsBwd(op):
    """Marks a part of the backward pass."""
    return SetMlType(op, MLType.TRAINING_BWD)


def SetOpAsWU(op):
    """Marks a part of the weight update."""
    return SetMlType(op, MLType.TRAINING_WU)


# Op -> the numbers of the gradients for activations and for weights.
_CONVOLUTIONS = {
    "Conv2D": (0, 1), "Conv2DBackpropInput": (1, 2), "Conv2DBackpropFilter": (0, 2),
    "Conv3D": (0, 1), "Conv3DBackpropInputV2": (1, 2), "Conv3DBackpropFilterV2": (0, 2),
    "DepthwiseConv2dNative": (0, 1), "DepthwiseConv2dNativeBackpropInput": (1, 2),
    "DepthwiseConv2dNativeBackpropFilter": (0, 2),
}
_MATMULS = ("MatMul", "BatchMatMul", "BatchMatMulV2")


def _custom_name(op_type):
    # Conv3DBackpropInputV2 and its kin lose nothing of their names but for the prefix.
    return "Custom" + op_type


def conv_gradients_override_map():
    """{op: name of the gradient that marks}, for Graph.gradient_override_map: convolutions."""
    _register()
    return {one: _custom_name(one) for one in _CONVOLUTIONS}


def matmul_gradients_override_map():
    """The same for matrix products."""
    _register()
    return {one: _custom_name(one) for one in _MATMULS}


def gradients_override_map():
    """Both."""
    return {**conv_gradients_override_map(), **matmul_gradients_override_map()}


def HandleMatMulGrads(grads):
    """Marks the two gradients of a matrix product, tensors of any shape and type; where they were
    summed over a batch, the product itself. Returns them. Raises AssertionError for another number
    of them."""
    assert len(grads) == 2

    def product(gradient):
        for kind in ("Reshape", "Sum"):
            if gradient.op.type == kind:
                gradient = gradient.op.inputs[0]
        return gradient

    if not tf.executing_eagerly():
        SetOpAsBwd(product(grads[0]))
        SetOpAsWU(product(grads[1]))
    return grads


def _register():
    """Registers the gradients that mark, once."""
    if _registered:
        return
    _registered.add(True)
    for op_type, (backward, update) in _CONVOLUTIONS.items():
        tf.RegisterGradient(_custom_name(op_type))(_convolution_gradient(op_type, backward, update))
    for op_type in _MATMULS:
        tf.RegisterGradient(_custom_name(op_type))(_matmul_gradient(op_type))


_registered = set()


def _convolution_gradient(op_type, backward, update):
    def gradient(op, grad):
        grads = registry.registered_gradient(op_type)(op, grad)
        SetOpAsFwd(op)
        SetOpAsBwd(grads[backward])
        SetOpAsWU(grads[update])
        return grads
    return gradient


def _matmul_gradient(op_type):
    def gradient(op, grad):
        grads = registry.registered_gradient(op_type)(op, grad)
        SetOpAsFwd(op)
        return HandleMatMulGrads(grads)
    return gradient


@contextlib.contextmanager
def gradient_override_scope(training):
    """Marks what is built as part of the forward pass (of training or of inference), and its
    gradients, when they are built, as what they are."""
    kind = MLType.TRAINING_FWD if training else MLType.INFERENCE_FWD
    with scopes.frontend_attribute(_ML_TYPE, kind.name), \
            tf.get_default_graph().gradient_override_map(gradients_override_map()):
        yield


def get_accumulator_dtype(variable, dtype_override):
    """The type of a variable's gradient accumulator: the variable's, `dtype_override`, or what
    that returns for the variable."""
    if dtype_override is None:
        return variable.dtype
    try:
        return tf.as_dtype(dtype_override)
    except TypeError:
        if callable(dtype_override):
            return tf.as_dtype(dtype_override(variable))
        raise


def get_activation_name(identifier):
    """The name of an activation: text, or a function of Keras's or TensorFlow's. Raises TypeError
    for anything else."""
    if isinstance(identifier, str):
        return identifier
    if not callable(identifier):
        raise TypeError(f"Could not interpret activation function identifier: {identifier!r}")
    module, name = identifier.__module__, identifier.__name__
    if not (module.endswith(".activations") and "keras" in module
            or module.startswith("tensorflow.python.ops.")):
        raise TypeError(f"Unrecognized function : {module}.{name}")
    return name


def bool_to_three_state(value, default=None):
    """The name of a ThreeState: for None the default, or that of what is not defined."""
    return op_types.three_state(value, default)


def parse_gradient_accumulation_method(reduction_method):
    """A GradientAccumulationReductionMethod from one or from its name."""
    from tremula.tf.ipu import gradient_accumulation
    method = gradient_accumulation.GradientAccumulationReductionMethod
    if isinstance(reduction_method, method):
        return reduction_method
    if isinstance(reduction_method, str) and reduction_method.upper() in method.__members__:
        return method[reduction_method.upper()]
    raise ValueError("reduction_method must be set to SUM, MEAN or RUNNING_MEAN")


def accumulate_gradients(grads_and_vars, gradient_accumulation_dtype, accum_scale=1.0,
                         grad_scale=None, create_accumulator_from_shape=False):
    """[(sum, variable), ...]: gradients added up in accumulators of their own, from the begin of a
    run on. A gradient that is None stays None.

    grads_and_vars                 [(gradient, variable), ...] as optimizers take them; a gradient
                                   has the variable's shape and a type of numbers
    gradient_accumulation_dtype    the type of the sums, a function of a variable, or None: its own
    accum_scale, grad_scale        of the sum, and of the gradients (None: 1), in each addition
    create_accumulator_from_shape  takes the sum's shape from the gradient, not from the variable

    Raises TypeError for a `gradient_accumulation_dtype` that is neither a type nor a function,
    RuntimeError outside of programs.
    """
    # The plugin's functions import the modules of this package.
    from tremula.tf.plugin.poplar.ops import gen_poputil_ops
    sums = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            sums.append((None, variable))
            continue
        gradient = tf.convert_to_tensor(gradient)
        like = gradient if create_accumulator_from_shape else variable
        if grad_scale is not None:
            gradient = accumulation.scaled(gradient, grad_scale)
        accumulator = gen_poputil_ops.gradient_accumulator_create(
            like, get_accumulator_dtype(variable, gradient_accumulation_dtype))
        added = gen_poputil_ops.gradient_accumulator_add_with_scale(accumulator, gradient,
                                                                    accum_scale)
        sums.append((gen_poputil_ops.gradient_accumulator_sink(added), variable))
    return sums


def accumulate_tagged_gradients(tagged_grads, gradient_accumulation_dtype, accum_scale=1.0,
                                grad_scale=None):
    """{tag: [sum, ...]} for {tag: [gradient, ...]}, as accumulate_gradients() adds them up, with
    its errors, such as RuntimeError outside of programs; a sum has its gradient's shape, and its
    type may be a function of the gradient."""
    return {tag: [total for total, _ in accumulate_gradients(
        [(one, one) for one in gradients], gradient_accumulation_dtype, accum_scale, grad_scale,
        create_accumulator_from_shape=True)] for tag, gradients in tagged_grads.items()}


def create_resource_update(fn, name, control_outputs, offload_weight_update_variables,
                           replicated_optimizer_state_sharding, gradient_accumulation_count):
    """The operation that does what `fn` builds in the last of `gradient_accumulation_count`
    iterations of the loop around. Sums of accumulate_gradients() that were made before in this
    loop's body begin anew then.

    fn               takes nothing; what it returns makes no difference
    control_outputs  operations of the body, or a list that `fn` adds its own to: those of the body
                     come before the update
    offload_weight_update_variables, replicated_optimizer_state_sharding: True, False or None; only
                     reports show a difference

    Raises ValueError for state that is sharded and not offloaded.
    """
    from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer as accumulating
    offload = bool_to_three_state(offload_weight_update_variables)
    if (bool_to_three_state(replicated_optimizer_state_sharding, offload) != "THREESTATE_OFF"
            and offload == "THREESTATE_OFF"):
        raise ValueError("To use replicated_optimizer_state_sharding, optimizer state must be"
                         " offloaded by using offload_weight_update_variables.")
    accumulating.check_loop(gradient_accumulation_count)
    accumulating.check_only_update()
    sums = program_state.take_sums()
    seen = program_state.State(tf.int32, [], f"{name}/count")

    def update():
        fn()
        return [state.assign(tf.zeros(state.shape, state.dtype)) for state, _ in sums]

    return accumulating.once_in(
        gradient_accumulation_count, seen, seen.read(),
        [*(total for _, total in sums), *(control_outputs or [])], update,
        (offload_weight_update_variables, replicated_optimizer_state_sharding), name)
