"""Helpers that tests of IPU programs import (`tensorflow.python.ipu.test_utils`, before SDK 2.2
`tensorflow.compiler.plugin.poplar.tests.test_utils`).

Tremula records no events, so what a test asks of them is refused by name; ReportHelper finds the
profiles, which take their place.
"""

import collections
import contextlib
import fnmatch
import functools
import os
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.ipu import utils
from tremula.tf.ipu.config import IPUConfig
from tremula.tf.ipu.utils import move_variable_initialization_to_cpu  # noqa: F401  (shown here too)
from tremula.tf.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
from tremula.tf.plugin.poplar.ops import gen_ipu_ops

_MAY_USE = "TF_IPU_COUNT"


# ---- sessions ----

def compute_device_count(pipelining=False, sharded=False, replicated=False):
    """The number of IPUs that the kind of a test asks for; 0 for "one, in any way"."""
    count = 2 if sharded else 4 if pipelining else 0
    if replicated:
        return 2 * count or 2
    return count


@contextlib.contextmanager
def ipu_session(disable_grappler_optimizers=None):
    """A session; `disable_grappler_optimizers` lists fields of RewriterConfig that are set to
    OFF."""
    config = tf.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    for name in disable_grappler_optimizers or []:
        if not hasattr(rewriting, name):
            raise ValueError(f"Grappler has no optimizer {name!r}.")
        setattr(rewriting, name, type(rewriting).OFF)
    with tf.Session(config=config) as session:
        yield session


# ---- datasets ----

def create_multi_increasing_dataset(value, shapes=None, dtypes=None, repeat=True):
    """Elements 0, 1, ... `value` - 1: each a tensor of every shape that is filled with the number;
    over and over if `repeat`."""
    shapes = shapes or [[1, 32, 32, 4], [1, 8]]
    dtypes = dtypes or [np.float32, np.float32]

    def element(number):
        # A list would be stacked to one tensor.
        return tuple(tf.cast(tf.broadcast_to(number, shape), dtype)
                     for shape, dtype in zip(shapes, dtypes))

    dataset = tf.data.Dataset.range(value).map(element)
    return dataset.repeat() if repeat else dataset


def create_dual_increasing_dataset(value, data_shape=None, label_shape=None, dtype=np.float32,
                                   repeat=True):
    """The same with pairs (data, label)."""
    return create_multi_increasing_dataset(
        value, [data_shape or [1, 32, 32, 4], label_shape or [1, 8]], [dtype, dtype], repeat)


def create_single_increasing_dataset(value, shape=None, dtype=np.float32, repeat=True):
    """The same with one tensor, in a tuple."""
    return create_multi_increasing_dataset(
        value, [shape if shape is not None else [1, 32, 32, 4]], [dtype], repeat)


# ---- how many IPUs ----

def get_ci_num_ipus():
    """How many IPUs tests may use: the variable TF_IPU_COUNT, without it 0."""
    return int(os.environ.get(_MAY_USE, 0))


def has_ci_ipus():
    """Whether tests may use IPUs."""
    return get_ci_num_ipus() > 0


def add_hw_ci_connection_options(opts):
    """Makes the configuration attach to its IPUs when they are used; returns it, as the functions
    of the first releases do."""
    if isinstance(opts, IPUConfig):
        opts.device_connection.type = utils.DeviceConnectionType.ON_DEMAND
        opts.device_connection.enable_remote_buffers = True
        return opts
    return utils.set_ipu_connection_type(opts, utils.DeviceConnectionType.ON_DEMAND,
                                         enable_remote_buffers=True)


def test_uses_ipus(num_ipus, allow_ipu_model=False, func=None):
    """A decorator: the test is skipped where there are fewer IPUs, unless it may run on the IPU
    Model."""
    def decorate(function):
        @functools.wraps(function)
        def decorated(self, *args, **kwargs):
            if not allow_ipu_model:
                skip_if_not_enough_ipus(self, num_ipus)
            if get_ci_num_ipus() >= num_ipus > 0 and utils.running_on_ipu_model():
                raise AssertionError("Do not set use_ipu_model when running HW tests.")
            return function(self, *args, **kwargs)
        return decorated
    return decorate if func is None else decorate(func)


def test_may_use_ipus_or_model(num_ipus, func=None):
    """The decorator for a test that may run on the IPU Model."""
    return test_uses_ipus(num_ipus, True, func)


# Not tests of their own, whatever pytest takes their names for.
test_uses_ipus.__test__ = test_may_use_ipus_or_model.__test__ = False


def skip_on_hw(func):
    """A decorator: the test is skipped where there are IPUs."""
    return skip_on_hw_with_reason("Skipping test on HW")(func)


def skip_on_hw_with_reason(reason):
    """The same with a reason."""
    return _skip_if(has_ci_ipus, reason)


def skip_with_asan(reason):
    """A decorator: the test is skipped under the address sanitizer."""
    return _skip_if(lambda: "ASAN_OPTIONS" in os.environ, reason)


def skip_if_not_enough_ipus(self, num_ipus):
    """Skips the test `self` where there are fewer IPUs."""
    available = get_ci_num_ipus()
    if available < num_ipus:
        self.skipTest(f"Requested {num_ipus} IPUs, but only {available} are available.")


def _skip_if(condition, reason):
    def decorate(function):
        @functools.wraps(function)
        def decorated(self, *args, **kwargs):
            if condition():
                self.skipTest(reason)
            return function(self, *args, **kwargs)
        return decorated
    return decorate


# ---- names ----

def items_matching_at_least_one_pattern(items, patterns):
    """Those of `items` that begin as one of the patterns."""
    return [one for one in items if any(fnmatch.fnmatch(one, p + "*") for p in patterns)]


def names_in_blacklist(names, blacklist):
    """Those of `names` that begin as one of the list."""
    return items_matching_at_least_one_pattern(names, blacklist)


def missing_names_in_whitelist_entries(names, whitelist):
    """Those of `names` that contain none of the list."""
    return [name for name in names
            if name and not any(fnmatch.fnmatch(name, f"*{p}*") for p in whitelist)]


def missing_whitelist_entries_in_names(names, whitelist):
    """Patterns of the list that are in none of the names."""
    return [f"*{p}*" for p in whitelist
            if not any(fnmatch.fnmatch(name, f"*{p}*") for name in names)]


def count_matches_in_list(input_list, to_match):
    """How many of the list the pattern fits."""
    return sum(fnmatch.fnmatch(one, to_match) for one in input_list)


# ---- events and profiles ----

def enable_ipu_events(ipu_config):
    """Does nothing: no events are recorded, whatever a configuration says."""
    del ipu_config


def count_ipu_compilations(events):
    """How many of serialised events are compilations that have a report."""
    return sum(event.type == IpuTraceEvent.COMPILE_END and bool(event.compilation_report)
               for event in map(IpuTraceEvent.FromString, events))


class ReportHelper:
    """A folder of its own for profiles, which goes with this object."""

    def __init__(self):
        self._directory = tempfile.mkdtemp(prefix="tf_")
        self._is_set = False

    def __del__(self):
        self.clear_reports()

    def set_autoreport_options(self, cfg, *, output_graph_profile=True,
                               output_execution_profile=False, max_execution_reports=1000):
        """Makes programs of the IPUConfig `cfg` write their profiles into the folder."""
        self._is_set = True
        cfg.compilation_poplar_options = {
            "autoReport.directory": self._directory,
            "autoReport.outputGraphProfile": str(output_graph_profile).lower(),
            "autoReport.outputExecutionProfile": str(output_execution_profile).lower(),
            "autoReport.executionProfileProgramRunCount": str(max_execution_reports)}

    def find_reports(self):
        """The paths of the profiles, the oldest first. Raises RuntimeError if no configuration has
        the options."""
        if not self._is_set:
            raise RuntimeError("To use this helper you must setup the poplar autoReport options "
                               "with set_autoreport_options.")
        files = pathlib.Path(self._directory).glob("tf_report_*/*.pop")
        return [str(path) for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)]

    def find_report(self):
        """The path of the one profile. Raises IOError if there is none, or if there are more."""
        reports = self.find_reports()
        if len(reports) != 1:
            raise IOError(f"{len(reports)} reports are in {self._directory}, not one.")
        return reports[0]

    @property
    def num_reports(self):
        """How many profiles there are."""
        return len(self.find_reports())

    def assert_num_reports(self, n):
        """Raises AssertionError unless there are `n` profiles."""
        if self.num_reports != n:
            raise AssertionError(f"Expected {n} reports, but there are {self.num_reports}.")

    def clear_reports(self):
        """Deletes the profiles."""
        for path in pathlib.Path(self._directory).glob("*"):
            shutil.rmtree(path, ignore_errors=True)


class ReportJSON:
    """Reads events of a session, of which there are none: methods that look into one raise
    NotImplementedError."""

    def __init__(self, test, sess=None, eager_mode=False, **kwargs):
        if eager_mode and sess:
            raise ValueError("Sessions can't be used in eager mode")
        if kwargs:
            raise NotImplementedError(
                f"ReportJSON({sorted(kwargs)[0]}=...) configured the IPU system in SDK 2.0 and "
                "before: do it with an IPUConfig.")
        self.test = test
        self.sess = sess
        self.eager_mode = eager_mode
        self.report = None
        if sess:
            self.create_ipu_event_trace()

    def create_ipu_event_trace(self):
        """Adds the operation that reads the events."""
        with tf.device("cpu"):
            self.report = gen_ipu_ops.ipu_event_trace()

    def reset(self):
        """Forgets the events so far."""
        self.get_event_trace()

    def get_event_trace(self, session=None):
        """The serialised events since the last call."""
        if self.eager_mode:
            self.create_ipu_event_trace()
            return self.report
        if self.report is None:
            raise RuntimeError("There is no ipu_event_trace(): hand a session to ReportJSON.")
        return (session or self.sess).run(self.report)

    def get_events_from_log(self, log):
        """(how many there are of each type, the IpuTraceEvents)."""
        events = [IpuTraceEvent.FromString(one.numpy() if hasattr(one, "numpy") else one)
                  for one in log]
        return collections.Counter(event.type for event in events), events

    def get_ipu_events(self, session=None):
        """The same of the events since the last call."""
        return self.get_events_from_log(self.get_event_trace(session))

    def assert_no_event(self, msg=""):
        """Fails the test if there are events since the last call."""
        types, _ = self.get_ipu_events()
        self.test.assertFalse(types, msg)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(
            f"ReportJSON.{name} reads events, and Tremula records none: let ReportHelper have "
            "profiles written, and read those.")
