"""Optimizers as programs for Keras 2.6 use them: `tf.keras.optimizers.SGD` was one with slots.

Keras 2.15 has other classes under these names and keeps the old ones in `optimizers.legacy`. The
new ones refuse the old ones' arguments, or ignore them, and never call the methods that a subclass
of an old one overrides. Here a call with such an argument gives the old class, as does any call in
a program that imports `keras.optimizer_v2`, and a program's subclass with such a method gets the
old class as its base. A subclass that only hands such an argument to its base gets it when it does.

`isinstance(optimizer, tf.keras.optimizers.Optimizer)` is true for both families, as all optimizers
were of that class.
"""

import abc
import functools
import importlib

# Keyword arguments that only the old classes take. The new ones log that they ignore `lr`.
_OLD = {"decay", "gradient_aggregator", "gradient_transformers", "lr"}
# And those that only the new ones take.
_NEW = {"ema_momentum", "ema_overwrite_frequency", "jit_compile", "use_ema", "weight_decay"}

_program = {"is_old": False}


def prefer():
    """The program is one for Keras 2.6."""
    _program["is_old"] = True


def install(watch, package):
    """Makes the optimizers of `package`, a Keras 2, do so. watch(name, function) calls
    function(module) for a module that is there, or as soon as it is."""
    watch(f"{package}.src.optimizers.optimizer",
          lambda module: _Classes(package, module.Optimizer).install())
    watch(f"{package}.src.mixed_precision.loss_scale_optimizer",
          lambda module: _inherit_loss_scaling(package, module))
    for root in (package, f"{package}.api._v2.keras", "tensorflow.keras"):
        for place in ("optimizers", "optimizers.experimental"):
            watch(f"{root}.{place}", _show_both)


class _Both(abc.ABCMeta):
    """The class of a stand-in for the base of the new optimizers, whose objects are those of
    `families`. A subclass of the stand-in has no others than its own."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, vars(cls).get("families", ())) or super().__instancecheck__(
            instance)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, vars(cls).get("families", ())) or super().__subclasscheck__(
            subclass)


@functools.cache
def _both(new, old):
    """A class that programs take for the base of all optimizers, and inherit from as from `new`."""
    return _Both(new.__name__, (new,), {
        "__module__": new.__module__, "__qualname__": new.__qualname__, "__doc__": new.__doc__,
        "families": (new, old)})


def _show_both(module):
    """Gives a public module the stand-in for its `Optimizer`. Keras' own modules keep the class."""
    new = getattr(module, "Optimizer", None)
    package = getattr(new, "__module__", "").partition(".")[0]
    try:
        legacy = importlib.import_module(f"{package}.src.optimizers.legacy.optimizer_v2")
    except ImportError:  # Keras 3
        return
    if not isinstance(new, _Both):
        module.Optimizer = _both(new, legacy.OptimizerV2)


class _Classes:
    """The new and the old classes of one Keras."""

    def __init__(self, package, new):
        self._package, self._new = package, new

    def install(self):
        """Puts hooks where new classes are called and inherited from."""
        new, classes = self._new, self

        def create(cls, *arguments, **keywords):
            prefers = _program["is_old"] and not _NEW & keywords.keys()
            old = classes._old(cls) if prefers or _OLD & keywords.keys() else None
            return old(*arguments, **keywords) if old else super(new, cls).__new__(cls)

        def inherit(cls, **keywords):
            super(new, cls).__init_subclass__(**keywords)
            own = {name for one in cls.__mro__ if not self._is_stock(one) for name in vars(one)}
            if not self._is_stock(cls) and own & self._methods() and "update_step" not in own:
                self._inherit_old(cls)
            for base in cls.__mro__:
                if issubclass(base, new) and not self._is_stock(cls) and self._old(base):
                    self._watch_arguments(base)

        new.__new__ = staticmethod(create)
        new.__init_subclass__ = classmethod(inherit)

    def _is_stock(self, cls):
        """Whether a class is Keras' or TensorFlow's."""
        return cls.__module__.startswith((f"{self._package}.", "tensorflow.", "builtins"))

    def _old(self, cls):
        """The old class with the name of a new one of Keras, or None."""
        legacy = importlib.import_module(f"{self._package}.optimizers.legacy")
        return getattr(legacy, cls.__name__, None) if self._is_stock(cls) else None

    def _methods(self):
        """The names of methods that only the old classes call."""
        old = importlib.import_module(f"{self._package}.optimizers.legacy").Optimizer
        return {name for name in set(dir(old)) - set(dir(self._new))
                if callable(getattr(old, name)) and (
                    name.startswith("_") or name == "get_gradients")}

    def _watch_arguments(self, base):
        """Has a new class give an object of a program's subclass that begins with an argument of
        the old classes to the old one."""
        begin = base.__init__
        if hasattr(begin, "for_subclasses"):
            return

        @functools.wraps(begin)
        def begin_either(optimizer, *arguments, **keywords):
            if self._is_stock(type(optimizer)) or not _OLD & keywords.keys():
                return begin(optimizer, *arguments, **keywords)
            self._inherit_old(type(optimizer))
            return self._old(base).__init__(optimizer, *arguments, **keywords)

        begin_either.for_subclasses = True
        base.__init__ = begin_either

    def _inherit_old(self, cls):
        """Puts old classes in the place of the new ones that a class of a program inherits from,
        where each of them has an old one."""
        for base in cls.__bases__:
            if issubclass(base, self._new) and not self._is_stock(base):
                self._inherit_old(base)
        cls.__bases__ = tuple((issubclass(base, self._new) and self._old(base)) or base
                              for base in cls.__bases__)
        if not issubclass(cls, self._new) and "__new__" not in vars(cls):
            # Without one, Python would hand the arguments to object's, which takes none.
            cls.__new__ = staticmethod(lambda cls, *_, **__: object.__new__(cls))


def _inherit_loss_scaling(package, module):
    """Makes a program's subclass of LossScaleOptimizer, which Keras 2.15 has only to choose between
    two classes, one of the old class."""
    from tremula.tf.inner import patches
    choosing, old = module.BaseLossScaleOptimizer, module.LossScaleOptimizer

    def inherit(cls, **keywords):
        super(choosing, cls).__init_subclass__(**keywords)
        cls.__bases__ = tuple(old if base is choosing else base for base in cls.__bases__)

    def around_old(create):
        def create_around_old(cls, inner_optimizer, *arguments, **keywords):
            new = importlib.import_module(f"{package}.src.optimizers.optimizer").Optimizer
            if issubclass(cls, old) and cls is not old and isinstance(inner_optimizer, new):
                optimizers = importlib.import_module(f"{package}.src.optimizers")
                inner_optimizer = optimizers.convert_to_legacy_optimizer(inner_optimizer)
            return create(cls, inner_optimizer, *arguments, **keywords)
        return create_around_old

    choosing.__init_subclass__ = classmethod(inherit)
    patches.wrap_keras_methods(type(choosing), ["__call__"], around_old)
