"""Ends sessions that wait for a worker that has died.

A collective of TensorFlow in a session does not end when a worker has died, unless the worker's
server dies in the middle of an answer. So while a session of a cluster runs, a thread checks
whether the other workers' servers accept connections. A server that did and no longer does is gone.
Runs that need its worker end with an error that names the worker. They end after some seconds,
because the worker may have finished its part of the run.
"""

import socket
import threading
import time
import weakref

import tensorflow as tf

from tremula.tf.inner import patches
from tremula.tf.runtime.host import host_calls

_LOOK = 1.0  # seconds between looks
_PATIENCE = 6.0  # seconds that a run may go on without the worker
_CONNECT = 3.0  # seconds for a connection
_LOOKS_AT_ERROR = 3

# Errors that a lost worker may cause. Hooks of sessions try again after the first two, and would
# wait without an end.
_SUSPICIOUS = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)

_lock = threading.Lock()
_addresses = {}  # task's name: its address, for the workers besides this one
_seen = set()  # of those, the ones that have been there
_runs = {}  # thread: _Run, for sessions of clusters
_ended = weakref.WeakSet()  # sessions
_wake = threading.Event()
_thread = None


class _Run:
    """A session.run in progress: what it fetches, and the worker because of which it was ended."""

    def __init__(self, session, operations):
        self.session, self.operations = session, operations
        self.since = {}  # worker: when it was found gone
        self.ended_for = None


def watch(cluster, task_type, task_id):
    """Watches the workers of a cluster, {"worker": [addresses]}, besides this one. The first call
    starts the thread."""
    global _thread
    others = {f"/job:{job}/replica:0/task:{number}": address
              for job in ("chief", "worker") for number, address in enumerate(cluster.get(job, ()))
              if (job, number) != (task_type, task_id)}
    with _lock:
        _addresses.update(others)
        if _thread is None:
            patches.wrap_session(run=_watched)
            _thread = threading.Thread(target=_look_for_ever, name="workers", daemon=True)
            _thread.start()


def _watched(run):
    def run_watched(self, handle, target_list, fetch_list, *arguments, **keywords):
        if not getattr(self, "sess_str", None):
            return run(self, handle, target_list, fetch_list, *arguments, **keywords)
        own = _Run(self, [*target_list, *(one.op for one in fetch_list)])
        key = object()
        with _lock:
            _runs[key] = own
        _wake.set()
        try:
            return run(self, handle, target_list, fetch_list, *arguments, **keywords)
        except tf.errors.OpError as error:
            if own.ended_for is None and isinstance(error, _SUSPICIOUS):
                own.ended_for = _find_gone()
            if own.ended_for is None:
                raise
            raise _error(own.ended_for) from error
        finally:
            with _lock:
                del _runs[key]
    return run_watched


def _error(worker):
    return tf.errors.InternalError(None, None, (
        f"The worker {worker} ({_addresses[worker]}) has ended, and this one cannot go on alone. "
        "What ended it is in its own output. Start all workers again."))


# ---- Looking ----

def _look_for_ever():
    while True:
        _wake.wait()
        with _lock:
            runs = list(_runs.values())
            if not runs:
                _wake.clear()
                continue
        there = {worker for worker in list(_addresses) if _is_there(worker)}
        _seen.update(there)
        gone = _seen - there
        now = time.monotonic()
        for run in runs:
            run.since = {worker: run.since.get(worker, now) for worker in gone}
            late = [worker for worker, since in run.since.items() if now - since > _PATIENCE]
            if late and run.ended_for is None and _talks(run.operations):
                run.ended_for = late[0]
                _end(run.session, late[0])
        time.sleep(_LOOK)


def _end(session, worker):
    """Ends what a session runs. Where programs wait, closing the session would not end that."""
    if session in _ended:
        return
    _ended.add(session)
    if host_calls.end_talks(session, _error(worker)):
        patches.forget_session(session)
    else:
        threading.Thread(target=session.close, daemon=True).start()


def _find_gone():
    """A worker that has died, or None. The end of a process takes a moment."""
    for i in range(_LOOKS_AT_ERROR):
        for worker in list(_addresses):
            if not _is_there(worker):
                return worker
        if i + 1 < _LOOKS_AT_ERROR:
            time.sleep(_LOOK)
    return None


def _is_there(worker):
    """Whether a worker accepts connections."""
    host, _, port = _addresses[worker].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
    except OSError:
        return False
    return True


def _talks(operations):
    """Whether operations need collectives, themselves or in host calls of programs."""
    seen, waiting = set(operations), list(operations)
    while waiting:
        one = waiting.pop()
        if one.type.startswith("Collective"):
            return True
        if one.type in ("IpuLaunch", "IpuStart") and any(
                function.talks for function in getattr(one.graph, "_tremula_host_functions", ())):
            return True
        before = {*one.control_inputs, *(tensor.op for tensor in one.inputs)} - seen
        seen |= before
        waiting += before
    return False
