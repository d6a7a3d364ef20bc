"""Processes that were forked from one that had used TensorFlow.

They have none of the threads of TensorFlow and of the IPUs that their parent has started, and would
wait for them: once the parent had made TensorFlow's devices, a forked process is refused the IPUs,
by sessions, functions and single operations. The CPU is left to TensorFlow.
"""

import functools
import os

from tremula.tf.inner import errors

_had_devices = False  # in the parent: this process was forked, and its parent had made devices
_has_devices = []  # before a fork: whether that is so


def install(forget_threads):
    """Watches forks, and calls forget_threads() in every forked process."""
    def begin():
        global _had_devices
        if any(_has_devices) and not _had_devices:
            _had_devices = True
            _check_eager_operations()
        forget_threads()

    os.register_at_fork(before=_note_devices, after_in_child=begin)


def _note_devices():
    from tensorflow.python.eager import context
    from tremula.tf.runtime import host_calls, plugin
    _has_devices[:] = [
        host_calls.had_sessions() or plugin.library().trm_tf_programs_built() > 0
        or getattr(context.context(), "_context_handle", None) is not None]


def refuse(devices):
    """In such a process, raises FailedPreconditionError where a device of `devices()` is an IPU."""
    if _had_devices and any("IPU" in device for device in devices()):
        raise errors.failed_precondition(
            "This process was forked from one that had made sessions or run programs or eager "
            "operations: the threads of TensorFlow and of the IPUs are not in it, and what uses "
            "IPUs would wait for them for ever. Fork before TensorFlow is first used, or start "
            "processes with multiprocessing.get_context('spawn').")


# ---- Eager operations: nobody looks at them in other processes ----

def _check_eager_operations():
    """Makes all that puts values on an IPU, or reads them there, call refuse()."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context
    from tensorflow.python.framework import constant_op, ops

    def present():
        return [context.context().device_name or ""]

    def of_values(*values):
        return [one.device for one in _flat(values) if isinstance(one, ops.EagerTensor)]

    tensor = next(one for one in ops.EagerTensor.__mro__ if "_numpy" in vars(one))
    for owner, name, devices in (
            (pywrap_tfe, "TFE_Py_FastPathExecute",
             lambda _, __, *values: present() + of_values(*values)),
            (pywrap_tfe, "TFE_Py_Execute",
             lambda _, device, __, values, *___: [device or present()[0], *of_values(values)]),
            (constant_op, "convert_to_eager_tensor", lambda *_: present()),
            (tensor, "_numpy", of_values),
            (tensor, "_copy", lambda self, _=None, device="": of_values(self) + [device or ""])):
        setattr(owner, name, _checked(getattr(owner, name), devices))


def _checked(call, devices):
    @functools.wraps(call)
    def checked(*arguments, **keywords):
        refuse(lambda: devices(*arguments))
        return call(*arguments, **keywords)
    return checked


def _flat(values):
    for one in values:
        if isinstance(one, (list, tuple)):
            yield from one
        else:
            yield one
