"""What a script would have run, noted while it is traced."""

import dataclasses
import os
import sys
from typing import Any

from tremula.check.running import outfeeds


@dataclasses.dataclass
class Step:
    """A part of a graph that a script would have run.

    kind    session, function, fit, estimator, eager (operation by operation: no graph)
    path, line   of the program's call
    graph, fetches, shapes   the graph, the tensors and operations that are wanted, and the sizes of
            the inputs [(tensor, shape)] as far as they are known
    times   how often it would have run
    fed     whether the program gave values by feed_dict
    batch, items   the size of dimensions that nothing else tells, or None, and how many items Keras
            cuts into such batches, if they are arrays
    module, trains   the program for an IPU in bytes, if the script made one, and whether that
            computes gradients
    """
    kind: str
    path: str
    line: int
    graph: Any = None
    fetches: Any = ()
    shapes: Any = ()
    times: int = 1
    fed: bool = False
    batch: Any = None
    items: int = 0
    module: Any = None
    trains: bool = False


def _launched(step):
    """The programs that a step of a session launches."""
    waiting, seen = [getattr(one, "op", one) for one in step.fetches], set()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += [*one.control_inputs, *(tensor.op for tensor in one.inputs)]
    return {one.node_def.attr["module"].s for one in seen if "module" in one.node_def.attr}


class Recorder:
    """The steps of a script. files: the real paths of the program's own files."""

    def __init__(self, files):
        self.files = files
        self.steps, self.count = [], 0
        self.modules = []  # (module, trains) of programs for IPUs that no step has taken yet
        self.layers = {}  # name of a Keras layer: (path, line) where the program makes it
        self.outfeeds = outfeeds.Outfeeds()
        self._known = {}

    def add(self, key, kind, **facts):
        """Notes a step; one with a key that was there before counts once more."""
        self.count += 1
        known = self._known.get(key)
        if known is not None:
            known.times += 1
            return known
        path, line = self.place()
        step = Step(kind, path, line, **facts)
        launched = _launched(step) if kind == "session" else None
        own = [one for one in self.modules if not launched or one[0] in launched]
        if own:
            step.module, step.trains = max(own, key=lambda one: (one[1], len(one[0])))
            if not launched:  # in a session, another step may launch the same program
                self.modules = []
        self._known[key] = step
        self.steps.append(step)
        return step

    def count_one(self):
        """Notes that something was done which ends loops that go on and on."""
        self.count += 1

    def place(self):
        """(path, line) of the innermost frame of the program's own files, or ("", 0)."""
        frame = sys._getframe(1)
        while frame is not None:
            path = frame.f_code.co_filename
            if self.is_own(path):
                return path, frame.f_lineno
            frame = frame.f_back
        return "", 0

    def is_own(self, path):
        """Whether a file is one of the program's."""
        return path in self.files or (
            not path.startswith("<") and os.path.realpath(path) in self.files)
