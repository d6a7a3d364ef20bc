"""The result of create_ipu_config() reads as IpuOptions, in the words of the first releases."""

import numpy as np
import pytest
from tensorflow.compiler.plugin.poplar.driver import config_pb2, threestate_pb2
from tensorflow.python import ipu

utils = ipu.utils


def options(**arguments):
    return utils.create_ipu_config(**arguments)


def test_it_is_both():
    config = utils.auto_select_ipus(options(), [1, 2])
    assert isinstance(config, config_pb2.IpuOptions) and isinstance(config, ipu.config.IPUConfig)
    assert [one.auto_count for one in config.device_config] == [1, 2]
    assert config.snapshot["devices"] == [{"auto": 1}, {"auto": 2}]
    config = utils.select_ipus(options(), [2, 3])
    assert [one.cfg_index for one in config.device_config] == [2, 3]
    with pytest.raises(ValueError, match="'none_such' is not a valid attribute"):
        config.none_such


@pytest.mark.parametrize("setter, arguments, field, value", [
    (utils.set_optimization_options, {"combine_matmuls": True}, "enable_matmul_combiner", True),
    (utils.set_optimization_options, {"merge_remote_buffers": True}, "remote_buffer_merging_mode",
     threestate_pb2.THREESTATE_ON),
    (utils.set_norm_options, {"use_stable_statistics": True}, "use_stable_norm_statistics", True),
    (utils.set_convolution_options, {"convolution_options": {"a": "b"}}, "convolution_options",
     [("a", "b")]),
    (utils.set_gcl_options, {"num_io_tiles": 32}, "num_io_tiles", 32),
    (utils.set_ipu_connection_type, {"ipu_version": 2}, "ipu_version", 2),
    (utils.set_ipu_connection_type, {"ipu_version": 2}, "has_ipu_version", True),
])
def test_fields(setter, arguments, field, value):
    config = options()
    assert getattr(config, field) != value
    assert getattr(setter(config, **arguments), field) == value
    assert config.remote_buffer_merging_mode != threestate_pb2.THREESTATE_UNDEFINED


def test_fields_in_messages():
    config = options(profiling=True, profile_execution=True)
    assert config.profiling.execution_trace_type \
        == config_pb2.IpuExecutionProfileType.DEVICE_PROFILE
    config.profiling.execution_trace_type = config_pb2.IpuExecutionProfileType.IPU_PROFILE
    config.profiling.enable_io_trace = True
    assert config._profiling.profile_execution is utils.ExecutionProfileType.IPU_PROFILE
    assert config._profiling.enable_io_trace
    utils.set_report_options(config, graph_options={"a": "b"})
    assert config.profiling.graph_options == [("a", "b")] and not config.profiling.execution_options
    assert not config.floating_point_behaviour.flags_set and not config.floating_point_behaviour.inv
    utils.set_floating_point_behaviour_options(config, oflo=False)
    assert config.floating_point_behaviour.flags_set and config.floating_point_behaviour.inv
    assert config.snapshot["options"]["floating_point_behaviour.inv"] is True
    assert config.speed_size_config.allow_recompute is False
    assert utils.set_recomputation_options(config).speed_size_config.allow_recompute is True


@pytest.mark.parametrize("given, graph, execution", [
    ([{"a": "b"}], [("a", "b")], [("a", "b")]),
    ([{"a": "b"}, {"c": "d"}], [("a", "b")], [("c", "d")]),
    ([{"x": "y"}, {"a": "b"}, {"c": "d"}], [("a", "b"), ("x", "y")], [("c", "d"), ("x", "y")]),
])
def test_report_options_by_position(given, graph, execution):
    """Two are those of SDK 2.1, three those of the releases before."""
    profiling = utils.set_report_options(options(), *given).profiling
    assert sorted(profiling.graph_options) == graph
    assert sorted(profiling.execution_options) == execution


def test_integers_stand_for_bools():
    """As in the original's protocol buffers."""
    config = options(profiling=1, always_rearrange_copies_on_the_host=np.int64(1))
    assert config._profiling.profiling is True
    assert config.experimental.always_rearrange_copies_on_the_host is True
    utils.set_floating_point_behaviour_options(config, esr=1, inv=1, div0=0, oflo=np.int32(0))
    chosen = config.floating_point_behaviour
    assert (chosen.inv, chosen.div0, chosen.oflo, chosen.nanoo) == (True, False, False, True)
    assert chosen.esr is ipu.config.StochasticRoundingBehaviour.ON
    utils.set_floating_point_behaviour_options(
        config, esr=ipu.config.StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY)
    assert chosen.esr is ipu.config.StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY
    assert utils.set_optimization_options(config, 1).optimizations.combine_embedding_lookups is True
    assert utils.set_recomputation_options(config, 0).allow_recompute is False
    assert utils.set_io_tile_options(config, 32, 1).io_tiles.place_ops_on_io_tiles is True
    with pytest.raises(TypeError, match="oflo to yes, but it must be of type bool"):
        utils.set_floating_point_behaviour_options(config, oflo="yes")


def test_transfers():
    keys = utils.VerificationOptions()
    keys.outputs.key = 2
    keys.outfeeds["out"].start_id = 1
    keys.infeeds["in"] = utils.KeyId(key=3, start_id=4)
    transfers = utils.set_verification_options(options(), keys).verified_transfers
    found = [(one.key, one.start_id) for one in (
        transfers.inputs, transfers.outputs, transfers.outfeeds["out"], transfers.infeeds["in"],
        transfers.checkpoint_in, transfers.checkpoint_out)]
    assert found == [(0, -1), (2, -1), (0, 1), (3, 4), (0, 0), (0, 0)]
    assert not transfers.enabled


@pytest.mark.parametrize("error, words, act", [
    (TypeError, r"create_ipu_config\(\) got an unexpected keyword argument 'report'",
     lambda: utils.create_ipu_config(report=1)),
    (TypeError, "`gcl_options` must be a dictionary",
     lambda: utils.set_gcl_options(options(), gcl_options=123)),
    (ValueError, "`ipu_version` must be set",
     lambda: utils.set_ipu_connection_type(options(), utils.DeviceConnectionType.NEVER)),
    (ValueError, "must be unique", lambda: utils.select_ipus(options(), [4, 4])),
])
def test_refused(error, words, act):
    with pytest.raises(error, match=words):
        act()
