"""Runs the peers of a case in turns, and keeps the times of every round.

Others may use the machine: they disturb all peers of a round alike, and the least time of several
rounds is the program's own.
"""

import multiprocessing
import os
import pathlib
import statistics
from unittest import mock

import numpy as np

from comparison import machine, worker

_PREPARE_SECONDS = 600
_RUN_SECONDS = 300
_ROUND_SECONDS = .2  # seconds of calls of a peer in a round, at least one call


class Peer:
    """A worker process. It starts at its first use, and again after it was ended.

    tree: of "before", the folder of another checkout of Tremula, built there
    """

    def __init__(self, name, log, tree=None):
        self.name, self._log = name, str(log)
        self._process = self._pipe = None
        self._environment = {}
        if tree is not None:
            tree = pathlib.Path(tree).resolve()
            self._environment = {"PYTHONPATH": str(tree / "python"),
                                 worker.LIBRARY_DIR: str(tree / "build/release/lib")}

    @property
    def pid(self):
        return self._process.pid if self._process else None

    def ask(self, *request, seconds=_RUN_SECONDS):
        """The answer. Raises RuntimeError with the message of a failure."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=worker.main, args=(self.name, theirs, self._log),
                                            daemon=True)
            with mock.patch.dict(os.environ, self._environment):
                self._process.start()
            theirs.close()
        self._pipe.send(request)
        try:
            if not self._pipe.poll(seconds):
                self.end()
                raise RuntimeError(f"took more than {seconds} s")
            kind, answer = self._pipe.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            self.end()
            raise RuntimeError(f"the process ended with code {code}") from None
        if kind == "failed":
            raise RuntimeError(answer)
        return answer

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None


def measure(case, peers, rounds):
    """The record of a case: for each peer the seconds of every round, or its failure."""
    record = {"name": case.name, "title": case.title, "load_average": machine.load_average(),
              "peers": {}}
    results, calls = {}, {}
    for peer in peers:
        if peer.name == "core" and not case.core:
            continue
        entry = record["peers"][peer.name] = {"seconds": []}
        try:
            answer = peer.ask("prepare", case.name, seconds=_PREPARE_SECONDS)
            entry["first_seconds"] = answer["first"]
            entry["kernels"] = answer["kernels"]
            results[peer.name] = answer["results"]
            one = peer.ask("run", 1)
            one = peer.ask("run", max(1, min(20, int(.1 / one))))
            calls[peer.name] = max(1, int(_ROUND_SECONDS / one))
        except RuntimeError as error:
            entry["error"] = str(error)
    running = [peer for peer in peers if peer.name in calls]
    watch = machine.Watch([peer.pid for peer in running])
    for number in range(rounds):
        turn = number % max(1, len(running))  # nobody is always first
        for peer in running[turn:] + running[:turn]:
            entry = record["peers"][peer.name]
            if "error" in entry:
                continue
            try:
                entry["seconds"].append(peer.ask("run", calls[peer.name]))
            except RuntimeError as error:
                entry["error"] = str(error)
    record["others_share"] = watch.taken()
    for peer in running:
        if "error" not in record["peers"][peer.name]:
            peer.ask("close")
    for name, entry in record["peers"].items():
        if entry["seconds"]:
            entry["min"] = min(entry["seconds"])
            entry["median"] = statistics.median(entry["seconds"])
            entry["calls_each_round"] = calls[name]
            entry["difference"] = _difference(results, name)
    return record


def _difference(results, name):
    """The largest difference of the first two results from TensorFlow's, divided by the largest
    number of TensorFlow's."""
    if "tf" not in results:
        return None
    ours, theirs = (np.stack(results[one]).astype(np.float64) for one in (name, "tf"))
    if not np.isfinite(theirs).all():
        return None  # there is nothing to compare
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))
