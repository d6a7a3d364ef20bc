"""Serves the IPU modules under TensorFlow's names.

Stock TensorFlow has no `tensorflow.python.ipu`. A finder at the head of `sys.meta_path` answers for
that name, and for the other names in ALIASES, with modules of Tremula; any other import costs it
the comparison of a few strings. A second finder, at the end, is asked for what nobody else has.

A module has one object whatever name it is imported by: an alias never runs a file twice. (That is
why the finder comes first: Python would look into the folder of an alias by itself.)
`tremula.pth` imports this file at every start of the interpreter, so it imports nothing but `sys`.
"""

import sys

# TensorFlow's name -> Tremula's. The longest name that is a prefix counts.
ALIASES = {
    "tensorflow.python.ipu": "tremula.tf.ipu",
    "tensorflow.compiler.plugin": "tremula.tf.plugin",
    "tensorflow.compiler.tests": "tremula.tf.xla_tests",
}

# Modules that TensorFlow's own copy of Keras has lost, and where Keras has them today.
KERAS_ALIASES = {
    "tensorflow.python.keras.datasets": "datasets",
    "tensorflow.python.keras.preprocessing": "preprocessing",
}

# The IPU's part of Keras in the last releases: not there yet.
KERAS_IPU = ("keras.ipu", "tf_keras.ipu", "tensorflow.keras.ipu")

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
    """Finds the modules of ALIASES."""

    def find_spec(self, fullname, path=None, target=None):
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
    """Finds the modules of KERAS_ALIASES, and in Tremula's packages what is not a file there:
    modules of the FLATTENED packages, and those that are not there yet, to say so."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.startswith("tremula.tf."):
            for package in ALIASES.values():
                if fullname.startswith(package + "."):
                    return _module_spec(fullname, package, fullname[len(package) + 1:])
        elif fullname.startswith("tensorflow.python.keras."):
            for alias, name in KERAS_ALIASES.items():
                if fullname == alias or fullname.startswith(alias + "."):
                    from tremula.tf.inner import versions
                    return alias_spec(
                        fullname, f"{versions.keras_package()}.{name}{fullname[len(alias):]}")
        elif fullname in KERAS_IPU:
            import tremula
            raise ImportError(f"{fullname} is a part of the IPU API that Tremula "
                              f"{tremula.__version__} does not have yet.", name=fullname)
        return None


def resolve(package, tail):
    """The full name of the module `tail` of `package`, or None where there is none.

    In `tremula.tf.ipu` a name is looked for at its own place, at the top, in the FLATTENED
    packages, and where a module of MOVED is now, so that all spellings reach one module.
    """
    candidates = [tail]
    if package == "tremula.tf.ipu":
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


def install():
    """Adds the finders to `sys.meta_path`, once."""
    if not any(type(finder).__name__ == "AliasFinder" and type(finder).__module__ == __name__
               for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
        sys.meta_path.append(LastFinder())


install()
