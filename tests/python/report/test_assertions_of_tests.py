"""The assertions about profiles that `test_utils` gives to every test of TensorFlow's kind."""

import types

import numpy as np
import pva
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.framework import test_util
from tensorflow.python.ipu import test_utils as tu


class Case(test_util.TensorFlowTestCase):
    __test__ = False

    def runTest(self):
        pass


@pytest.fixture(scope="module")
def profile():
    """The profile of two runs of a layer with its update, and the helper that found it."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    helper = tu.ReportHelper()
    helper.set_autoreport_options(config, output_execution_profile=True)
    config.configure_ipu_system()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float16, [32, 32])

        def network(x):
            with tf.variable_scope("layer", use_resource=True):
                w = tf.get_variable("w", [32, 32], tf.float16, tf.ones_initializer())
            y = tf.nn.conv2d(x[None, :, :, None], tf.ones([3, 3, 1, 2], tf.float16), 2, "SAME",
                             name="window")
            first = tf.matmul(x, w, name="product")
            return [y, tf.nn.relu(first, name="bend"), x - 1, tf.less(first, x, name="smaller"),
                    w.assign_add(first)]

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            result = ipu.ipu_compiler.compile(network, [x])
        session.run(tf.global_variables_initializer())
        helper.clear_reports()
        for _ in range(2):
            session.run(result, {x: np.ones([32, 32])})
    yield pva.openReport(helper.find_report()), helper
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()


def test_compute_sets_have_poplars_names(profile):
    Case().assert_compute_sets_contain_list(profile[0], [
        "product/*/Conv_1/Convolve", "window/*/Conv_3x3_stride2x2/Convolve",
        "bend/*/Nonlinearity", "sub/*/Op/Subtract", "smaller/*/Op/LessThan", "/Op/Add"])


def test_compute_sets(profile):
    case, report = Case(), profile[0]
    names = [one.name for one in report.compilation.computeSets]
    case.assert_all_compute_sets_and_list(report, names)
    case.assert_compute_sets_matches(report, "*/Conv_1/Convolve", 1)
    case.assert_compute_sets_not_in_blacklist(report, ["Divide"])
    case.assert_vertices_contain_list(report, ["poplin::ConvPartial"])
    own = next(name for name in names if "Conv_1" in name)
    for fails in (lambda: case.assert_all_compute_sets_and_list(
                      report, [name for name in names if name != own]),
                  lambda: case.assert_all_compute_sets_and_list(report, [*names, "no_such"]),
                  lambda: case.assert_compute_sets_contain_list(report, ["no_such"]),
                  lambda: case.assert_compute_sets_matches(report, "*/Conv_1/Convolve", 2),
                  lambda: case.assert_compute_sets_not_in_blacklist(report, ["Conv_1"]),
                  lambda: case.assert_vertices_contain_list(report, ["no_such"])):
        with pytest.raises(AssertionError):
            fails()


def test_memory_and_cycles(profile):
    case, (report, helper) = Case(), profile
    tiles = report.compilation.tiles
    total = sum(tile.memory.total.excludingGaps for tile in tiles)
    most = max(tile.memory.total.excludingGaps for tile in tiles)
    always = sum(tile.memory.alwaysLiveBytes for tile in tiles)
    cycles = report.execution.totalCycles.total
    case.assert_total_tile_memory(report, total)
    case.assert_max_tile_memory(report, most)
    case.assert_always_live_memory(report, always)
    case.assert_each_tile_memory_is_less_than(report, most)
    case.assert_num_reports(helper, 1)
    case.assert_number_of_executions(report, 2)
    case.assert_execution_report_cycles(report, cycles, expected_executions=2)
    case.assert_execution_report_cycles(report, cycles, 0.01, 2)
    case.assert_execution_report_cycles(report, expected=cycles, expected_executions=2)
    first = sum(step.ipus[0].cycles for step in report.execution.runs[0].steps)
    case.assert_execution_report_cycles(report, 0, first)
    case.assert_execution_report_cycles(report, 0, first, 0.001)
    case.assert_execution_report_cycles(report, idx=0, expected=first)
    case.assert_global_exchange_percentage(report, 0.0)
    for fails in (lambda: case.assert_total_tile_memory(report, 2 * total),
                  lambda: case.assert_max_tile_memory(report, most, tolerance=-1),
                  lambda: case.assert_always_live_memory(report, 0),
                  lambda: case.assert_each_tile_memory_is_less_than(report, most // 2),
                  lambda: case.assert_num_reports(helper, 2),
                  lambda: case.assert_execution_report_cycles(report, cycles),
                  lambda: case.assert_execution_report_cycles(report, 0, 2 * first),
                  lambda: case.assert_execution_report_cycles(report, 2 * cycles, 0.01, 2),
                  lambda: case.assert_compute_io_overlap_percentage(report, 1.0)):
        with pytest.raises(AssertionError):
            fails()


@pytest.mark.parametrize("runs, words", [
    ([], "no run"), ([types.SimpleNamespace(steps=[])], "took no cycles")])
def test_exchanges_of_nothing(runs, words):
    case = Case()
    report = types.SimpleNamespace(execution=types.SimpleNamespace(runs=runs))
    with pytest.raises(AssertionError, match=words):
        case.assert_global_exchange_percentage(report, 1.0)


@pytest.mark.parametrize("method", ["SUM", "MEAN", "RUNNING_MEAN"])
def test_sums_of_mini_batches_have_the_originals_name(method, devices):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    helper = tu.ReportHelper()
    helper.set_autoreport_options(config)
    config.configure_ipu_system()
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def first(x):
        return x * tf.get_variable("w", initializer=1.0)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(lambda: ipu.pipelining_ops.pipeline(
            [first, lambda x: x + 1.0], 4, inputs=[3.0], outfeed_queue=outfeed,
            accumulate_outfeed=True, reduction_method=method,
            optimizer_function=lambda x: ipu.pipelining_ops.OptimizerFunctionOutput(
                tf.train.GradientDescentOptimizer(0.1), x)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        helper.clear_reports()
        session.run(program)
    devices(1)
    Case().assert_compute_sets_contain_list(pva.openReport(helper.find_report()), [
        "GradientAccumulatorAddWithScale/", "GradientAccumulatorAddWithScale_1/"])


def test_a_helper_without_profiles():
    helper = tu.ReportHelper()
    assert helper.find_reports() == []
    with pytest.raises(RuntimeError, match="set_autoreport_options"):
        helper.find_report()
    helper.set_autoreport_options(ipu.config.IPUConfig())
    with pytest.raises(AssertionError, match="Expected 1 report but found 0"):
        helper.find_report()


@pytest.mark.parametrize("ipus", [1, 2])
@pytest.mark.parametrize("tiles", [0, 8])
def test_transfers_overlap_on_io_tiles(ipus, tiles, devices):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.io_tiles.num_io_tiles = tiles
    config.io_tiles.place_ops_on_io_tiles = tiles > 0
    helper = tu.ReportHelper()
    helper.set_autoreport_options(config, output_execution_profile=True)
    config.configure_ipu_system()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensors(np.ones([8, 512], np.float32)).repeat())
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def square(x):
        return tf.matmul(x, x, transpose_b=True)

    def network():
        if ipus == 1:
            return ipu.loops.repeat(16, lambda x: outfeed.enqueue(square(x)), [], infeed)
        return ipu.pipelining_ops.pipeline(
            [square, square], 16, infeed_queue=infeed, outfeed_queue=outfeed,
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(network)
    with tf.Session() as session:
        session.run(infeed.initializer)
        helper.clear_reports()
        session.run(program)
    devices(1)
    report = pva.openReport(helper.find_report())
    if tiles > 0:
        Case().assert_compute_io_overlap_percentage(report, 0.6)
    else:
        with pytest.raises(AssertionError, match=r"^0(\.0)? not greater than 0\.6"):
            Case().assert_compute_io_overlap_percentage(report, 0.6)
