"""How an object of a subclass of Model gets its weights, and shows which layers it calls."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.keras.extensions import (extensions_base, extensions_util, messages,
                                         stage_assignments)


class ModelBuilding(stage_assignments.ModelStages):
    """build() of such an object, or its work before the first data."""

    _named_inputs = ()  # ids of the keras.Inputs that build() was given

    def _build_supported(self, input_shape):
        del input_shape
        return not inner.module("engine.base_layer_utils").call_context().in_call

    def _build_delegate(self, input_shape):
        """Makes the weights and traces call() for shapes, float32 inputs, or keras.Inputs.

        Raises ValueError for anything else, for shapes where call() wants other types, and for a
        call() that needs more than its inputs.
        """
        self._validate_call_function()
        _check_arguments(self._call_spec.full_argspec)
        inputs = _map_shapes(input_shape, _symbolic)
        plain = [one for one in _flat(input_shape) if not _is_input(one)]
        errors = (tf.errors.InvalidArgumentError, TypeError) if plain else ()
        self._named_inputs = {id(one) for one in _flat(input_shape) if _is_input(one)}
        try:
            self._trace_calls(inputs)
        except errors as error:
            raise ValueError(messages.BUILD_TYPES) from error
        self._mark_built(_map_shapes(input_shape, lambda one: tuple(_symbolic(one).shape)))

    def _build_for_data(self, element_spec):
        """Makes the weights for the first element of the data, and traces call(), which may have
        stages. A model without stages whose call() cannot be traced by layers calls its layers in
        the program only."""
        if self._traced_graph is not None:
            return
        self._validate_call_function()
        specs = tf.nest.map_structure(extensions_util.with_two_dimensions,
                                      extensions_base.inputs_of(element_spec))
        shapes = tf.nest.map_structure(lambda one: tuple(one.shape), specs)
        if not self.built and getattr(type(self).build, "__original_func__", None) is None:
            self.build(shapes)  # the user's own
            if self._traced_graph is not None:
                return
        try:
            self._trace_calls(tf.nest.map_structure(
                lambda one: inner.public().Input(batch_shape=one.shape, dtype=one.dtype), specs))
        except Exception:
            if self._has_stages():
                raise
        if self._traced_graph is None:
            tf.function(lambda x: self(x, training=False)).get_concrete_function(specs)
        self._mark_built(shapes)

    def _has_stages(self):
        """Whether stages are set, or were asked for while call() ran."""
        return self._is_pipelined() or any(
            hasattr(one, "_pipeline_stage")
            for layer in self._flatten_layers(include_self=False)
            for one in (layer, *layer._inbound_nodes))

    def _mark_built(self, shapes):
        if not self.built:
            inner.layer_class().build(self, shapes)
        if self._traced_graph is not None and self.save_spec() is None:
            self._set_save_spec(_named_specs(self._traced_graph.inputs, self._named_inputs))


def _named_specs(inputs, named):
    """The types of inputs for a SavedModel. Inputs that the program has not made (`named`) get the
    names that other subclasses of Model give: input_1, input_2, ..."""
    names = inner.module("engine.compile_utils").create_pseudo_input_names(inputs)
    specs = [tf.TensorSpec(one.shape, one.dtype, one.name if id(one) in named else name)
             for one, name in zip(tf.nest.flatten(inputs), names)]
    return tf.nest.pack_sequence_as(inputs, specs)


def _check_arguments(spec):
    """Raises ValueError if a call() needs other arguments than the first and `training`. The first
    of the FullArgSpec is `self`."""
    needed = spec.args[2:len(spec.args) - len(spec.defaults or ())]
    if set(needed) - {"training"}:
        raise ValueError(messages.BUILD_ARGUMENTS)


# ---- Shapes as build() takes them ----

def _is_input(value):
    return hasattr(value, "_keras_history")


def _is_shape(value):
    return isinstance(value, tf.TensorShape) or isinstance(value, (list, tuple)) and all(
        one is None or hasattr(type(one), "__index__") for one in value)


def _map_shapes(structure, function):
    """Calls function() for each shape and keras.Input of what build() is given."""
    if _is_input(structure) or _is_shape(structure):
        return function(structure)
    if isinstance(structure, (list, tuple)):
        return [_map_shapes(one, function) for one in structure]
    if isinstance(structure, dict):
        return {name: _map_shapes(one, function) for name, one in structure.items()}
    raise ValueError(messages.BUILD_SHAPE.format(type(structure)))


def _flat(structure):
    found = []
    _map_shapes(structure, found.append)
    return found


def _symbolic(value):
    if _is_input(value):
        return value
    return inner.public().Input(batch_shape=tuple(tf.TensorShape(value).as_list()))
