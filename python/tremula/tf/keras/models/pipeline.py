"""`ipu.keras.PipelineModel` and `ipu.keras.PipelineSequential`, and their older names."""

import inspect

import tensorflow as tf

from tremula.tf.inner import logs
from tremula.tf.ipu.ops import pipelining_ops
from tremula.tf.keras.extensions import messages, pipeline_graph, pipeline_stage_assignment
from tremula.tf.keras.models import arguments, base, model, programs, steps

# The arguments that both classes pass on to pipelining_ops.pipeline.
_HANDED_ON = (
    "device_mapping", "pipeline_schedule", "recomputation_mode",
    "forward_propagation_stages_poplar_options", "backward_propagation_stages_poplar_options",
    "weight_update_poplar_options", "offload_weight_update_variables",
    "replicated_optimizer_state_sharding", "offload_activations",
    "offload_gradient_accumulation_buffers", "replicated_weight_sharding", "offload_weights")


class _Pipelined(base.IpuModelBase):
    """The base of pipelines.

    stages  of a PipelineSequential the lists of layers, of a PipelineModel the stages' numbers
    """

    @base.untracked
    def _set_up_pipeline(self, count, dtype, num_stages, options):
        mapping = options["device_mapping"]
        self._set_up(count, dtype, max(mapping) + 1 if mapping else num_stages)
        for name, value in options.items():
            setattr(self, name, value)

    def fit(self, x=None, y=None, *, batch_size=None, epochs=1, verbose=1, callbacks=None,
            shuffle=True, initial_epoch=0, steps_per_epoch=None, steps_per_run=None,
            prefetch_depth=None, accumulate_outfeed=False, accumulate_outfeed_dtype=None,
            **kwargs):
        """As IPUSequential.fit.

        accumulate_outfeed  whether losses and metrics leave the IPU once a step, added up, instead
                            of once a mini-batch; accumulate_outfeed_dtype: the type of the sums,
                            or a function of a tensor with a name, "PipelineStage:0" the loss'
        """
        return super().fit(
            x, y, batch_size=batch_size, epochs=epochs, verbose=verbose, callbacks=callbacks,
            shuffle=shuffle, initial_epoch=initial_epoch, steps_per_epoch=steps_per_epoch,
            steps_per_run=steps_per_run, prefetch_depth=prefetch_depth,
            outfeed_options=(accumulate_outfeed, accumulate_outfeed_dtype), **kwargs)

    def evaluate(self, x=None, y=None, *, batch_size=None, verbose=1, steps=None, callbacks=None,
                 steps_per_run=None, prefetch_depth=None, accumulate_outfeed=False,
                 accumulate_outfeed_dtype=None, **kwargs):
        """As IPUSequential.evaluate, and as fit()."""
        return super().evaluate(
            x, y, batch_size=batch_size, verbose=verbose, steps=steps, callbacks=callbacks,
            steps_per_run=steps_per_run, prefetch_depth=prefetch_depth,
            outfeed_options=(accumulate_outfeed, accumulate_outfeed_dtype), **kwargs)

    def _build_program(self, mode, steps_per_run, accumulate, accumulate_dtype):
        def build(program):
            pipelining_ops.pipeline(
                self._stage_functions(mode, program, accumulate),
                gradient_accumulation_count=self.gradient_accumulation_count,
                gradient_accumulation_dtype=self.gradient_accumulation_dtype,
                repeat_count=steps_per_run, inputs=[], infeed_queue=program.infeed,
                outfeed_queue=program.outfeed,
                optimizer_function=self._optimize if mode == steps.TRAIN else None,
                accumulate_outfeed=accumulate,
                accumulate_outfeed_dtype=accumulate_dtype, name=self.name,
                **{name: getattr(self, name) for name in _HANDED_ON})

        return build

    def _optimize(self, loss, *_):
        if not self.trainable_weights:
            raise ValueError(messages.NOTHING_TO_TRAIN.format("Model"))
        return pipelining_ops.OptimizerFunctionOutput(
            programs.Optimizer(self), loss,
            compute_gradients_kwargs={"var_list": self.trainable_variables})

    def _results(self, mode, program, accumulate, outputs, targets):
        """The results of the last stage."""
        if mode == steps.PREDICT:
            return list(outputs)
        found = programs.losses_and_metrics(self, targets, outputs, self._extra_losses())
        program.names = list(found)
        loss, *metrics = found.values()
        if accumulate:
            metrics = [one / tf.cast(self.gradient_accumulation_count, one.dtype)
                       for one in metrics]
        return [loss, *metrics]


class PipelineSequential(_Pipelined):
    """Layers one after the other, in stages on an IPU each. A larger device has replicas."""

    def __init__(self, stages, gradient_accumulation_count, gradient_accumulation_dtype=None,
                 batch_serialization_iterations=1, device_mapping=None, pipeline_schedule=None,
                 recomputation_mode=None, forward_propagation_stages_poplar_options=None,
                 backward_propagation_stages_poplar_options=None,
                 weight_update_poplar_options=None, offload_weight_update_variables=None,
                 replicated_optimizer_state_sharding=False, offload_activations=None,
                 offload_gradient_accumulation_buffers=None, replicated_weight_sharding=None,
                 offload_weights=None, layer_replacement=False, **kwargs):
        """`stages` is a list of lists of layers. `batch_serialization_iterations` and
        `layer_replacement` are not used, as in the original. The other arguments, except for
        `name`, are those of pipelining_ops.pipeline.

        Raises ValueError for what is no list of lists of layers.
        """
        options = {name: value for name, value in locals().items() if name in _HANDED_ON}
        del layer_replacement
        if not isinstance(stages, list) or not stages:
            raise ValueError(messages.PIPELINE_LIST)
        for stage in stages:
            if not isinstance(stage, list):
                raise ValueError(messages.PIPELINE_STAGES)
            if not all(arguments.is_layer(one) for one in stage):
                raise ValueError(messages.PIPELINE_LAYERS)
        super().__init__(name=kwargs.pop("name", None))
        self._set_up_pipeline(
            gradient_accumulation_count, gradient_accumulation_dtype, len(stages),
            {**options, "batch_serialization_iterations": batch_serialization_iterations})
        self.stages = stages
        self.args = kwargs

    def build(self, input_shape):
        """Makes the layers' weights."""
        model.build_layers([layer for stage in self.stages for layer in stage], input_shape)
        self.built = True

    def _symbolic_outputs(self, spec):
        self.built = True
        return programs.symbolic_outputs([layer for stage in self.stages for layer in stage], spec)

    def _stage_functions(self, mode, program, accumulate):
        def run(number, *element, **named):
            x, *targets = self._in_order(element, named, mode)
            x = programs.call_layers(self.stages[number], x, mode == steps.TRAIN)
            if number < len(self.stages) - 1:
                mask = getattr(x, "_keras_mask", None)
                return [x, *targets, *([mask] if mask is not None else [])]
            return self._results(mode, program, accumulate, [x], targets[:self._num_outputs])

        return [_numbered(run, number) for number in range(len(self.stages))]


class PipelineModel(_Pipelined, model.FunctionalBase):
    """A functional model in stages on an IPU each: those of the PipelineStage scopes around the
    calls of the layers, or else around their making. A larger device has replicas.

    stages  the numbers of the stages
    """

    def __init__(self, *args, gradient_accumulation_count, gradient_accumulation_dtype=None,
                 batch_serialization_iterations=1, device_mapping=None, pipeline_schedule=None,
                 recomputation_mode=None, forward_propagation_stages_poplar_options=None,
                 backward_propagation_stages_poplar_options=None,
                 weight_update_poplar_options=None, offload_weight_update_variables=None,
                 replicated_optimizer_state_sharding=False, offload_activations=None,
                 offload_gradient_accumulation_buffers=None, replicated_weight_sharding=None,
                 offload_weights=None, layer_replacement=False, **kwargs):
        """(inputs, outputs, name=None, trainable=True), and as PipelineSequential.

        Raises ValueError if a layer has no stage, stages are left out, or a layer takes a result of
        a later stage.
        """
        options = {name: value for name, value in locals().items() if name in _HANDED_ON}
        del layer_replacement
        super().__init__(*args, **kwargs)
        self._stage_calls = self._find_stages()
        self._set_up_pipeline(
            gradient_accumulation_count, gradient_accumulation_dtype, len(self._stage_calls),
            {**options, "batch_serialization_iterations": batch_serialization_iterations,
             "stages": list(range(len(self._stage_calls)))})

    def __new__(cls, *args, **kwargs):
        if len(args) == 1 and isinstance(args[0], int):
            raise TypeError(messages.NOT_A_SCOPE)
        return super().__new__(cls, *args, **kwargs)

    def __enter__(self):
        raise TypeError(messages.NOT_A_SCOPE)

    def __exit__(self, *error):
        raise TypeError(messages.NOT_A_SCOPE)

    def _find_stages(self):
        """The calls of layers of each stage."""
        stages = {}
        for node in pipeline_graph.in_order(self._nodes_by_depth):
            stage = pipeline_stage_assignment.stage_of(node)
            if stage is None:
                raise ValueError(messages.CALL_WITHOUT_STAGE.format(node.layer))
            stages.setdefault(stage, []).append(node)
        count = max(stages) + 1
        if len(stages) < count:
            missing = sorted(set(range(count)) - set(stages))
            raise ValueError(messages.STAGES_MISSING.format(
                ", ".join(map(str, sorted(stages))), ", ".join(map(str, missing))))
        ready = {str(id(symbol)) for symbol in self.inputs}
        for number in range(count):
            for node in stages[number]:
                if not set(node.flat_input_ids) <= ready:
                    raise ValueError(messages.STAGE_TOO_EARLY % (node.layer.name, number))
                ready.update(node.flat_output_ids)
        return [stages[number] for number in range(count)]

    def _handed_on(self, number):
        """Keras' ids of the values that stages after this one take, in a fixed order."""
        given = [str(id(symbol)) for symbol in self.inputs] + [
            name for stage in self._stage_calls[:number + 1] for node in stage
            for name in node.flat_output_ids]
        taken = {name for stage in self._stage_calls[number + 1:] for node in stage
                 for name in node.flat_input_ids} | {str(id(symbol)) for symbol in self.outputs}
        return [name for name in dict.fromkeys(given) if name in taken]

    def _stage_functions(self, mode, program, accumulate):
        num_targets = 0 if mode == steps.PREDICT else self._num_outputs

        def run(number, *element, **named):
            if number == 0:
                flat = self._in_order(element, named, mode)
                values = self._input_values(flat[:self._num_inputs])
                targets = flat[self._num_inputs:]
            else:
                names = self._handed_on(number - 1)
                targets = element[:num_targets]
                values = dict(zip(names, element[num_targets:]))
            programs.run_nodes(self._stage_calls[number], values, mode == steps.TRAIN)
            if number < len(self._stage_calls) - 1:
                return [*targets, *programs.with_masks(
                    [values[name] for name in self._handed_on(number)])]
            return self._results(mode, program, accumulate, self._output_values(values), targets)

        return [_numbered(run, number) for number in range(len(self._stage_calls))]


def _numbered(run, number):
    return lambda *element, **named: run(number, *element, **named)


# ---- Older names ----

class SequentialPipelineModel(PipelineSequential):
    """PipelineSequential, as SDK 1.3 and 1.4 called it."""

    def __init__(self, *args, **kwargs):
        caller = inspect.stack()[1]
        logs.module().warning(
            f"From {caller.filename}:{caller.lineno}: The name SequentialPipelineModel is "
            "deprecated. Please use PipelineSequential instead.\n")
        super().__init__(*args, **kwargs)


class PipelinedModel(PipelineSequential):
    """PipelineSequential, as SDK 1.2 had it."""

    def __init__(self, stages=None, pipeline_depth=None, **kwargs):
        """`pipeline_depth` is the gradient_accumulation_count."""
        super().__init__(stages, pipeline_depth, **kwargs)


PipelineStage = pipeline_stage_assignment.PipelineStage
