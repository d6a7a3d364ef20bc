"""Processes that were forked from one that had used TensorFlow.

A forked process does not have the threads that its parent has started for TensorFlow and the IPUs,
and would block. So a process whose parent had made TensorFlow's devices is refused the IPUs: in
sessions, functions and single operations. TensorFlow still decides what the CPU does there.
"""

import os

from tremula.tf.inner import eager, errors, patches
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.host import host_calls

_had_devices = False  # in the parent: this process was forked, and its parent had made devices
_has_devices = []  # before a fork: whether that is so


def install(forget_threads):
    """Watches forks, and calls forget_threads() in every forked process."""
    def begin():
        global _had_devices
        if any(_has_devices) and not _had_devices:
            _had_devices = True
            patches.before_eager_operations(refuse)
        forget_threads()

    os.register_at_fork(before=_note_devices, after_in_child=begin)


def _note_devices():
    _has_devices[:] = [
        host_calls.had_sessions() or plugin.library().trm_tf_units_built() > 0
        or eager.has_devices()]


def refuse(devices):
    """In such a process, raises FailedPreconditionError where a device of `devices()` is an IPU."""
    if _had_devices and any("IPU" in device for device in devices()):
        raise errors.failed_precondition(
            "This process was forked from one that had made sessions or run programs or eager "
            "operations: the threads of TensorFlow and of the IPUs are not in it, and what uses "
            "IPUs would wait for them for ever. Fork before TensorFlow is first used, or start "
            "processes with multiprocessing.get_context('spawn').")
