"""Serves the IPU modules under TensorFlow's names.

Stock TensorFlow has no `tensorflow.python.ipu`. A finder at the end of `sys.meta_path` answers for
that name, and for the other names in ALIASES, with modules of Tremula. It is asked only after every
other finder has said no, so it slows no import down and shadows nothing that TensorFlow has.

A module has one object whatever name it is imported by: an alias never runs a file twice.
`tremula.pth` imports this file at every start of the interpreter, so it imports nothing but `sys`.
"""

import sys

# TensorFlow's name -> Tremula's. The longest name that is a prefix counts.
ALIASES = {
    "tensorflow.python.ipu": "tremula.tf.ipu",
    "tensorflow.compiler.plugin": "tremula.tf.plugin",
}

# Modules that TensorFlow's own copy of Keras has lost, and where Keras has them today.
KERAS_ALIASES = {
    "tensorflow.python.keras.datasets": "datasets",
    "tensorflow.python.keras.preprocessing": "preprocessing",
}

# The original shows everything in these packages one level up too: `ipu.ops.nn_ops` is
# `ipu.nn_ops`.
FLATTENED = ("ops", "optimizers", "ops.experimental")


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
            self._on_load(module)


class Finder:
    """Finds the modules of ALIASES and of KERAS_ALIASES."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith("tensorflow."):
            return None
        for alias, own in ALIASES.items():
            if fullname == alias or fullname.startswith(alias + "."):
                return self._own_spec(fullname, own, fullname[len(alias) + 1:])
        for alias, name in KERAS_ALIASES.items():
            if fullname == alias or fullname.startswith(alias + "."):
                from tremula.tf import compat
                return alias_spec(fullname,
                                  f"{compat.keras_package()}.{name}{fullname[len(alias):]}")
        return None

    def _own_spec(self, fullname, package, tail):
        if not tail:
            import importlib
            ready = getattr(importlib.import_module(package), "_on_tensorflow_import", None)
            return alias_spec(fullname, package, on_load=ready and (lambda _: ready()))
        name = resolve(package, tail)
        if name is not None:
            return alias_spec(fullname, name)
        if package == "tremula.tf.ipu":
            from tremula.tf.ipu import _planned
            message = _planned.message(tail)
            if message is not None:
                # Not ModuleNotFoundError: `from package import name` swallows that one.
                raise ImportError(message, name=fullname)
        return None


def resolve(package, tail):
    """The full name of the module `tail` of `package`, or None where there is none.

    In `tremula.tf.ipu` a name is looked for at its own place, at the top, and in the FLATTENED
    packages, so that all spellings reach one module.
    """
    candidates = [tail]
    if package == "tremula.tf.ipu":
        leaf = tail
        for inner in sorted(FLATTENED, key=len, reverse=True):
            if tail.startswith(inner + "."):
                leaf = tail[len(inner) + 1:]
                break
        candidates += [leaf] + [f"{inner}.{leaf}" for inner in FLATTENED]
    for candidate in candidates:
        name = f"{package}.{candidate}"
        if _exists(name):
            return name
    return None


def alias_spec(fullname, target, on_load=None):
    """A module spec that makes `fullname` another name of the module `target`."""
    from importlib.machinery import ModuleSpec
    return ModuleSpec(fullname, AliasLoader(target, on_load))


def _exists(name):
    if name in sys.modules:
        return True
    from importlib.util import find_spec
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a package on the way to it is missing
        return False


def install():
    """Adds the finder to `sys.meta_path`, once."""
    if not any(type(finder).__name__ == "Finder" and type(finder).__module__ == __name__
               for finder in sys.meta_path):
        sys.meta_path.append(Finder())


install()
