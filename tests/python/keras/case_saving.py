"""Options, stages, weights and optimizers of models through all that saves and copies models."""

import warnings

import fitting
import interpreter
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tremula.tf.inner import keras as inner
from tremula.tf.inner import logs
from tremula.tf.ipu import keras_extensions
from tremula.tf.keras import layers as ipu_layers
from tremula.tf.keras import optimizers as ipu_optimizers
from tremula.tf.keras.extensions import (functional_extensions, model_extensions,
                                         sequential_extensions)

keras = tf.keras
Dense = keras.layers.Dense
PipelineStage = ipu.keras.PipelineStage
KerasExtension = keras_extensions.KerasExtension
FORMS = ("from_config", "clone_model", "json", "saved_model", "h5", "keras")

warnings.filterwarnings("ignore", message="You are saving your model as an HDF5")


class Subclass(keras.Model):
    def __init__(self, units=3):
        super().__init__()
        self.first, self.last, self.units = Dense(units), Dense(2), units

    def call(self, x):
        return self.last(self.first(self.first(x)) if self.units == 4 else self.first(x))


class WithConfig(Subclass):
    def __init__(self, units):
        super().__init__(units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class WithStages(Subclass):
    def call(self, x):
        with PipelineStage(0):
            x = self.first(x)
        with PipelineStage(1):
            return self.last(x)


CLASSES = {one.__name__: one for one in (Subclass, WithConfig, WithStages)}


def functional():
    inputs = keras.Input((4,))
    shared = Dense(4)
    return keras.Model(inputs, Dense(2)(shared(shared(inputs))))


def nested():
    inputs = keras.Input((4,))
    part = keras.Input((4,))
    first = keras.Model(part, Dense(4)(Dense(4)(part)))
    second = keras.Sequential([Dense(4, input_shape=(4,)), Dense(4)])
    return keras.Model(inputs, Dense(2)(second(first(inputs))))


def sequential():
    return keras.Sequential([Dense(3, input_shape=(4,)), Dense(3), Dense(2)])


def subclass(cls=Subclass, units=4):
    model = cls(units)
    model.build((None, 4))
    return model


KINDS = {"functional": functional, "nested": nested, "sequential": sequential,
         "subclass": subclass, "with_config": lambda: subclass(WithConfig)}


def set_everything(model):
    assignments = model.get_pipeline_stage_assignment()
    for number, one in enumerate(fitting.flat(assignments)):
        one.pipeline_stage = min(number, 2)
    model.set_pipeline_stage_assignment(assignments)
    model.set_pipelining_options(2, [0, 1, 1], True)
    model.set_gradient_accumulation_options(3, "running_mean")
    model.set_infeed_queue_options(prefetch_depth=2)
    model.set_outfeed_queue_options(buffer_depth=5)
    model.set_replication_options("SUM")
    model.set_asynchronous_callbacks(True)


def of(model):
    """The options of a model, and its stages."""
    return ({name: model.__dict__[name] for name in (
        "_gradient_accumulation_steps_per_replica", "_gradient_accumulation_reduction_method",
        "_replicated_metric_reduction_method", "_asynchronous_callbacks",
        "_pipelining_gradient_accumulation_steps_per_replica", "_pipelining_device_mapping",
        "_pipelining_accumulate_outfeed", "_infeed_kwargs", "_outfeed_kwargs")},
        [one.pipeline_stage for one in fitting.flat(model.get_pipeline_stage_assignment())],
        model._is_pipelined())


def copy(model, form, folder):
    if form == "from_config":
        return model.__original_class__.from_config(model.get_config())
    if form == "clone_model":
        return keras.models.clone_model(model)
    if form == "json":
        return keras.models.model_from_json(model.to_json(), CLASSES)
    return keras.models.load_model(save(model, form, folder), CLASSES)


def save(model, form, folder):
    path = str(folder / "model") + {"saved_model": "", "h5": ".h5", "keras": ".keras"}[form]
    model.save(path)
    return path


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def allowed(kind, form):
    """Keras clones subclasses by their own from_config, and puts none of them into h5 files."""
    return not (kind in ("subclass", "with_config") and form in ("h5", "json", "clone_model"))


@pytest.fixture
def scope(strategy):
    with strategy.scope():
        yield strategy


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_options_and_stages(strategy, kind, form, tmp_path):
    if not allowed(kind, form):
        pytest.skip("not for Keras' subclasses")
    with strategy.scope():
        model = KINDS[kind]()
        set_everything(model)
        made = copy(model, form, tmp_path)
        assert of(made) == of(model) and made._is_pipelined()
        assert isinstance(made, KerasExtension) and made is not model
        if form in ("saved_model", "h5", "keras"):
            assert same(made.get_weights(), model.get_weights())
        if hasattr(model, "units"):
            assert made.units == model.units
    plain = copy(model, form, tmp_path)
    assert not isinstance(plain, KerasExtension)
    assert not hasattr(plain, "set_pipelining_options")
    assert type(plain) is model.__original_class__ or form == "saved_model"


def test_the_keys(scope):
    model = functional()
    set_everything(model)
    config = model.get_config()
    assert config["pipeline_stage_assignment"] == [(1, 0, 0), (1, 1, 1), (2, 0, 2)]
    assert config["gradient_accumulation_reduction_method"] == 2
    assert config["replicated_metric_reduction_method"] == 3
    chain = sequential()
    chain.set_pipeline_stage_assignment([0, 0, 1])
    config = chain.get_config()
    assert config["pipeline_stage_assignment"] == [0, 0, 1]
    assert config["pipeline_stage_assignment_valid"] is True
    assert "gradient_accumulation_optimizer_kwargs" not in config
    config = subclass().get_config()
    assert config["get_config_has_been_called"] and "graph_network_initialized" not in config
    piped = subclass(WithStages)
    config = piped.get_config()
    assert config["graph_network_initialized"] and len(config["layers"]) == 3


def test_missing_keys(scope):
    stock = dict(functional().get_config())
    for key in ("gradient_accumulation_steps_per_replica", "pipeline_stage_assignment",
                "infeed_kwargs", "asynchronous_callbacks"):
        del stock[key]
    assert of(keras.Model.from_config(stock)) == of(functional())


def test_a_changed_sequential_keeps_its_fault(scope):
    model = sequential()
    model.set_pipeline_stage_assignment([0, 0, 1])
    model.pop()
    made = keras.Sequential.from_config(model.get_config())
    assert not made._pipeline_stage_assignment_valid
    with pytest.raises(ValueError, match=r"\(3\) does not match the number of layers"):
        made._check_kept_assignments()


def test_stages_of_other_layers(scope):
    config = dict(functional().get_config())
    config["pipeline_stage_assignment"] = [(1, 0, 0)]
    with pytest.raises(ValueError, match="has pipeline stages of 1 calls of layers, but the model "
                                         "makes 3"):
        keras.Model.from_config(config)
    config["pipeline_stage_assignment"] = [(1, 0, 0), (2, 0, 0), (2, 1, 1)]
    with pytest.raises(ValueError, match="are those of other layers"):
        keras.Model.from_config(config)


@pytest.mark.parametrize("first", ["keras.Model", "pass"])
def test_a_program_begins_with_loading(scope, tmp_path, first):
    """Keras is loaded before the scope, or in it."""
    model = functional()
    set_everything(model)
    program = f"""
import tremula._finder
import tensorflow as tf
from tensorflow.python import ipu
keras = tf.keras
{first}
with ipu.ipu_strategy.IPUStrategy().scope():
    model = keras.models.load_model({save(model, "keras", tmp_path)!r})
print([one.pipeline_stage for one in model.get_pipeline_stage_assignment()])
"""
    done = interpreter.run(["-c", program])
    assert done.stdout == f"{of(model)[1]}\n", done.stdout + done.stderr[-3000:]


def test_stages_of_scopes(scope, tmp_path):
    with PipelineStage(0):
        part_inputs = keras.Input((4,))
        part = keras.Model(part_inputs, Dense(4)(part_inputs))
    inputs = keras.Input((4,))
    with PipelineStage(0):
        x = part(inputs)
    with PipelineStage(1):
        model = keras.Model(inputs, Dense(2)(x))
    for form in FORMS:
        assert of(copy(model, form, tmp_path)) == of(model)
    model = subclass(WithStages, 5)
    for form in ("saved_model", "keras"):
        made = copy(model, form, tmp_path)
        assert of(made)[1] == [0, 1] and made.units == 5


@keras.utils.register_keras_serializable("mine")
class Registered(keras.Sequential):
    pass


def test_registered_classes(scope, tmp_path):
    model = Registered([Dense(2, input_shape=(4,))])
    model.set_asynchronous_callbacks(True)
    assert inner.saved_name(type(model)) == "mine>Registered"
    made = keras.models.load_model(save(model, "keras", tmp_path))
    assert isinstance(made, Registered) and of(made) == of(model)


# ---- Extensions that a program registers ----

def extension(base):
    class TestExtension(base):
        def __init__(self):
            base.__init__(self)
            self.test_option = False

        def _get_config_delegate(self):
            if base is model_extensions.ModelExtension:
                config = super()._get_config_delegate()
            else:
                config = self.get_config(__extension_delegate=False)
            config["test_option"] = self.test_option
            return config

        def _deserialize_from_config_delegate(self, config):
            if base is model_extensions.ModelExtension:
                super()._deserialize_from_config_delegate(config)
            self.test_option = config.get("test_option", self.test_option)

    return TestExtension


@pytest.mark.parametrize("kind, owner, base", [
    ("functional", "engine.functional:Functional", functional_extensions.FunctionalExtension),
    ("sequential", "engine.sequential:Sequential", sequential_extensions.SequentialExtension),
    ("subclass", "engine.training:Model", model_extensions.ModelExtension),
    ("with_config", "engine.training:Model", model_extensions.ModelExtension)])
def test_own_extensions(scope, kind, owner, base, tmp_path):
    module, name = owner.split(":")
    owner = getattr(inner.module(module), name)
    scope._register_keras_extension(owner, KerasExtension, extension(base))
    model = KINDS[kind]()
    assert not model.test_option
    model.test_option = True
    config = model.get_config()
    assert config["test_option"]
    assert type(model).from_config(config).test_option
    if kind == "functional":
        assert keras.Model.from_config(config).test_option
    for form in ("saved_model", "json") if kind in ("functional", "sequential") else (
            "saved_model",):
        made = copy(model, form, tmp_path)
        assert made.test_option
        made.compile()


class Wide(inner.module("engine.functional").Functional):
    def __init__(self, units):
        inputs = keras.Input((4,))
        super().__init__(inputs, Dense(units)(Dense(5)(inputs)))


# ---- Messages ----

def test_a_get_config_without_that_of_keras(scope, tmp_path):
    class Wrong(keras.Model):
        def get_config(self):
            return {}

        def call(self, x):
            return x

    model = Wrong()
    model.predict(tf.ones([1, 1]), batch_size=1, verbose=0)
    text = (r"get_config\(\) has been overridden on a subclassed Model but IPU-specific properties "
            r"have not been saved since the implementation does not call super\(\).get_config\(\)."
            r" In the get_config\(\) override, add `config = super\(\).get_config\(\)` and merge "
            "your configuration with this config dict to ensure these options are saved along with "
            "the rest of your model.")
    for form in ("saved_model", "keras"):
        path = save(model, form, tmp_path)
        with pytest.raises(RuntimeError, match=text):
            keras.models.load_model(path, {"Wrong": Wrong})


class NeedsDepth(keras.Model):
    def __init__(self, depth):
        super().__init__()
        self.parts = [Dense(4) for _ in range(depth)]

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return x


def test_a_constructor_with_arguments(scope, tmp_path):
    model = NeedsDepth(2)
    model.build((2, 2))
    for form in ("saved_model", "keras"):
        path = save(model, form, tmp_path)
        with pytest.raises(NotImplementedError, match=(
                "Failed to construct subclassed model of type .*NeedsDepth.* from config. "
                "Subclassed models which require parameters in their constructors must override "
                "the `from_config` function to be compatible with saving/loading.")):
            keras.models.load_model(path, {"NeedsDepth": NeedsDepth})


class MakesItself(Subclass):
    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(4)


def test_a_from_config_without_that_of_keras(scope, tmp_path):
    model = subclass(MakesItself)
    set_everything(model)
    made = keras.models.load_model(save(model, "saved_model", tmp_path),
                                   {"MakesItself": MakesItself})
    assert of(made) == of(model) and same(made.get_weights(), model.get_weights())
    np.testing.assert_allclose(made(tf.ones([1, 4])), model(tf.ones([1, 4])), rtol=1e-6)


def test_what_has_been_traced(scope, tmp_path):
    """Without its class a subclass is what TensorFlow has saved of it, with its options."""
    model = subclass(NeedsDepth, 2)
    model.set_asynchronous_callbacks(True)
    made = keras.models.load_model(save(model, "saved_model", tmp_path))
    np.testing.assert_allclose(made(X), model(X), rtol=1e-6)
    assert isinstance(made, KerasExtension) and made._asynchronous_callbacks is True


def test_stages_of_what_has_been_traced(scope, tmp_path):
    """Its layers are called in the stages that they had."""
    model = subclass(WithStages, 4)
    model.set_pipelining_options(4, [0, 0], gradient_accumulation_reduction_method="mean")
    path = save(model, "saved_model", tmp_path)
    made = keras.models.load_model(path)  # without the class
    assert type(made) is not type(model) and of(made) == of(model)
    for one in (model, made):
        one.compile(keras.optimizers.legacy.SGD(.1), "mse", steps_per_execution=4)
        one.fit(fitting.data(8, X, X[:, :2]), verbose=0)
    fitting.same_weights(made, model)
    np.testing.assert_allclose(made(X), model(X), rtol=1e-5)


def test_copies(scope):
    import copy as copies
    model = sequential()
    set_everything(model)
    for made in (copies.copy(model), copies.deepcopy(model)):
        assert of(made) == of(model) and same(made.get_weights(), model.get_weights())


def test_functional_subclasses(scope, tmp_path):
    model = Wide(3)
    set_everything(model)
    made = keras.models.load_model(save(model, "keras", tmp_path), {"Wide": Wide})
    assert of(made) == of(model) and isinstance(made, Wide) and made.output_shape == (None, 3)
    assert type(Wide.from_config(model.get_config())).__name__ == "Wide"


def test_what_the_log_says(scope, monkeypatch):
    said = []
    monkeypatch.setattr(logs.module(), "info", said.append)
    model = sequential()
    model.get_config()
    assert said == []
    model.set_pipelining_options(2)
    model.set_gradient_accumulation_options(2, dtype=tf.float32)
    model.get_config()
    pipelining = (f"Calling get_config() on {model.name} - `pipelining_kwargs` cannot be "
                  "serialized and you will need to call `set_pipelining_options` again if the "
                  "model is restored.")
    assert said == [pipelining]
    monkeypatch.setenv("TF_CPP_MIN_VLOG_LEVEL", "1")
    model.get_config()
    model.get_config()
    assert said[1:] == [
        f"Calling get_config() on {model.name} - `gradient_accumulation_optimizer_kwargs` cannot "
        "be serialized and you will need to call `set_gradient_accumulation_options` again if the "
        "model is restored. Further displays of this info is suppressed.", pipelining, pipelining]


# ---- Weights and optimizers ----

X = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
Y = X[:, :2] * 2


def compiled(model, optimizer="legacy.Adam"):
    place, _, name = optimizer.rpartition(".")
    owner = getattr(keras.optimizers, place) if place else keras.optimizers
    model.compile(getattr(owner, name)(.05), "mse", steps_per_execution=4)
    return model


def trained(model):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8, drop_remainder=True)
    return model.fit(data, verbose=0).history["loss"][-1]


@pytest.mark.parametrize("optimizer", ["legacy.Adam", "Adam"])
def test_checkpoints_go_on(scope, optimizer, tmp_path, seed):
    """The same next loss after restoring: slots and steps are in a checkpoint, too."""
    model = compiled(sequential(), optimizer)
    trained(model)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = checkpoint.save(str(tmp_path / "checkpoint"))
    model.save_weights(str(tmp_path / "weights"))
    model.save_weights(str(tmp_path / "weights.h5"))
    weights, expected = model.get_weights(), trained(model)
    again = compiled(sequential(), optimizer)
    again.build((None, 4))
    tf.train.Checkpoint(model=again, optimizer=again.optimizer).restore(path)
    assert same(again.get_weights(), weights)
    np.testing.assert_allclose(trained(again), expected, rtol=1e-6)
    np.testing.assert_allclose(trained(again), trained(model), rtol=1e-6)
    for name in ("weights", "weights.h5"):
        again.load_weights(str(tmp_path / name))
        assert same(again.get_weights(), weights)


@pytest.mark.parametrize("form", ["saved_model", "h5", "keras"])
def test_training_goes_on_elsewhere(strategy, form, tmp_path, seed):
    """A model that an IPU has trained goes on on the CPU, and the other way round."""
    with strategy.scope():
        model = compiled(sequential(), "Adam")
        trained(model)
        path = save(model, form, tmp_path)
        expected = trained(model)
    plain = keras.models.load_model(path)
    assert not isinstance(plain, KerasExtension)
    if form == "saved_model":  # Keras begins with new slots
        trained(plain)
        return
    np.testing.assert_allclose(trained(plain), expected, rtol=1e-5)
    path = save(plain, form, tmp_path)
    with strategy.scope():
        made = keras.models.load_model(path)
        assert isinstance(made, KerasExtension) and of(made) == of(sequential())
        np.testing.assert_allclose(trained(made), trained(model), rtol=1e-5)


OPTIMIZERS = {
    "ALSOptimizer": lambda: ipu_optimizers.ALSOptimizer(keras.optimizers.legacy.Adam(.1)),
    "ALSOptimizerSGD": lambda: ipu_optimizers.ALSOptimizerSGD(.1, .9),
    "GradientAccumulationOptimizer": lambda: ipu_optimizers.GradientAccumulationOptimizer(
        keras.optimizers.legacy.SGD(.1), 2),
    "ALSGradientAccumulationOptimizer": lambda: ipu_optimizers.ALSGradientAccumulationOptimizer(
        ipu_optimizers.ALSOptimizer(keras.optimizers.legacy.RMSprop(.1)), 2)}


@pytest.mark.parametrize("name, form", [
    ("ALSOptimizer", "saved_model"), ("ALSOptimizer", "h5"), ("ALSOptimizer", "keras"),
    ("ALSOptimizerSGD", "keras"), ("GradientAccumulationOptimizer", "h5"),
    ("ALSGradientAccumulationOptimizer", "keras")])
def test_wrapping_optimizers_and_capturing_layers(scope, name, form, tmp_path):
    model = keras.Sequential([
        ipu_layers.CaptureUpstreamGradients(Dense(3), tag="one"),
        ipu_layers.CaptureActivationGradients(Dense(3, activation="relu"), tag="two"), Dense(2)])
    model.build((None, 4))
    model.compile(OPTIMIZERS[name](), "mse", steps_per_execution=4)
    made = keras.models.load_model(save(model, form, tmp_path))
    assert type(made.optimizer).__name__ == name
    assert made.optimizer.get_config() == model.optimizer.get_config()
    assert [type(one).__name__ for one in made.layers] == [
        "CaptureUpstreamGradients", "CaptureActivationGradients", "Dense"]
    assert made.layers[0].tag == "one" and isinstance(made.layers[0].layer, Dense)
    assert same(made.predict(X, batch_size=8, verbose=0), model.predict(X, batch_size=8, verbose=0))


def test_configurations_with_classes():
    config = OPTIMIZERS["ALSOptimizer"]().get_config()
    assert config["inner_optimizer_type"] == "Adam"
    config["inner_optimizer_type"] = keras.optimizers.legacy.Adam
    made = ipu_optimizers.ALSOptimizer.from_config(config)
    assert made.get_config() == OPTIMIZERS["ALSOptimizer"]().get_config()
    layer = ipu_layers.CaptureUpstreamGradients(Dense(3)).get_config()
    for kind in (Dense, "Dense"):
        made = ipu_layers.CaptureUpstreamGradients.from_config(
            {**layer, "wrapped_layer_type": kind})
        assert made.layer.units == 3
    with pytest.raises(ValueError, match="Unknown layer: Nothing"):
        ipu_layers.CaptureUpstreamGradients.from_config({**layer, "wrapped_layer_type": "Nothing"})
