"""What the original's tests assert of profiles: methods of every TensorFlowTestCase, as soon as
`test_utils` is imported.

`report` is what pva.openReport() gives, patterns are those of fnmatch. Numbers are compared with a
tolerance, a part of what is expected.
"""

import fnmatch
import functools
import itertools

import pva
import tensorflow.compat.v1 as tf

from tremula.tf.inner import patches

# Compute sets that every program may have.
_COMMON = ("*__seed*", "*host-exchange-*", "*[cC]opy_*")


class TestCaseExtensions:
    """The methods. They fail the test."""

    __test__ = False

    def _assert_all_in_tolerance(self, actual, expected, tolerance=0.001):
        self.assertAllInRange(actual, int(expected * (1 - tolerance)),
                              int(expected * (1 + tolerance)))

    # ---- Compute sets ----

    def assert_all_compute_sets_and_list(self, report, ok, ignore_common=True):
        """Each pattern is in the name of a compute set, and each compute set, unless it is one that
        every program may have, has a pattern."""
        patterns = _inside(ok)
        allowed = [*patterns, *(_COMMON if ignore_common else ())]
        names = _compute_sets(report)
        more = [name for name in names if not _fits_any(name, allowed)]
        self.assertFalse(_unmatched(patterns, names) + more, _difference(
            names, ok, f"patterns that are in no compute set: {_unmatched(patterns, names)}; "
            f"compute sets without a pattern: {more}"))

    def assert_compute_sets_contain_list(self, report, ok):
        """Each pattern is in the name of a compute set."""
        names = _compute_sets(report)
        missing = _unmatched(_inside(ok), names)
        self.assertFalse(missing, _difference(names, ok, f"in no compute set: {missing}"))

    def assert_compute_sets_not_in_blacklist(self, report, blacklist):
        """No pattern is in the name of a compute set."""
        names = _compute_sets(report)
        found = [one for one in _inside(blacklist) if any(fnmatch.fnmatch(n, one) for n in names)]
        self.assertFalse(found, _difference(names, blacklist, f"in a compute set: {found}"))

    def assert_compute_sets_matches(self, report, expr, num_matches, msg=None):
        """The pattern fits so many compute sets."""
        self.assertEqual(sum(fnmatch.fnmatch(name, expr) for name in _compute_sets(report)),
                         num_matches, msg)

    def assert_vertices_contain_list(self, report, ok):
        """Each pattern is in the name of a codelet."""
        names = sorted({vertex.type.name for one in report.compilation.computeSets
                        for vertex in one.vertices})
        missing = _unmatched(_inside(ok), names)
        self.assertFalse(missing, f"In no codelet: {missing}. There are: {names}")

    # ---- Memory ----

    def assert_each_tile_memory_is_less_than(self, report, max_expected, tolerance=0.01):
        """No tile has more bytes, gaps aside."""
        self.assertAllInRange(_tile_bytes(report), 0, int(max_expected * (1 + tolerance)))

    def assert_total_tile_memory(self, report, expected, tolerance=0.01):
        """So many bytes on all tiles, gaps aside."""
        self._assert_all_in_tolerance([sum(_tile_bytes(report))], expected, tolerance)

    def assert_max_tile_memory(self, report, expected, tolerance=0.01):
        """So many bytes on the fullest tile, gaps aside."""
        self._assert_all_in_tolerance([max(_tile_bytes(report))], expected, tolerance)

    def assert_always_live_memory(self, report, expected, tolerance=0.01):
        """So many bytes on all tiles that are always live."""
        self._assert_all_in_tolerance(
            [sum(tile.memory.alwaysLiveBytes for tile in report.compilation.tiles)], expected,
            tolerance)

    # ---- Runs ----

    def assert_num_reports(self, report_helper, n):
        """The ReportHelper finds so many profiles."""
        self.assertLen(report_helper.find_reports(), n)

    def assert_number_of_executions(self, report, n):
        """The profile has so many runs."""
        self.assertLen(report.execution.runs, n)

    def assert_execution_report_cycles(self, report, *values, idx=None, expected=None,
                                       tolerance=None, expected_executions=1):
        """assert_execution_report_cycles(report, expected, tolerance=0.01, expected_executions=1):
        all runs, of which there are so many, together take so many cycles. As in the first of these
        tests (report, idx, expected, tolerance=0.01): the run of that number does."""
        values = list(values)
        if idx is None and len(values) > 1 and values[1] > 1 or values and expected is not None:
            idx = values.pop(0)  # a tolerance is not more than 1
        if expected is None:
            if not values:
                raise TypeError("assert_execution_report_cycles() needs the expected cycles.")
            expected = values.pop(0)
        if values:
            tolerance = values.pop(0)
        if idx is not None:
            total = sum(step.ipus[0].cycles for step in report.execution.runs[idx].steps)
        else:
            self.assert_number_of_executions(report, *(values or [expected_executions]))
            total = report.execution.totalCycles.total
        self._assert_all_in_tolerance([total], expected, 0.01 if tolerance is None else tolerance)

    def assert_compute_io_overlap_percentage(self, report, p):
        """More than the part `p` of the first run's computing, or of its streaming, happens at the
        same time as the other."""
        computing, streaming = [], []
        for step in report.execution.runs[0].steps:
            when = step.ipus[0].activeCycles
            step.program.accept(_Intervals((when.cyclesFrom.max, when.cyclesTo.max), computing,
                                           streaming))
        overlap = sum(max(0, min(a[1], b[1]) - max(a[0], b[0]))
                      for a, b in itertools.product(computing, streaming))
        shares = [overlap / total for total in (sum(end - begin for begin, end in one)
                                                for one in (computing, streaming)) if total]
        self.assertGreater(max(shares, default=0), p)

    def assert_global_exchange_percentage(self, report, p):
        """Exchanges between IPUs take at most the part `p` of the first run's cycles. A profile of
        no run, or of one without cycles, fails."""
        self.assertTrue(report.execution.runs, "The profile has no run.")
        exchanging, total = [], 0
        for step in report.execution.runs[0].steps:
            when = step.ipus[0].activeCycles
            interval = (when.cyclesFrom.max, when.cyclesTo.max)
            total += interval[1] - interval[0]
            step.program.accept(_Intervals(interval, [], [], exchanging))
        spent = sum(end - begin for begin, end in exchanging)
        self.assertGreater(total, 0, "The first run of the profile took no cycles.")
        self.assertLessEqual(spent / total, p)


class _Intervals(pva.ProgramVisitor):
    """Sorts the interval of a step by the kind of its program."""

    def __init__(self, interval, computing, streaming, exchanging=None):
        super().__init__()
        self._interval = interval
        self._computing, self._streaming = computing, streaming
        self._exchanging = exchanging if exchanging is not None else []

    def visitOnTileExecute(self, _):
        self._computing.append(self._interval)

    def visitStreamCopyMid(self, _):
        self._streaming.append(self._interval)

    def visitGlobalExchange(self, _):
        self._exchanging.append(self._interval)


def _compute_sets(report):
    return [one.name for one in report.compilation.computeSets]


def _tile_bytes(report):
    return [tile.memory.total.excludingGaps for tile in report.compilation.tiles]


def _inside(patterns):
    return [f"*{one}*" for one in patterns]


def _fits_any(name, patterns):
    return any(fnmatch.fnmatch(name, one) for one in patterns)


def _unmatched(patterns, names):
    return [one for one in patterns if not any(fnmatch.fnmatch(name, one) for name in names)]


def _difference(names, patterns, what):
    there = "\n\t".join(names)
    return f"{what}\nCompute sets:\n\t{there}\nPatterns: {list(patterns)}"


# ---- Which test has configured the system ----

_made_by_test = None  # the configuration that a test made which is over


def is_of_earlier_test(test):
    """Whether the configuration in force was there when `test` began, and a test before it has made
    it, or it records no events."""
    from tremula.tf.ipu import config
    now = config._current
    if not hasattr(test, "_configuration_before"):  # not a test of unittest's
        return now is not None and now is _made_by_test
    return now is not None and now is test._configuration_before and (
        now is _made_by_test or not config._records_events(now))


def _noting_configurations(original):
    @functools.wraps(original)
    def run(self, *args, **kwargs):
        global _made_by_test
        from tremula.tf.ipu import config
        self._configuration_before = config._current
        try:
            return original(self, *args, **kwargs)
        finally:
            if config._current is not self._configuration_before:
                _made_by_test = config._current
    return run


# Not setUp: tests override that, and need not call it.
patches.add_test_methods({
    "run": _noting_configurations(tf.test.TestCase.run),
    **{name: method for name, method in vars(TestCaseExtensions).items()
       if not name.startswith("__")}})
