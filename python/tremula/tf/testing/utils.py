"""Helpers that tests of IPU programs import (`tensorflow.python.ipu.test_utils`, before SDK 2.2
`tensorflow.compiler.plugin.poplar.tests.test_utils`).

ReportHelper finds profiles, ReportJSON reads events (docs/events.md).
"""

import contextlib
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

# What is only imported is shown here too.
from tremula.tf.ipu.events import enable_ipu_events  # noqa: F401
from tremula.tf.ipu.utils import move_variable_initialization_to_cpu  # noqa: F401
from tremula.tf.plugin.poplar.driver.trace_pb2 import IpuTraceEvent
from tremula.tf.testing.case_extensions import TestCaseExtensions  # noqa: F401  (of all tests)
from tremula.tf.testing.ipus import (  # noqa: F401
    add_hw_ci_connection_options, compute_device_count, get_ci_num_ipus, has_ci_ipus,
    skip_if_not_enough_ipus, skip_on_hw, skip_on_hw_with_reason, skip_with_asan,
    test_may_use_ipus_or_model, test_uses_ipus)
from tremula.tf.testing.reports import (  # noqa: F401
    ReportJSON, TensorMap, configure_ipu_system, count_matches_in_list,
    items_matching_at_least_one_pattern,
    missing_names_in_whitelist_entries, missing_whitelist_entries_in_names, names_in_blacklist)


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
    """Elements 0, 1, ... `value` - 1: each a tensor of every shape in `shapes` and type in `dtypes`
    that is filled with the number; over and over if `repeat`. Raises no error for lists of two
    lengths: the shorter one counts."""
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
    """create_multi_increasing_dataset() with pairs (data, label), of the given shapes and type.
    Raises TypeError for a `dtype` that is none."""
    return create_multi_increasing_dataset(
        value, [data_shape or [1, 32, 32, 4], label_shape or [1, 8]], [dtype, dtype], repeat)


def create_single_increasing_dataset(value, shape=None, dtype=np.float32, repeat=True):
    """create_multi_increasing_dataset() with one tensor of the given shape and type, in a tuple.
    Raises TypeError for a `dtype` that is none."""
    return create_multi_increasing_dataset(
        value, [shape if shape is not None else [1, 32, 32, 4]], [dtype], repeat)


# ---- events and profiles ----

def count_ipu_compilations(events):
    """How many of serialised events are compilations that have a report."""
    return sum(event.type == IpuTraceEvent.COMPILE_END
               and bool(event.compile_end.compilation_report)
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
        """The paths of the profiles, the oldest first."""
        files = pathlib.Path(self._directory).glob("tf_report_*/*.pop")
        return [str(path) for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)]

    def find_report(self):
        """The path of the one profile. Raises AssertionError if there is none, or if there are
        more, RuntimeError if no configuration has the options."""
        reports = self.find_reports()
        if not reports and not self._is_set:
            raise RuntimeError("To use this helper you must setup the poplar autoReport options "
                               "with set_autoreport_options.")
        if len(reports) != 1:
            raise AssertionError(f"Expected 1 report but found {len(reports)} in "
                                 f"{self._directory}.")
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
