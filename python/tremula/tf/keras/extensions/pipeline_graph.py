"""The calls of layers of a pipelined model, each in a stage, with nested models taken apart.

A value has a number, its key. The outputs of different calls have different keys, even if the layer
or the model around it is the same.
"""

import collections

import tensorflow as tf

from tremula.tf.inner import keras
from tremula.tf.keras.extensions import messages

Graph = collections.namedtuple("Graph", ["inputs", "outputs", "nodes"])
Graph.__doc__ = """Calls of layers on symbolic tensors.

inputs, outputs  structures of symbolic tensors
nodes            the calls in the order in which they run, without those of input layers
"""


def traced(inputs, outputs):
    """The Graph between symbolic tensors. Raises ValueError if there is something else between."""
    _, by_depth, _, _ = keras.module("engine.functional")._map_graph_network(
        tf.nest.flatten(inputs), tf.nest.flatten(outputs))
    return Graph(inputs, outputs, in_order(by_depth))


def in_order(nodes_by_depth):
    """The calls of a graph by falling depth, as Keras runs them."""
    return [node for depth in sorted(nodes_by_depth, reverse=True)
            for node in nodes_by_depth[depth] if not node.is_input]


def arguments_of(node, values):
    """(arguments, keywords) of a call of a layer, from {Keras' id: value}."""
    # Keras takes a value off its list at each use.
    return node.map_arguments({name: [values[name]] * len(node.flat_input_ids)
                               for name in node.flat_input_ids})


class Step:
    """One call of a layer.

    stage          its stage
    takes, gives   keys of its arguments and results
    training       the argument `training` of the call of a model around it, or None
    """

    def __init__(self, layer, stage, takes, gives, training, node=None):
        self.layer, self.stage, self.training, self._node = layer, stage, training, node
        self.takes, self.gives = takes, gives

    def run(self, values):
        """Calls the layer with values, in the order of `takes`. Returns those of `gives`."""
        if self._node is None:
            returned = self.layer(*values)
        else:
            arguments, keywords = arguments_of(
                self._node, dict(zip(self._node.flat_input_ids, values)))
            returned = self.layer(*arguments, **keywords)
        return tf.nest.flatten(returned)


class Steps:
    """A model's steps.

    steps     in the order in which a model that is not pipelined runs them
    inputs    keys of the model's inputs; outputs: of its outputs
    """

    def __init__(self, model, assignments):
        self.steps = []
        self._same = {}  # key -> (key of the same value, what Keras makes it fit to)
        self._count = 0
        self.inputs = [self._key() for _ in model._stage_inputs()]
        self.outputs = self._take_apart(model, assignments, self.inputs, None)

    def _key(self):
        self._count += 1
        return self._count

    def _fitted(self, key, reference):
        made = self._key()
        self._same[made] = (key, reference)
        return made

    def _take_apart(self, model, assignments, inputs, training):
        """Adds the steps of a model. Returns the keys of its outputs."""
        inputs = [key if reference is None else self._fitted(key, reference)
                  for key, reference in zip(inputs, model._stage_inputs())]
        nodes = model._stage_nodes()
        if nodes is None:
            for one in assignments:
                inputs = self._call(one, inputs, training)
            return inputs
        graph = model._stage_graph()
        keys = {str(id(tensor)): key for tensor, key in zip(tf.nest.flatten(graph.inputs), inputs)}
        for one, node in zip(assignments, nodes):
            given = self._call(one, [keys[name] for name in node.flat_input_ids], training, node)
            keys.update(zip(node.flat_output_ids, given))
        return [keys[str(id(tensor))] for tensor in tf.nest.flatten(graph.outputs)]

    def _call(self, assignment, takes, training, node=None):
        """Adds the steps of a call. Returns the keys of its results."""
        if not assignment.is_nested_model:
            gives = [self._key() for _ in (node.flat_output_ids if node else [None])]
            self.steps.append(Step(assignment.layer, assignment.pipeline_stage, takes, gives,
                                   training, node))
            return gives
        model = assignment.nested_model
        if node is not None:
            if node.call_kwargs.get("training") is not None:
                training = node.call_kwargs["training"]
            names = dict(zip(node.flat_input_ids, takes))
            takes = [names[str(id(tensor))]
                     for tensor in model._stage_arguments(node.call_args[0])]
        return self._take_apart(model, assignment.pipeline_stage_assignments, takes, training)

    def origin(self, key):
        """The key of the computed value of which this one is another form."""
        while key in self._same:
            key = self._same[key][0]
        return key

    def value(self, key, values):
        """The value of a key; `values` are those of origins."""
        if key not in self._same:
            return values[key]
        source, reference = self._same[key]
        fit = keras.module("engine.functional").Functional._conform_to_reference_input
        return fit(None, self.value(source, values), reference)


def check_order(steps):
    """Raises ValueError if a step takes a result of a later stage."""
    ready = set(steps.inputs)
    for stage in sorted({step.stage for step in steps.steps}):
        for step in steps.steps:
            if step.stage != stage:
                continue
            if not {steps.origin(key) for key in step.takes} <= ready:
                raise ValueError(messages.LATER_STAGE.format(step.layer.name, stage))
            ready.update(step.gives)
