"""The functions that fit, evaluate and predict of a pipelined model run on the IPU."""

import tensorflow as tf

from tremula.tf.inner import functions, keras, logs
from tremula.tf.ipu.eager import backprop
from tremula.tf.ipu.ops import internal_ops, pipelining_ops
from tremula.tf.keras.extensions import (extensions_util, messages, pipeline_graph,
                                         step_functions)
from tremula.tf.runtime.base import feed_arguments


def make_train_function(model, repeat_count, accumulation_count):
    """A tf.function (steps, iterator, outfeed) that trains a pipelined model `repeat_count` times
    on `accumulation_count` batches. The outfeed gets [metrics] after each batch, or after the last
    of a weight update with accumulate_outfeed. `steps` is not used: a pipeline knows its length."""
    _check_methods(model, "compute_loss", "compute_metrics")
    steps, options = _steps(model), _options(model)
    accumulate = bool(model._pipelining_accumulate_outfeed)

    def build(infeed, outfeed, element_spec):
        _warn_of_moving_statistics(model)

        def measure(outputs, y, weights, losses):
            loss = model.compiled_loss(y, outputs, weights, regularization_losses=losses)
            return [loss, _metrics(model, y, outputs, weights, accumulation_count, accumulate,
                                   "train_function")]

        def optimize(loss, _):
            optimizer = step_functions._KerasOptimizerWrapper(model, model.optimizer)
            return pipelining_ops.OptimizerFunctionOutput(  # the pipeline ends the context
                optimizer, loss,
                gradient_capture_context=backprop.GradientCaptureContext().__enter__())

        pipelining_ops.pipeline(
            _Stages(model, steps, True, measure, element_spec).functions(), accumulation_count,
            repeat_count=repeat_count, infeed_queue=infeed, outfeed_queue=outfeed,
            optimizer_function=optimize, outfeed_mask=[True, False],
            accumulate_outfeed=accumulate,
            device_mapping=model._pipelining_device_mapping,
            reduction_method=model._gradient_accumulation_reduction_method, **options)

    return _function(build)


def make_test_function(model, repeat_count, accumulation_count):
    """A tf.function (steps, iterator, outfeed) that measures a pipelined model on
    `accumulation_count` batches, `repeat_count` times; the outfeed as for training."""
    _check_methods(model, "test_step", "compute_loss", "compute_metrics")
    accumulate = bool(model._pipelining_accumulate_outfeed)

    def measure(outputs, y, weights, losses):
        model.compiled_loss(y, outputs, weights, regularization_losses=losses)
        return [_metrics(model, y, outputs, weights, accumulation_count, accumulate,
                         "test_function")]

    return _forward(model, repeat_count, accumulation_count, measure, accumulate)


def make_predict_function(model, repeat_count, accumulation_count):
    """A tf.function (steps, iterator, outfeed) that puts [outputs] of a pipelined model into the
    outfeed for each of `repeat_count` times `accumulation_count` batches."""
    _check_methods(model, "predict_step")
    return _forward(model, repeat_count, accumulation_count,
                    lambda outputs, *_: [step_functions.reduced(model, outputs,
                                                                "predict_function")], False)


def _forward(model, repeat_count, accumulation_count, measure, accumulate):
    steps, options = _steps(model), _options(model)
    for name in _OF_TRAINING:
        options.pop(name, None)

    def build(infeed, outfeed, element_spec):
        pipelining_ops.pipeline(
            _Stages(model, steps, False, measure, element_spec).functions(), accumulation_count,
            repeat_count=repeat_count, infeed_queue=infeed, outfeed_queue=outfeed,
            accumulate_outfeed=accumulate, device_mapping=model._pipelining_device_mapping,
            **options)

    return _function(build)


# Options that have no meaning for a pipeline without an optimizer.
_OF_TRAINING = (
    "gradient_accumulation_for_captured_grads", "gradient_accumulation_dtype",
    "offload_gradient_accumulation_buffers", "backward_propagation_stages_poplar_options",
    "weight_update_poplar_options")


def _steps(model):
    """The steps of a pipelined model. Raises RuntimeError and ValueError for a model that cannot
    run in its stages."""
    model._validate_call_function()
    model._check_kept_assignments()
    steps = pipeline_graph.Steps(model, model._pipeline_stage_assignment)
    last = model._get_pipeline_maximum_pipeline_stage()
    missing = sorted(set(range(last)) - {step.stage for step in steps.steps})
    if missing:
        raise RuntimeError(messages.MISSING_STAGES.format(last, missing))
    return steps


def _options(model):
    return dict(model._pipelining_kwargs)


def _function(build):
    def pipelined(steps, iterator, outfeed):
        del steps
        build(feed_arguments.infeed(iterator.infeed_spec.feed_id), outfeed, iterator.element_spec)

    return functions.without_retracing_warning(tf.function(pipelined, jit_compile=True))


# ---- Stages ----

class _Stages:
    """The stages of a pipeline as functions of lists of tensors.

    measure       function(outputs, targets, sample weights, losses of layers) that gives the
                  results of the last stage
    element_spec  the structure of the first stage's arguments
    """

    def __init__(self, model, steps, training, measure, element_spec):
        self._model, self._training, self._measure = model, training, measure
        self._steps, self._element_spec = steps, element_spec
        self._count = model._get_pipeline_maximum_pipeline_stage() + 1

    def functions(self):
        """The functions, one for each stage."""
        return [self._function(number) for number in range(self._count)]

    def _function(self, number):
        def stage(*arguments, **named):
            values = self._values.received(arguments) if number else self._first_values(
                tf.nest.flatten(named or arguments))
            with keras.call_of(self._model, self._training):
                for step in self._steps.steps:
                    if step.stage == number:
                        self._run(step, values)
                values.take_losses([step.layer for step in self._steps.steps
                                    if step.stage == number])
                self._values = values
                if number + 1 < self._count:
                    return values.sent(self._needed_after(number))
                values.take_losses(self._model._flatten_layers())
                outputs = self._model._stage_outputs(
                    [self._steps.value(key, values.tensors) for key in self._steps.outputs])
                return self._measure(outputs, *values.targets, values.losses)

        return stage

    def _first_values(self, flat):
        """The values at the beginning of a batch, from its tensors."""
        element = tf.nest.pack_sequence_as(self._element_spec, flat)
        x, y, weights = keras.module("engine.data_adapter").unpack_x_y_sample_weight(element)
        x, y, weights = tf.nest.map_structure(extensions_util.with_two_dimensions, (x, y, weights))
        keras.module("engine.input_spec").assert_input_compatibility(
            self._model.input_spec, x, self._model.name)
        inputs = self._model._stage_arguments(x)
        for one in inputs:
            one._keras_mask = None
        self._model._clear_losses()
        return _Values(dict(zip(self._steps.inputs, inputs)), [y, weights])

    def _run(self, step, values):
        given = [self._steps.value(key, values.tensors) for key in step.takes]
        with keras.call_of(self._model, self._training if step.training is None else step.training):
            values.tensors.update(zip(step.gives, step.run(given)))

    def _needed_after(self, number):
        """Keys of the values that later stages use."""
        keys = {key for step in self._steps.steps if step.stage > number for key in step.takes}
        return {self._steps.origin(key) for key in [*keys, *self._steps.outputs]}


class _Values:
    """The values of one batch that go from stage to stage.

    tensors  by key; targets: [targets, sample weights]; losses: of layers
    """

    def __init__(self, tensors, targets):
        self.tensors, self.targets, self.losses = tensors, targets, []
        self._layers = set()
        self._masked = []

    def sent(self, keys):
        """A flat list of the values, of the tensors only those in `keys`. A mask that Keras keeps
        on a tensor is a tensor of the list."""
        self.tensors = {key: one for key, one in self.tensors.items() if key in keys}
        masks = {key: getattr(one, "_keras_mask", None) for key, one in self.tensors.items()}
        self._masked = [key for key, mask in masks.items() if mask is not None]
        return tf.nest.flatten([list(self.tensors.values()), [masks[key] for key in self._masked],
                                self._given_targets(), self.losses])

    def received(self, flat):
        """The same values, as the tensors that another stage gets."""
        tensors, masks, targets, losses = tf.nest.pack_sequence_as(
            [list(self.tensors), self._masked, self._given_targets(), self.losses], flat)
        made = _Values(dict(zip(self.tensors, tensors)), None)
        for key, mask in zip(self._masked, masks):
            made.tensors[key]._keras_mask = mask
        remaining = iter(tf.nest.flatten(targets))
        made.targets = tf.nest.map_structure(
            lambda one: one if one is None else next(remaining), self.targets)
        made.losses, made._layers = losses, self._layers
        return made

    def _given_targets(self):
        return [one for one in tf.nest.flatten(self.targets) if one is not None]

    def take_losses(self, layers):
        """Adds the losses of the calls of layers (add_loss()) and of their weights. The latter
        belong to the stage of a layer's first call, where the weights are."""
        for layer in layers:
            for part in layer._flatten_layers():
                self.losses += part._eager_losses
                part._eager_losses = []
                if id(part) not in self._layers:
                    self._layers.add(id(part))
                    weighed = [loss() for loss in part._callable_losses]
                    self.losses += [one for one in weighed if one is not None]



# ---- Parts ----

def _metrics(model, y, outputs, weights, count, accumulate, name):
    model.compiled_metrics.update_state(y, outputs, weights)
    found = step_functions.reduced(model, model.get_metrics_result(), name)
    if accumulate:  # a sum over the batches, so only the last one counts
        is_last = tf.equal(internal_ops.get_current_iteration_counter(), count - 1)
        found = {name: tf.where(is_last, value, tf.zeros_like(value))
                 for name, value in found.items()}
    return found


def _check_methods(model, *names):
    base = keras.module("engine.training").Model
    for name in names:
        if getattr(getattr(model, name), "__func__", None) is not getattr(base, name):
            raise RuntimeError(messages.OVERRIDDEN_IN_PIPELINE.format(name, model.name))


def _warn_of_moving_statistics(model):
    normalization = keras.module("layers.normalization.batch_normalization")
    if any(isinstance(one, normalization.BatchNormalizationBase) and 0 < one.momentum < 1
           for one in model._flatten_layers()):
        logs.module().warn(messages.MOVING_STATISTICS)
