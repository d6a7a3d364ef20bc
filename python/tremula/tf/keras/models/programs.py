"""The functions that a model runs on the IPU, one for each mode, and the queues of their data and
results.

A Program is kept from call to call. Its infeed queue continues with the dataset of the next call,
so nothing is traced and compiled twice.
"""

import contextlib
import functools

import tensorflow as tf

from tremula.tf.inner import eager, strategies
from tremula.tf.inner import keras as inner
from tremula.tf.ipu import ipu_infeed_queue, ipu_outfeed_queue, loops
from tremula.tf.ipu.ops import functional_ops
from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer
from tremula.tf.keras.extensions import (data_feed_manager, messages, pipeline_graph,
                                         step_functions)
from tremula.tf.keras.models import data, steps


class Program:
    """A function for an IPU with its queues.

    function the tf.function
    names    of the results that a mini-batch, or a step, enqueues in the outfeed; none in predict
    iterator of the infeed
    infeed   an IPUInfeedQueue; outfeed: an IPUOutfeedQueue
    """

    def __init__(self, name, build, dataset, device_ordinal, prefetch_depth):
        """build(program) traces the function: it reads `infeed`, writes to `outfeed` and sets
        `names`."""
        self.iterator = ipu_infeed_queue.IPUOwnedIterator(
            dataset=dataset, device_ordinal=device_ordinal, prefetch_depth=prefetch_depth)
        self._nothing, self._is_at_start = data.nothing_like(dataset), True
        self.infeed = self.iterator._queue
        self.outfeed = ipu_outfeed_queue.ScopedIPUOutfeedQueue(device_ordinal=device_ordinal)
        self.names = []
        # A partial is a new object for TensorFlow, which warns if it traces one object often.
        traced = functools.partial(build, self)
        traced.__name__ = name
        self.function = tf.function(traced, autograph=False, jit_compile=True)

    def start(self, dataset):
        """Feeds the program from the beginning of a dataset. The first time it is the dataset that
        the program was made with: another iterator would draw other random numbers."""
        if not self._is_at_start:
            self.iterator.restart(dataset)
        self._is_at_start = False

    def stop(self):
        """Empties both queues and drops the dataset."""
        self._is_at_start = False
        with eager.eagerly_on_cpu():
            self.iterator.restart(self._nothing)
        data_feed_manager.empty("IpuInfeedReset", feed=self.infeed._id, remove=True, refusal="",
                                empty="")
        data_feed_manager.empty("IpuOutfeedDelete", feed=self.outfeed._id)


# ---- Layers ----

def call_layer(layer, training, /, *arguments, **keywords):
    """The outputs of a layer. `training` is passed on if the layer takes it and the call does not
    fix it."""
    if keywords.get("training") is None:
        keywords.pop("training", None)
    if getattr(layer, "_expects_training_arg", False) and not layer._call_spec.arg_was_passed(
            "training", arguments, keywords, inputs_in_args=True):
        keywords["training"] = training
    return layer(*arguments, **keywords)


def symbolic_outputs(layers, spec):
    """The output of layers, one after the other, as Keras' symbol, for an input like `spec`."""
    x = inner.public().Input(batch_shape=spec.shape, dtype=spec.dtype)
    for layer in layers:
        x = layer(x)
    return tf.nest.flatten(x)


def call_layers(layers, x, training):
    """The output of layers, one after the other."""
    for layer in layers:
        x = call_layer(layer, training, x)
    return x


def run_nodes(nodes, values, training):
    """Runs calls of a functional model; adds their results to `values`, {Keras' id: tensor}."""
    for node in nodes:
        arguments, keywords = pipeline_graph.arguments_of(node, values)
        returned = call_layer(node.layer, training, *arguments, **keywords)
        values.update(zip(node.flat_output_ids, tf.nest.flatten(returned)))


def with_masks(tensors):
    """Tensors, followed by the masks that Keras keeps with them."""
    masks = [getattr(one, "_keras_mask", None) for one in tensors]
    return [*tensors, *(one for one in masks if one is not None)]


# ---- Losses, metrics and optimizers ----

def losses_and_metrics(model, targets, outputs, extra_losses):
    """({name: scalar} of the loss and the metrics of a mini-batch)."""
    single = len(outputs) == 1
    targets, outputs = (targets[0], outputs[0]) if single else (list(targets), list(outputs))
    with _without_total(model.compiled_loss):
        loss = model.compiled_loss(targets, outputs, regularization_losses=extra_losses)
        if loss is None:
            raise ValueError(messages.NO_LOSS)
        model.compiled_metrics.update_state(targets, outputs)
        found = model.get_metrics_result()
    return {"loss": loss, **{name: value for name, value in found.items() if name != "loss"}}


@contextlib.contextmanager
def _without_total(compiled_loss):
    """Lets Keras' loss keep no mean over mini-batches on the device. The loop over epochs computes
    it from results, and the host's zero for a new epoch would send all variables again."""
    kept, compiled_loss._total_loss_mean = compiled_loss._total_loss_mean, _NoMean()
    try:
        yield
    finally:
        compiled_loss._total_loss_mean = kept


class _NoMean:
    """In the place of the metric of the loss."""

    name = "loss"

    def update_state(self, values, sample_weight=None):
        """Forgets the values."""

    def result(self):
        """What nobody reads."""
        return 0.0


class Optimizer(step_functions._KerasOptimizerWrapper):
    """A model's optimizer as one of TensorFlow 1. Variables may be without a gradient. An optimizer
    of Keras sums gradients over replicas; one of TensorFlow 1 does not: a program that wants this
    puts a CrossReplicaOptimizer around it. Raises ValueError for another object."""

    _needs_all = False

    def __init__(self, model):
        self._is_native = isinstance(
            model.optimizer, inner.module("optimizers.optimizer_v1").TFOptimizer)
        if not self._is_native and not isinstance(model.optimizer, (
                inner.legacy_optimizer(), inner.module("optimizers.optimizer").Optimizer)):
            raise ValueError(messages.OTHER_OPTIMIZER)
        super().__init__(model, model.optimizer)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, captured_grads=None):
        """The operation that updates the variables which have a gradient."""
        given = [pair for pair in grads_and_vars if pair[0] is not None]
        with (strategies.strategy().extended.unreduced() if self._is_native
              else contextlib.nullcontext()):
            return super().apply_gradients(given, global_step, name, captured_grads)


# ---- Models that are not pipelined ----

def loop(model, mode, steps_per_run, count, dtype, what):
    """build(program) for Program, of a loop over single mini-batches.

    what  "Model" or "Sequential", for a message
    """
    def build(program):
        def mini_batch(*values):
            inputs, targets = values[:model._num_inputs], values[model._num_inputs:]
            outputs = model._forward(inputs, mode == steps.TRAIN)
            if mode == steps.PREDICT:
                return program.outfeed.enqueue(list(outputs))
            found = losses_and_metrics(model, targets, outputs, model._extra_losses())
            program.names = list(found)
            if not model.trainable_weights:
                raise ValueError(messages.NOTHING_TO_TRAIN.format(what))
            enqueued = program.outfeed.enqueue(list(found.values()))
            if mode == steps.TEST:
                return enqueued
            optimizer = Optimizer(model)
            if count > 1:
                optimizer = gradient_accumulation_optimizer.GradientAccumulationOptimizerV2(
                    optimizer, count, dtype=dtype)
            pairs = optimizer.compute_gradients(found["loss"], model.trainable_variables)
            return tf.group(enqueued, optimizer.apply_gradients(pairs))

        def body(*element, **named):
            return [functional_ops.outlined_function(mini_batch)(
                *model._in_order(element, named, mode))]

        loops.repeat(steps_per_run * count, body, infeed_queue=program.infeed)

    return build

