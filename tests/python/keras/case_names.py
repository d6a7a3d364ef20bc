"""Names: keras.ipu under all of its names, and names of Keras 2.6 and of TensorFlow's copy."""

import importlib
import pathlib

import interpreter
import pytest
import tensorflow as tf

from tensorflow.python import ipu
from tensorflow.python import keras as shared

if not tf.__version__.startswith("2.15."):
    pytest.skip("Keras 3 has other names", allow_module_level=True)

import keras
from keras.engine import base_layer, data_adapter, sequential, training
from keras.optimizer_v2 import adam, learning_rate_schedule, optimizer_v2
from keras.saving.saved_model import load

PAIRS = [
    # What a program imports, what Keras has.
    ("keras.optimizer_v2.gradient_descent:SGD", "keras.optimizers.legacy:SGD"),
    ("keras.optimizer_v2.rmsprop:RMSprop", "keras.optimizers.legacy:RMSprop"),
    ("keras.layers.core:Dropout", "keras.layers:Dropout"),
    ("keras.layers.convolutional:Conv2D", "keras.layers:Conv2D"),
    ("keras.layers.pooling:MaxPooling2D", "keras.layers:MaxPooling2D"),
    ("keras.layers.recurrent_v2:LSTM", "keras.layers:LSTM"),
    ("keras.layers.embeddings:Embedding", "keras.layers:Embedding"),
    ("keras.layers.merge:Add", "keras.layers:Add"),
    ("keras.layers.normalization.batch_normalization:BatchNormalization",
     "keras.layers:BatchNormalization"),
    ("keras.engine.input_layer:Input", "keras:Input"),
    ("keras.engine.functional:Functional", "keras.src.engine.functional:Functional"),
    ("keras.engine.node:Node", "keras.src.engine.node:Node"),
    ("keras.utils.layer_utils:count_params", "keras.src.utils.layer_utils:count_params"),
    ("keras.utils.generic_utils:to_list", "keras.src.utils.generic_utils:to_list"),
    ("keras.saving.hdf5_format:load_model_from_hdf5",
     "keras.src.saving.legacy.hdf5_format:load_model_from_hdf5"),
    ("keras.saving.saving_utils:model_metadata",
     "keras.src.saving.legacy.saving_utils:model_metadata"),
    ("keras.mixed_precision.policy:Policy", "keras.mixed_precision:Policy"),
    ("keras.mixed_precision.policy:set_policy", "keras.mixed_precision:set_global_policy"),
    ("tensorflow.python.keras.mixed_precision.experimental:Policy", "keras.mixed_precision:Policy"),
    ("tensorflow.python.keras.mixed_precision.experimental:set_policy",
     "keras.mixed_precision:set_global_policy"),
    ("tensorflow.python.keras.mixed_precision.experimental:policy",
     "keras.src.mixed_precision:policy"),
    ("tensorflow.python.keras.applications:resnet50", "keras.applications:resnet50"),
    ("tensorflow.python.keras.premade:linear", "keras.src.premade_models:linear"),
    ("keras.initializers.initializers_v2:GlorotUniform", "keras.initializers:GlorotUniform"),
    ("keras.initializers:initializers_v2", "keras.src.initializers:initializers"),
    ("keras.layers:gru_lstm_utils", "keras.src.layers.rnn:gru_lstm_utils"),
    ("keras.utils.generic_utils:register_keras_serializable",
     "keras.utils:register_keras_serializable"),
    ("keras.utils.generic_utils:serialize_keras_object",
     "keras.src.saving.legacy.serialization:serialize_keras_object"),
    ("tensorflow.python.training.saving:functional_saver",
     "tensorflow.python.checkpoint:functional_saver"),
    ("tensorflow.python.data.experimental.ops.distribute_options:AutoShardPolicy",
     "tensorflow.data.experimental:AutoShardPolicy"),
    ("keras.keras_parameterized:TestCase", "keras.src.testing_infra.test_combinations:TestCase"),
    ("keras.testing_utils:get_small_mlp", "keras.src.testing_infra.test_utils:get_small_mlp"),
    ("keras.mixed_precision.loss_scale_optimizer:LossScaleOptimizer",
     "keras.src.mixed_precision.loss_scale_optimizer:LossScaleOptimizer"),
    ("keras.backend:track_variable", "keras.src.backend:track_variable"),
    ("tensorflow.python.keras:Model", "keras:Model"),
    ("tensorflow.python.keras.layers:Dense", "keras.layers:Dense"),
    ("tensorflow.python.keras.layers.core:Dense", "keras.layers:Dense"),
    ("tensorflow.python.keras.layers.recurrent_v2:GRU", "keras.layers:GRU"),
    ("tensorflow.python.keras.layers.normalization:BatchNormalization",
     "keras.layers:BatchNormalization"),
    ("tensorflow.python.keras.utils:to_categorical", "keras.utils:to_categorical"),
    ("tensorflow.python.keras.preprocessing.sequence:pad_sequences",
     "keras.preprocessing.sequence:pad_sequences"),
    ("tensorflow.python.keras.optimizers:Adam", "keras.optimizers.legacy:Adam"),
    ("tensorflow.python.keras.optimizers:get", "keras.optimizers:get"),
    ("tensorflow.python.keras.optimizer_v2.adam:Adam", "keras.optimizers.legacy:Adam"),
    ("tensorflow.python.keras.losses:MeanSquaredError", "keras.losses:MeanSquaredError"),
    ("tensorflow.python.keras.callbacks:Callback", "keras.callbacks:Callback"),
    ("tensorflow.python.keras.engine.training:Model", "keras:Model"),
    ("tensorflow.python.keras.datasets.mnist:load_data", "keras.datasets.mnist:load_data"),
    ("tensorflow.python.training.tracking.util:Checkpoint", "tensorflow.train:Checkpoint"),
    ("tensorflow.python.training.tracking.tracking:AutoTrackable",
     "tensorflow.python.trackable.autotrackable:AutoTrackable"),
    ("tensorflow.python.distribute.distribution_strategy_context:get_strategy",
     "tensorflow.python.distribute.distribute_lib:get_strategy"),
]


def find(name):
    module, _, symbol = name.partition(":")
    space = {"__name__": "program"}
    exec(f"from {module} import {symbol}", space)
    return space[symbol]


@pytest.mark.parametrize("name, place", PAIRS)
def test_names_that_moved(name, place):
    assert find(name) is find(place)


# Names of Keras 2.6 that no Keras has today: {module: names}, all of them for None.
LOST = {
    "engine.training": {"saver_with_op_caching"},
    "layers": {"CategoryCrossing"},
    "layers.core": {"keras_temporary_dropout_rate"},
    "layers.preprocessing.category_crossing": None,
    "layers.preprocessing.image_preprocessing": {"make_generator"},
    "layers.preprocessing.reduction": None,
    "layers.preprocessing.text_vectorization": {"SPLIT_ON_WHITESPACE"},
    "preprocessing": {"utils"},
    "utils.multi_gpu_utils": None,
    "wrappers.scikit_learn": None,
}
# And those that only TensorFlow's copy has.
LOST_BY_KERAS = {
    "applications.imagenet_utils": {"CLASS_INDEX"},
    **{f"applications.{name}": {"layers"}
       for name in ("inception_resnet_v2", "mobilenet", "mobilenet_v2", "resnet")},
    "backend": {"cast_variables_to_tensor"},
    "distribute.worker_training_state": {"CKPT_SAVED_EPOCH", "CKPT_SAVED_EPOCH_UNUSED_VALUE"},
    "engine.base_preprocessing_layer": {"Combiner", "CombinerPreprocessingLayer",
                                        "convert_to_list"},
    "engine.data_adapter": {"expand_1d"},
    "engine.training": {"saver_with_op_caching", "write_scalar_summaries"},
    "layers": {"CategoryCrossing", "PeepholeLSTMCell"},
    "layers.advanced_activations": {"get_globals"},
    "layers.legacy_rnn.rnn_cell_wrapper_impl": None,
    "layers.recurrent": {"PeepholeLSTMCell"},
    "legacy_tf_layers.variable_scope_shim": {"VariableAndLossTracker",
                                             "VariableScopeWrapperLayer"},
    "mixed_precision.get_layer_policy": None,
    "mixed_precision.loss_scale_optimizer": {"LossScaleOptimizerV1"},
    "mixed_precision.policy": {"PolicyV1"},
    "optimizer_v2.utils": {"strategy_supports_no_merge_call"},
    "saving.saved_model.layer_serialization": {"IndexLookupLayerSavedModelSaver"},
    "saving.saved_model.load": {"get_common_shape", "recurrent"},
    "saving.saved_model.serialized_attributes": {"recurrent"},
    "saving.saved_model.utils": {"get_training_arg", "get_training_arg_index",
                                 "remove_training_arg", "set_training_arg"},
    "utils.generic_utils": {"CustomMaskWarning", "get_custom_objects_by_name"},
}


@pytest.mark.parametrize("root, lost", [("tensorflow.python.keras", LOST),
                                        ("keras", {**LOST, **LOST_BY_KERAS})])
def test_every_public_name_of_keras_2_6(root, lost):
    missing = {}
    lines = pathlib.Path(__file__).with_name("keras_2_6_names.txt").read_text().splitlines()
    for line in lines[1:]:
        if not line.startswith(" "):
            module = line.rstrip(":")
            continue
        for name in line.split():
            try:
                find(f"{root}.{module}:{name}".replace(".:", ":"))
            except ImportError:
                missing.setdefault(module, set()).add(name)
    assert {module: None if lost.get(module, names) is None else names
            for module, names in missing.items()} == lost


def test_an_old_name_before_the_ipu_s_import():
    done = interpreter.run(["-c",
        "from tensorflow.python.keras.preprocessing.sequence import pad_sequences\n"
        "from tensorflow.python import array_ops, dtypes, logging, ops\n"
        "import keras\n"
        "from tensorflow.python.keras.layers import LSTM, Dense\n"
        "assert pad_sequences is keras.preprocessing.sequence.pad_sequences\n"
        "assert LSTM is keras.layers.LSTM and Dense is keras.layers.Dense\n"
        "assert ops.__name__ == 'tensorflow.python.ops'\n"
        "assert dtypes.float32 and array_ops.concat and logging.info\n"])
    assert done.returncode == 0, done.stderr


def test_tensorflow_python_shows_its_symbols():
    from tensorflow.python import Tensor, dtypes, placeholder
    assert Tensor is tf.Tensor and dtypes.float16 is tf.float16
    assert placeholder is tf.compat.v1.placeholder
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from tensorflow.python import nothing  # noqa: F401


def test_looking_for_a_module_keeps_its_names():
    done = interpreter.run(["-c",
        "import importlib.util\n"
        "from tensorflow.python import ipu\n"
        "assert importlib.util.find_spec('keras.src.engine.base_layer_v1')\n"
        "from keras.engine.base_layer_v1 import InputSpec\n"])
    assert done.returncode == 0, done.stderr


def test_names_that_are_imported_from_packages():
    assert adam.Adam is keras.optimizers.legacy.Adam
    assert issubclass(adam.Adam, optimizer_v2.OptimizerV2)
    assert learning_rate_schedule.ExponentialDecay is keras.optimizers.schedules.ExponentialDecay
    assert training.Model is keras.Model and sequential.Sequential is keras.Sequential
    assert issubclass(keras.layers.Dense, base_layer.Layer)
    assert data_adapter.DataHandler and load.load
    assert keras.engine.base_layer is base_layer
    assert shared.layers.Dense is keras.layers.Dense
    assert shared.layers.normalization.LayerNormalization is keras.layers.LayerNormalization
    assert shared.optimizer_v2.gradient_descent.SGD is keras.optimizers.legacy.SGD


def test_keras_ipu_is_one_package():
    import tensorflow.keras.ipu as of_tensorflow
    import tensorflow.keras.ipu.optimizers

    import keras.ipu
    import keras.ipu.layers
    from keras.ipu.layers.capture_upstream_gradients import CaptureUpstreamGradients
    import ipu_tensorflow_addons.keras.layers as addons
    from ipu_tensorflow_addons import test_utils
    assert test_utils is ipu.test_utils
    assert keras.ipu is tf.keras.ipu is of_tensorflow is ipu.keras
    assert keras.ipu.__ipu__built__ == "1"
    assert keras.ipu.layers is addons is ipu.layers is ipu.keras.layers
    assert tensorflow.keras.ipu.optimizers is ipu.keras.optimizers
    assert CaptureUpstreamGradients is addons.CaptureUpstreamGradients
    assert importlib.import_module("tensorflow.python.ipu.keras.layers.rnn").LSTM is addons.LSTM


def test_tf_keras_when_its_modules_were_imported_by_name():
    done = interpreter.run(["-c", "import tensorflow as tf\n"
                            "from tensorflow.python import ipu\n"
                            "from tensorflow import keras\n"
                            "from tensorflow.keras.layers import Dense\n"
                            "assert tf.keras.ipu is keras.ipu is ipu.keras\n"
                            "assert tf.keras.layers.Dense is Dense"])
    assert done.returncode == 0, done.stderr


def test_every_name_that_the_packages_show():
    for package in (ipu.keras.layers, ipu.keras.optimizers):
        for name in package.__all__:
            assert getattr(package, name).__name__
    assert ipu.keras.CTCLoss is ipu.keras.losses.CTCLoss is ipu.keras.layers.CTCLoss


def test_names_that_nobody_has():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("keras.nothing")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        keras.nothing
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        keras.ipu.nothing


def test_without_tensorflow_2_the_copy_is_completed():
    done = interpreter.run(["-c", "import tensorflow.compat.v1 as tf\n"
                            "from tensorflow.python import ipu\n"
                            "from tensorflow.python import keras\n"
                            "tf.disable_v2_behavior()\n"
                            "assert keras.layers.LSTM is tf.keras.layers.LSTM\n"
                            "Dense = keras.layers.Dense\n"
                            "assert Dense.__module__.startswith('tensorflow.python')\n"
                            "assert not hasattr(keras.layers, 'Nothing')"])
    assert done.returncode == 0, done.stderr


def test_tensorflow_keeps_its_copy():
    code = compile("import tensorflow.python.keras.layers as layers\nDense = layers.Dense", "x",
                   "exec")
    inside = {"__name__": "tensorflow.python.something"}
    exec(code, inside)
    assert inside["Dense"] is not keras.layers.Dense
