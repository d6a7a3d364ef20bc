"""Models in stages, each on an IPU of its own (`tensorflow.python.ipu.pipelining_ops`).

A pipeline computes the same numbers whatever its schedule: for each of `repeat_count` times the
gradients of `gradient_accumulation_count` mini-batches, which are then applied at once. So the
program is two loops. The schedule and the place of each stage are attributes of the loops, which
the cost model reads.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs
from tremula.tf.ipu import gradient_accumulation as ga
from tremula.tf.ipu import scopes
from tremula.tf.ipu.ops import _pipeline_arguments, _pipeline_building
from tremula.tf.ipu.ops._pipeline_arguments import (OptimizerFunctionOutput, Pipeline,
                                                    PipelineSchedule, PipelineStageOptions,
                                                    RecomputationMode, one_count, to_list)
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.tracing import tracing

__all__ = ["OptimizerFunctionOutput", "PipelineSchedule", "PipelineStageOptions",
           "RecomputationMode", "pipeline", "recomputation_checkpoint"]
_ALL_DEVICES = _pipeline_arguments.ALL_DEVICES  # programs import it


def recomputation_checkpoint(tensors, name=None):
    """The tensors, a structure of any shapes and types, as a place from which a pipeline's backward
    pass computes again: the values before them and those after them need not exist at the same time
    (not with RecomputeThenBackpropagate). Raises TypeError for what cannot be made a tensor."""
    return tf.nest.map_structure(lambda one: _checkpoint(tf.convert_to_tensor(one), name), tensors)


def _checkpoint(value, name):
    if tracing.current() is None:
        return tf.identity(value, name=name)

    @tf.custom_gradient
    def keep(value):
        # src/ipu/program/pipeline.c reads the attribute.
        with scopes.frontend_attribute("recomputation_checkpoint", "true"):
            barrier = graphs.apply_op("XlaOptimizationBarrier", input=[value], name=name).outputs[0]
        barrier.set_shape(value.shape)
        return barrier, lambda gradient: gradient

    return keep(value)


def pipeline(computational_stages, gradient_accumulation_count=None,
             gradient_accumulation_dtype=None, gradient_accumulation_for_captured_grads=True,
             repeat_count=1, batch_serialization_iterations=1, inputs=None, infeed_queue=None,
             outfeed_queue=None, optimizer_function=None, device_mapping=None,
             pipeline_schedule=None, recomputation_mode=None,
             forward_propagation_stages_poplar_options=None,
             backward_propagation_stages_poplar_options=None, weight_update_poplar_options=None,
             offload_weight_update_variables=None, replicated_optimizer_state_sharding=False,
             offload_activations=None, offload_gradient_accumulation_buffers=None,
             replicated_weight_sharding=None, offload_weights=None,
             continuous_weight_updates=False, outfeed_loss=False, accumulate_outfeed=False,
             accumulate_outfeed_dtype=None, outfeed_mask=None,
             reduction_method=ga.GradientAccumulationReductionMethod.SUM, name=None,
             pipeline_depth=None, count_gradient_accumulation_as_iterations=None):
    """Runs stages one after the other on each of `gradient_accumulation_count` mini-batches, and
    all of that `repeat_count` times. Call it in a computation that is compiled
    (`examples/pipelining.py` is a whole program):

        def train():
            return ipu.pipelining_ops.pipeline(
                [stage0, stage1], gradient_accumulation_count=8, infeed_queue=infeed,
                outfeed_queue=outfeed, optimizer_function=optimizer_function)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(train)

    computational_stages    functions, two or more; each gets what the one before returned, the
                            first `inputs` and then an element of the infeed queue (by name if it is
                            a dict). An element may be a list of functions, that run side by side.
    gradient_accumulation_count   an integer, or a scalar tensor of integers: the mini-batches of a
                            weight update. With the schedule Grouped a multiple of the number of
                            stages, of twice that in training
    gradient_accumulation_dtype   of the sums of gradients, float32 or float16, or a function of a
                            variable; that of each variable without it
    reduction_method        whether the optimizer gets the sum of the gradients ("sum") or their
                            mean ("mean", "running_mean")
    inputs                  tensors of any shape and type, the same for all mini-batches
    optimizer_function      gets what the last stage returned and returns an
                            OptimizerFunctionOutput; without it nothing is trained
    pipeline_schedule       a PipelineSchedule, Grouped without it
    recomputation_mode      a RecomputationMode, Auto without it
    batch_serialization_iterations   pieces into which a mini-batch is cut; all stages are then on
                            one IPU, and the schedule is Sequential
    outfeed_queue           gets what the last stage returned (a list, also of one tensor, or a
                            dict), or the loss with `outfeed_loss`; not those for which
                            `outfeed_mask` is true; their sums over the mini-batches with
                            `accumulate_outfeed`
    device_mapping          the shard of each stage; stage i is on shard i without it. The
                            configuration's `selection_order` says which IPUs take the shards
    pipeline_depth          an older name of gradient_accumulation_count

    The options of stages, of offloading and of sharding travel with the program and change no
    numbers: what is left on the IPU decides whether the program fits. Returns an operation.

    Raises ValueError, TypeError and NotImplementedError for what does not fit together.
    """
    checks.boolean("gradient_accumulation_for_captured_grads",
                   gradient_accumulation_for_captured_grads, optional=True)
    checks.boolean("count_gradient_accumulation_as_iterations",
                   count_gradient_accumulation_as_iterations, optional=True)
    wanted = Pipeline(
        name=name or "pipeline", stages=computational_stages,
        count=one_count(gradient_accumulation_count, pipeline_depth),
        repeat_count=repeat_count, serialization=batch_serialization_iterations,
        infeed=infeed_queue, outfeed=outfeed_queue, optimizer_function=optimizer_function,
        devices=device_mapping, schedule=pipeline_schedule, recomputation=recomputation_mode,
        outfeed_loss=outfeed_loss, outfeed_mask=outfeed_mask, accumulate_outfeed=accumulate_outfeed,
        method=reduction_method, continuous=continuous_weight_updates)
    wanted.take_options(
        forward_propagation_stages_poplar_options, backward_propagation_stages_poplar_options,
        weight_update_poplar_options)
    wanted.take_memory(
        offload_weight_update_variables=offload_weight_update_variables,
        replicated_optimizer_state_sharding=replicated_optimizer_state_sharding,
        offload_activations=offload_activations,
        offload_gradient_accumulation_buffers=offload_gradient_accumulation_buffers,
        replicated_weight_sharding=replicated_weight_sharding, offload_weights=offload_weights)
    wanted.for_captured = gradient_accumulation_for_captured_grads
    wanted.dtype = checks.dtype("gradient_accumulation_dtype", gradient_accumulation_dtype)
    wanted.outfeed_dtype = checks.dtype("accumulate_outfeed_dtype", accumulate_outfeed_dtype)
    return _pipeline_building.build(wanted, checks.tensors("inputs", to_list(inputs)))
