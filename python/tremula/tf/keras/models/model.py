"""`ipu.keras.Model` and `ipu.keras.Sequential`."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.extensions import messages, pipeline_graph
from tremula.tf.keras.models import arguments, base, programs, steps


class IPUSequential(base.IpuModelBase):
    """Layers one after the other, each replica on one IPU. A larger device has several replicas.

    model_layers  the list of layers
    """

    def __init__(self, layers=None, gradient_accumulation_count=1,
                 gradient_accumulation_dtype=None, layer_replacement=False, accumulation_count=1,
                 accumulation_dtype=None):
        """`layer_replacement` is not used, as in the original; `accumulation_count` and
        `accumulation_dtype` are older names.

        Raises ValueError for what is no list of layers.
        """
        del layer_replacement
        if not isinstance(layers, list):
            raise ValueError(messages.SEQUENTIAL_LIST)
        if not all(arguments.is_layer(one) for one in layers):
            raise ValueError(messages.SEQUENTIAL_LAYERS)
        super().__init__()
        self._set_up(*_accumulation(
            self, gradient_accumulation_count, gradient_accumulation_dtype, accumulation_count,
            accumulation_dtype), shard_count=1)
        self.model_layers = layers

    def build(self, input_shape):
        """Makes the layers' weights."""
        build_layers(self.model_layers, input_shape)
        self.built = True

    def _symbolic_outputs(self, spec):
        self.built = True
        return programs.symbolic_outputs(self.model_layers, spec)

    def _forward(self, inputs, training):
        return tf.nest.flatten(programs.call_layers(self.model_layers, inputs[0], training))

    def _build_program(self, mode, steps_per_run, accumulate, accumulate_dtype):
        return programs.loop(self, mode, steps_per_run, self.gradient_accumulation_count,
                             self.gradient_accumulation_dtype, "Sequential")


class FunctionalBase(base.IpuModelBase, inner.module("engine.functional").Functional):
    """A model of the calls between symbolic inputs and outputs."""

    def __init__(self, *args, **kwargs):
        """(inputs, outputs, name=None, trainable=True). Raises ValueError where one of the first
        two is missing, TypeError for other arguments."""
        if len(args) != 2 - ("inputs" in kwargs) - ("outputs" in kwargs):
            raise ValueError(messages.NO_INPUTS)
        inner.module("utils.generic_utils").validate_kwargs(
            kwargs, {"inputs", "outputs", "name", "trainable"}, messages.ONLY_NAME)
        given = dict(zip([one for one in ("inputs", "outputs") if one not in kwargs], args),
                     **kwargs)
        for name in ("inputs", "outputs"):
            if isinstance(given[name], list) and len(tf.nest.flatten(given[name])) == 1:
                given[name] = given[name][0]
        super().__init__(**given)

    @base.untracked
    def _set_up(self, count, dtype, shard_count):
        super()._set_up(count, dtype, shard_count)
        self._num_inputs, self._num_outputs = len(self.inputs), len(self.outputs)

    def _extra_losses(self):
        if self.losses:
            raise ValueError(messages.LAYER_LOSSES)
        return None

    def _symbolic_outputs(self, spec):
        del spec
        return list(self.outputs)

    def _input_values(self, inputs):
        """{Keras' id: tensor} of the model's inputs."""
        return {str(id(symbol)): self._conform_to_reference_input(value, ref_input=symbol)
                for symbol, value in zip(self.inputs, inputs)}

    def _output_values(self, values):
        return [values[str(id(symbol))] for symbol in self.outputs]

    def _in_order(self, element, named, mode):
        """A dict of inputs, or of targets, by the names of layers goes by these names."""
        if len(element) == 1 + (mode != steps.PREDICT) and not named:
            names = (self.input_names, self.output_names)
            element = [[part[name] for name in own]
                       if isinstance(part, dict) and set(part) == set(own) else part
                       for part, own in zip(element, names)]
        elif mode == steps.PREDICT and set(named) == set(self.input_names):
            return [named[name] for name in self.input_names]
        return super()._in_order(element, named, mode)


class IPUModel(FunctionalBase):
    """A functional model, each replica on one IPU. A larger device has several replicas."""

    def __init__(self, *args, gradient_accumulation_count=1, gradient_accumulation_dtype=None,
                 layer_replacement=False, accumulation_count=1, accumulation_dtype=None, **kwargs):
        """(inputs, outputs, name=None, trainable=True), and as IPUSequential."""
        del layer_replacement
        super().__init__(*args, **kwargs)
        self._set_up(*_accumulation(
            self, gradient_accumulation_count, gradient_accumulation_dtype, accumulation_count,
            accumulation_dtype), shard_count=1)

    def _forward(self, inputs, training):
        values = self._input_values(inputs)
        programs.run_nodes(pipeline_graph.in_order(self._nodes_by_depth), values, training)
        return self._output_values(values)

    def _in_structure(self, found):
        return tf.nest.pack_sequence_as(self._nested_outputs, found)

    def _build_program(self, mode, steps_per_run, accumulate, accumulate_dtype):
        return programs.loop(self, mode, steps_per_run, self.gradient_accumulation_count,
                             self.gradient_accumulation_dtype, "Model")


def build_layers(layers, input_shape):
    """Makes the weights of layers that follow one another."""
    for layer in layers:
        if not layer.built:
            layer.build(input_shape)
        input_shape = layer.compute_output_shape(input_shape)


def _accumulation(model, count, dtype, old_count, old_dtype):
    who = type(model).__name__
    return (arguments.renamed(who, "accumulation_count", old_count,
                              "gradient_accumulation_count", count, 1),
            arguments.renamed(who, "accumulation_dtype", old_dtype,
                              "gradient_accumulation_dtype", dtype, None))


Sequential = IPUSequential
Model = IPUModel
