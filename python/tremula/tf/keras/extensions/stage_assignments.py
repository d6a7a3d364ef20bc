"""The stage of each layer of a model: the methods of models for it."""

import inspect

import tensorflow as tf

from tremula.tf.inner import keras, logs
from tremula.tf.keras.extensions import (
    messages, pipeline_graph, pipeline_stage_assignment as psa, stage_summary)

class Stages:
    """Base of the three mixins.

    Each gives the calls of its model (_stage_nodes(), _stage_graph(), _stage_inputs(),
    _stage_arguments()) and the classes of its assignments.
    """

    _pipeline_stage_assignment = []  # never changed: lists are put in its place
    _stages_come_from_scopes = False
    _LAYER = _NESTED = None

    def _is_pipelined(self):
        return bool(self._pipeline_stage_assignment)

    def _get_pipeline_maximum_pipeline_stage(self):
        return max(_flat_stages(self._pipeline_stage_assignment))

    def get_pipeline_stage_assignment(self):
        """The assignments of the layers' calls in the order in which they run, without input
        layers; their stages are None where the model is not pipelined."""
        if self._pipeline_stage_assignment:
            return list(self._pipeline_stage_assignment)
        return self._new_assignments()

    def set_pipeline_stage_assignment(self, pipeline_stage_assignment):
        """Makes the model a pipeline of these stages.

        Raises ValueError for what does not fit to the layers, or to the order in which they run.
        """
        self._check_assignments(pipeline_stage_assignment)
        self._keep_assignments(pipeline_stage_assignment)

    def reset_pipeline_stage_assignment(self):
        """Makes the model no pipeline."""
        self._keep_assignments([])

    def _keep_assignments(self, assignments):
        # Keras would put lists of its own there.
        vars(self).update(_pipeline_stage_assignment=assignments, _stages_come_from_scopes=False)
        self._reset_ipu_extension()

    def print_pipeline_stage_assignment_summary(self, line_length=None, print_fn=None):
        """Prints a table of the layers with their stages: lines of `line_length` characters, by
        `print_fn` (print)."""
        stage_summary.print_summary(self.name, self.get_pipeline_stage_assignment(),
                                    self._stage_nodes() is not None, line_length, print_fn)

    def _refuse_own_call(self, base, kind):
        """Raises RuntimeError for a pipeline whose call() is not that of `base`."""
        if self._is_pipelined() and getattr(self.call, "__func__", None) is not base.call:
            raise RuntimeError(messages.OWN_CALL.format(self.name, kind))

    def _check_kept_assignments(self):
        """Raises ValueError if the model has changed since its stages were set. Calls that were
        added in scopes, such as those of losses, get the scopes' stages."""
        if self._stages_come_from_scopes:
            self._use_scopes()
        else:
            self._check_assignments(self._pipeline_stage_assignment)

    def _saved_layers(self):
        """The layers, in the order of their numbers in a configuration."""
        return self.layers

    def _stage_outputs(self, tensors):
        """Tensors in the structure that the model returns."""
        return tf.nest.pack_sequence_as(self._stage_graph().outputs, tensors)

    # ---- Making ----

    def _new_assignments(self, of_scopes=False, stage=None):
        """Assignments with the stages that scopes have given, or None. `stage`: for calls without
        one."""
        return [self._new_assignment(layer, node, of_scopes, stage)
                for layer, node in self._stage_calls()]

    def _new_assignment(self, layer, node, of_scopes, stage):
        own = psa.stage_of(node) if of_scopes and node is not None else None
        own = stage if own is None else own
        where = [] if node is None else [layer._inbound_nodes.index(node)]
        if not isinstance(layer, Stages):
            if of_scopes and own is None:
                raise ValueError(messages.NO_STAGE.format(layer.name))
            return self._LAYER(layer, *where, own)
        _trace_call(layer, node)
        inside = _copies(layer._pipeline_stage_assignment)
        return self._NESTED(layer, *where,
                            inside or layer._new_assignments(of_scopes, own))

    def _stage_calls(self):
        """Pairs (layer, its call or None)."""
        return [(node.layer, node) for node in self._stage_nodes()]

    def _use_scopes(self):
        """Makes the model a pipeline if PipelineStage scopes have given stages to calls."""
        if any(_has_stage(node) for node in self._stage_nodes()):
            assignments = self._new_assignments(of_scopes=True)
            self._check_assignments(assignments)
            vars(self).update(_pipeline_stage_assignment=assignments, _stages_come_from_scopes=True)

    # ---- Checks ----

    def _check_assignments(self, assignments):
        """Raises ValueError if assignments are not those of the layers' calls, with stages in which
        they can run."""
        self._check_list(assignments)
        pipeline_graph.check_order(pipeline_graph.Steps(self, assignments))

    def _check_list(self, assignments):
        if not isinstance(assignments, list):
            raise ValueError(f"{messages.NO_LIST}.")
        calls = self._stage_calls()
        self._check_length(assignments, calls)
        for one, (layer, node) in zip(assignments, calls):
            self._check_class(one, layer)
            self._check_matches(one, layer, node)
            if one.is_nested_model:
                layer._check_list(one.pipeline_stage_assignments)
            elif one.pipeline_stage is None:
                raise ValueError(self._without_stage(one))

    @staticmethod
    def _check_length(assignments, calls):
        if len(assignments) != len(calls):
            raise ValueError(messages.LENGTH.format(len(assignments), len(calls)))

    def _check_class(self, assignment, layer):
        nested = isinstance(layer, Stages)
        wanted = self._NESTED if nested else self._LAYER
        if not isinstance(assignment, wanted):
            what = "nested model" if nested else "layer"
            raise ValueError(messages.LAYER_CLASS.format(
                what, layer.name, self.name, wanted.__name__, type(assignment).__name__))

    def _check_matches(self, assignment, layer, node):
        given = assignment.nested_model if assignment.is_nested_model else assignment.layer
        message = messages.ORDER.format(given.name, layer.name)
        if given is not layer:
            raise ValueError(message)
        if layer._inbound_nodes.index(node) != assignment.node_index:
            raise ValueError(message[:-1] + messages.NODES.format(layer.name))

    @staticmethod
    def _without_stage(assignment):
        return messages.UNASSIGNED_CALL.format(assignment.layer.name, assignment.node_index)


def _has_stage(node):
    if psa.stage_of(node) is not None:
        return True
    layer = node.layer
    if not isinstance(layer, Stages):
        return False
    return layer._is_pipelined()


def _trace_call(model, node):
    """Traces the calls in a nested model that has not been traced."""
    if isinstance(model, ModelStages) and model._traced_graph is None and node is not None:
        model._trace_calls(tf.nest.map_structure(
            lambda one: keras.public().Input(batch_shape=one.shape, dtype=one.dtype),
            node.call_args[0]))


def _copies(assignments):
    """Copies of the assignments, because each call of a nested model has stages of its own."""
    copies = []
    for one in assignments:
        where = [one.node_index] if hasattr(one, "node_index") else []
        if one.is_nested_model:
            copies.append(type(one)(one.nested_model, *where,
                                    _copies(one.pipeline_stage_assignments)))
        else:
            copies.append(type(one)(one.layer, *where, one.pipeline_stage))
    return copies


def _flat_stages(assignments):
    for one in assignments:
        if one.is_nested_model:
            yield from _flat_stages(one.pipeline_stage_assignments)
        else:
            yield one.pipeline_stage


class FunctionalStages(Stages):
    """The stages of a functional model."""

    _LAYER = psa.FunctionalLayerPipelineStageAssignment
    _NESTED = psa.FunctionalNestedModelPipelineStageAssignment

    def _stage_graph(self):
        return pipeline_graph.Graph(self._nested_inputs, self._nested_outputs,
                                    pipeline_graph.in_order(self._nodes_by_depth))

    def _stage_nodes(self):
        return self._stage_graph().nodes

    def _stage_inputs(self):
        return list(self.inputs)

    def _stage_arguments(self, structure):
        return self._flatten_to_reference_inputs(structure)

    def _validate_call_function(self):
        self._refuse_own_call(keras.module("engine.functional").Functional, "Functional")

    def _get_pipelining_from_nodes_supported(self):
        return True

    def _get_pipelining_from_nodes_delegate(self):
        self._use_scopes()


class ModelStages(Stages):
    """The stages of an object of a subclass of keras.Model: of the calls of layers that its call()
    makes for symbolic tensors."""

    _LAYER = psa.ModelLayerPipelineStageAssignment
    _NESTED = psa.NestedModelPipelineStageAssignment
    _traced_graph = None
    _shown_inputs = []  # never changed

    def get_pipeline_stage_assignment(self):
        """As for functional models. Raises RuntimeError before build()."""
        if self._traced_graph is None:
            raise RuntimeError(messages.GET_NOT_BUILT.format(self.name))
        return super().get_pipeline_stage_assignment()

    def _check_list(self, assignments):
        if self._traced_graph is None:
            raise RuntimeError(messages.SET_NOT_BUILT.format(self.name))
        super()._check_list(assignments)

    def _check_matches(self, assignment, layer, node):
        if not assignment.is_nested_model:
            given, index = assignment.layer, assignment.node_index
            calls = len(given._inbound_nodes)
            if not calls:
                raise ValueError(messages.NO_NODES.format(given.name, index))
            if index >= calls:
                raise ValueError(messages.FEWER_NODES.format(given.name, calls, index))
        super()._check_matches(assignment, layer, node)

    def _trace_calls(self, inputs):
        """Calls the model with symbolic tensors, to see which layers it calls. Stages that are set
        must fit; without these, the scopes in call() give the stages.

        Raises NotImplementedError without a call(), RuntimeError if the stages that are set do not
        fit.
        """
        self._validate_call_function()
        for layer in self.layers:
            if not isinstance(layer, keras.public("layers").InputLayer):
                layer._inbound_nodes.clear()
                layer._outbound_nodes.clear()
        outputs = self.call(inputs, *_training(self.call))
        if self._traced_graph is not None:
            self._reset_ipu_extension()
        vars(self)["_traced_graph"] = pipeline_graph.traced(inputs, outputs)
        self._show_input_layers()
        if self._is_pipelined():
            self._check_kept_assignments()
        else:
            self._use_scopes()

    def _show_input_layers(self):
        """Puts the input layers of the trace before the other layers: in the original a subclass of
        Model is a graph once it has been traced."""
        others = [one for one in self._self_tracked_trackables
                  if id(one) not in map(id, self._shown_inputs)]
        shown = list({id(one): one for one in (
            tensor._keras_history.layer for tensor in self._stage_inputs())}.values())
        vars(self).update(_shown_inputs=shown, _self_tracked_trackables=[*shown, *others])

    def _saved_layers(self):
        return self.layers[len(self._shown_inputs):]

    def _check_kept_assignments(self):
        try:
            super()._check_kept_assignments()
        except ValueError as error:
            raise RuntimeError(messages.NO_LONGER_VALID.format(self.name, error)) from error

    def _validate_call_function(self):
        base = keras.module("engine.training").Model
        if getattr(self.call, "__func__", None) is base.call:
            raise NotImplementedError(messages.NO_CALL.format(self.name))

    def _stage_graph(self):
        return self._traced_graph

    def _stage_nodes(self):
        return self._traced_graph.nodes

    def _stage_inputs(self):
        return tf.nest.flatten(self._traced_graph.inputs)

    def _stage_arguments(self, structure):
        return tf.nest.flatten(structure)


def _training(call):
    """[False] where call() must be given `training` as its second argument, else []."""
    parameters = list(inspect.signature(call).parameters.values())
    return [False] if len(parameters) > 1 and parameters[1].name == "training" and (
        parameters[1].default is inspect.Parameter.empty) else []


class SequentialStages(Stages):
    """The stages of a Sequential model; scopes do not count."""

    _LAYER = psa.SequentialLayerPipelineStageAssignment
    _NESTED = psa.SequentialNestedModelPipelineStageAssignment
    _pipeline_stage_assignment_valid = False

    def get_pipeline_stage_assignment(self):
        """The assignments of the layers, in their order; their stages are None where the model is
        not pipelined."""
        if self._is_pipelined() and not self._pipeline_stage_assignment_valid:
            logs.module().info(messages.LAYERS_HAVE_CHANGED)
        return super().get_pipeline_stage_assignment()

    def set_pipeline_stage_assignment(self, pipeline_stage_assignment):
        """Makes the model a pipeline. Numbers in the list become assignments of the layers.

        Raises ValueError for what does not fit to the layers, or to the order in which they run.
        """
        if not isinstance(pipeline_stage_assignment, list):
            raise ValueError(messages.NO_LIST)
        for index, (one, layer) in enumerate(zip(pipeline_stage_assignment, self.layers)):
            if isinstance(one, int):
                pipeline_stage_assignment[index] = self._LAYER(layer, one)
        super().set_pipeline_stage_assignment(pipeline_stage_assignment)

    def _keep_assignments(self, assignments):
        self._pipeline_stage_assignment_valid = bool(assignments)
        super()._keep_assignments(assignments)

    # ---- add() and pop() ----

    def _add_supported(self, layer):
        del layer
        return True

    def _add_delegate(self, layer):
        self._layers_change("Adding a layer to")
        return self.add(layer, __extension_delegate=False)

    def _pop_supported(self):
        return True

    def _pop_delegate(self):
        self._layers_change("Removing a layer from")
        return self.pop(__extension_delegate=False)

    def _layers_change(self, what):
        if self._is_pipelined():
            self._pipeline_stage_assignment_valid = False
            logs.module().info(messages.LAYERS_CHANGE.format(what))

    # ---- Calls ----

    def _stage_calls(self):
        return [(layer, None) for layer in self.layers]

    def _stage_nodes(self):
        return None  # one layer after the other

    def _stage_inputs(self):
        return list(self.inputs) if self._graph_initialized else [None]

    def _stage_arguments(self, structure):
        return tf.nest.flatten(structure)

    def _stage_outputs(self, tensors):
        return tensors[0]

    def _validate_call_function(self):
        self._refuse_own_call(keras.module("engine.sequential").Sequential, "Sequential")

    # ---- Checks ----

    def _check_is_graph(self):
        """Raises RuntimeError for a pipeline of layers that Keras cannot trace."""
        if self._is_pipelined() and not self._graph_initialized:
            raise RuntimeError(messages.NO_GRAPH.format(self.name))

    def _check_assignments(self, assignments):
        self._check_list(assignments)
        if any(one.is_nested_model for one in assignments):
            pipeline_graph.check_order(pipeline_graph.Steps(self, assignments))
        else:
            self._check_numbers(assignments)

    def _check_class(self, assignment, layer):
        if not isinstance(assignment, (self._LAYER, self._NESTED)) or (
                assignment.is_nested_model != isinstance(layer, Stages)):
            raise ValueError(messages.SEQUENTIAL_CLASS)

    def _check_matches(self, assignment, layer, node):
        given = assignment.nested_model if assignment.is_nested_model else assignment.layer
        if given is not layer:
            index = self.layers.index(layer)
            raise ValueError(messages.OTHER_LAYER.format(index, given.name, layer.name))

    def _without_stage(self, assignment):
        nested = any(isinstance(layer, Stages) for layer in self.layers)
        text = messages.UNASSIGNED_INSIDE if nested else messages.UNASSIGNED
        return text.format(assignment.layer.name)

    @staticmethod
    def _check_numbers(assignments):
        before = None
        for one in assignments:
            if before is None and one.pipeline_stage != 0:
                raise ValueError(messages.FIRST_LAYER.format(one.pipeline_stage))
            if before is not None and one.pipeline_stage not in (before, before + 1):
                raise ValueError(messages.NOT_NEXT.format(
                    one.layer.name, one.pipeline_stage, before))
            before = one.pipeline_stage
