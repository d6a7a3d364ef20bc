"""Inner operations of programs (`gen_poputil_ops`), by the functions of ipu.ops."""

# The original's names of arguments.  pylint: disable=redefined-builtin

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs
from tremula.tf.ipu import loops, scopes
from tremula.tf.ipu.ops import (control_flow_ops, cross_replica_ops, internal_ops,
                                replication_ops)
from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer
from tremula.tf.plugin.poplar.ops import _refused
from tremula.tf.runtime.tracing import accumulation, program_state


def __getattr__(name):
    _refused.attribute(__name__, name)


def ipu_assume_equal_across_replicas(inputs, name=None):
    """See ipu.cross_replica_ops.assume_equal_across_replicas()."""
    with tf.name_scope(name, "IpuAssumeEqualAcrossReplicas"):
        return cross_replica_ops.assume_equal_across_replicas(inputs)


def ipu_barrier(inputs, insert_barrier_for_gradients=False, name=None):
    """See ipu.control_flow_ops.barrier()."""
    return control_flow_ops.barrier(inputs, insert_barrier_for_gradients, name)


def device_sync(name=None):
    """An operation that does nothing: a run ends when its programs have ended."""
    return tf.no_op(name=name or "DeviceSync")


def execution_counter(lower_into_pipeline_stage=False, name=None):
    """See ipu.internal_ops.get_current_iteration_counter()."""
    return internal_ops.get_current_iteration_counter(
        name, lower_into_pipeline_stage=lower_into_pipeline_stage)


def ipu_fifo(input, depth, offload=False, name=None):
    """See ipu.internal_ops.fifo()."""
    return internal_ops.fifo(input, depth, offload, name)


def ipu_print_tensor(input, tensor_name="", name=None):
    """See ipu.internal_ops.print_tensor()."""
    return internal_ops.print_tensor(input, tensor_name or name or "")


def ipu_stateful_gradient_accumulate(input, num_mini_batches, verify_usage=True, name=None):
    """Adds up `input`, of a known shape and a type of numbers, over `num_mini_batches` iterations
    of a loop. The result is like `input`: the sum in the last iteration, zeros in the others. An
    optimizer that subtracts it in every iteration so makes one step. Every run begins a new sum.

    A program fails with FailedPreconditionError if a loop would end in the middle of a sum. With
    `verify_usage` it also fails if the call is outside of a loop, or if the loop hands the sum on
    to its next iteration: the sum is for updates of variables."""
    with tf.name_scope(name, "IpuStatefulGradientAccumulate", [input]) as scope, \
            scopes.frontend_attribute(
                accumulation.COUNT_ATTRIBUTE,
                str(accumulation.whole_count(num_mini_batches))):
        if verify_usage or loops.current() is not None:
            gradient_accumulation_optimizer.check_loop(num_mini_batches)
        total = accumulation.every(tf.convert_to_tensor(input), num_mini_batches, scope[:-1])
        if verify_usage:
            gradient_accumulation_optimizer.check_use(total, scope[:-1])
        return total


def ipu_stateful_gradient_accumulate_with_momentum(accum, grad, momentum, num_mini_batches,
                                                   name=None):
    """The sum of `grad` in the variable `accum`, a resource variable of its shape and type or its
    handle: it is multiplied by `momentum`, a number, at the first of `num_mini_batches` iterations,
    and `grad` is added in each. As ipu_stateful_gradient_accumulate(). Raises RuntimeError outside
    of programs."""
    with tf.name_scope(name, "IpuStatefulGradientAccumulateWithMomentum", [grad]) as scope:
        if loops.current() is not None:
            gradient_accumulation_optimizer.check_loop(num_mini_batches)
        grad = tf.convert_to_tensor(grad)
        handle = getattr(accum, "handle", accum)
        seen = program_state.State(tf.int32, [], f"{scope}count")
        before = seen.read()
        factor = tf.where(tf.equal(before, 0), tf.cast(momentum, grad.dtype),
                          tf.ones([], grad.dtype))
        total = graphs.apply_op("ReadVariableOp", resource=handle, dtype=grad.dtype).outputs[0]
        total = tf.ensure_shape(total, grad.shape) * factor + grad
        last = tf.equal(before + 1, num_mini_batches)
        with tf.control_dependencies([
                graphs.apply_op("AssignVariableOp", resource=handle, value=total,
                                validate_shape=False),
                seen.assign(tf.where(last, 0, before + 1))]):
            return tf.where(last, total, tf.zeros_like(total))


def gradient_accumulator_create(variable, output_type, name=None):
    """A sum of gradients of a variable (or of a tensor of its shape), of the type `output_type`:
    zeros when a run of the program begins. Hand what it returns to
    gradient_accumulator_add_with_scale()."""
    return gradient_accumulator_create_from_shape(
        variable.shape, output_type, name or "GradientAccumulatorCreate")


def gradient_accumulator_create_from_shape(shape, output_type, name=None):
    """The same for a shape."""
    with tf.name_scope(name, "GradientAccumulatorCreateFromShape") as scope:
        return _accumulator(program_state.State(output_type, shape, scope[:-1]))


def gradient_accumulator_add_with_scale(accumulator, gradients, accumulator_scale, name=None):
    """Multiplies a sum by `accumulator_scale`, a number, and adds `gradients`, which have its
    shape; returns the sum, for gradient_accumulator_sink(). If `accumulator` is a plain tensor, no
    sum is kept: the result is a tensor of its type. Raises TypeError for what cannot be made a
    tensor."""
    if not hasattr(accumulator, "_tremula_sum"):
        with tf.name_scope(name, "GradientAccumulatorAddWithScale", [accumulator, gradients]):
            accumulator = tf.convert_to_tensor(accumulator)
            added, scale = (tf.cast(one, accumulator.dtype) for one in (
                gradients, accumulator_scale))
            return accumulator * scale + added
    state = _state_of(accumulator)
    with tf.name_scope(name, "GradientAccumulatorAddWithScale", [gradients]):
        added = tf.cast(gradients, state.dtype)
        scale = tf.cast(accumulator_scale, state.dtype)
        with tf.control_dependencies([state.assign(state.read() * scale + added)]):
            return _accumulator(state)


def gradient_accumulator_sink(input, name=None):
    """The sum: a tensor of its shape and type. Raises ValueError for an `input` that is no sum."""
    state = _state_of(input)
    with tf.control_dependencies([input]):
        total = tf.identity(state.read(), name or "GradientAccumulatorSink")
    program_state.keep_sum(state, total)
    return total


def gradient_accumulation_count(value, name=None):
    """An operation that does nothing: sums are added up as often as the loop around says. `value`
    is a scalar of integers. Raises TypeError for what cannot be made a tensor."""
    with tf.control_dependencies([tf.convert_to_tensor(value)]):
        return tf.no_op(name=name or "GradientAccumulationCount")


def _accumulator(state):
    tensor = state.read()
    tensor._tremula_sum = state
    return tensor


def _state_of(tensor):
    if not hasattr(tensor, "_tremula_sum"):
        raise ValueError(f"{tensor} is no sum of gradients: gradient_accumulator_create() makes "
                         "one.")
    return tensor._tremula_sum


def ipu_suggest_recompute(input, name=None):
    """See ipu.internal_ops.recompute()."""
    return internal_ops.recompute(input, name)


def ipu_block_recompute(input, name=None):
    """See ipu.internal_ops.block_recompute()."""
    return internal_ops.block_recompute(input, name)


def ipu_remap(input, name=None):
    """See ipu.internal_ops.remap()."""
    return internal_ops.remap(input, name)


def ipu_remap_deduce(input, name=None):
    """See ipu.internal_ops.remap_deduce()."""
    return internal_ops.remap_deduce(input, name)


def ipu_replication_factor(name=None):
    """See ipu.replication_ops.replication_factor()."""
    return replication_ops.replication_factor(name)


def ipu_replication_normalise(input, name=None):
    """See ipu.replication_ops.replication_normalise()."""
    return replication_ops.replication_normalise(input, name)


def replication_index(name=None):
    """See ipu.replication_ops.replication_index()."""
    return replication_ops.replication_index(name)
