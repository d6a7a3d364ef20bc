"""ipu.utils and gen_ipu_ops."""

import inspect

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.compiler.plugin.poplar.driver import trace_pb2
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
from tensorflow.python import ipu
from tensorflow.python.ipu import legacy_config, utils
from tensorflow.python.ipu.config import IPUConfig


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_first_releases_way_to_configure(runtime):
    config = utils.create_ipu_config(profiling=True, profile_execution=True,
                                     scheduler_selection="Clustering",
                                     max_cross_replica_sum_buffer_size=5,
                                     disable_graph_convolution_caching=True)
    config = utils.auto_select_ipus(config, [1, 2])
    config = utils.set_convolution_options(config, {"partialsType": "half"})
    config = utils.set_matmul_options(config, {"partialsType": "half"}, clear_pass_type=True)
    config = utils.set_ipu_model_options(config, compile_ipu_code=False)
    config = utils.set_floating_point_behaviour_options(config)
    config = utils.set_ipu_connection_type(config, utils.DeviceConnectionType.ON_DEMAND, 1)
    config = utils.set_optimization_options(config, merge_remote_buffers=True)
    config = utils.set_gcl_options(config, num_io_tiles=32, gcl_options={"a": "b"})
    config = utils.set_report_options(config, report_options={"x": "y"})
    config = utils.set_verification_options(config, utils.VerificationOptions())
    assert config.convolutions.poplar_options == {"partialsType": "half"}
    assert config.device_connection.version == "ipu1"
    assert config.floating_point_behaviour.esr is utils.StochasticRoundingBehaviour.ON
    assert config.scheduling.algorithm is utils.SchedulingAlgorithm.CLUSTERING
    assert config.io_tiles.num_io_tiles == 32 and config._profiling.profiling
    utils.configure_ipu_system(config)
    assert runtime.calls[0][1]["devices"] == [{"auto": 1}, {"auto": 2}]
    assert utils.get_num_of_ipus_in_device("/device:IPU:1") == 2
    with pytest.raises(Exception, match="IPU devices have already been configured."):
        utils.select_ipus(config, [1])


def test_every_setter_returns_its_config():
    values = {"num_ipus": 1, "indices": [1], "num_io_tiles": 1, "process_count": 2,
              "process_index": 1, "verification_options": utils.VerificationOptions()}
    setters = [function for name, function in vars(legacy_config).items()
               if inspect.isfunction(function) and not name.startswith("_")
               and name != "create_ipu_config"]
    assert len(setters) == 19
    for setter in setters:
        config = IPUConfig()
        parameters = inspect.signature(setter).parameters
        arguments = [values[name] for name, parameter in parameters.items()
                     if parameter.default is inspect.Parameter.empty and name != "opts"]
        assert setter(config, *arguments) is config
        assert getattr(utils, setter.__name__) is setter


def test_exporting_functions_are_there():
    for name in ("export_dataset_to_file", "export_inputs_to_file",
                 "export_variables_from_live_session", "import_data_in_live_model"):
        assert callable(getattr(utils, name))
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        utils.foo


def test_move_variable_initialization_to_cpu(graph):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        variable = tf.get_variable("v", [2], initializer=tf.random_normal_initializer())
        tf.get_variable("w", initializer=variable.read_value() * 2.)
    utils.move_variable_initialization_to_cpu()
    for operation in graph.get_operations():
        if operation.name.startswith("v/Initializer"):
            assert operation.device == "/device:CPU:0"
            assert operation.get_attr("_XlaCompile") is False
            assert operation.get_attr("_XlaScope") == b""
            assert not operation.colocation_groups() or operation.colocation_groups() == [
                f"loc:@{operation.name}".encode()]
        if operation.type in ("VarHandleOp", "AssignVariableOp", "VarIsInitializedOp"):
            assert operation.device == "/device:IPU:0"


def test_a_graph_runs_after_moving_initialization(graph):
    with ipu.scopes.ipu_scope("/device:CPU:0"):
        tf.get_variable("v", [2], initializer=tf.ones_initializer())
        tf.get_variable("ref", [2], initializer=tf.ones_initializer(), use_resource=False)
    utils.move_variable_initialization_to_cpu(graph)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [list(value) for value in session.run(tf.global_variables())] == [[1, 1], [1, 1]]


def test_reset_ipu_seed(runtime, graph):
    utils.reset_ipu_seed(42, "/device:IPU:1", experimental_identical_replicas=True)
    assert runtime.calls == [("reset_seed", 42, 1, True)]
    with pytest.raises(ValueError, match="/device:CPU:0"):
        utils.reset_ipu_seed(42, "/device:CPU:0")


@pytest.mark.parametrize("index, size", [(0, 1), (15, 1), (16, 2), (24, 4), (29, 8), (30, 16)])
def test_the_size_of_an_id(runtime, index, size):
    config = IPUConfig()
    config.select_ipus = index
    config.configure_ipu_system()
    assert utils.get_num_of_ipus_in_device("/device:IPU:0") == size
    with pytest.raises(ValueError, match="Device ordinal 1 not in device configuration list."):
        utils.get_num_of_ipus_in_device("/device:IPU:1")


def test_without_a_configuration_the_first_device_has_one_ipu(runtime):
    assert utils.get_num_of_ipus_in_device("/device:IPU:0") == 1
    assert not runtime.calls


def test_what_the_flags_say(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --synthetic_data_categories=infeed")
    assert utils.running_on_ipu_model() is True
    assert utils.use_synthetic_data_for(utils.SyntheticDataCategory.Infeed)
    assert not utils.use_synthetic_data_for(utils.SyntheticDataCategory.Outfeed)


def test_operations_that_ask(runtime, graph, monkeypatch):
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    with tf.Session() as session:
        assert session.run(gen_ipu_ops.ipu_get_num_devices("/device:IPU:0")) == 4
        assert not session.run(gen_ipu_ops.ipu_model_used())
        assert session.run(gen_ipu_ops.ipu_use_synthetic_data_for(1))
        assert len(session.run(gen_ipu_ops.ipu_get_configuration())) == 1


def test_operations_that_steer_act_when_they_run(runtime, graph):
    clear = gen_ipu_ops.ipu_clear_all_xla_compilation_caches()
    seed = gen_ipu_ops.ipu_reset_seed("/device:IPU:0", 7)
    assert not runtime.calls
    with tf.Session() as session:
        session.run(clear)
        session.run(seed)
    assert runtime.calls == [("clear_compilation_caches",), ("reset_seed", 7, 0, False)]


def test_operations_that_steer_act_at_once_in_eager_mode(runtime, eagerly):
    gen_ipu_ops.ipu_reset_seed("/device:IPU:0", 7)
    assert runtime.calls == [("reset_seed", 7, 0, False)]


def test_event_traces():
    event = trace_pb2.IpuTraceEvent(type=trace_pb2.IpuTraceEvent.COMPILE_END)
    event.compile_end.module_name = b"m"
    event.compile_end.compilation_report = b"r"
    events = [event.SerializeToString()]
    assert utils.extract_all_events(events) == [event]
    assert utils.extract_compile_reports(events) == [("m", "r")]
    assert utils.extract_execute_reports(events) == []
    assert utils.extract_all_types_from_event_trace(events) == [event.COMPILE_END]
    assert "Compile end: m" in utils.extract_all_strings_from_event_trace(events)
