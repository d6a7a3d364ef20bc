"""PipelineStage, and the classes for the stage in which a layer of a model runs
(`keras.ipu.PipelineStage`, `keras.ipu.extensions.pipeline_stage_assignment`)."""

import functools

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.inner import patches
from tremula.tf.ipu import ipu_strategy
from tremula.tf.runtime.base import checks


class PipelineStage:
    """A scope in the scope of an IPUStrategy: layers that are made in it, and calls of layers in
    it, belong to a stage. The stage of a call has precedence over that of its layer."""

    def __init__(self, stage):
        """`stage` counts from 0."""
        self._stage = stage

    def __enter__(self):
        """Raises TypeError for a stage that is no int, ValueError for a negative one, RuntimeError
        outside of an IPUStrategy and in another PipelineStage."""
        if checks.integer("The number of a pipeline stage", self._stage) < 0:
            raise ValueError(f"{self._stage} is not a valid pipeline stage.")
        strategy = tf.distribute.get_strategy()
        if not isinstance(strategy, ipu_strategy.IPUStrategyV1):
            raise RuntimeError("PipelineStage may only be used from within an IPUStrategy context.")
        if hasattr(strategy, "_pipeline_stage"):
            raise RuntimeError("Pipeline stages must not be nested.")
        _mark_what_is_made()
        strategy._pipeline_stage = self._stage
        self._strategy = strategy
        return self

    def __exit__(self, *error):
        del self._strategy._pipeline_stage


@functools.cache
def _mark_what_is_made():
    """Makes layers of Keras, and calls of layers, keep the stage in which they are made, as the
    original's Keras does."""
    def make(initialize):
        def initialize_marked(self, *arguments, **keywords):
            initialize(self, *arguments, **keywords)
            stage = getattr(tf.distribute.get_strategy(), "_pipeline_stage", None)
            if stage is not None:
                self._pipeline_stage = stage
        return initialize_marked

    for owner in (inner.module("engine.base_layer").Layer, inner.module("engine.node").Node):
        patches.wrap_keras_methods(owner, ["__init__"], make)


def stage_of(node):
    """The stage of a call by the scopes around it and around the making of its layer, or None."""
    stage = getattr(node, "_pipeline_stage", None)
    return getattr(node.layer, "_pipeline_stage", None) if stage is None else stage


# ---- Assignments ----

class _OfCall:
    """The assignment of one call of a layer: the layer's `node_index`-th."""

    def __init__(self, layer, node_index):
        self._layer, self._node_index = layer, node_index

    @property
    def node_index(self):
        """The number of this call among those of the layer or the nested model."""
        return self._node_index

    @property
    def inbound_layers(self):
        """The layers whose outputs the call gets."""
        node = self._layer._inbound_nodes[self._node_index]
        return [parent.layer for parent in node.parent_nodes]


class _StageOfLayer:
    is_nested_model = False

    @property
    def layer(self):
        """The layer."""
        return self._layer

    @property
    def pipeline_stage(self):
        """The number of the stage, from 0, or None. It can be set."""
        return self._pipeline_stage

    @pipeline_stage.setter
    def pipeline_stage(self, value):
        self._pipeline_stage = value


class _StagesOfModel:
    is_nested_model = True

    def __init__(self, pipeline_stage_assignments):
        self._assignments = list(pipeline_stage_assignments)

    @property
    def nested_model(self):
        """The model."""
        return self._layer

    @property
    def pipeline_stage_assignments(self):
        """The assignments of the model's layers, in a new list."""
        return list(self._assignments)

    def _text(self, which):
        return "\n".join([f"Model: {self._layer.name}{which} has the following pipeline stage "
                          "assignments:", *(f"  {one}" for one in self._assignments)])


class ModelLayerPipelineStageAssignment(_OfCall, _StageOfLayer):
    """The stage of one call of a layer, in a subclass of keras.Model."""

    def __init__(self, layer, node_index, pipeline_stage=None):
        """`pipeline_stage` counts from 0; None is no stage yet."""
        super().__init__(layer, node_index)
        self.pipeline_stage = pipeline_stage

    def __str__(self):
        return (f"Layer: {self.layer.name} (node index {self.node_index}) is assigned to pipeline "
                f"stage: {self.pipeline_stage}")


class FunctionalLayerPipelineStageAssignment(ModelLayerPipelineStageAssignment):
    """The stage of one call of a layer, in a functional model."""


class SequentialLayerPipelineStageAssignment(_StageOfLayer):
    """The stage of a layer, in a Sequential model."""

    def __init__(self, layer, pipeline_stage=None):
        """`pipeline_stage` counts from 0; None is no stage yet."""
        self._layer, self.pipeline_stage = layer, pipeline_stage

    def __str__(self):
        return f"Layer: {self.layer.name} is assigned to pipeline stage: {self.pipeline_stage}"


class NestedModelPipelineStageAssignment(_OfCall, _StagesOfModel):
    """The stages of one call of a model, in a subclass of keras.Model."""

    def __init__(self, nested_model, node_index, pipeline_stage_assignments):
        """`pipeline_stage_assignments` are those of the model's own layers."""
        _OfCall.__init__(self, nested_model, node_index)
        _StagesOfModel.__init__(self, pipeline_stage_assignments)

    def __str__(self):
        return self._text(f" (node index {self.node_index})")


class FunctionalNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """The stages of one call of a model, in a functional model."""


class SequentialNestedModelPipelineStageAssignment(_StagesOfModel):
    """The stages of a model, in a Sequential model."""

    def __init__(self, nested_model, pipeline_stage_assignments):
        """`pipeline_stage_assignments` are those of the model's own layers."""
        self._layer = nested_model
        super().__init__(pipeline_stage_assignments)

    def __str__(self):
        return self._text("")
