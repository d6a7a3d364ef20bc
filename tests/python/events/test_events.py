"""IPU events: what is recorded, in which order, with which reports."""

import json
import unittest

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.compiler.plugin.poplar.driver import config_pb2
from tensorflow.compiler.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
from tensorflow.python import ipu
from tensorflow.python.ipu import test_utils as tu
from tensorflow.python.ipu import utils

E = IpuTraceEvent
CHECK = unittest.TestCase()
X = np.float32([[1, 1], [2, 3]])


@pytest.fixture
def profiled():
    """profiled(option=value, ...) configures with options of _profiling; the usual configuration
    is back afterwards, and no event is left."""
    def configure(**options):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        for name, value in options.items():
            setattr(config._profiling, name, value)
        config.configure_ipu_system()
    yield configure
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(gen_ipu_ops.ipu_event_trace())


def trace():
    with tf.device("cpu"):
        return gen_ipu_ops.ipu_event_trace()


def square_sum(on_ipu):
    x = tf.placeholder(tf.float32, [2, 2])
    return x, on_ipu(lambda a: tf.matmul(a, a) + a, [x])[0]


def test_nothing_is_recorded_unless_asked_for(on_ipu, session):
    x, y = square_sum(on_ipu)
    report = trace()
    with session() as sess:
        sess.run(report)  # what programs of other tests left
        sess.run(y, {x: X})
        events = sess.run(report)
    assert events.shape == (0,) and utils.extract_all_strings_from_event_trace(events) == ""


def test_one_compilation_and_an_execution_a_run(profiled, on_ipu, session):
    profiled(profiling=True)
    x, y = square_sum(on_ipu)
    report = trace()
    with session() as sess:
        for _ in range(3):
            sess.run(y, {x: X})
        events = sess.run(report)
        assert utils.extract_all_types_from_event_trace(events) == [
            E.COMPILE_BEGIN, E.COMPILE_END, E.LOAD_ENGINE, E.EXECUTE, E.EXECUTE, E.EXECUTE]
        assert len(sess.run(report)) == 0
        sess.run(y, {x: X})
        assert utils.extract_all_types_from_event_trace(sess.run(report)) == [E.EXECUTE]
    begin, end, load, *runs = utils.extract_all_events(events)
    times = [one.timestamp for one in (begin, end, load, *runs)]
    assert times == sorted(times) and begin.ordinal == 0 and end.compile_end.duration > 0
    assert begin.WhichOneof("msg") == "compile_begin" and runs[0].WhichOneof("msg") == "execute"
    name = begin.compile_begin.module_name
    assert name and {end.compile_end.module_name, load.load_engine.module_name,
                     *(one.execute.module_name for one in runs)} == {name}
    assert tu.count_ipu_compilations(events) == 1 and not utils.extract_execute_reports(events)


def test_events_without_reports(profiled, on_ipu, session):
    profiled(enable_ipu_events=True)
    x, y = square_sum(on_ipu)
    report = trace()
    with session() as sess:
        sess.run(y, {x: X})
        events = utils.extract_all_events(sess.run(report))
    assert [one.type for one in events] == [E.COMPILE_BEGIN, E.COMPILE_END, E.LOAD_ENGINE,
                                            E.EXECUTE]
    assert not events[1].compile_end.compilation_report and not events[3].execute.execution_report
    assert json.loads(events[1].compile_end.tensor_map)["mappings"]


@pytest.mark.parametrize("every, reports", [(0, 1), (1, 5), (2, 3)])
def test_reports_of_some_runs(profiled, on_ipu, session, every, reports):
    profiled(profiling=True, profile_execution=True, report_every_nth_execution=every)
    x, y = square_sum(on_ipu)
    report = tu.ReportJSON(CHECK)
    read = trace()
    with session() as sess:
        for _ in range(5):
            sess.run(y, {x: X})
        types = report.parse_events(sess.run(read))
    assert types[E.EXECUTE] == 5
    report.assert_num_execution_reports_equal(reports)
    assert report.get_execution_report_cycles(0) > 0


def test_what_a_json_report_tells(profiled, on_ipu, session):
    profiled(profiling=True, profile_execution=True, enable_poplar_serialized_graph=True)
    x, y = square_sum(on_ipu)
    report = tu.ReportJSON(CHECK)
    read = trace()
    with session() as sess:
        sess.run(y, {x: X})
        events = sess.run(read)
    report.parse_events(events)
    report.assert_contains_one_compile_event()
    report.assert_compute_sets_contain_list(["MatMul*", "add*"])
    report.assert_vertices_contain_list(["poplin::ConvPartial"])
    assert len(report.get_each_tile_memory()) == report.get_num_tiles_per_ipu() == 1472
    assert 0 < report.get_peak_liveness() <= report.get_total_tile_memory()
    assert report.get_always_live_memory() < report.get_total_tile_memory()
    report.assert_total_tile_memory(report.get_total_tile_memory())
    report.assert_max_tile_memory(report.get_max_tile_memory())
    report.assert_always_live_memory(report.get_always_live_memory())
    report.assert_each_tile_memory_is_less_than(report.get_max_tile_memory())
    report.assert_execution_report_cycles(0, report.get_execution_report_cycles(0))
    for fails in (lambda: report.assert_total_tile_memory(1),
                  lambda: report.assert_max_tile_memory(10 ** 9, tolerance=0.1),
                  lambda: report.assert_each_tile_memory_is_less_than(1),
                  lambda: report.assert_execution_report_cycles(0, 0)):
        with pytest.raises(AssertionError):
            fails()
    steps = report.get_execution_reports()[0]["simulation"]["steps"]
    assert sum(one["cycles"] * one["executions"] for one in steps) == pytest.approx(
        report.get_execution_report_cycles(0))
    tensors = {one.inst: one for one in report.get_tensor_map().all_tensors()}
    argument = tensors["arg0.1"]
    assert argument.shape == [2, 2] and argument.dtype == "float" and argument.num_elements == 4
    assert sum(one.num_elements for one in argument.tiles) == 4
    assert report.get_tensor_map().tensor_inst_name_mappings()
    [(name, text)] = utils.extract_poplar_serialized_graphs(events)
    assert text.startswith("HloModule") and "dot(" in text and name


def test_reports_as_text(profiled, on_ipu, session):
    profiled(profiling=True, profile_execution=True, use_poplar_text_report=True)
    x, y = square_sum(on_ipu)
    read = trace()
    with session() as sess:
        sess.run(y, {x: X})
        events = sess.run(read)
    [(_, graph)], [(_, run)] = (utils.extract_compile_reports(events),
                                utils.extract_execute_reports(events))
    assert "Memory: it fits" in graph and "Cycles of a run" not in graph
    assert "Cycles of a run" in run and "MatMul" in run and "Memory:" not in run
    everything = utils.extract_all_strings_from_event_trace(events)
    for words in ("Compile begin: ", "Compile end: ", "Duration: ", "Load engine: ", "Execute: ",
                  graph, run):
        assert words in everything


def test_reports_on_the_standard_output(script):
    done = script("""
        import numpy as np, tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        options = ipu.utils.create_ipu_config(profiling=True)
        ipu.utils.configure_ipu_system(ipu.utils.auto_select_ipus(options, 1))
        x = tf.placeholder(tf.float32, [4, 4])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            y = ipu.ipu_compiler.compile(lambda a: tf.matmul(a, a), [x])
        with tf.Session() as session:
            session.run(y, {x: np.ones([4, 4])}), session.run(y, {x: np.ones([4, 4])})
    """, TF_POPLAR_FLAGS="--dump_text_reports_to_stdio")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Memory: it fits") == done.stdout.count("Cycles of a run") == 1


def test_reports_as_cbor(profiled, on_ipu, session):
    profiled(profiling=True, profile_execution=True, use_poplar_cbor_report=True)
    x, y = square_sum(on_ipu)
    read = trace()
    with session() as sess:
        sess.run(y, {x: X})
        events = utils.extract_all_events(sess.run(read))
    marked = bytes([0xd9, 0xd9, 0xf7, 0xbf])  # the tag of CBOR, and an object
    assert events[1].compile_end.compilation_report[:4] == marked
    assert events[3].execute.execution_report[:4] == marked
    assert utils.extract_all_strings_from_event_trace([events[1].SerializeToString()])


def test_reports_that_are_too_large_are_dropped(script):
    done = script("""
        import numpy as np, tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from tensorflow.python import ipu
        from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
        options = ipu.utils.create_ipu_config(profiling=True, max_report_size=100,
                                              enable_poplar_serialized_graph=True)
        ipu.utils.configure_ipu_system(ipu.utils.auto_select_ipus(options, 1))
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            x = tf.placeholder(tf.float32, [4, 4])
            y = ipu.ipu_compiler.compile(lambda a: tf.matmul(a, a), [x])
        with tf.Session() as session:
            session.run(y, {x: np.ones([4, 4])})
            events = session.run(gen_ipu_ops.ipu_event_trace())
        end = ipu.utils.extract_all_events(events)[1].compile_end
        print(len(events), end.compilation_report, end.tensor_map, end.poplar_graph)
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-2] == "4 b'' b'' b''"
    assert "Dropping compilation report which is larger" in done.stderr
    assert "Dropping serialized graph which is larger" in done.stderr
    assert "report size 100." in done.stderr


def test_reports_in_a_directory(profiled, on_ipu, session, tmp_path):
    profiled(profiling=True, profile_execution=True, report_directory=str(tmp_path / "reports"))
    x, y = square_sum(on_ipu)
    read = trace()
    with session() as sess:
        sess.run(y, {x: X})
        events = utils.extract_all_events(sess.run(read))
    end, run = events[1].compile_end, events[3].execute
    folder = tmp_path / "reports" / end.module_name.decode()
    assert end.compilation_report.decode() == str(folder / "graph.json")
    assert run.execution_report.decode() == str(folder / "execution.json")
    for path in (folder / "graph.json", folder / "execution.json", folder / "tensor_map.json"):
        assert json.loads(path.read_text())


def train(on_ipu, w0=1.0):
    with tf.variable_scope("vs", use_resource=True), tf.device("/device:IPU:0"):
        w = tf.get_variable("w", initializer=np.float32([w0, 2]))
        b = tf.get_variable("b", initializer=np.float32([3]))
    x = tf.placeholder(tf.float32, [2])

    def step(x):
        loss = tf.reduce_sum(w * x + b)
        return [tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss]
    return x, on_ipu(step, [x]), w, b


def test_variables_go_to_the_device_once_and_come_back_when_they_are_read(profiled, on_ipu,
                                                                         session):
    profiled(profiling=True)
    x, step, w, b = train(on_ipu)
    report = tu.ReportJSON(CHECK)
    read = trace()
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(read)
        for _ in range(3):
            sess.run(step, {x: [1, 2]})
        report.parse_events(sess.run(read))
        report.assert_host_to_device_event_names(["1.0", "2.0"])
        report.assert_num_host_to_device_transfer_events(1)
        report.assert_device_to_host_event_names([])
        assert report.events[E.HOST_TO_DEVICE_TRANSFER][0]["total_size"] == 12
        vw, vb = sess.run([w, b])
        np.testing.assert_allclose(vw, [0.7, 1.4], rtol=1e-5)
        np.testing.assert_allclose(vb, [2.4], rtol=1e-5)
        types = report.parse_events(sess.run(read))
        assert types == {E.DEVICE_TO_HOST_TRANSFER: 1}
        report.assert_device_to_host_event_names(["out_1.0", "out_2.0"])
        sess.run(step, {x: [1, 2]})  # they have to go there again
        events = sess.run(read)
        assert utils.extract_all_types_from_event_trace(events) == [E.HOST_TO_DEVICE_TRANSFER,
                                                                    E.EXECUTE]
        assert [name for _, name in ipu.events.extract_all_io_events(events)] == ["1.0", "2.0"]


def test_a_variable_that_the_host_writes_goes_to_the_device_again(profiled, on_ipu, session):
    profiled(profiling=True)
    x, step, w, _ = train(on_ipu)
    read = trace()
    assign = w.assign([5, 5])
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step, {x: [1, 2]})
        sess.run(read)
        sess.run(assign)
        sess.run(step, {x: [1, 2]})
        assert utils.extract_all_types_from_event_trace(sess.run(read)) == [
            E.HOST_TO_DEVICE_TRANSFER, E.EXECUTE]


def test_another_program_is_loaded_and_the_variables_come_back(profiled, on_ipu, session):
    profiled(profiling=True)
    x, step, _, _ = train(on_ipu)
    other_x, y = square_sum(on_ipu)
    read = trace()
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step, {x: [1, 2]})
        sess.run(y, {other_x: X})
        sess.run(read)
        sess.run(step, {x: [1, 2]})
        sess.run(y, {other_x: X})
        assert utils.extract_all_types_from_event_trace(sess.run(read)) == [
            E.LOAD_ENGINE, E.HOST_TO_DEVICE_TRANSFER, E.EXECUTE,
            E.DEVICE_TO_HOST_TRANSFER, E.LOAD_ENGINE, E.EXECUTE]


@pytest.mark.parametrize("use", [lambda x, v: x + v, lambda x, v: tf.tanh(x * v) + v],
                         ids=["one operation", "several"])
def test_variables_of_placed_operations_go_to_the_device_once(profiled, session, use):
    profiled(enable_ipu_events=True)
    with tf.device("/device:IPU:0"):
        x = tf.placeholder(tf.float32, [2, 2])
        y = use(x, tf.get_variable("v", initializer=X, use_resource=True))
    report = trace()
    with session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(report)
        for _ in range(3):
            sess.run(y, {x: X})
        events = sess.run(report)
    assert utils.extract_all_types_from_event_trace(events).count(E.EXECUTE) == 3
    # What a program before this one left on the IPU comes back when another is loaded.
    assert [(kind, name) for kind, name in ipu.events.extract_all_io_events(events)
            if kind == E.HOST_TO_DEVICE_TRANSFER] == [(E.HOST_TO_DEVICE_TRANSFER, "1.0")]


def test_a_run_with_an_infeed_is_an_execution(profiled, on_ipu, session):
    profiled(profiling=True)
    data = tf.data.Dataset.from_tensors(np.float32([1, 2])).repeat()
    feed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    total = on_ipu(lambda: ipu.loops.repeat(4, lambda s, x: s + tf.reduce_sum(x), [np.float32(0)],
                                            feed))
    read = trace()
    with session() as sess:
        sess.run(feed.initializer)
        sess.run(read)
        assert sess.run(total) == [12] and sess.run(total) == [12]
        types = utils.extract_all_types_from_event_trace(sess.run(read))
    assert types.count(E.EXECUTE) == 2 and types.count(E.COMPILE_END) == 1


def test_events_follow_what_they_depend_on(profiled, on_ipu, session):
    profiled(profiling=True)
    x, y = square_sum(on_ipu)
    with tf.device("cpu"), tf.control_dependencies([y]):
        read = gen_ipu_ops.ipu_event_trace()
    with session() as sess:
        types = utils.extract_all_types_from_event_trace(sess.run(read, {x: X}))
    assert types[:2] == [E.COMPILE_BEGIN, E.COMPILE_END] and types[-1] == E.EXECUTE


def test_programs_are_compiled_again_when_caches_are_cleared(profiled, on_ipu, session):
    profiled(enable_ipu_events=True)
    x, y = square_sum(on_ipu)
    read = trace()
    clear = gen_ipu_ops.ipu_clear_all_xla_compilation_caches()
    with session() as sess:
        sess.run(y, {x: X})
        sess.run(read)
        sess.run(clear)
        sess.run(y, {x: X})
        assert E.COMPILE_END in utils.extract_all_types_from_event_trace(sess.run(read))


def test_a_summary_holds_events(profiled, on_ipu, session):
    profiled(profiling=True)
    x, y = square_sum(on_ipu)
    summary = ipu.ops.summary_ops.ipu_compile_summary("comp_sum", [y])
    with session() as sess:
        text = sess.run(summary, {x: X})
    value = tf.Summary.FromString(text).value[0]
    assert value.tag.endswith("ipu_trace")
    assert tu.count_ipu_compilations(value.tensor.string_val) == 1


def test_report_json_configures_as_the_first_releases_did(on_ipu, session, profiled):
    del profiled  # which cleans up
    x, y = square_sum(on_ipu)
    with session() as sess:
        report = tu.ReportJSON(CHECK, sess, execution_trace=True)
        report.reset()
        np.testing.assert_allclose(sess.run(y, {x: X}), X @ X + X)
        types = report.parse_log(assert_len=4, assert_msg="engine, begin, end, execute")
    assert types == {E.COMPILE_BEGIN: 1, E.COMPILE_END: 1, E.LOAD_ENGINE: 1, E.EXECUTE: 1}
    with pytest.raises(TypeError, match="no_such"):
        tu.ReportJSON(CHECK, sess, no_such=1)


def test_enabling_events_by_the_protobuf(profiled):
    del profiled
    config = ipu.config.IPUConfig()
    tu.enable_ipu_events(config)
    options = config._create_protobuf()
    assert options.profiling.enable_ipu_trace_events and options.profiling.enable_io_trace
    options.profiling.enable_io_trace = False
    again = config_pb2.IpuOptions.FromString(options.SerializeToString())
    assert again.profiling.enable_compilation_trace and not again.profiling.enable_io_trace
    with pytest.raises(AttributeError, match="_profiling"):
        again.profiling.no_such


def test_the_protobuf_has_the_public_numbers():
    event = E(timestamp=1.5, ordinal=2, type=E.COMPILE_END)
    event.compile_end.duration = 3
    event.compile_end.module_name = b"m"
    # Timestamp 1 (fixed64), ordinal 2, type 3, then message 6 with fields 1 and 2.
    assert event.SerializeToString() == (b"\x09" + np.float64(1.5).tobytes() + b"\x10\x02\x18\x01"
                                         b"\x32\x05\x08\x03\x12\x01m")
    assert (E.COMPILE_BEGIN, E.EXECUTE) == (0, 5) and E.Type.Name(4) == "LOAD_ENGINE"


def test_eager_mode(script):
    done = script("""
        import unittest, tensorflow as tf
        from tensorflow.python import ipu
        from tensorflow.python.ipu import test_utils as tu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        tu.enable_ipu_events(config)
        config.configure_ipu_system()
        report = tu.ReportJSON(unittest.TestCase(), eager_mode=True)
        report.reset()
        product = tf.function(lambda x: tf.matmul(x, x))
        x = tf.ones([2, 2])
        with tf.device("/device:IPU:0"):
            product(x), product(x)
        _, events = report.get_ipu_events()
        print([event.type for event in events], report.get_event_trace().shape)
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str([E.COMPILE_BEGIN, E.COMPILE_END, E.LOAD_ENGINE,
                                                E.EXECUTE, E.EXECUTE]) + " (0,)"
