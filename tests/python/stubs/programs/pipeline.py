"""A pipeline with an optimizer and recomputation."""
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops.pipelining_ops import (OptimizerFunctionOutput, PipelineSchedule,
                                                      pipeline)

outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
mode = ipu.pipelining_ops.RecomputationMode.RecomputeThenBackpropagate


def first(x):
    return ipu.nn_ops.gelu(tf.layers.dense(x, 16))


def second(h):
    return tf.reduce_mean(ipu.ops.pipelining_ops.recomputation_checkpoint(h))


def optimize(loss):
    return OptimizerFunctionOutput(tf.train.MomentumOptimizer(0.1, 0.9), loss)


def program(x):
    return pipeline(
        [first, second], gradient_accumulation_count=8, repeat_count=2, inputs=[x],
        outfeed_queue=outfeed, optimizer_function=optimize, recomputation_mode=mode,
        pipeline_schedule=PipelineSchedule.Grouped, device_mapping=[0, 1],
        reduction_method=ipu.gradient_accumulation.GradientAccumulationReductionMethod.MEAN)


print(program)
