"""Options and stages in the configuration of a model, and models made from a configuration.

get_config() adds the entries of _KEYS and "pipeline_stage_assignment" to those of Keras. Arguments
of accumulating optimizers and of pipelines are not saved.
"""

import contextlib
import contextvars
import functools
import inspect
import os

from tremula.tf.inner import keras as inner
from tremula.tf.inner import logs
from tremula.tf.ipu import keras_extensions
from tremula.tf.keras.extensions import messages, options, pipeline_graph
from tremula.tf.runtime.tracing import accumulation

# A key's attribute has an underscore before it. Values of enumerations are saved as numbers.
_KEYS = ("gradient_accumulation_steps_per_replica", "gradient_accumulation_reduction_method",
         "replicated_metric_reduction_method", "asynchronous_callbacks",
         "pipelining_gradient_accumulation_steps_per_replica", "pipelining_device_mapping",
         "pipelining_accumulate_outfeed", "infeed_kwargs", "outfeed_kwargs")
_ENUMERATIONS = {
    "gradient_accumulation_reduction_method": accumulation.GradientAccumulationReductionMethod,
    "replicated_metric_reduction_method": options.ReplicatedMetricReductionMethod}
_STAGES = "pipeline_stage_assignment"
_GRAPH = "graph_network_initialized"
_CALLED = "get_config_has_been_called"
_OURS = {*_KEYS, _STAGES, "pipeline_stage_assignment_valid", _GRAPH, _CALLED}
_NETWORK = ("name", "layers", "input_layers", "output_layers")

# True while a model with stages is made from its configuration: PipelineStage scopes and the stages
# of nested models do not count then.
_remaking = contextvars.ContextVar("remaking", default=False)
_errors = contextvars.ContextVar("errors", default=None)


class Config:
    """Base of the three mixins, for options."""

    def _get_base_config(self):
        """The options, by their keys."""
        if self._gradient_accumulation_optimizer_kwargs and _is_verbose():
            _log_once(messages.OPTIMIZER_KWARGS.format(self.name))
        if self._pipelining_kwargs:
            logs.module().info(messages.PIPELINING_KWARGS.format(self.name))
        values = {key: self.__dict__[f"_{key}"] for key in _KEYS}
        return {key: value.value if key in _ENUMERATIONS else value
                for key, value in values.items()}

    def _from_base_config(self, config):
        """Sets the options that a configuration has."""
        given = {key: config[key] for key in _KEYS if key in config}
        self._set(**{f"_{key}": _ENUMERATIONS[key](value) if key in _ENUMERATIONS else value
                     for key, value in given.items()})

    def _get_config_supported(self):
        return True

    def _deserialize_from_config_supported(self, config):
        del config
        return True

    def _deserialize_from_config_delegate(self, config):
        self._from_base_config(config)
        if config.get(_STAGES):
            self.set_pipeline_stage_assignment(
                _assignments(self, self.get_pipeline_stage_assignment(), config[_STAGES]))


class FunctionalConfig(Config):
    """The configuration of a functional model."""

    def _get_config_delegate(self):
        functional = inner.module("engine.functional").Functional
        return {**functional.get_config.__original_func__(self), **self._get_base_config(),
                _STAGES: _saved(self, self._pipeline_stage_assignment)}

    def _get_pipelining_from_nodes_supported(self):
        return not _remaking.get()


class SequentialConfig(Config):
    """The configuration of a Sequential model."""

    def _get_config_delegate(self):
        sequential = inner.module("engine.sequential").Sequential
        return {**sequential.get_config.__original_func__(self), **self._get_base_config(),
                _STAGES: _saved(self, self._pipeline_stage_assignment),
                "pipeline_stage_assignment_valid": self._pipeline_stage_assignment_valid}

    def _deserialize_from_config_delegate(self, config):
        self._from_base_config(config)
        stages = config.get(_STAGES)
        if not stages or not self.layers:
            return
        if config.get("pipeline_stage_assignment_valid", True):
            self.set_pipeline_stage_assignment(
                _assignments(self, self.get_pipeline_stage_assignment(), stages))
            return
        # Layers were added or removed, which the number of assignments still shows.
        layers = self.layers
        self._keep_assignments([
            self._LAYER(layers[min(index, len(layers) - 1)], stage)
            for index, stage in enumerate(stages)])
        self._pipeline_stage_assignment_valid = False


class ModelConfig(Config):
    """The configuration of an object of a subclass of Model."""

    _has_saved_options = False

    def _get_config_delegate(self):
        model = inner.module("engine.training").Model
        config = {**model.get_config.__original_func__(self), **self._get_base_config(),
                  _CALLED: True, _STAGES: _saved(self, self._pipeline_stage_assignment)}
        if self._is_pipelined():
            config.update(_network_config(self), **{_GRAPH: True})
        return config

    def _deserialize_from_config_delegate(self, config):
        stock = inner.module("engine.training").Model.get_config
        if type(self).get_config is not stock and not config.get(_CALLED):
            raise RuntimeError(messages.GET_CONFIG)
        if config.get(_STAGES) and self._traced_graph is None:
            self._trace_calls(_inputs(config))
        super()._deserialize_from_config_delegate(config)


def _is_verbose():
    return os.environ.get("TF_CPP_MIN_VLOG_LEVEL", "0").strip() not in ("", "0")


@functools.cache
def _log_once(message):
    logs.module().info(message)


# ---- Stages ----

def _saved(model, assignments):
    """Assignments as numbers: the stage in a Sequential, else (index of the layer, index of its
    call, stage). A nested model has a list of its own in the place of the stage."""
    layers = {id(layer): index for index, layer in enumerate(model._saved_layers())}
    result = []
    for one in assignments:
        layer = one.nested_model if one.is_nested_model else one.layer
        stage = (_saved(layer, one.pipeline_stage_assignments) if one.is_nested_model
                 else one.pipeline_stage)
        result.append((layers[id(layer)], one.node_index, stage) if hasattr(one, "node_index")
                      else stage)
    return result


def _assignments(model, assignments, saved):
    """A model's new assignments with the saved stages. The layers' calls have the saved order, but
    a layer's first call may have another index."""
    if len(assignments) != len(saved):
        raise ValueError(messages.SAVED_STAGES.format(model.name, len(saved), len(assignments)))
    if assignments and hasattr(assignments[0], "node_index"):
        layers = {id(layer): index for index, layer in enumerate(model._saved_layers())}
        calls = sorted(range(len(saved)), key=lambda i: (saved[i][0], saved[i][1]))
        order = sorted(range(len(saved)), key=lambda i: (
            layers[id(_layer(assignments[i]))], assignments[i].node_index))
        stages = {made: saved[i] for made, i in zip(order, calls)}
        if any(layers[id(_layer(assignments[i]))] != stages[i][0] for i in stages):
            raise ValueError(messages.SAVED_LAYERS.format(model.name))
        saved = [stages[i][2] for i in range(len(saved))]
    for one, stage in zip(assignments, saved):
        if one.is_nested_model != isinstance(stage, (list, tuple)):
            raise ValueError(messages.SAVED_LAYERS.format(model.name))
        if one.is_nested_model:
            _assignments(one.nested_model, one.pipeline_stage_assignments, stage)
        else:
            one.pipeline_stage = stage
    return assignments


def _layer(assignment):
    return assignment.nested_model if assignment.is_nested_model else assignment.layer


# ---- Graphs of subclasses ----

def _network_config(model):
    """The graph of the layers that a model calls, as Keras saves that of a functional model."""
    functional = inner.module("engine.functional")

    class Network(functional.Functional):
        _tremula_own_fit = True  # the extensions do not change it

    graph = model._traced_graph
    return functional.get_network_config(Network(graph.inputs, graph.outputs, name=model.name))


def _inputs(config):
    """Symbolic tensors like the inputs of a saved graph."""
    layers = {layer["config"]["name"]: layer["config"] for layer in config["layers"]}

    def tensor(saved):
        layer = layers[saved[0]]
        return inner.public().Input(batch_shape=layer["batch_input_shape"], dtype=layer["dtype"])

    saved = config["input_layers"]
    if isinstance(saved, (list, tuple)) and isinstance(saved[0], str):
        return tensor(saved)
    if isinstance(saved, dict):
        return {name: tensor(one) for name, one in saved.items()}
    return tensor(saved[0]) if len(saved) == 1 else [tensor(one) for one in saved]


# ---- Making models ----

def make_from_config(stock):
    """Keras' `from_config(cls, config, custom_objects)` with options and stages for models that are
    made in the scope of a strategy. Elsewhere it ignores options and stages."""
    def from_config(cls, config, custom_objects=None):
        cls = vars(cls).get("__original_class__", cls)
        try:
            with _remaking_of(config):
                model = _made(stock, cls, config, custom_objects)
            if isinstance(config, dict):
                keras_extensions.extension_delegate_if_exists(
                    "deserialize_from_config", model, config)
                if isinstance(model, ModelConfig):
                    vars(model)["_has_saved_options"] = True
        except (RuntimeError, NotImplementedError) as error:
            if _errors.get() is not None:
                _errors.get().append(error)
            raise
        return model

    return from_config


@contextlib.contextmanager
def _remaking_of(config):
    token = _remaking.set(isinstance(config, dict) and bool(config.get(_STAGES)))
    try:
        yield
    finally:
        _remaking.reset(token)


def _made(stock, cls, config, custom_objects):
    """A new model of a class, without options."""
    if not isinstance(config, dict):
        return stock(cls, config, custom_objects)  # a list of layers
    plain = {key: value for key, value in config.items() if key not in _OURS and not (
        key in _NETWORK and config.get(_GRAPH))}
    model = inner.module("engine.training").Model
    functional = inner.module("engine.functional").Functional
    is_subclass = cls is not model and not issubclass(cls, functional)
    if not is_subclass or all(key in plain for key in _NETWORK):
        return stock(cls, plain, custom_objects)
    if not _OURS & set(config) and not keras_extensions.are_extended():
        return stock(cls, plain, custom_objects)
    return _constructed(cls, plain)


def _constructed(cls, config):
    """cls(...) with what of a configuration its constructor takes. Without a get_config() of its
    own, the class can only say so of arguments that may be left out."""
    given = list(inspect.signature(cls.__init__).parameters.values())[1:]
    names = {one.name for one in given}
    if any(one.kind is one.VAR_KEYWORD for one in given):
        names |= {"name", "trainable", "dtype"}
    stock = inner.module("engine.training").Model.get_config
    required = {one.name for one in given if one.default is one.empty and one.kind not in (
        one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    if required and cls.get_config is stock:
        raise NotImplementedError(messages.FROM_CONFIG.format(cls))
    try:
        return cls(**{key: value for key, value in config.items() if key in names})
    except TypeError as error:
        raise NotImplementedError(messages.FROM_CONFIG.format(cls)) from error


def make_clone(clone):
    """Keras' function that clones functional or Sequential models, with options and stages."""
    def clone_with_options(model, *arguments, **keywords):
        if not isinstance(model, keras_extensions.KerasExtension):
            return clone(model, *arguments, **keywords)
        config = {**model._get_base_config(),
                  _STAGES: _saved(model, model._pipeline_stage_assignment)}
        extended = type(model)
        with _remaking_of(config):
            model.__class__ = model.__original_class__  # of the clone, if there is no strategy
            try:
                made = clone(model, *arguments, **keywords)
            finally:
                model.__class__ = extended
        keras_extensions.extension_delegate_if_exists("deserialize_from_config", made, config)
        return made

    return clone_with_options


# ---- SavedModels ----

def make_reconstruct(reconstruct):
    """Keras' method that makes the graph of a functional or Sequential model in a SavedModel."""
    def reconstruct_with_options(self, model_id, model, layers):
        config = inner.module("saving.legacy.saved_model.json_utils").decode(
            self._metadata[model_id].metadata)["config"]
        with _remaking_of(config):
            reconstruct(self, model_id, model, layers)
        keras_extensions.extension_delegate_if_exists("deserialize_from_config", model, config)

    return reconstruct_with_options


def make_revive(revive):
    """Keras' method that makes other objects of a SavedModel of their configuration. Where that
    fails, Keras takes what has been traced; what from_config() says of options is an error."""
    def revive_or_say(self, metadata, node_id):
        errors = []
        token = _errors.set(errors)
        try:
            made = revive(self, metadata, node_id)
        finally:
            _errors.reset(token)
        if made is None and errors:
            raise errors[-1]
        return made

    return revive_or_say


def make_finalize(finalize):
    """Keras' method that ends the loading of a SavedModel. The layers exist then. So a model that a
    subclass's own from_config() has made gets its options and stages here, and a model of an
    unknown class its stages."""
    def finalize_with_options(self):
        finalize(self)
        decode = inner.module("saving.legacy.saved_model.json_utils").decode
        own = inner.module("engine.training").Model.from_config.__func__
        revived = inner.module("saving.legacy.saved_model.load").RevivedNetwork
        for number, (made, _) in self.loaded_nodes.items():
            if not isinstance(made, ModelConfig) or number not in self._metadata:
                continue
            config = decode(self._metadata[number].metadata).get("config")
            if config and isinstance(made, revived):
                _take_stages(made, config)
            elif config and type(made).from_config.__func__ is not own:
                if not made._has_saved_options:
                    keras_extensions.extension_delegate_if_exists(
                        "deserialize_from_config", made, config)

    return finalize_with_options


def _take_stages(model, config):
    """Gives a model of an unknown class the stages of its configuration, which lists the calls of
    its layers, without those of nested models."""
    if not config.get(_STAGES) or not config.get(_GRAPH) or any(
            isinstance(layer, Config) for layer in model.layers):
        return
    inputs, outputs, _ = inner.module("engine.functional").reconstruct_from_config(
        config, created_layers={layer.name: layer for layer in model.layers})
    vars(model)["_traced_graph"] = pipeline_graph.traced(inputs, outputs)
    keras_extensions.extension_delegate_if_exists("deserialize_from_config", model, config)


def make_revive_custom(revive):
    """Keras' function that makes an object of an unknown class from traced functions. A model gets
    its options here, and its stages when its layers exist (make_finalize)."""
    def revive_with_options(identifier, metadata):
        made, setter = revive(identifier, metadata)
        config = metadata.get("config")
        if isinstance(made, Config) and isinstance(config, dict):
            made._from_base_config(config)
        return made, setter

    return revive_with_options


def make_registered_name(find):
    """Keras' function from a class to the name under which it is registered."""
    def find_of_original(obj):
        original = vars(obj).get("__original_class__") if isinstance(obj, type) else None
        return find(obj if original is None else original)

    return find_of_original
