"""Inner operations of programs (`gen_poputil_ops`), by the functions of ipu.ops."""

# The original's names of arguments.  pylint: disable=redefined-builtin

import tensorflow.compat.v1 as tf

from tremula.tf.ipu import loops, scopes
from tremula.tf.ipu.ops import (control_flow_ops, cross_replica_ops, internal_ops,
                                replication_ops)
from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer
from tremula.tf.plugin.poplar.ops import _refused
from tremula.tf.runtime import accumulation


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
    """`input` added up over `num_mini_batches` iterations of a loop: the sum in the last of them,
    zeros in the others, so that a plain descent by it is one step. A sum begins with
    every run. A program fails with FailedPreconditionError if a loop would end in the middle of a
    sum; `verify_usage` refuses it outside of loops too."""
    with tf.name_scope(name, "IpuStatefulGradientAccumulate", [input]) as scope, \
            scopes.frontend_attribute(accumulation.COUNT_ATTRIBUTE, str(num_mini_batches)):
        if verify_usage or loops.current() is not None:
            gradient_accumulation_optimizer.check_loop(num_mini_batches)
        return accumulation.every(tf.convert_to_tensor(input), num_mini_batches, scope[:-1])


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
