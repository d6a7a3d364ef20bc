"""IPUConfig and configuring the system."""

import copy
import logging
import pathlib
import pickle
import subprocess
import sys

import pytest

from tremula.tf.ipu import config as ipu_config
from tremula.tf.ipu.config import (DeviceConnectionType, IPUConfig, SchedulingAlgorithm,
                                   StochasticRoundingBehaviour)
from tensorflow.errors import FailedPreconditionError
from tremula.tf.plugin.poplar.driver import config_pb2


@pytest.fixture(autouse=True)
def no_flags(monkeypatch):
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)


def test_some_defaults():
    config = IPUConfig()
    assert config.auto_select_ipus == [] and config.select_ipus == []
    assert config.ipu_model.compile_ipu_code is True
    assert config.ipu_model.version == "ipu2"
    assert config.io_tiles.available_memory_proportion == 0.9
    assert config.optimizations.math.dot_strength is True
    assert config.optimizations.minimum_remote_tensor_size == 128
    assert config.scheduling.algorithm is SchedulingAlgorithm.CHOOSE_BEST
    assert config.experimental.multi_replica_distribution.process_count == 0


def test_instances_do_not_share_dicts():
    first, second = IPUConfig(), IPUConfig()
    first.convolutions.poplar_options["availableMemoryProportion"] = "0.3"
    assert second.convolutions.poplar_options == {}


@pytest.mark.parametrize("name, value", [
    ("auto_select_ipus", 4), ("auto_select_ipus", [1, 1]), ("auto_select_ipus", (2, 2)),
    ("io_tiles.available_memory_proportion", 0.5), ("io_tiles.available_memory_proportion", 100.0),
    ("device_connection.type", DeviceConnectionType.NEVER),
    ("compilation_poplar_options", {"debug.allowOutOfMemory": "true"}),
])
def test_accepts_values_of_the_type(name, value):
    config = IPUConfig()
    category, _, leaf = name.rpartition(".")
    owner = getattr(config, category) if category else config
    setattr(owner, leaf, value)
    assert getattr(owner, leaf) == value


@pytest.mark.parametrize("category, leaf, value, text", [
    ("", "allow_recompute", 1,
     "Trying to set allow_recompute to 1, but it must be of type bool"),
    ("ipu_model", "tiles_per_ipu", True,
     "Trying to set ipu_model.tiles_per_ipu to True, but it must be of type int"),
    ("", "auto_select_ipus", [1, "2"],
     "Trying to set auto_select_ipus to [1, '2'], but it must be of type "
     "typing.Union[int, typing.List[int], typing.Tuple[int, ...]]"),
    ("scheduling", "algorithm", "CLUSTERING",
     "Trying to set scheduling.algorithm to CLUSTERING, but it must be of type "
     "SchedulingAlgorithm"),
])
def test_refuses_other_types(category, leaf, value, text):
    config = IPUConfig()
    with pytest.raises(TypeError) as error:
        setattr(getattr(config, category) if category else config, leaf, value)
    assert str(error.value) == text


def test_unknown_attribute():
    with pytest.raises(ValueError) as error:
        IPUConfig().auto_select_ipu = 1
    assert str(error.value) == ("'auto_select_ipu' is not a valid attribute of this config. "
                                "Did you mean 'auto_select_ipus'?")
    with pytest.raises(ValueError, match="Did you mean 'floating_point_behaviour.esr'"):
        IPUConfig().esr = True
    with pytest.raises(AttributeError, match="Did you mean 'matmuls'"):
        IPUConfig().matmul


def test_a_category_cannot_be_assigned():
    with pytest.raises(Exception) as error:
        IPUConfig().convolutions = {}
    assert str(error.value) == "convolutions is a category and cannot be assigned to."


def test_esr_accepts_a_bool_with_a_warning(caplog):
    config = IPUConfig()
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        config.floating_point_behaviour.esr = True
    assert config.floating_point_behaviour.esr is StochasticRoundingBehaviour.ON
    assert "deprecated" in caplog.text


def test_a_deprecated_option_warns_and_still_acts(caplog):
    config = IPUConfig()
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        config.optimizations.enable_fast_math = True
    assert "optimizations.enable_fast_math has been deprecated: " in caplog.text
    options = config._create_snapshot()["options"]
    assert options["optimizations.enable_fast_math"] is True
    assert options["optimizations.math.fast"] is False


def test_metadata():
    config = IPUConfig()
    metadata = config.get_attribute_metadata("ipu_model.version")
    assert metadata.name == "ipu_model.version" and metadata.default == "ipu2"
    assert metadata.type == "str" and metadata.actual_type is str
    assert not metadata.deprecated and metadata.__doc__
    assert config.ipu_model.get_attribute_metadata("version") is metadata
    metadata.check_type("ipu1")
    with pytest.raises(TypeError):
        metadata.check_type(1)
    assert config.get_attribute_metadata("optimizations.enable_fast_math").deprecated
    with pytest.raises(ValueError, match="Could not get attribute metadata"):
        config.get_attribute_metadata("ipu_model.versio")


def test_text_forms():
    config = IPUConfig()
    lines = str(config).splitlines()
    assert "ipu_model.version = ipu2" in lines
    assert "selection_order = SelectionOrder.AUTO" in lines
    assert not any(line.startswith("_") for line in lines)
    config.auto_select_ipus = 2
    assert repr(config).splitlines()[0] == "IPUConfig:"
    assert "  auto_select_ipus = 2" in repr(config).splitlines()
    assert "  selection_order = SelectionOrder.AUTO" in repr(config).splitlines()
    assert "  ipu_model.version = 'ipu2'" in repr(config).splitlines()
    assert "auto_select_ipus" in IPUConfig.__doc__
    assert "tiles_per_ipu" in type(config.ipu_model).__doc__


def test_copies_and_round_trips():
    config = IPUConfig()
    config.auto_select_ipus = (1, 1)
    config.matmuls.poplar_options["partialsType"] = "half"
    config.scheduling.algorithm = SchedulingAlgorithm.POST_ORDER
    for twin in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert str(twin) == str(config)
        twin.matmuls.poplar_options["partialsType"] = "float"
        assert config.matmuls.poplar_options["partialsType"] == "half"
    from_dict, from_json = IPUConfig(), IPUConfig()
    from_dict.from_dict(config.to_dict())
    assert str(from_dict) == str(config)
    from_json.from_json(config.to_json())
    assert from_json.to_json() == config.to_json()
    from_dict.from_dict({"ipu_model": {"tiles_per_ipu": 8}})
    assert from_dict.ipu_model.tiles_per_ipu == 8
    with pytest.raises(ValueError):
        from_dict.from_dict({"scheduling.algorithm": "FASTEST"})


def test_reading_back_does_not_warn(caplog):
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        IPUConfig().from_dict(IPUConfig().to_dict())
    assert not caplog.records


def _set(**options):
    config = IPUConfig()
    config.from_dict({name.replace("__", "."): value for name, value in options.items()})
    return config


@pytest.mark.parametrize("options, flags, text", [
    ({"auto_select_ipus": 1, "select_ipus": 0}, "",
     "Only one of `auto_select_ipus` and `select_ipus` can be set."),
    ({"select_ipus": [1, 1]}, "", "All MultiIPU indices in `select_ipus` must be unique."),
    ({"auto_select_ipus": 0}, "", "`auto_select_ipus` must be 1 or more"),
    ({"select_ipus": 3}, "--use_ipu_model",
     "When using the IPUModel, the devices to attach to can only be specified with "
     "`auto_select_ipus`."),
    ({"experimental__multi_replica_distribution__process_count": 2}, "--use_ipu_model",
     "Multi-replica distribution is not supported on the IPU model."),
    ({"io_tiles__place_ops_on_io_tiles": True}, "",
     "Cannot place ops on I/O tiles when io_tiles.num_io_tiles == 0"),
    ({"experimental__multi_replica_distribution__process_count": 1,
      "experimental__multi_replica_distribution__process_index": -1}, "",
     "experimental.multi_replica_distribution.process_index must be in the range [0, "
     "experimental.multi_replica_distribution.process_count). They are -1 and 1."),
    ({"device_connection__type": "NEVER"}, "", "device_connection.version must be set"),
    ({"device_connection__type": "PRE_COMPILE"}, "", "device_connection.version must be set"),
    ({"ipu_model__version": ""}, "--use_ipu_model",
     "ipu_model.version must be set when using the IPUModel."),
    ({"norms__experimental__distributed_batch_norm_replica_group_size": 2,
      "io_tiles__num_io_tiles": 32}, "",
     "norms.experimental.distributed_batch_norm_replica_group_size is not supported with I/O "
     "tiles."),
    ({}, "--use_ipu_modell", "--use_ipu_model"),
])
def test_options_that_do_not_go_together(options, flags, text, monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    with pytest.raises(ValueError) as error:
        _set(**options)._create_snapshot()
    assert text in str(error.value)


@pytest.mark.parametrize("name, wrong", [
    ("auto_select_ipus", [0, -1, [1, -1], (2, 0), 2 ** 40]),
    ("select_ipus", [-1, [3, -1], 2 ** 40]),
    ("io_tiles.num_io_tiles", [-1]), ("ipu_model.tiles_per_ipu", [-1, 2 ** 40]),
    ("io_tiles.available_memory_proportion", [-0.1, float("nan")]),
    ("ipu_model.version", ["ipu3"]), ("device_connection.version", ["x"]),
    ("scheduling.maximum_scheduler_lookahead_depth", [-1]),
    ("scheduling.maximum_scheduler_search_space_size", [-1]),
    ("optimizations.minimum_remote_tensor_size", [-1, 2 ** 70]),
    ("optimizations.cholesky_block_size", [-1]),
    ("norms.experimental.distributed_batch_norm_replica_group_size", [0, -1])])
def test_values_that_cannot_be_meant_are_refused_when_they_are_set(name, wrong):
    config = IPUConfig()
    *path, leaf = name.split(".")
    owner = config
    for part in path:
        owner = getattr(owner, part)
    before = getattr(owner, leaf)
    for value in wrong:
        with pytest.raises(ValueError, match=name):
            setattr(owner, leaf, value)
    assert getattr(owner, leaf) == before


def test_poplar_options_are_text():
    config = IPUConfig()
    config.matmuls.poplar_options["availableMemoryProportion"] = 0.3
    with pytest.raises(TypeError, match="matmuls.poplar_options"):
        config._create_snapshot()


def test_snapshot(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    config = _set(auto_select_ipus=[1, 4], floating_point_behaviour__set_all=True)
    snapshot = config._create_snapshot()
    assert snapshot["format"] == 1
    assert snapshot["devices"] == [{"auto": 1}, {"auto": 4}]
    assert snapshot["flags"]["use_ipu_model"] is True
    assert snapshot["options"]["floating_point_behaviour.inv"] is True
    assert snapshot["options"]["floating_point_behaviour.esr"] == "ON"
    assert snapshot["options"]["ipu_model.version"] == "ipu2"
    monkeypatch.delenv("TF_POPLAR_FLAGS")
    assert _set(select_ipus=24)._create_snapshot()["devices"] == [{"id": 24}]


@pytest.mark.parametrize("chosen, shown", [("ALWAYS", "ON_DEMAND"), ("NEVER", "NEVER")])
def test_the_flag_use_on_demand_shows_in_the_configuration(chosen, shown, monkeypatch, runtime):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_on_demand")
    config = _set(device_connection__type=chosen, device_connection__version="ipu2")
    config.configure_ipu_system()
    shown = config_pb2.IpuDeviceConnectionType[shown]
    assert config._create_protobuf().device_connection_type == shown
    assert ipu_config.get_ipu_config()[0].device_connection_type == shown


def test_configure_hands_the_snapshot_over(runtime):
    with pytest.raises(RuntimeError, match="No IPU devices configured."):
        ipu_config.get_ipu_config()
    _set(auto_select_ipus=2).configure_ipu_system()
    (name, snapshot), = runtime.calls
    assert name == "configure" and snapshot["devices"] == [{"auto": 2}]
    options, = ipu_config.get_ipu_config()
    assert options.device_config[0].auto_count == 2 and options.creator_id == 1
    _set(auto_select_ipus=[2, 4]).configure_ipu_system()
    assert [[one.auto_count for one in options.device_config]
            for options in ipu_config.get_ipu_config()] == [[2, 4], [2, 4]]


def test_configure_again(runtime, caplog):
    config = _set(auto_select_ipus=2)
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        config.configure_ipu_system()
        config.configure_ipu_system()
        assert not caplog.records
        _set(auto_select_ipus=1).configure_ipu_system()
    assert "Resetting existing IPU configuration before applying new configuration" in caplog.text
    with pytest.raises(FailedPreconditionError, match="has already been set in this process"):
        ipu_config.configure_ipu_system(config, reset_configuration=False)
    ipu_config.reset_ipu_configuration()
    assert runtime.calls[-1] == ("reset_configuration",)
    with pytest.raises(RuntimeError):
        ipu_config.get_ipu_config()


def test_configure_takes_ipu_options(runtime):
    options = _set(auto_select_ipus=2)._create_protobuf()
    again = config_pb2.IpuOptions.FromString(options.SerializeToString())
    assert again == options
    ipu_config.configure_ipu_system(again)
    assert runtime.calls[0][1]["devices"] == [{"auto": 2}]
    with pytest.raises(TypeError) as error:
        ipu_config.configure_ipu_system({"auto_select_ipus": 1})
    assert str(error.value) == "`config` must be an IpuOptions instance."
    with pytest.raises(ValueError, match="Badly initialized IpuOptions object"):
        ipu_config.configure_ipu_system(config_pb2.IpuOptions())


def test_the_flag_help_prints_all_flags(runtime, monkeypatch, capsys):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--help")
    IPUConfig().configure_ipu_system()
    assert "--executable_cache_path" in capsys.readouterr().err


def test_decorator_deprecates():
    @ipu_config.deprecate_config_attribute("speed", "go slower")
    class Own(ipu_config.ConfigBase):
        """Own."""
        _metadata = {"speed": ipu_config.AttributeMetadata("speed", default=1, attr_type=int)}

    metadata = Own().get_attribute_metadata("speed")
    assert metadata.deprecated and metadata.deprecated_msg == "go slower"


def test_the_document_is_fresh():
    document = pathlib.Path(__file__).resolve().parents[3] / "docs" / "ipu_config.md"
    assert document.read_text(encoding="utf-8") == ipu_config.markdown()


def test_config_needs_no_tensorflow():
    code = ("import sys; from tremula.tf.ipu.config import IPUConfig; IPUConfig();"
            "assert 'tensorflow' not in sys.modules")
    root = pathlib.Path(__file__).resolve().parents[3] / "python"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_enums_are_numbers_in_dicts():
    config = IPUConfig()
    config.scheduling.algorithm = SchedulingAlgorithm.LOOK_AHEAD
    assert config.to_dict()["scheduling.algorithm"] == 3
    for value in (3, "LOOK_AHEAD", "SchedulingAlgorithm.LOOK_AHEAD"):
        twin = IPUConfig()
        twin.from_dict({"scheduling.algorithm": value})
        assert twin.scheduling.algorithm is SchedulingAlgorithm.LOOK_AHEAD
    with pytest.raises(ValueError):
        twin.from_dict({"scheduling.algorithm": 17})


def test_metadata_of_places_and_types():
    config = IPUConfig()
    metadata = config.get_attribute_metadata("auto_select_ipus")
    assert metadata.type == "typing.Union[int, typing.List[int], typing.Tuple[int, ...]]"
    assert metadata._depth == 1
    assert config.get_attribute_metadata("ipu_model.version")._depth == 2
    with pytest.raises(ValueError, match="Did you mean 'matmuls'"):
        config.matmul


def test_fields_of_the_protocol_buffer():
    from tensorflow.compiler.plugin.poplar.driver import config_pb2, threestate_pb2
    config = IPUConfig()
    fields = config._create_protobuf()
    assert fields.selection_order == config_pb2.IpuSelectionOrder.AUTO
    assert fields.remote_buffer_merging_mode == threestate_pb2.THREESTATE_UNDEFINED
    assert fields.speed_size_config.disable_graph_outlining is False
    assert list(fields.matmul_options) == []
    config.floating_point_behaviour.set_all = True
    config.optimizations.enable_graph_outlining = False
    config.optimizations.minimum_remote_tensor_size = 7
    config.matmuls.poplar_options = {"a": "b", "c": "d"}
    config.device_connection.type = DeviceConnectionType.ON_DEMAND
    fields = config._create_protobuf()
    assert fields.floating_point_behaviour.esr == 1 and fields.floating_point_behaviour.nanoo
    assert fields.speed_size_config.disable_graph_outlining is True
    assert fields.minimum_remote_tensor_size == 7
    assert [(one.option, one.value) for one in fields.matmul_options] == [("a", "b"), ("c", "d")]
    assert fields.device_connection_type == config_pb2.IpuDeviceConnectionType.ON_DEMAND
    assert config_pb2.IpuOptions.FromString(
        fields.SerializeToString()).ipu_model_config.ipu_model_version == "ipu2"
    for name in ("no_such", "snapshots"):
        with pytest.raises(AttributeError):
            getattr(fields, name)
    with pytest.raises(AttributeError):
        config_pb2.IpuOptions().num_io_tiles
