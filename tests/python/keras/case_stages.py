"""Pipeline stages of Keras models: scopes, assignments, their checks and the printed table."""

import pytest
import tensorflow as tf
from fitting import flat
from tensorflow.python import ipu

from tremula.tf.keras.extensions import pipeline_graph, pipeline_stage_assignment as psa

keras = tf.keras
PipelineStage = ipu.keras.PipelineStage
Dense = keras.layers.Dense


Functional, Sequential = "functional", "Sequential"  # kinds of models


class Subclass(keras.Model):
    def __init__(self, parts, **keywords):
        super().__init__(**keywords)
        self.parts = parts

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return x


@pytest.fixture
def scope(strategy):
    with strategy.scope():
        yield strategy


def stages(model):
    return [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]


# ---- Scopes ----

def test_scopes_mark_layers_and_calls(scope):
    with PipelineStage(1) as entered:
        layer = Dense(2)
        assert isinstance(entered, PipelineStage) and scope._pipeline_stage == 1
    other = Dense(2)
    assert layer._pipeline_stage == 1 and not hasattr(other, "_pipeline_stage")
    x = keras.Input((2,))
    with PipelineStage(0):
        layer(x)
    layer(x)
    assert [psa.stage_of(node) for node in layer._inbound_nodes] == [0, 1]
    assert not hasattr(scope, "_pipeline_stage")


def test_what_a_scope_refuses(strategy):
    with pytest.raises(RuntimeError, match="PipelineStage may only be used from within an "
                                           "IPUStrategy context."):
        with PipelineStage(0):
            pass
    with strategy.scope():
        with pytest.raises(ValueError, match="-1 is not a valid pipeline stage."):
            with PipelineStage(-1):
                pass
        with pytest.raises(TypeError, match="pipeline stage must be an int, but it is 'a'."):
            with PipelineStage("a"):
                pass
        with PipelineStage(0):
            with pytest.raises(RuntimeError, match="Pipeline stages must not be nested."):
                with PipelineStage(1):
                    pass
        with PipelineStage(1):
            pass


def test_where_earlier_releases_have_the_classes():
    from tensorflow.python.ipu.keras.extensions import functional_extensions as functional_module
    from tensorflow.python.ipu.keras.extensions import model_extensions, sequential_extensions
    assert functional_module.PipelineStage is PipelineStage is psa.PipelineStage
    name = "LayerPipelineStageAssignment"
    for module, kind in ((functional_module, "Functional"), (model_extensions, "Model"),
                         (sequential_extensions, "Sequential")):
        assert getattr(module, kind + name) is getattr(ipu.keras, kind + name)


def functional(first=0, second=1):
    x = keras.Input((3,), name="x")
    with PipelineStage(first):
        h = Dense(4, name="first")(x)
    with PipelineStage(second):
        both = keras.layers.Add(name="sum")([h, Dense(4, name="second")(h)])
    return keras.Model(x, both, name="net")


def test_a_functional_model_takes_the_stages_of_scopes(scope):
    model = functional()
    assert model._is_pipelined() and stages(model) == [0, 1, 1]
    assert [str(one) for one in model.get_pipeline_stage_assignment()] == [
        "Layer: first (node index 0) is assigned to pipeline stage: 0",
        "Layer: second (node index 0) is assigned to pipeline stage: 1",
        "Layer: sum (node index 0) is assigned to pipeline stage: 1"]
    last = model.get_pipeline_stage_assignment()[2]
    assert [one.name for one in last.inbound_layers] == ["first", "second"]
    model.reset_pipeline_stage_assignment()
    assert not model._is_pipelined() and stages(model) == [None] * 3
    x = keras.Input((3,))
    with PipelineStage(0):
        h = Dense(4)(x)
    with pytest.raises(ValueError, match="All layers of a pipelined model must have an associated "
                                         "pipeline stage. However, bare has not been assigned to "
                                         "one. Pipeline stages can be assigned when a layer is "
                                         "constructed, or each time a layer is called. Different "
                                         "pipeline stages can assigned to each call."):
        keras.Model(x, Dense(2, name="bare")(h))
    with pytest.raises(ValueError, match="Layer second in pipeline stage 0 has a dependency from a "
                                         "pipeline stage which has not yet been executed. Layers "
                                         "can only use outputs from current or previous pipeline "
                                         "stages."):
        functional(1, 0)


# ---- Functional models ----

def test_functional_assignments(scope):
    model = functional()
    before = model.get_pipeline_stage_assignment()
    assert before == model._pipeline_stage_assignment and (
        before is not model._pipeline_stage_assignment)
    model.set_pipeline_stage_assignment(before)
    assert model._pipeline_stage_assignment is before
    assert all(type(one) is psa.FunctionalLayerPipelineStageAssignment for one in before)

    def refused(assignments, text):
        with pytest.raises(ValueError) as error:
            model.set_pipeline_stage_assignment(assignments)
        assert text in str(error.value)

    refused(tuple(before), "`pipeline_stage_assignment` needs to be a list.")
    refused(before[:2], (
        "The length of the provided `pipeline_stage_assignment` (2) does not match the number of "
        "layers in the graph (3). Each layer needs to be assigned a pipeline stage (excluding "
        "input layers)."))
    refused([before[0], 1, before[2]], (
        "The pipeline stage assignment for layer second in net must be an instance of "
        "`FunctionalLayerPipelineStageAssignment`. Instead the assignment was of type int."))
    refused([before[1], before[0], before[2]], (
        "The order of `pipeline_stage_assignment` does not match the post-order generated from the "
        "graph (second != first)."))
    layer = before[0].layer
    layer(keras.Input((3,)))
    refused([type(before[0])(layer, 1, 0), *before[1:]], "(missmatched nodes of layer first).")
    refused([type(before[0])(layer, 0), *before[1:]], (
        "Layer first with node_index 0 has not been assigned a pipeline stage in "
        "`pipeline_stage_assignment`."))
    assert model._pipeline_stage_assignment is before


def test_a_shared_layer_has_a_stage_for_each_call(scope):
    x = keras.Input((4,))
    shared = Dense(4, name="shared")
    h = x
    for number in range(3):
        with PipelineStage(number):
            h = shared(h)
    model = keras.Model(x, h)
    assert [(one.node_index, one.pipeline_stage)
            for one in model.get_pipeline_stage_assignment()] == [(0, 0), (1, 1), (2, 2)]


# ---- Sequential models ----

def test_sequential_assignments(scope, caplog):
    model = keras.Sequential([Dense(2, name=name) for name in "abc"], name="net")
    assert stages(model) == [None] * 3 and not model._pipeline_stage_assignment_valid
    numbers = [0, 0, 1]
    model.set_pipeline_stage_assignment(numbers)
    assert model._pipeline_stage_assignment is numbers and stages(model) == [0, 0, 1]
    assert str(numbers[2]) == "Layer: c is assigned to pipeline stage: 1"
    assert type(numbers[2]) is psa.SequentialLayerPipelineStageAssignment

    def refused(assignments, text):
        with pytest.raises(ValueError) as error:
            model.set_pipeline_stage_assignment(assignments)
        assert str(error.value) == text

    refused((0, 0, 1), "`pipeline_stage_assignment` needs to be a list")
    refused([0, 1], (
        "The length of the provided `pipeline_stage_assignment` (2) does not match the number of "
        "layers in the graph (3). Each layer needs to be assigned a pipeline stage (excluding "
        "input layers)."))
    refused([0, "b", 1], (
        "All elements of `pipeline_stage_assignment` must be instances of "
        "`SequentialLayerPipelineStageAssignment` for layers or  "
        "`SequentialNestedModelPipelineStageAssignment` for nested models."))
    refused([numbers[0], psa.SequentialLayerPipelineStageAssignment(numbers[1].layer), numbers[2]],
            "Layer b has not been assigned a pipeline stage.")
    refused([numbers[1], numbers[0], numbers[2]], (
        "The provided assignment at index 0 `pipeline_stage_assignment` is for layer b, but the "
        "layer in the Sequential model at index 0 is a."))
    refused([1, 1, 2], (
        "The first layer in a pipelined sequential model needs to be assigned to the 0th pipeline "
        "stage, however it was assigned to 1."))
    refused([0, 2, 2], (
        "Layer b has been assigned to pipeline stage 2, however the previous layer in the "
        "Sequential model was assigned to pipeline stage 0. A layer in a Sequential model can only "
        "be assigned to the same pipeline stage as the previous layer or to the next pipeline "
        "stage."))

    with caplog.at_level("INFO", "tensorflow"):
        model.add(Dense(1))
        model.get_pipeline_stage_assignment()
        model.pop()
    assert not model._pipeline_stage_assignment_valid
    assert [record.getMessage() for record in caplog.records] == [
        "Adding a layer to a pipelined Sequential model has invalidated the pipeline stage "
        "assignment. You need to call `set_pipeline_stage_assignment()` before executing again.",
        "Calling `get_pipeline_stage_assignment()` on a model which has had layers added/removed "
        "since the last `set_pipeline_stage_assignment()` call which means that the current "
        "assignment is not valid.",
        "Removing a layer from a pipelined Sequential model has invalidated the pipeline stage "
        "assignment. You need to call `set_pipeline_stage_assignment()` before executing again."]
    model.set_pipeline_stage_assignment([0, 1, 1])
    assert model._pipeline_stage_assignment_valid
    model.reset_pipeline_stage_assignment()
    assert stages(model) == [None] * 3 and not model._pipeline_stage_assignment_valid


# ---- Subclasses ----

def test_assignments_of_a_subclass(scope):
    a, b = Dense(3, name="a"), Dense(3, name="b")
    model = Subclass([a, b, a], name="net")
    with pytest.raises(RuntimeError, match="Cannot get pipeline stage assignments for model `net` "
                                           "which has not been built yet. Please call"):
        model.get_pipeline_stage_assignment()
    with pytest.raises(RuntimeError, match="Cannot set pipeline stage assignments for model `net` "
                                           "which has not been built yet.*using PipelineStage "
                                           "scopes."):
        model.set_pipeline_stage_assignment([])
    model.build((None, 3))
    model.build((None, 3))  # forgets the first calls
    found = model.get_pipeline_stage_assignment()
    assert [str(one) for one in found] == [
        f"Layer: {name} (node index {index}) is assigned to pipeline stage: None"
        for name, index in (("a", 0), ("b", 0), ("a", 1))]
    assert all(type(one) is psa.ModelLayerPipelineStageAssignment for one in found)

    def refused(assignments, text):
        with pytest.raises(ValueError) as error:
            model.set_pipeline_stage_assignment(assignments)
        assert text in str(error.value)

    for number, one in enumerate(found):
        one.pipeline_stage = number
    make = psa.ModelLayerPipelineStageAssignment
    refused([make(a, 0, 0), make(b, 0, 1), make(Dense(1, name="c"), 0, 2)], (
        "Layer c has no recorded nodes in the graph, but `pipeline_stage_assignment` contains an "
        "assignment for node_index 0."))
    refused([make(a, 0, 0), make(b, 0, 1), make(a, 2, 2)], (
        "Layer a has 2 invocation(s) in the graph, but `pipeline_stage_assignment` contains an "
        "assignment for node_index 2."))
    refused([make(a, 1, 0), make(b, 0, 1), make(a, 0, 2)], (
        "The order of `pipeline_stage_assignment` does not match the post-order generated from the "
        "graph (a != a) (missmatched nodes of layer a)."))
    refused([make(a, 0, 0), make(b, 0, 1), 2], (
        "The pipeline stage assignment for layer a in net must be an instance of "
        "`ModelLayerPipelineStageAssignment`."))
    model.set_pipeline_stage_assignment(found)
    assert stages(model) == [0, 1, 2]
    model.build((None, 3))
    model.parts.append(Dense(1))
    with pytest.raises(RuntimeError, match="The pipeline stage assignments for model net are no "
                                           'longer valid: "The length of the provided.*" This can '
                                           "happen if the model is invoked with shapes or dtypes"):
        model.build((None, 3))


def test_scopes_in_call_and_models_without_call(scope):
    class InCall(Subclass):
        def call(self, x, training):
            assert training is False
            for number, part in enumerate(self.parts):
                with PipelineStage(number):
                    x = part(x)
            return x

    model = InCall([Dense(2), Dense(2)])
    model.build([None, 3])
    assert stages(model) == [0, 1]

    class Bare(keras.Model):
        pass

    bare = Bare()
    with pytest.raises(NotImplementedError, match="The function `call` for the model .* has not "
                                                  "been implemented. When subclassing the `Model` "
                                                  "class you must implement the `call` function."):
        bare.build((None, 2))

    class Needing(keras.Model):
        def call(self, x, other, training=False):
            return x + other

    with pytest.raises(ValueError, match=r"you cannot build your model if it has positional or "
                                         r"keyword arguments that are not inputs"):
        Needing().build([(None, 2), (None, 2)])


# ---- Nested models ----

def nested(outer, inner_kind, scopes=False):
    def made(layer, number):
        if not scopes:
            return layer
        layer._pipeline_stage = number
        return layer

    def build(kind, parts, shape, name):
        if kind is Functional:
            x = y = keras.Input(shape)
            for part in parts:
                y = part(y)
            return keras.Model(x, y, name=name)
        if kind is Sequential:
            return keras.Sequential([keras.Input(shape), *parts], name=name)
        model = Subclass(parts, name=name)
        model.build((None, *shape))
        return model

    inside = build(inner_kind, [made(Dense(3, name="b"), 1), made(Dense(3, name="c"), 2)], (3,),
                   "inside")
    parts = [made(Dense(3, name="a"), 0), inside, made(Dense(3, name="d"), 3)]
    return build(outer, parts, (3,), "outside")


@pytest.mark.parametrize("inside", [Functional, Sequential, Subclass])
@pytest.mark.parametrize("outside", [Functional, Sequential, Subclass])
def test_nested_models(scope, outside, inside):
    model = nested(outside, inside)
    found = model.get_pipeline_stage_assignment()
    assert [one.layer.name for one in flat(found)] == ["a", "b", "c", "d"]
    middle = found[1]
    assert type(middle) is {Functional: psa.FunctionalNestedModelPipelineStageAssignment,
                            Sequential: psa.SequentialNestedModelPipelineStageAssignment,
                            Subclass: psa.NestedModelPipelineStageAssignment}[outside]
    where = "" if outside is Sequential else " (node index 0)"
    assert str(middle).startswith(f"Model: inside{where} has the following pipeline stage "
                                  "assignments:\n  Layer: b")
    assert str(middle).count("\n") == 2 and middle.nested_model.name == "inside"
    if outside is not Sequential:
        assert [one.name for one in middle.inbound_layers] == ["a"]
    for number, one in enumerate(flat(found)):
        one.pipeline_stage = number
    model.set_pipeline_stage_assignment(found)
    assert [one.pipeline_stage for one in flat(model.get_pipeline_stage_assignment())] == [
        0, 1, 2, 3]
    assert model._get_pipeline_maximum_pipeline_stage() == 3
    steps = pipeline_graph.Steps(model, found).steps
    assert [(step.layer.name, step.stage) for step in steps] == [
        ("a", 0), ("b", 1), ("c", 2), ("d", 3)]
    next(flat(found)).pipeline_stage = 2
    with pytest.raises(ValueError, match="Layer b in pipeline stage 1 has a dependency"):
        model.set_pipeline_stage_assignment(found)
    wrong = [found[0], found[0], found[2]]
    with pytest.raises(ValueError, match=(
            "for layers or  `SequentialNested" if outside is Sequential else
            "The pipeline stage assignment for nested model inside in outside must be an instance "
            f"of `{type(middle).__name__}`. Instead")):
        model.set_pipeline_stage_assignment(wrong)


@pytest.mark.parametrize("inside", [Functional, Subclass])
@pytest.mark.parametrize("outside", [Functional, Subclass])
def test_scopes_of_nested_models(scope, outside, inside):
    model = nested(outside, inside, scopes=True)
    assert [one.pipeline_stage for one in flat(model.get_pipeline_stage_assignment())] == [
        0, 1, 2, 3]


def test_the_calls_of_a_nested_model(scope):
    inside = nested(Functional, Sequential)
    x = keras.Input((3,))
    with PipelineStage(0):
        h = inside(x)
    with PipelineStage(1):
        h = inside(h)
    model = keras.Model(x, h)
    first, second = model.get_pipeline_stage_assignment()
    assert (first.node_index, second.node_index) == (0, 1)
    assert {one.pipeline_stage for one in flat([first])} == {0}
    assert {one.pipeline_stage for one in flat([second])} == {1}


# ---- The table ----

def test_the_table_of_a_functional_model(scope, capsys):
    functional().print_pipeline_stage_assignment_summary()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        'Model: "net"',
        "_" * 89,
        "Layer (type) (node index)".ljust(35) + "Input Layers".ljust(36) + "Pipeline Stage".ljust(
            18),
        "=" * 89,
        "first (Dense) (0)".ljust(35) + "x".ljust(36) + "0".ljust(18),
        "_" * 89,
        "second (Dense) (0)".ljust(35) + "first".ljust(36) + "1".ljust(18),
        "_" * 89,
        "sum (Add) (0)".ljust(35) + "first".ljust(36) + "1".ljust(18),
        " " * 35 + "second".ljust(36) + " " * 18,
        "=" * 89]


def test_the_table_of_a_sequential_model(scope):
    model = nested(Sequential, Functional)
    lines = []
    model.print_pipeline_stage_assignment_summary(20, lines.append)
    assert lines == [
        'Model: "outside"', "_" * 20, "Layer (ty Pipeline S", "=" * 20,
        "a (Dense) None      ", "=" * 20,
        'Nested Model: "inside"', "-" * 20,
        "b (Dense) None      ", "_" * 20,
        "c (Dense) None      ", "=" * 20,
        "d (Dense) None      ", "=" * 20]
    lines.clear()
    model = keras.Sequential([Dense(1, name="a")])
    model.print_pipeline_stage_assignment_summary(print_fn=lines.append)
    assert lines[2] == "Layer (type)".ljust(30) + "Pipeline Stage".ljust(30)


# ---- build() of subclasses ----

class _OneHot(keras.Model):
    def build(self, input_shape):
        self.last = Dense(2)
        super().build(input_shape)

    def call(self, x):
        return self.last(tf.one_hot(x, 4))


def test_build_takes_shapes_and_inputs(scope):
    with pytest.raises(ValueError, match="Specified input shape is not one of the valid types. "
                                         "Please specify a batch input shape of type tuple, a list "
                                         "of input shapes, or a `keras.Input`. User provided input "
                                         "type: <class 'str'>"):
        Subclass([Dense(2)]).build("3")
    with pytest.raises(ValueError, match="You cannot pass a plain shape to your model's `build` "
                                         "function if your layers do not support float type "
                                         "inputs. You must pass a `keras.Input` object"):
        _OneHot().build((None,))
    model = _OneHot()
    model.build(keras.Input((), dtype=tf.int32))
    assert model.built and [one.shape.as_list() for one in model.weights] == [[4, 2], [2]]
    assert [one.layer.name for one in model.get_pipeline_stage_assignment()][-1] == model.last.name


def test_a_traced_subclass_shows_its_input_layers(scope):
    model = Subclass([Dense(2), Dense(1)])
    model.compile("sgd", "mse")
    own = model.layers
    for size in (3, None):  # the second trace takes the place of the first
        model.build((size, 4))
        (first, *others) = model.layers
        assert isinstance(first, keras.layers.InputLayer) and others == own
        assert first.input_shape == [(size, 4)]
        assert [one.name for one in model.weights] == [
            one.name for layer in own for one in layer.weights]
    model.fit(tf.ones([6, 4]), tf.ones([6, 1]), batch_size=3, verbose=0)
    assert model.layers == [first, *own]


def test_what_cannot_be_traced_by_layers_is_called_in_the_program(scope):
    class Branching(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = Dense(2), Dense(2)

        def call(self, x):
            if tf.reduce_sum(x) > 0.:
                return self.first(x)
            return self.second(x)

    model = Branching()
    model.compile("sgd", "mse", steps_per_execution=4)
    x = tf.ones([8, 3])
    model.fit(x, tf.zeros([8, 2]), batch_size=2, verbose=0)
    assert len(model.weights) == 4 and not model._is_pipelined()
    with pytest.raises(RuntimeError, match="which has not been built yet"):
        model.get_pipeline_stage_assignment()


def test_a_call_without_a_stage_is_seen_with_the_first_data(scope):
    class Partly(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = Dense(2), Dense(2)

        def call(self, x):
            with psa.PipelineStage(0):
                x = self.first(x)
            return self.second(x)

    model = Partly()
    model.compile(steps_per_execution=4)
    with pytest.raises(ValueError, match="However, dense.* has not been assigned to one"):
        model.predict(tf.ones([8, 3]), batch_size=2, verbose=0)
