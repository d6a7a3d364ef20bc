"""Programs in files, which run without their graph: application_compile_op writes them,
embedded_runtime runs them.

A file is a zip archive of NumPy's: "executable" as libtremula saves it, "header" (JSON: names of
the inputs, which of them are frozen) and the values of those as "input_<number>".
"""

import atexit
import collections
import json
import threading
import time
import zipfile
import zlib
from typing import NamedTuple

from tremula import core
from tremula.tf.runtime.base import regular

_FORMAT = 1


class Signature(NamedTuple):
    """What a program takes when it starts and at each call, and what a call gives: lists of
    core.TensorInfo (name, dtype, shape)."""
    inputs: list
    streamed_inputs: list
    streamed_outputs: list


def write(path, module, names, frozen, options):
    """Compiles a module (bytes) with the compiler's options, a dict, and writes the file. `frozen`:
    {number of an input: array}. Raises OSError for a file that cannot be written."""
    import numpy as np
    executable = core.compile(core.Module.read(module, "the module from TensorFlow"), **options)
    header = json.dumps({"format": _FORMAT, "names": names, "frozen": sorted(frozen)})
    try:
        with regular.replacing(path) as file:
            np.savez(file, executable=np.frombuffer(executable.serialize(), np.uint8),
                     header=np.frombuffer(header.encode(), np.uint8),
                     **{f"input_{i}": value for i, value in frozen.items()})
    except OSError as error:
        raise OSError(f"Failed to open file for writing: {path}: {error.strerror}") from None


class Application:
    """A program from a file.

    Raises ValueError for a file that Tremula did not write.
    """

    def __init__(self, path):
        import numpy as np
        try:
            with open(path, "rb", opener=regular.opener) as file, np.load(
                    file, allow_pickle=False) as archive:
                header = json.loads(bytes(archive["header"]))
                if header["format"] != _FORMAT:
                    raise ValueError(f"its format is {header['format']}")
                self._frozen = {i: archive[f"input_{i}"] for i in header["frozen"]}
                executable = bytes(archive["executable"])
        except FileNotFoundError:
            raise
        except (KeyError, ValueError, OSError, TypeError, AttributeError, EOFError,
                NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{path} was not written by experimental_application_compile_op: "
                             f"{error}") from None
        self.executable = core.Executable.deserialize(executable)
        infos = [core.TensorInfo(name, one.dtype, one.shape)
                 for name, one in zip(header["names"], self.executable.inputs)]
        feeds = {one.kind: one for one in self.executable.feeds}
        if len(feeds) < len(self.executable.feeds):
            raise ValueError(f"{path} has several feeds of a kind, which is not supported.")
        self.infeed, self.outfeed = feeds.get("infeed"), feeds.get("outfeed")
        self.signature = Signature(
            [one for i, one in enumerate(infos) if i not in self._frozen],
            self.infeed.elements if self.infeed else [],
            self.outfeed.elements if self.outfeed else self.executable.outputs)

    def all_inputs(self, given):
        """The program's inputs: what is given, and what is frozen."""
        given = iter(given)
        return [self._frozen[i] if i in self._frozen else next(given)
                for i in range(len(self.executable.inputs))]


class Runtime:
    """A running application. With feeds its program runs again and again, in a thread of its own,
    as long as it is fed. Without feeds it runs once for each call."""

    def __init__(self, application, inputs):
        self._application = application
        self._inputs = application.all_inputs(inputs)
        self._engine = core.Engine(application.executable)
        self._lock = threading.Lock()
        self._results = collections.deque()
        self._failure, self._stopped = None, False
        self._infeed = self._outfeed = self._thread = None
        if application.outfeed:
            self._outfeed = core.Outfeed(application.outfeed.elements)
            self._engine.bind(application.outfeed.id, self._outfeed)
        if application.infeed:
            self._infeed = core.Infeed(application.infeed.elements)
            self._engine.bind(application.infeed.id, self._infeed)
            self._infeed.open()
            self._thread = threading.Thread(target=self._run_on, daemon=True)
            self._thread.start()

    def _run(self):
        outputs = self._engine.run(self._inputs)
        for i, alias in enumerate(self._application.executable.aliases):
            if alias >= 0:
                self._inputs[alias] = outputs[i]
        return outputs

    def _run_on(self):
        try:
            while not self._stopped:
                self._run()
        except core.TremulaError as error:
            self._failure = error
        finally:
            self._infeed.close()

    def call(self, inputs):
        """The outputs, a list of arrays."""
        with self._lock:
            if self._stopped:
                raise RuntimeError("The embedded runtime has been stopped.")
            if self._infeed is None:
                outputs = self._run()
                return [one[-1] for one in self._outfeed.take()] if self._outfeed else outputs
            if not self._infeed.push(*inputs):
                raise self._failure or RuntimeError("The embedded runtime takes no more inputs.")
            if self._outfeed is None:
                return []
            wait = 2e-5
            while not self._results:
                taken = self._outfeed.take()
                self._results.extend(zip(*taken))
                if not self._results:
                    if not self._thread.is_alive():
                        raise self._failure or RuntimeError("The embedded runtime has ended.")
                    time.sleep(wait)
                    wait = min(2 * wait, 1e-3)
            return list(self._results.popleft())

    def stop(self):
        """Ends it. Later calls fail."""
        self._stopped = True
        if self._thread is not None:
            self._infeed.end(message="the embedded runtime has been stopped")
            self._engine.cancel()
            self._thread.join()


_runtimes = {}  # name -> Runtime
_lock = threading.Lock()


def start(name, application, inputs):
    """Starts a runtime under a name, unless it runs already."""
    with _lock:
        if name not in _runtimes:
            _runtimes[name] = Runtime(application, inputs)


def call(name, inputs):
    """Calls the runtime of a name."""
    with _lock:
        runtime = _runtimes.get(name)
    if runtime is None:
        raise RuntimeError(f"The embedded runtime '{name}' has not been started.")
    return runtime.call(inputs)


def stop(name):
    """Stops the runtime of a name, if it runs."""
    with _lock:
        runtime = _runtimes.pop(name, None)
    if runtime is not None:
        runtime.stop()


@atexit.register
def _stop_all():
    for name in list(_runtimes):
        stop(name)
