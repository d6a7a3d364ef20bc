"""How sessions place graphs.

A session places its whole graph before it optimises it, so an op that an IPU has not would make
every run fail, also those that do not need the op. TensorFlow can place only what a run needs, but
then optimises nothing, and ops on an IPU would run one by one. So a session places the whole graph
if it can, and what runs if it cannot.
"""

import functools
import threading


def place_what_can_be_placed():
    """Makes sessions do that. The choice is made before a session first runs anything."""
    from tensorflow.python.client import session
    from tensorflow.python.framework import errors_impl
    base = session.BaseSession
    create, extend, set_up = base.__init__, base._extend_graph, base.partial_run_setup

    @functools.wraps(create)
    def create_undecided(self, target="", graph=None, config=None):
        self._tremula_undecided = None
        create(self, target, graph, config)
        if not self._config.graph_options.place_pruned_graph:
            self._tremula_undecided = threading.Lock()

    @functools.wraps(extend)
    def extend_and_decide(self):
        lock = getattr(self, "_tremula_undecided", None)
        if lock is None:
            return extend(self)
        with lock:
            if self._tremula_undecided is not None:
                try:
                    extend(self)
                except errors_impl.OpError:
                    _start_again(self)  # whose run will say what was wrong, if it needs that
                if self._graph.version:
                    self._tremula_undecided = None
        return extend(self)

    @functools.wraps(set_up)
    def decide_and_set_up(self, fetches, feeds=None):
        self._extend_graph()  # the original takes the session before it does that
        return set_up(self, fetches, feeds)

    base.__init__ = create_undecided
    base._extend_graph = extend_and_decide
    base.partial_run_setup = decide_and_set_up


def _start_again(self):
    """Gives a session that has run nothing a new inner one, which places only what runs."""
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.client import pywrap_tf_session as tf_session
    config = config_pb2.ConfigProto()
    config.CopyFrom(self._config)
    config.graph_options.place_pruned_graph = True
    options = tf_session.TF_NewSessionOptions(target=self._target, config=config)
    try:
        with self._graph._c_graph.get() as graph:
            new = tf_session.TF_NewSessionRef(graph, options)
    finally:
        tf_session.TF_DeleteSessionOptions(options)
    old, self._session, self._config = self._session, new, config
    tf_session.TF_CloseSession(old)
    tf_session.TF_DeleteSession(old)
