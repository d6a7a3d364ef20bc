"""The options of models in the scope, the steps of their data, and what they refuse."""

import numpy as np
import pytest
import tensorflow as tf

import fitting
from fitting import X, Y, compiled, data, keras, layers
from tensorflow.python import ipu
from tensorflow.python.keras import ipu as keras_ipu
from tensorflow.python.keras.ipu.extensions import data_adapter, extensions_base


@pytest.fixture(scope="module", autouse=True)
def one_ipu():
    with fitting.scope():
        yield


def refused(kind, text, function, *arguments, **keywords):
    with pytest.raises(kind) as error:
        function(*arguments, **keywords)
    assert str(error.value) == text


# ---- What is extended ----

def test_which_objects_are_extended():
    for kind, name, extension in (
            ("functional", "Functional", keras_ipu.FunctionalExtension),
            ("sequential", "Sequential", keras_ipu.SequentialExtension),
            ("subclass", "Subclass", keras_ipu.ModelExtension)):
        made = fitting.model(kind)
        assert isinstance(made, extension) and isinstance(made, keras.Model)
        assert type(made).__name__ == name and made.__original_class__.__name__ == name
        assert isinstance(made, extensions_base.KerasExtensionBase)
        for method in ("set_asynchronous_callbacks", "set_replication_options",
                       "set_gradient_accumulation_options", "set_pipelining_options",
                       "set_infeed_queue_options", "set_outfeed_queue_options"):
            assert callable(getattr(made, method))
    assert not isinstance(layers.Dense(1), extensions_base.KerasExtensionBase)
    copy = keras.models.clone_model(fitting.model())
    assert isinstance(copy, keras_ipu.FunctionalExtension) and copy.count_params() == 49


def test_models_of_no_scope_and_classes_of_their_own():
    class Own(keras.Model):
        _tremula_own_fit = True

    assert not hasattr(Own(), "set_pipelining_options")
    strategy = tf.distribute.get_strategy()
    strategy._keras_extensions_enabled = False
    try:
        assert not hasattr(fitting.model(), "set_pipelining_options")
    finally:
        strategy._keras_extensions_enabled = True


def test_the_decorator():
    base_layer = __import__(f"{layers.Layer.__module__}", fromlist=["x"])
    assert issubclass(extensions_base.KerasExtensionBase, base_layer.KerasExtension)

    class Layer(layers.Layer):
        @base_layer.extension_delegate
        def call(self, inputs):
            return inputs + 1.

        @base_layer.extension_delegate
        def other(self, value):
            return value

        @base_layer.extension_delegate
        def lonely(self):
            return 1

    class Extension(base_layer.KerasExtension):
        def _call_supported(self, inputs):
            return self.wanted

        def _call_delegate(self, inputs):
            return inputs * inputs

        def _other_supported(self, value):
            return True

        def _other_delegate(self, another):
            return -another

    strategy = tf.distribute.get_strategy()
    strategy._register_keras_extension(Layer, base_layer.KerasExtension, Extension)
    layer = Layer()
    strategy._delete_keras_extension(Layer, base_layer.KerasExtension)
    layer.wanted = True
    assert float(layer(tf.constant(3.))) == 9 and layer.other(2) == 2 and layer.lonely() == 1
    layer.wanted = False
    assert float(layer(tf.constant(3.))) == 4 and float(Layer()(tf.constant(3.))) == 4
    layer.wanted = True
    assert float(layer.call(tf.constant(3.), __extension_delegate=False)) == 4
    assert float(base_layer.extension_delegate_if_exists("call", layer, tf.constant(3.))) == 9


# ---- Options ----

POSITIVE = ("Expected `gradient_accumulation_steps_per_replica` to be a positive integer, but got "
            "{} instead.")
METHODS = "Valid values are: SUM, MEAN, RUNNING_MEAN."


def test_gradient_accumulation_options():
    made = fitting.model()
    accumulate = made.set_gradient_accumulation_options
    for wrong in (0, -1, 1.5, "2", True):
        refused(ValueError, POSITIVE.format(wrong), accumulate, wrong)
    accumulate(np.int64(3))
    assert made.get_config()["gradient_accumulation_steps_per_replica"] == 3
    refused(ValueError, "Cannot parse x as one of GradientAccumulationReductionMethod. " + METHODS,
            accumulate, 2, "x")
    refused(ValueError, "Found `opt` key in `gradient_accumulation_optimizer_kwargs`. This is not "
            "supported as the optimizer which the model has been compiled with is automatically "
            "wrapped.", accumulate, opt=1)
    refused(ValueError, "Found `num_mini_batches` key in `gradient_accumulation_optimizer_kwargs`. "
            "Set the `gradient_accumulation_steps_per_replica` argument to "
            "`set_gradient_accumulation_options` instead.", accumulate, num_mini_batches=2)
    refused(ValueError, "Found `experimental_normalize_gradients` argument to "
            "`set_gradient_accumulation_options`. This argument has now been removed, use "
            "`gradient_accumulation_reduction_method` instead.", accumulate,
            experimental_normalize_gradients=True)
    refused(TypeError, "`gradient_accumulation_optimizer_kwargs` must be a dictionary.",
            made._set_gradient_accumulation_options_impl, 2, "sum", False, [])
    accumulate(4, "Mean", dtype=tf.float32)
    accumulate()
    assert made._gradient_accumulation_steps_per_replica == 4
    assert made._gradient_accumulation_reduction_method.name == "SUM"
    assert made._gradient_accumulation_optimizer_kwargs == {}


def test_pipelining_options():
    made = fitting.model()
    pipeline = made.set_pipelining_options
    refused(ValueError, POSITIVE.format(0), pipeline, 0)
    refused(ValueError, "Cannot parse 3 as one of GradientAccumulationReductionMethod. " + METHODS,
            pipeline, 2, gradient_accumulation_reduction_method=3)
    for wrong in ((0, 1), [0, "1"], 1):
        refused(ValueError, "Expected `device_mapping` to be a list of integers.", pipeline,
                device_mapping=wrong)
    refused(ValueError, "Found `gradient_accumulation_count` key in `pipelining_kwargs`. Set the "
            "`gradient_accumulation_steps_per_replica` argument to `set_pipelining_options` "
            "instead.", pipeline, gradient_accumulation_count=2)
    for name in ("computational_stages", "repeat_count", "inputs", "infeed_queue", "outfeed_queue",
                 "optimizer_function"):
        refused(ValueError, f"Found `{name}` key in `pipelining_kwargs`. This argument is "
                "automatically set by Keras.", pipeline, **{name: 1})
    for name in ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations"):
        refused(ValueError, f"Found `{name}` key in `pipelining_kwargs`. This argument is not "
                "compatible with Keras.", pipeline, **{name: 1})
    refused(ValueError, "Found `experimental_normalize_gradients` argument to "
            "`set_pipelining_options`. This argument has now been removed, use "
            "`gradient_accumulation_reduction_method` instead.", pipeline,
            experimental_normalize_gradients=True)
    refused(TypeError, "`pipelining_kwargs` must be a dictionary.",
            made._set_pipelining_options_impl, 2, None, None, "sum", [])
    pipeline(4, [0, 1], True, "mean", offload_activations=False)
    pipeline(accumulate_outfeed=None)
    assert made._pipelining_gradient_accumulation_steps_per_replica == 4
    assert made._pipelining_device_mapping == [0, 1] and made._pipelining_accumulate_outfeed
    assert made._pipelining_kwargs == {"gradient_accumulation_for_captured_grads": False}
    assert made._gradient_accumulation_reduction_method.name == "SUM"


def test_queue_and_replication_options():
    made = fitting.model()
    for name in ("dataset", "infeed_spec", "element_spec"):
        refused(ValueError, f"Found `{name}` key in `kwargs`. This argument is automatically set "
                "by Keras.", made.set_infeed_queue_options, **{name: 1})
    refused(ValueError, "Found `_internal_id` key in `kwargs`. This argument is not compatible "
            "with Keras.", made.set_infeed_queue_options, _internal_id=1)
    for name in ("outfeed_mode", "device_ordinal"):
        refused(ValueError, f"Found `{name}` key in `kwargs`. This argument is not compatible with "
                "Keras.", made.set_outfeed_queue_options, **{name: 1})
    refused(ValueError, "Cannot parse most as a ReplicatedMetricReductionMethod. Valid values are: "
            "NONE, LIST, SUM, MEAN.", made.set_replication_options, "most")
    methods = keras_ipu.ReplicatedMetricReductionMethod
    assert methods.parse(value="sum") is methods.SUM
    made.set_replication_options(methods.LIST)
    assert made._replicated_metric_reduction_method.value == 2
    made.compile("sgd", "mse")
    made.set_outfeed_queue_options(buffer_depth=2, optimise_latency=True)
    made.set_infeed_queue_options(prefetch_depth=2)
    assert len(made.fit(data(), verbose=0).history["loss"]) == 1
    made.set_infeed_queue_options(prefetch_depth=0)
    with pytest.raises(ValueError, match="prefetch_depth"):
        made.fit(data(), verbose=0)
    made.set_infeed_queue_options(wrong=1)
    with pytest.raises(TypeError, match="wrong"):
        made.fit(data(), verbose=0)


def test_what_changes_functions():
    made = compiled()
    made.fit(data(), verbose=0)
    first = made._ipu_train_function
    made.fit(data(), verbose=0)
    made.set_asynchronous_callbacks(True)
    made.set_replication_options("SUM")
    assert made._ipu_train_function is first
    made.set_gradient_accumulation_options(2)
    assert made._ipu_train_function is None
    made.fit(data(), verbose=0)
    assert made._ipu_train_function is not first
    made.compile("sgd", "mse")
    assert made._ipu_train_function is None


# ---- Steps ----

def test_steps_and_accumulation():
    made = compiled(steps=4)
    made.set_gradient_accumulation_options(3)
    refused(RuntimeError, "The model has been configured to use gradient accumulation for "
            "training, however the current `steps_per_execution` value (set to 4) is not divisible "
            "by `gradient_accumulation_steps_per_replica` (3). You need to adjust either "
            "`steps_per_execution` or`gradient_accumulation_steps_per_replica` to make sure that "
            "`steps_per_execution` is divisible by `gradient_accumulation_steps_per_replica`.",
            made.fit, data(), verbose=0)
    refused(ValueError, "`steps_per_execution` (4) must be a divisor of the number of batches (6) "
            "in the dataset provided.", made.fit, data().take(6), verbose=0)
    made = compiled(steps=100)
    with fitting.logged() as lines:
        made.fit(data(), verbose=0)
    assert ("`steps_per_execution` has been set to 100 but the dataset provided only contains 8 "
            "batches. Using 8 as `steps_per_execution`.") in lines
    assert made.steps_per_execution == 100 and int(made._train_counter) == 8
    assert "Doing 8 weight updates per execution per replica, which is 8 per epoch per replica." \
        in lines
    made.steps_per_execution = 2
    calls = fitting.Calls()
    made.fit(data(), verbose=0, callbacks=[calls])
    assert calls.count("train_batch_end") == 4


def test_a_tensor_of_steps():
    model = compiled(steps=data().cardinality())
    assert model.fit(data(), verbose=0).epoch == [0]
    assert model._steps_per_execution.numpy() == 8


def test_log_lines():
    made = compiled(steps=1)
    made._name = "net"
    with fitting.logged() as lines:
        made.fit(data(), verbose=0)
    assert ("The model `net` has been configured with only 1 steps per execution. Consider "
            "increasing the value for the `steps_per_execution` argument passed to the `compile()` "
            "method to improve performance.") in lines
    assert "Doing 1 weight update per execution per replica, which is 8 per epoch per replica." \
        in lines
    assert not any(one.startswith("Training is") for one in lines)
    made = compiled(steps=4)
    made.set_gradient_accumulation_options(2)
    with fitting.logged() as lines:
        made.fit(data(), verbose=0)
    assert ("Training is not distributed and accumulating 2 batches per optimizer step, your "
            "effective batch size is 16.") in lines
    assert "Doing 2 weight updates per execution per replica, which is 4 per epoch per replica." \
        in lines


def test_the_effective_batch_counts_the_replicas_of_all_processes(monkeypatch):
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "3")
    made, calls = compiled(steps=4), fitting.Calls()
    made.set_gradient_accumulation_options(2)
    with fitting.logged() as lines:
        made.fit(data(), verbose=0, callbacks=[calls])
    assert ("Training is distributed and accumulating 2 batches per optimizer step across 3 "
            "replicas, your effective batch size is 48.") in lines
    # Steps are those of this process.
    assert "Doing 2 weight updates per execution per replica, which is 4 per epoch per replica." \
        in lines
    assert calls.count("train_batch_end") == 2


def handler(x, y=None, **options):
    return data_adapter.IPUDataHandler(x, y, **options)


NO_STEPS = "Could not infer the size of the data. You must specify the number of steps to run."


@pytest.fixture
def only_compiles(monkeypatch, tmp_path):
    """Configures a device of so many IPUs whose programs are compiled and not run."""
    def configure(ipus):
        monkeypatch.setenv("TF_POPLAR_FLAGS", f"--executable_cache_path={tmp_path}")
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = ipus
        config.device_connection.type = ipu.config.DeviceConnectionType.PRE_COMPILE
        config.device_connection.version = "ipu2"
        config.configure_ipu_system()

    yield configure
    monkeypatch.undo()
    fitting.configure()


@pytest.mark.parametrize("ipus", [1, 2])
def test_what_is_only_compiled_gives_zeros(only_compiles, tmp_path, ipus):
    """In the shapes of real results, whatever the number of replicas."""
    only_compiles(ipus)
    model = compiled(metrics=["mae"])
    assert model.fit(data(), verbose=0).history == {"loss": [0], "mae": [0]}
    assert model.evaluate(data(), verbose=0) == [0, 0]
    assert model.predict(X, batch_size=8).tolist() == np.zeros_like(Y).tolist()
    model.set_asynchronous_callbacks(True)
    assert model.fit(data(), verbose=0).history == {"loss": [0], "mae": [0]}
    older = ipu.keras.Sequential([layers.Dense(1)])
    older.compile(keras.optimizers.legacy.SGD(.1), "mse")
    assert older.fit(data(), verbose=0).history == {"loss": [0]}
    assert older.predict(data().map(lambda x, y: x)).tolist() == np.zeros_like(Y).tolist()
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def enqueue(x):
        outfeed.enqueue(x)

    tf.distribute.get_strategy().run(enqueue, args=(tf.ones([3]),))
    assert outfeed.dequeue().shape == ([1, 3] if ipus == 1 else [1, 2, 3])
    assert len(list(tmp_path.glob("*.poplar_exec"))) >= 4


def test_the_data_handler():
    one = handler(X, Y, batch_size=16)
    assert one.inferred_steps == 4 and list(one.steps()) == [0, 1, 2, 3] and one.batch_size == 16
    assert one.steps_per_execution_value == 1 and one.step_increment == 0
    assert tf.nest.flatten(one.element_spec)[0].shape == (16, 4)
    assert handler(X).batch_size == 32
    one = handler(data(), steps_per_execution=tf.Variable(2), replication_factor=None)
    refused(RuntimeError, "Cannot call _validate_dataset before the replication factor is set. "
            "Either specify the replication factor in the constructor or set it using "
            "set_replication_factor.", one._validate_dataset, data())
    one.set_replication_factor(2)
    assert one.inferred_steps == 4 and list(one.steps()) == [0, 2] and one.step_increment == 1
    with fitting.logged() as lines:
        assert handler(data(), replication_factor=3).inferred_steps == 2
        assert handler(data().take(4), replication_factor=3).inferred_steps == 1
    assert ("Dataset of length 8 is being evenly distributed between 3 replicas. The remaining 2 "
            "batches will be dropped.") in lines
    assert ("Dataset of length 4 is being evenly distributed between 3 replicas. The remaining 1 "
            "batch will be dropped.") in lines
    refused(ValueError, "The provided dataset contains 2 items, but all 4 replicas are requested "
            "to run 1 steps each. Make sure the dataset contains at least 4 items.", handler,
            data().take(2), replication_factor=4)
    refused(ValueError, "The provided dataset contains 2 items, but all 4 replicas are requested "
            "to run 1 steps each. Make sure the dataset contains at least 4 items.", handler,
            fitting.X[:16], fitting.Y[:16], batch_size=8, replication_factor=4)
    refused(ValueError, "`steps_per_execution` (3) must be a divisor of the number of batches (4) "
            "in the dataset provided to this replica.", handler, data(),
            steps_per_execution=tf.Variable(3), replication_factor=2)


def test_data_of_unknown_and_infinite_size():
    unknown = data().filter(lambda x, y: True)
    refused(ValueError, NO_STEPS, handler, unknown)
    refused(ValueError, NO_STEPS, handler, data().repeat(), steps_per_epoch=-1)
    with fitting.logged() as lines:
        assert handler(unknown, steps_per_epoch=3).inferred_steps == 3
    assert ("The provided set of data has an unknown size. This can result in runtime errors if "
            "not enough data is provided during execution.") in lines
    with pytest.raises(ValueError, match="infinite"):
        handler(data().repeat())
    text = ("Your input does not have enough data. Make sure that your dataset or generator can "
            "generate at least {} batches (currently it can only generate {} batches). You may "
            "need to use the repeat() function when building your dataset.")
    refused(ValueError, text.format(9, 8), handler, data(), steps_per_epoch=9)
    refused(ValueError, text.format(12, 8), handler, data(), steps_per_epoch=6, epochs=2)
    with pytest.raises(tf.errors.OutOfRangeError):
        compiled(steps=1).fit(unknown, steps_per_epoch=12, verbose=0)


def test_data_that_is_refused():
    def generator():
        yield X, Y

    use = "use `tf.data.Dataset.from_generator()` to specify the shape of your data."
    text = ("The provided set of data is of type `{}` which is not compatible with the IPU's "
            "requirement to know the data shape ahead of time. Please {}")
    refused(ValueError, text.format("generator", use), handler, generator())
    wrap = ("wrap your iterator inside a generator like so:\n\ndef generator:\n    while True:\n"
            "        yield next(iterator)\n\nand ")
    refused(ValueError, text.format("list_iterator", wrap + use), handler, iter([(X, Y)]))

    class Sequence(keras.utils.Sequence):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return X, Y

    refused(ValueError, text.format("Sequence", use), handler, Sequence())
    refused(ValueError, "The provided set of data has a partial batch, which could result in data "
            "being dropped. Either adjust the `batch_size` of your model (currently set to 24) or "
            "pad your dataset to ensure there are no partial batches.", handler, X, Y,
            batch_size=24)
    refused(ValueError, "The provided set of data contains a shape (None, 4) which is not fully "
            "defined. Executing on IPU requires all dataset elements to have fully defined shapes. "
            "If using batch() make sure to set `drop_remainder=True`.", handler,
            tf.data.Dataset.from_tensor_slices(X).batch(8))


def test_arrays_are_warned_of_once(monkeypatch):
    monkeypatch.setattr(data_adapter, "_arrays_seen", {"x": 0, "y": 0})
    lines = []
    for _ in range(3):
        with fitting.logged() as found:
            handler(X, Y)
        lines.append([one for one in found if "np.ndarray" in one])
    text = ("{} is of type `np.ndarray`. This will be cast to `tf.Tensor` during every call to: {}."
            " If you plan to call any of these functions multiple times in your program, it is "
            "recommended to pre-emptively cast to `tf.Tensor` to avoid the repeated computation.")
    assert lines[0] == lines[2] == []
    assert lines[1] == [text.format("x", "`fit()`, `predict()` and `evaluate()`"),
                        text.format("y", "`fit()` and `evaluate()`")]


def test_wide_numbers_and_prefetched_data():
    wide = tf.data.Dataset.from_tensor_slices((X.astype("float64"), Y.astype("float64")))
    one = handler(wide.batch(8, drop_remainder=True).prefetch(3))
    assert {spec.dtype for spec in tf.nest.flatten(one.element_spec)} == {tf.float32}
    assert "Prefetch" in type(one._dataset).__name__
    wide = wide.batch(8, drop_remainder=True)
    found, expected = compiled(), compiled()
    found.fit(wide, verbose=0)
    expected.fit(data(), verbose=0)
    fitting.same_weights(found, expected)
    assert handler(wide.map(lambda x, y: x)).element_spec.dtype == tf.float32


# ---- Calls ----

def test_what_calls_refuse(monkeypatch):
    made = fitting.model()
    for call in (made.fit, made.evaluate):
        with pytest.raises(RuntimeError, match="You must compile your model before"):
            call(data())
    assert made.predict(X, verbose=0).shape == (64, 1)  # needs no compile()
    made.compile("sgd", "mse", run_eagerly=True)
    for call in (made.fit, made.evaluate, made.predict):
        refused(RuntimeError, "Keras models cannot run eagerly when using `IPUStrategy`. Set "
                "`run_eagerly=False` when calling `compile`.", call, data())
    made = compiled()
    with pytest.raises(RuntimeError, match="inside of a tf.function|tf.function"):
        tf.function(lambda: made.fit(data()))()
    with pytest.raises(TypeError, match="Invalid keyword arguments"):
        made.evaluate(data(), wrong=1)
    with pytest.raises(ValueError, match="Unexpected value|positive"):
        made.fit(data(), steps_per_epoch=0, verbose=0)
    monkeypatch.setattr(data_adapter.IPUDataHandler, "steps", lambda self: iter(()))
    for call in (made.fit, made.evaluate, made.predict):
        refused(ValueError, "Expect x to be a non-empty array or dataset.", call, data(), verbose=0)


OVERRIDDEN = (
    "The function `{}` for the model net has been overridden. This is not supported when using "
    "Keras within an IPUStrategy. Either remove the override from your model definition or set "
    "`enable_keras_extensions=False` when creating the IPUStrategy.")


@pytest.mark.parametrize("name, call", [
    ("make_train_function", "fit"), ("train_step", "fit"), ("make_test_function", "evaluate"),
    ("make_predict_function", "predict")])
def test_overrides_that_are_refused(name, call):
    kind = type("Own", (keras.Sequential,), {name: lambda self, *arguments: None})
    made = kind([layers.Dense(1)], name="net")
    made.compile("sgd", "mse")
    refused(RuntimeError, OVERRIDDEN.format(name), getattr(made, call),
            data() if call != "predict" else X, verbose=0)


def test_overrides_that_are_honoured():
    class Own(keras.Sequential):
        def test_step(self, data):
            return {"seven": tf.constant(7.)}

        def predict_step(self, data):
            return super().predict_step(data) * 0. + 3.

    made = Own([layers.Dense(1)])
    made.compile("sgd", "mse", steps_per_execution=2)
    assert made.evaluate(data(), verbose=0, return_dict=True) == {"seven": 7}
    np.testing.assert_array_equal(made.predict(X, batch_size=8, verbose=0), np.full([64, 1], 3.))


def test_optimizers_with_a_minimize_of_their_own():
    class Own(keras.optimizers.legacy.SGD):
        def minimize(self, *arguments, **keywords):
            return super().minimize(*arguments, **keywords)

    made = compiled(optimizer=Own(.1))
    made.fit(data(), verbose=0)
    made.set_gradient_accumulation_options(2)
    refused(ValueError, "When using Gradient Accumulation or Pipelining, the provided optimizer "
            "must not override OptimizerV2.minimize.", made.fit, data(), verbose=0)
    made = compiled(optimizer=tf.compat.v1.train.GradientDescentOptimizer(.1))
    made.set_gradient_accumulation_options(2, use_v2_gradient_accumulation_optimizer=True)
    refused(ValueError, "use_v2_gradient_accumulation_optimizer may only be set to True when an "
            "OptimizerV2 derived optimizer is used.", made.fit, data(), verbose=0)


def test_the_wrapper_of_optimizers():
    wrapped = extensions_base._KerasOptimizerWrapper(None, keras.optimizers.SGD())
    refused(ValueError, "When _KerasOptimizerWrapper has been instantiated with it's model set to "
            "None, var_list must be provided.", wrapped.compute_gradients, tf.constant(1.))
    refused(ValueError, "captured_grads cannot be used as the wrapped optimizer doesn't support it",
            wrapped.apply_gradients, [], captured_grads={"a": 1})


def test_sequential_models_have_one_input():
    made = compiled("sequential")
    pair = tf.data.Dataset.zip(((data().map(lambda x, y: x), data().map(lambda x, y: x)),
                                data().map(lambda x, y: y)))
    with pytest.raises(RuntimeError, match="Layers in a Sequential model should only have a single "
                       "input, but we received a .*tuple.*Consider rewriting this model with the "
                       "Functional API"):
        made.fit(pair, verbose=0)
    with pytest.raises(ValueError, match="^Weights for model .* have not yet been created"):
        fitting.model("sequential").weights  # noqa: B018
