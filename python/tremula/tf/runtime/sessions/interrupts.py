"""What ends a session's run from outside: Ctrl-C (SIGINT), closing the session, the process's end.

Ctrl-C. TensorFlow blocks the main thread during a run, so Python cannot handle signals. If the run
fails and a KeyboardInterrupt comes while TensorFlow reports the failure, TensorFlow makes a
RuntimeError of it. So:

    Python's own handler    the plugin cancels the runs and holds the signal; KeyboardInterrupt is
                            raised when the call into TensorFlow returns
    a handler of the user   another thread makes the call, while the main thread waits where Python
                            runs handlers; runs are cancelled only if the handler raises
    programs with an infeed as with a user's handler: a dataset may wait for data without an end,
                            and only data end TensorFlow's call then; the call is abandoned
    another thread's runs   are cancelled if the handler is Python's own
    eager functions         with Python's own handler their programs are cancelled; with a handler
                            of the user the functions end first; functions with an infeed are like
                            sessions' programs with one

Closing a session waits for its runs, so their programs are cancelled; the plugin knows by the
session's number to which session a node belongs. When the process ends, the runs of daemon threads
are cancelled, and these threads start no more: TensorFlow aborts when a thread returns to an
interpreter that has ended. The main thread can still run programs in functions of `atexit`.
"""

import atexit
import collections
import functools
import queue
import signal
import threading
import time

from tremula.tf.inner import eager, errors, patches, sessions
from tremula.tf.runtime.base import recent
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.host import host_calls
from tremula.tf.runtime.sessions import forks

_FIRST_LOOK = .02
_LOOK = .1
_PATIENCE = 4  # looks

_idle = collections.deque()  # threads that wait for a call
_has_infeeds = threading.Event()
_FED = "IpuStart"  # the node that begins a run with an infeed
_fed_functions = recent.Recent(1024)  # function: whether it has one

_lock = threading.Lock()
_in_threads = []  # the threads, by the system's numbers, of calls that the main one does not make
_is_ending = False
_MOST_WAIT = 10.0  # seconds for them at the end, on a machine that is slow or busy
_WAIT_FOR_TENSORFLOW = .2  # of these, at least, for those in which no IPU computes


def feeds_exist():
    """Notes that this process has programs with infeeds."""
    _has_infeeds.set()


def install():
    """Makes sessions and eager functions behave so. Called once."""
    forks.install(_forget_threads)
    atexit.register(_end_all)
    patches.wrap_session(
        call=_interruptible, call_partial=functools.partial(_interruptible, is_partial=True),
        call_callable=_interruptible, create_callable=_in_session, close=_cancelling,
        extend=_counted)
    patches.wrap_function_calls(_interruptible_function)


def _forget_threads():
    """A forked process does not have its parent's threads and calls."""
    global _lock, _is_deferring
    _lock = threading.Lock()
    _idle.clear()
    _in_threads.clear()
    _is_deferring = False
    host_calls.forget_runs()
    plugin.library().trm_tf_forked()
    eager.keep_context()


# ---- Sessions ----

def _session_of(owner):
    """The session of a session or of one of its callables."""
    return owner if sessions.is_session(owner) else owner._session


def _in_session(call):
    """`call`, whose first argument is a session's, or which has one as its second argument, makes
    nodes of that session."""
    enter, number_of = plugin.library().trm_tf_session_enter, host_calls.number_of

    @functools.wraps(call)
    def call_in_session(self, *arguments, **keywords):
        owner = arguments[0] if arguments and not hasattr(self, "_session") else self
        last = enter(number_of(_session_of(owner)))
        try:
            return call(self, *arguments, **keywords)
        finally:
            enter(last)

    return call_in_session


def _interruptible(call, is_partial=False):
    library = plugin.library()
    cancels, defer, release = (library.trm_tf_interrupt_cancels, library.trm_tf_interrupt_defer,
                               library.trm_tf_interrupt_release)
    call = _telling_of_partial_runs(_in_session(call), is_partial)

    @functools.wraps(call)
    def run(*arguments, **keywords):
        handler = signal.getsignal(signal.SIGINT)
        is_python_s = handler is signal.default_int_handler
        cancels(is_python_s)
        forks.refuse(lambda: (node.device
                              for node in _session_of(arguments[0]).graph.get_operations()))
        if threading.current_thread() is not threading.main_thread():
            return _in_thread(call, arguments, keywords)
        if callable(handler) and (not is_python_s or _has_infeeds.is_set()) and not _is_ending:
            return _run_beside(call, arguments, keywords, library)
        if not is_python_s or _is_deferring:
            return call(*arguments, **keywords)
        try:
            defer()
            result = call(*arguments, **keywords)
        except BaseException:
            if release():
                raise KeyboardInterrupt from None
            raise
        if release():
            raise KeyboardInterrupt
        return result

    return run


def _telling_of_partial_runs(call, is_partial):
    """Adds the reason to the error that a session was cancelled: TensorFlow runs nothing in a
    session after a partial run has failed or was interrupted."""

    @functools.wraps(call)
    def run(owner, *arguments, **keywords):
        session = _session_of(owner)
        try:
            return call(owner, *arguments, **keywords)
        except Exception as error:
            if is_partial:
                session._tremula_partial_run_failed = True
            elif (getattr(session, "_tremula_partial_run_failed", False)
                  and errors.error_code(error) == errors.CANCELLED):
                raise errors.error_class(errors.CANCELLED)(None, None, (
                    "A partial run of this session failed or was interrupted. TensorFlow runs "
                    "nothing in a session after that: make a new one.")) from error
            raise

    return run


def _counted(call):
    """A call for which the end of the process waits, too."""
    @functools.wraps(call)
    def run(*arguments, **keywords):
        if threading.current_thread() is threading.main_thread():
            return call(*arguments, **keywords)
        return _in_thread(call, arguments, keywords)

    return run


# ---- Eager functions ----

_is_deferring = False  # the main thread is in one


def with_deferred_interrupts(call, *arguments, **keywords):
    """Makes a call into TensorFlow that may last, not a session's; after Ctrl-C it raises
    KeyboardInterrupt. With a handler of the user's it ends first."""
    global _is_deferring
    if _is_deferring or threading.current_thread() is not threading.main_thread():
        return call(*arguments, **keywords)
    library = plugin.library()
    is_python_s = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    library.trm_tf_interrupt_cancels(is_python_s)
    if not is_python_s:
        return call(*arguments, **keywords)
    try:
        _is_deferring = True
        library.trm_tf_interrupt_defer()
        result = call(*arguments, **keywords)
    except BaseException:
        _is_deferring = False
        if library.trm_tf_interrupt_release():
            raise KeyboardInterrupt from None
        raise
    _is_deferring = False
    if library.trm_tf_interrupt_release():
        raise KeyboardInterrupt
    return result


def _interruptible_function(call):
    """Context.call_function, which runs a tf.function."""
    @functools.wraps(call)
    def run(self, name, *arguments, **keywords):
        forks.refuse(lambda: (node.device for node in self.get_function_def(name).node_def))
        if _has_infeeds.is_set() and _can_run_beside(self) and _takes_from_feeds(self, name):
            library = plugin.library()
            library.trm_tf_interrupt_cancels(
                signal.getsignal(signal.SIGINT) is signal.default_int_handler)
            return _run_beside(_in_context(call, self), (self, name, *arguments), keywords, library)
        return with_deferred_interrupts(call, self, name, *arguments, **keywords)

    return run


def _can_run_beside(context):
    """Whether another thread may make a call for this one: it is the main one and waits for no
    call."""
    return (threading.current_thread() is threading.main_thread() and not _is_ending
            and not _is_deferring and callable(signal.getsignal(signal.SIGINT))
            and not eager.has_executor(context))


def _in_context(call, context):
    """`call`, to be made in another thread, as if in this one: on its device, with its options."""
    here = eager.thread_state(context)

    def call_in_context(*arguments, **keywords):
        there = eager.thread_state(context)
        eager.set_thread_state(context, here)
        try:
            return call(*arguments, **keywords)
        finally:
            eager.set_thread_state(context, there)

    return call_in_context


def _takes_from_feeds(context, name):
    """Whether a function, or one that it calls, runs a program with an infeed."""
    known = _fed_functions.get(name)
    if known is None:
        known = any(node.op == _FED for node in _nodes(context, name))
        _fed_functions.put(name, known)
    return known


def _nodes(context, name):
    """The nodes of a function and of all that it calls."""
    import tensorflow.compat.v1 as tf
    seen, waiting = {name}, [name]
    while waiting:
        try:
            definition = context.get_function_def(waiting.pop())
        except tf.errors.NotFoundError:
            continue
        for node in definition.node_def:
            yield node
            for value in node.attr.values():
                for one in (value.func, *value.list.func):
                    if one.name and one.name not in seen:
                        seen.add(one.name)
                        waiting.append(one.name)


# ---- Calls that another thread makes ----

class _Call:
    """A call that a thread makes for another."""

    def __init__(self, function, arguments, keywords):
        self.function, self.arguments, self.keywords = function, arguments, keywords
        self.result = self.error = None
        self.begun = self.over = self.dropped = False
        self.running = threading.Lock()
        self.running.acquire()

    def make(self):
        """Calls the function, unless that was done or the call was dropped before."""
        if self.begun:
            return
        self.begun = True
        try:
            if not self.dropped:
                self.result = _in_thread(self.function, self.arguments, self.keywords)
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error
        finally:
            self.function = self.arguments = self.keywords = None
            self.over = True
            self.running.release()


class _Server:
    """A thread that makes calls."""

    def __init__(self):
        self.calls, self.retired = queue.SimpleQueue(), False
        threading.Thread(target=self._serve, name="tremula-session-run", daemon=True).start()

    def _serve(self):
        while True:
            self.calls.get().make()
            if self.retired:
                return
            _idle.append(self)

    @staticmethod
    def idle():
        """One that waits for a call."""
        try:
            while True:
                server = _idle.pop()
                if not server.retired:
                    return server
        except IndexError:
            return _Server()


def _run_beside(function, arguments, keywords, library):
    """Makes a call in another thread. If a signal handler raises meanwhile, cancels what runs."""
    server, call = _Server.idle(), _Call(function, arguments, keywords)
    try:
        server.calls.put(call)
        # A signal that comes between Python's look for signals and the wait does not end the wait.
        while not call.running.acquire(timeout=_LOOK):
            pass
    except BaseException:
        # The exception may have come before the call was handed over, or when it was over.
        call.dropped = server.retired = True
        server.calls.put(call)
        _end(call, library)
        raise
    try:
        if call.error is not None:
            raise call.error
        return call.result
    finally:
        del call  # or the traceback would keep what it holds


def _end(call, library):
    """Cancels again and again until the call has returned or only waits for data. Any exception
    ends that."""
    try:
        looks = 0
        library.trm_tf_interrupt_runs()
        while not call.over and not call.running.acquire(timeout=_LOOK if looks else _FIRST_LOOK):
            library.trm_tf_interrupt_runs()
            looks = looks + 1 if library.trm_tf_interrupted_feeds() else 1
            if looks > _PATIENCE:
                return
    finally:
        library.trm_tf_interrupt_resume()


# ---- Closing sessions, and the end ----

def _in_thread(call, arguments, keywords):
    """A call in another thread than the main one."""
    thread = threading.get_native_id()
    with _lock:
        is_too_late = _is_ending
        if not is_too_late:
            _in_threads.append(thread)
    if is_too_late:
        threading.Event().wait()  # for ever: the process ends
    try:
        return call(*arguments, **keywords)
    finally:
        with _lock:
            if thread in _in_threads:  # it is not in a forked process
                _in_threads.remove(thread)


def _cancel_until(cancel, is_done, seconds):
    """Calls cancel() until is_done(seconds to wait), or for so many seconds (None: no end)."""
    end = None if seconds is None else time.monotonic() + seconds
    cancel()
    while not is_done(_FIRST_LOOK) and (end is None or time.monotonic() < end):
        cancel()


def _cancelling(close):
    """BaseSession.close, which also cancels what the session runs."""
    @functools.wraps(close)
    def close_cancelling(self):
        if self not in host_calls.running_sessions():
            return close(self)

        def cancel():
            library.trm_tf_session_cancel(number)
            if host_calls.running_sessions() == {self}:
                library.trm_tf_session_cancel(0)  # what TensorFlow has made beside

        library, number, is_closed = plugin.library(), host_calls.number_of(self), threading.Event()
        threading.Thread(target=_cancel_until, args=(cancel, is_closed.wait, None),
                         daemon=True).start()
        try:
            return close(self)
        finally:
            is_closed.set()

    return close_cancelling


def _end_all():
    global _is_ending
    with _lock:
        _is_ending = True

    begin, before = time.monotonic(), None

    def is_done(seconds):
        nonlocal before
        with _lock:
            if not _in_threads:
                return True
            threads = set(_in_threads)
        time.sleep(seconds)
        # TensorFlow's own work may go on without an end. It does no harm once it waits. A thread
        # that returns to Python, or has not yet reached TensorFlow, does.
        now = {thread: _rest(thread) for thread in threads}
        rests, before = now == before and None not in now.values(), now
        return (rests and time.monotonic() - begin > _WAIT_FOR_TENSORFLOW
                and not plugin.library().trm_tf_interrupt_is_watched())

    if not is_done(0):
        try:
            _cancel_until(plugin.library().trm_tf_interrupt_runs, is_done, _MOST_WAIT)
        finally:
            plugin.library().trm_tf_interrupt_resume()


def _rest(thread):
    """Of a thread that sleeps, how often it has begun to; None while it runs. (One that waits for
    Python wakes up every few milliseconds.)"""
    try:
        with open(f"/proc/self/task/{thread}/status", encoding="ascii", errors="replace") as file:
            said = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:
        return None  # it has ended
    if not said.get("State", "").strip().startswith("S"):
        return None
    return said.get("voluntary_ctxt_switches"), said.get("nonvoluntary_ctxt_switches")
