"""Serves the IPU modules under TensorFlow's names.

Stock TensorFlow has no `tensorflow.python.ipu`. A finder at the head of `sys.meta_path` answers for
that name, and for the other names in ALIASES, with modules of Tremula; any other import costs it
the comparison of a few strings. A second finder, at the end, gets the names that no other finder
has found.

A module is one object under all of its names: an alias never runs a file twice. (So the finder
comes first: otherwise Python itself would look into the folder of an alias.) `tremula.pth` imports
this file at every start of the interpreter, so it imports next to nothing.
"""

import sys

from tremula import _callers, _late_devices

# TensorFlow's name -> Tremula's. The longest name that is a prefix counts.
ALIASES = {
    "tensorflow.python.ipu": "tremula.tf.ipu",
    "tensorflow.compiler.plugin": "tremula.tf.plugin",
    "tensorflow.compiler.tests": "tremula.tf.xla_tests",
}

# The IPU's part of Keras, in the later releases and in the earlier ones.
KERAS_IPU = ("keras.ipu", "tf_keras.ipu", "tensorflow.keras.ipu", "ipu_tensorflow_addons.keras")
IPU_KERAS = {"keras": "tremula.tf.keras", "layers": "tremula.tf.keras.layers"}

# The original shows everything in these packages one level up too: `ipu.ops.nn_ops` is
# `ipu.nn_ops`.
FLATTENED = ("ops", "optimizers", "ops.experimental")

# Modules of the IPU API that had other names when it was `tensorflow.contrib.ipu`.
MOVED = {
    "internal": "ops.internal_ops",
    "popnn_embedding": "ops.embedding_ops",
    "popnn_normalization": "ops.normalization_ops",
    "popnn_rnn": "ops.rnn_ops",
    "popops_cross_replica_sum": "ops.cross_replica_ops",
    "poprand": "ops.rand_ops",
}


_served = {}  # other name -> module, of what alias_spec() has given


class AliasLoader:
    """Loads `target` and shows it under the name that was asked for."""

    def __init__(self, target, on_load=None):
        self._target = target
        self._on_load = on_load
        self._own_spec = None

    def create_module(self, spec):
        import importlib
        module = importlib.import_module(self._target)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self._own_spec  # the import system has put the alias's there
        if self._on_load is not None:
            self._on_load()


class AliasFinder:
    """Finds the modules of ALIASES, and what is inside of a module with another name."""

    def find_spec(self, fullname, path=None, target=None):
        parent, _, leaf = fullname.rpartition(".")
        if parent in _served and _exists(f"{_served[parent]}.{leaf}"):
            return alias_spec(fullname, f"{_served[parent]}.{leaf}")
        if fullname.startswith("tensorflow."):
            for alias, package in ALIASES.items():
                if fullname == alias:
                    import importlib
                    ready = getattr(importlib.import_module(package), "_on_tensorflow_import",
                                    None)
                    return alias_spec(fullname, package, on_load=ready)
                if fullname.startswith(alias + "."):
                    return _module_spec(fullname, package, fullname[len(alias) + 1:])
        return None


class LastFinder:
    """Finds the IPU's part of Keras, names that moved (tremula.tf.keras.names), horovod.tensorflow
    where no Horovod is installed, and in Tremula's packages what is not a file there: modules of
    the FLATTENED packages, and those that are not there yet, to say so."""

    def find_spec(self, fullname, path=None, target=None):
        root = fullname.partition(".")[0]
        if fullname in ("horovod", "horovod.tensorflow"):
            return alias_spec(fullname, "tremula.tf.ipu.horovod", on_load=_tell_of_horovod)
        if root == "tremula":
            for package in ALIASES.values():
                if fullname.startswith(package + "."):
                    return _module_spec(fullname, package, fullname[len(package) + 1:])
            if fullname.startswith("tremula.tf.keras."):
                return _module_spec(fullname, "tremula.tf.ipu", fullname[len("tremula.tf."):])
        elif root in ("keras", "tf_keras", "tensorflow", "ipu_tensorflow_addons"):
            for alias in KERAS_IPU:
                if fullname == alias or fullname.startswith(alias + "."):
                    if root != "ipu_tensorflow_addons":
                        serve_names_of_keras()  # `tf.keras` is another module than `keras`
                    return _module_spec(fullname, "tremula.tf.ipu",
                                        "keras" + fullname[len(alias):])
            if root != "ipu_tensorflow_addons" and "." in fullname and _callers.asked_by_program():
                from tremula.tf.keras import names
                name = names.resolve(fullname)
                if name is not None and fullname.startswith(names.ROOTS):
                    serve_names_of_keras()  # the program asks modules that exist for old names too
                return alias_spec(fullname, name) if name is not None else None
        return None


# Modules that are not there yet -> functions that are called with them when they are.
_watched = {}


def watch(name, function):
    """Calls function(module) for the module `name`: at once if it is there, else when it is."""
    if name in sys.modules:
        function(sys.modules[name])
    else:
        _watched.setdefault(name, []).append(function)


class WatchingLoader:
    """A loader that tells those who watch the module, and `also`, when it is loaded."""

    def __init__(self, loader, also):
        self._loader = loader
        self._also = also

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for function in (*_watched.pop(module.__name__, ()), *self._also):
            function(module)


class WatchingFinder:
    """Finds the modules that somebody watches, as Python does.

    `serves_keras`: whether Keras' modules show the names that moved.
    """

    serves_keras = False

    def find_spec(self, fullname, path=None, target=None):
        also = []
        if self.serves_keras and fullname.startswith("tensorflow.python.keras"):
            from tremula.tf.keras import names
            also = [names.share]
        if fullname not in _watched and not also:
            return None
        from importlib.machinery import PathFinder
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = WatchingLoader(spec.loader, also)
        return spec


def serve_names_of_keras():
    """Makes Keras show the names that moved, and the IPU's part."""
    if not WatchingFinder.serves_keras:
        from tremula.tf.keras import names
        WatchingFinder.serves_keras = True
        names.install(watch)


def resolve(package, tail):
    """The full name of the module `tail` of `package`, or None where there is none.

    In `tremula.tf.ipu` a name is looked for at its own place, at the top, in the FLATTENED
    packages, and where a module of MOVED is now, so that all spellings reach one module.
    """
    candidates = [tail]
    if package == "tremula.tf.ipu":
        head, _, rest = tail.partition(".")
        if head in IPU_KERAS:
            name = ".".join(filter(None, (IPU_KERAS[head], rest)))
            return name if _exists(name) else None
        leaf = tail
        for inner in sorted(FLATTENED, key=len, reverse=True):
            if tail.startswith(inner + "."):
                leaf = tail[len(inner) + 1:]
                break
        candidates += [leaf] + [f"{inner}.{leaf}" for inner in FLATTENED]
        candidates += [MOVED[tail]] if tail in MOVED else []
    for candidate in candidates:
        name = f"{package}.{candidate}"
        if _exists(name):
            return name
    return None


def _module_spec(fullname, package, tail):
    """The spec of `fullname`, which is the module `tail` of `package`."""
    name = resolve(package, tail)
    if name is not None:
        return alias_spec(fullname, name)
    message = _planned_message(package, tail)
    if message is not None:
        # Not ModuleNotFoundError: `from package import name` swallows that one.
        raise ImportError(message, name=fullname)
    return None


def _planned_message(package, tail):
    """Why the original's module `tail` of `package` cannot be had, or None if it had none."""
    import importlib
    return importlib.import_module(f"{package}._planned").message(tail)


def alias_spec(fullname, target, on_load=None):
    """A module spec that makes `fullname` another name of the module `target`."""
    from importlib.machinery import ModuleSpec
    _served[fullname] = target
    return ModuleSpec(fullname, AliasLoader(target, on_load))


def _exists(name):
    return name in sys.modules or _file_spec(name) is not None


def _file_spec(name):
    """The spec of a module that is a file, found without importing the packages it is in."""
    from importlib.machinery import PathFinder
    parent = name.rpartition(".")[0]
    if parent in sys.modules:
        path = getattr(sys.modules[parent], "__path__", None)
    else:
        spec = _file_spec(parent) if parent else None
        path = spec.submodule_search_locations if spec else None
    return PathFinder.find_spec(name, path) if path is not None or not parent else None


def _tell_of_horovod():
    if not _told:
        _told.append(True)
        import logging
        logging.getLogger("tensorflow").warning(
            "No Horovod is installed: horovod.tensorflow has Tremula's functions, those of "
            "tensorflow.python.ipu.horovod.")


_told = []


def _import_api():
    import importlib
    importlib.import_module(next(iter(ALIASES)))


def install():
    """Adds the finders to `sys.meta_path`, once."""
    if not any(type(finder).__name__ == "AliasFinder" and type(finder).__module__ == __name__
               for finder in sys.meta_path):
        sys.meta_path[:0] = [AliasFinder(), WatchingFinder()]
        sys.meta_path.append(LastFinder())
        _late_devices.watch(watch, _import_api)


install()
