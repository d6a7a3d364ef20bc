"""The original's generated modules, protos and test helpers."""

import importlib
import unittest

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

MODULES = ("application_runtime", "dataset_benchmark", "dataset_exporters", "dataset_ops",
           "functional_ops", "ipu_ops", "pop_datastream_ops", "popfloat_ops", "popnn_ops",
           "popops_ops", "poprand_ops", "poputil_ops", "sendrecv_ops")


def generated(name):
    return importlib.import_module(f"tensorflow.compiler.plugin.poplar.ops.gen_{name}")


def evaluate(build):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(build())


def test_all_modules_are_there():
    from tensorflow.compiler.plugin.poplar.ops import gen_popnn_ops
    assert gen_popnn_ops is generated("popnn_ops")
    for name in MODULES:
        with pytest.raises(AttributeError, match="has no attribute 'foo'"):
            generated(name).foo


def test_inner_operations_name_what_to_use():
    with pytest.raises(AttributeError, match=r"gen_functional_ops.pipeline is .*pipelining_ops"):
        generated("functional_ops").pipeline
    with pytest.raises(AttributeError, match=r"use ipu.custom_ops.precompiled_user_op"):
        generated("poputil_ops").ipu_user_op


def test_activations_and_their_slopes():
    x = np.linspace(-3, 3, 7).astype(np.float32)
    ops = generated("popnn_ops")
    y, dy, soft = evaluate(lambda: [ops.ipu_swish(x), ops.ipu_swish_grad(2 * np.ones(7, "f"), x),
                                    ops.ipu_stable_softmax(x[None])])
    gate = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(y, x * gate, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dy, 2 * (gate + x * gate * (1 - gate)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(soft.sum(), 1, rtol=1e-5)


@pytest.mark.parametrize("kind, gates, states", [
    ("lstm", 4, 2), ("dynamic_lstm", 4, 2), ("gru", 3, 1), ("dynamic_gru", 3, 1),
    ("augru", 3, 1)])
def test_recurrent_layers(kind, gates, states):
    """Their backprop operations give what TensorFlow makes of the layers' gradients."""
    ops = generated("popnn_ops")
    random = np.random.RandomState(2)

    def numbers(*shape):
        return tf.constant(random.normal(size=shape), tf.float32)

    def build():
        x, kernel, biases = numbers(5, 2, 3), numbers(7, gates * 4), numbers(gates, 4)
        initial = [numbers(2, 4) for _ in range(states)]
        extra = [tf.constant([2, 5])] if kind.startswith(("dynamic", "au")) else []
        extra += [numbers(5, 2)] if kind == "augru" else []
        inputs = [x, *initial, kernel, biases, *extra]
        options = {"activation": "tanh", "recurrent_activation": "sigmoid", "num_channels": 4,
                   "is_training": True}
        layer, keeps = getattr(ops, f"popnn_{kind}_layer"), {}
        if kind == "dynamic_lstm":
            keeps = {"preserve_final_state": True}
        outputs, *last_c, kept = layer(*inputs, **options, **keeps)
        d_outputs, d_c = numbers(5, 2, 4), [numbers(2, 4) for _ in last_c]
        mine = getattr(ops, f"popnn_{kind}_layer_backprop")(
            *inputs, outputs, *last_c, kept, d_outputs, *d_c, **options)
        wanted = [one for one in inputs if one.dtype == tf.float32]
        return list(mine), tf.gradients([outputs, *last_c], wanted, [d_outputs, *d_c])

    mine, wanted = evaluate(build)
    assert len(mine) == len(wanted)
    for one, other in zip(mine, wanted):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_final_state_that_is_not_preserved_is_zeros():
    x, kernel, biases, state = (np.full(shape, .5, "f") for shape in (
        [5, 2, 3], [7, 16], [4, 4], [2, 4]))

    def layer(**options):
        return generated("popnn_ops").popnn_dynamic_lstm_layer(
            x, state, state, kernel, biases, [2, 5], "tanh", "sigmoid", 4, True, **options)[:2]

    (output, state_c), (same, preserved) = evaluate(
        lambda: [layer(), layer(preserve_final_state=True)])
    np.testing.assert_array_equal(output, same)
    assert not state_c.any() and preserved.all()


def test_recurrent_layers_refuse():
    ops = generated("popnn_ops")
    given = [np.zeros(shape, "f") for shape in ([5, 2, 3], [2, 4], [7, 12], [3, 4])]
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="num_channels is 5"):
            ops.popnn_gru_layer(*given, "tanh", "sigmoid", 5, True)
        with pytest.raises(ValueError, match="The activation must be one of .* elu"):
            ops.popnn_gru_layer(*given, "elu", "sigmoid", 4, True)
        with pytest.raises(ValueError, match="a dict in JSON"):
            ops.popnn_gru_layer(*given, "tanh", "sigmoid", 4, True, options="[1]")


def test_group_norm():
    """Training, its statistics, inference with them, and gradients, of contiguous groups."""
    ops = generated("popnn_ops")
    random = np.random.RandomState(1)
    x, dy = random.normal(size=[2, 2, 3, 3, 4]).astype(np.float32)
    gamma, beta = random.normal(size=[2, 4]).astype(np.float32)
    options = {"data_format": "NHWC", "epsilon": 1e-3, "num_groups": 2,
               "strided_channel_grouping": False}

    def build():
        out, mean, inverse = ops.popnn_group_norm_training(x, gamma, beta, **options)
        tensor = tf.constant(x)
        twin = ops.popnn_group_norm_training(tensor, gamma, beta, **options)[0]
        return [out, mean, inverse, ops.popnn_group_norm_statistics(x, **options)[0],
                ops.popnn_group_norm_inference(x, gamma, beta, mean, inverse, **options),
                ops.popnn_group_norm_grad(x, gamma, mean, inverse, dy, **options)[0],
                tf.gradients(twin, tensor, tf.constant(dy))[0]]

    out, mean, inverse, statistics, inferred, dx, wanted_dx = evaluate(build)
    groups = x.reshape(2, 9, 2, 2)
    wanted_mean = groups.mean((1, 3))
    wanted_inverse = 1 / np.sqrt(groups.var((1, 3)) + 1e-3)
    np.testing.assert_allclose(mean, wanted_mean.ravel(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(inverse, wanted_inverse.ravel(), rtol=1e-4)
    np.testing.assert_array_equal(mean, statistics)
    wanted = ((groups - wanted_mean[:, None, :, None]) * wanted_inverse[:, None, :, None]).reshape(
        x.shape) * gamma + beta
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(inferred, out, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dx, wanted_dx, rtol=1e-4, atol=1e-5)


def test_slices_and_updates():
    ops = generated("popops_ops")
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    rows = np.array([3, 1], np.int32)
    new = np.full([2, 2], 10, np.float32)
    got = evaluate(lambda: [ops.ipu_multi_slice(table, rows),
                            ops.ipu_multi_update(table, rows, new),
                            ops.ipu_multi_update_add(table, rows, new, np.float32(.5)),
                            ops.ipu_histogram(np.float32([1, 2, 9]), np.float32([1.5]), False),
                            ops.ipu_sequence_slice_unpack(table, [1, 2], [0, 1], [1, 3], 6)])
    replaced, added = table.copy(), table.copy()
    replaced[rows] = 10
    added[rows] += 5
    unpacked = np.zeros([6, 2])
    unpacked[1], unpacked[3:5] = table[0], table[1:3]
    for value, wanted in zip(got, (table[rows], replaced, added, [1, 2], unpacked)):
        np.testing.assert_array_equal(value, wanted)


def test_rows_may_be_a_column_and_a_gather_one_tensor():
    ops = generated("popops_ops")
    table, rows = np.zeros([4, 2], np.float32), np.int32([[1], [1], [3]])
    added, = evaluate(lambda: [
        ops.ipu_multi_update_add(table, rows, np.ones([3, 2], np.float32), np.float32(2))])
    np.testing.assert_array_equal(added[:, 0], [0, 4, 0, 2])
    with tf.Graph().as_default():
        assert ops.ipu_all_gather(tf.constant(table), 8).shape == [8, 4, 2]


def test_rows_of_more_dimensions():
    ops = generated("popops_ops")
    rows, new = np.int32([[[0, 1]], [[3, 1]]]), np.ones([2, 1, 2, 2], np.float32)
    added, replaced = evaluate(lambda: [
        ops.ipu_multi_update_add(np.zeros([4, 2], np.float32), rows, new, 2),
        ops.ipu_multi_update(np.zeros([4, 2], np.float32), rows, new)])
    np.testing.assert_array_equal(added[:, 0], [2, 4, 0, 2])
    np.testing.assert_array_equal(replaced[:, 1], [1, 1, 0, 1])


def test_dropout_hands_its_seed_on():
    """`rate` is what is kept; the seed and the reference give the same mask again."""
    ops = generated("poprand_ops")
    x = np.ones(1000, np.float32)

    def build():
        first = ops.ipu_dropout(x, rate=.75, scale=2.)
        return [first.output, ops.ipu_dropout_with_seed(x, first.seed, .75, 2.).output,
                ops.ipu_dropout_with_seed_and_reference(x, [1, 2], first.reference, .75, 2.).output]

    first, second, third = evaluate(build)
    assert set(first) == {0, 2} and 650 < (first == 2).sum() < 850
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_protos():
    from tensorflow.compiler.plugin.poplar.driver import (backend_config_pb2, option_flag_pb2,
                                                          pipeline_config_pb2, threestate_pb2)
    assert threestate_pb2.THREESTATE_UNDEFINED == 2
    assert threestate_pb2.ThreeState.Name(threestate_pb2.THREESTATE_ON) == "THREESTATE_ON"
    call = backend_config_pb2.PoplarBackendConfig.CallConfig
    assert call.PipelineConfig.Schedule.Name(2) == "Sequential"
    assert backend_config_pb2.FrontendAttributeId.Name(10) == "ML_TYPE"
    stage = pipeline_config_pb2.PipelineStagePoplarConfig()
    stage.matmul_options.add(option="a", value="b")
    assert type(stage).FromString(stage.SerializeToString()) == stage
    flags = option_flag_pb2.PoplarOptionFlags(flags=[{"option": "a", "value": "b"}])
    assert flags.flags[0].value == "b"


def test_enums_of_options():
    """They are no protocol buffers here, but are read as if they were."""
    from tensorflow.compiler.plugin.poplar.driver import config_pb2
    for kind in (config_pb2.SyntheticDataCategory, config_pb2.IpuSelectionOrder,
                 config_pb2.IpuSchedulingAlgorithm, config_pb2.IpuDeviceConnectionType,
                 config_pb2.IpuExecutionProfileType):
        assert kind.items() == list(zip(kind.keys(), kind.values(), strict=True))
        for name, value in kind.items():
            assert kind.Value(name) == value == getattr(kind, name) and type(value) is int
            assert kind.Name(value) == name
        with pytest.raises(ValueError, match="has no value defined for name 'none'"):
            kind.Value("none")
    assert config_pb2.SyntheticDataCategory.keys() == [
        "Infeed", "Outfeed", "Seed", "HostEmbedding", "Parameters"]


class DecoratedTest(unittest.TestCase):
    """What the decorators do, by the variable that says how many IPUs there are."""

    def run_decorated(self, decorator, count):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TF_IPU_COUNT", str(count))
            return decorator(lambda self: "ran")(self)

    def test_decorators(self):
        from tensorflow.python.ipu import test_utils as tu
        self.assertEqual(self.run_decorated(tu.test_uses_ipus(num_ipus=2), 2), "ran")
        self.assertEqual(self.run_decorated(tu.test_may_use_ipus_or_model(num_ipus=2), 0), "ran")
        self.assertEqual(self.run_decorated(tu.skip_on_hw, 0), "ran")
        for decorator, count in ((tu.test_uses_ipus(num_ipus=2), 1), (tu.skip_on_hw, 1)):
            with self.assertRaises(unittest.SkipTest):
                self.run_decorated(decorator, count)


def test_test_utils(tmp_path):
    from tensorflow.compiler.plugin.poplar.tests import test_utils as old
    from tensorflow.python import ipu
    from tensorflow.python.ipu import test_utils as tu
    assert old is tu
    with tf.Graph().as_default(), tu.ipu_session(["constant_folding"]) as session:
        pair = tf.data.make_one_shot_iterator(
            tu.create_dual_increasing_dataset(2, [2], [1])).get_next()
        assert [session.run(pair)[0].tolist() for _ in range(3)] == [[0, 0], [1, 1], [0, 0]]
        with pytest.raises(ValueError, match="no_such"):
            with tu.ipu_session(["no_such"]):
                pass
    config = ipu.config.IPUConfig()
    tu.enable_ipu_events(config)
    assert tu.add_hw_ci_connection_options(config) is config
    assert config.device_connection.type == ipu.config.DeviceConnectionType.ON_DEMAND
    helper = tu.ReportHelper()
    with pytest.raises(RuntimeError, match="set_autoreport_options"):
        helper.find_report()
    helper.set_autoreport_options(config)
    assert helper.num_reports == 0
    folder = config.compilation_poplar_options["autoReport.directory"]
    assert tu.compute_device_count(pipelining=True, replicated=True) == 8
    assert tu.missing_whitelist_entries_in_names(["a/b"], ["b", "c"]) == ["*c*"]
    import pathlib
    report = pathlib.Path(folder, "tf_report_1", "profile.pop")
    report.parent.mkdir()
    report.write_text("")
    assert helper.find_report() == str(report)
    helper.clear_reports()
    helper.assert_num_reports(0)


def test_addons():
    from ipu_tensorflow_addons import layers
    from ipu_tensorflow_addons.v1.layers import PopnnDynamicLSTM, PopnnLSTM
    from ipu_tensorflow_addons.v1.layers.rnn_ops import PopnnGRU
    from tensorflow.python.ipu import rnn_ops
    assert layers.PopnnLSTM is PopnnLSTM is rnn_ops.PopnnLSTM and PopnnGRU is rnn_ops.PopnnGRU
    assert PopnnDynamicLSTM is rnn_ops.PopnnDynamicLSTM
    from ipu_tensorflow_addons import optimizers, v1
    from ipu_tensorflow_addons.layers import rnn_ops_grad
    assert v1.optimizers is optimizers and rnn_ops_grad.__name__.endswith("rnn_ops_grad")
    with pytest.raises(ImportError, match="saved_model_tool is a part .* does not have yet"):
        from ipu_tensorflow_addons import saved_model_tool as _  # noqa: F401
    from ipu_tensorflow_addons.keras import layers as keras_layers
    assert issubclass(keras_layers.PopnnLSTM, tf.keras.layers.Layer)


def test_names_that_tensorflow_moved():
    from tensorflow.python.framework import ops
    from tensorflow.python.layers import normalization
    from tensorflow.python.ops import array_ops, control_flow_ops
    from tensorflow.python.util import nest
    assert ops.Tensor is tf.Tensor and nest.is_sequence([1]) and not nest.is_sequence(1)
    assert callable(normalization.batch_normalization)
    with tf.Graph().as_default(), tf.Session() as session:
        x = array_ops.stack([tf.constant(1.), tf.constant(2.)])
        loop = control_flow_ops.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
        branch = control_flow_ops.cond(x[0] > 0, lambda: x, lambda: -x)
        assert session.run([loop, branch])[0] == 3
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        control_flow_ops.nothing


def test_base_class_of_xla_tests():
    from tensorflow.compiler.tests import xla_test

    class Case(xla_test.XLATestCase):
        def runTest(self):
            outer = tf.get_default_graph()
            with self.session() as session:
                assert tf.get_default_graph() is session.graph is not outer
                assert session.run(tf.constant(1) + 2) == 3

    Case().runTest()
