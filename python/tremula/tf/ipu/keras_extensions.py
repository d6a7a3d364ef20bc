"""Which classes of Keras a strategy extends (`tensorflow.python.ipu.keras_extensions`).

The class of a layer or model that is made in the scope of a strategy becomes one with the
extension among its bases, behind the original class. So the original's methods come first, and
those of Keras hand over to the extension's (extension_delegate()).
"""

import collections
import contextlib
import functools
import inspect
import sys

import tensorflow as tf

from tremula import _callers
from tremula.tf.inner import patches, strategies, versions


# What programs of SDK 2.1 and earlier have and later ones do not. In theirs, iter(dataset) was
# TensorFlow's.
_OF_SDK_2_1 = ("experimental_run_v2", "create_ipu_config", "ipu.keras.Model",
               "ipu.keras.Sequential", "ipu.keras.PipelineModel", "PipelineSequential",
               "PipelinedModel", "SequentialPipelineModel")


class KerasExtension:
    """What an extension of a class of Keras derives from."""


class KerasExtensionManager:
    """Extensions by the class that they extend, in the order in which they were registered."""

    def __init__(self):
        self._extensions = collections.OrderedDict()

    def _register_extension(self, class_type, extension_type, extension):
        self._extensions[(class_type, extension_type)] = extension

    def _delete_extension(self, class_type, extension_type):
        self._extensions.pop((class_type, extension_type), None)

    def _get_extension(self, class_type, extension_type):
        return self._extensions.get((class_type, extension_type))

    def items(self):
        """Pairs ((class, extension's base class), extension)."""
        return list(self._extensions.items())


_extensions_manager = KerasExtensionManager()


class KerasExtensions:
    """The part of an IPU strategy that Keras and datasets ask."""

    def __init__(self, enable_dataset_iterators=True, enable_keras_extensions=True):
        self._dataset_iterators_enabled = enable_dataset_iterators
        self._keras_extensions_enabled = enable_keras_extensions
        self._own_extensions = KerasExtensionManager()

    def _enable_dataset_iterators(self):
        """Whether iter(dataset) is an IPU's iterator now."""
        return self._dataset_iterators_enabled and tf.executing_eagerly()

    @contextlib.contextmanager
    def plain_dataset_iterators(self):
        """A block in which iter(dataset) is TensorFlow's."""
        before, self._dataset_iterators_enabled = self._dataset_iterators_enabled, False
        try:
            yield
        finally:
            self._dataset_iterators_enabled = before

    def _create_dataset_iterator(self, dataset):
        from tremula.tf.ipu import ipu_infeed_queue
        is_old = _callers.program_says(_OF_SDK_2_1)
        try:
            iterator = ipu_infeed_queue.IPUOwnedIterator(
                dataset=dataset, device_ordinal=self._device_ordinal)
        except (ValueError, tf.errors.FailedPreconditionError, tf.errors.InvalidArgumentError):
            if is_old:  # which feeds no elements of such types or shapes, but may read them
                return strategies.plain_iterator(dataset)
            raise
        iterator.is_read_eagerly = is_old
        return iterator

    def _register_keras_extension(self, class_type, extension_type, extension=None):
        """Programs of SDK 2.2 and 2.3 give the class and its extension only."""
        if extension is None:
            extension_type, extension = KerasExtension, extension_type
        self._own_extensions._register_extension(class_type, extension_type, extension)

    def _delete_keras_extension(self, class_type, extension_type=KerasExtension):
        self._own_extensions._delete_extension(class_type, extension_type)

    def _get_keras_extension(self, class_type, extension_type=KerasExtension):
        """This strategy's extension, else that of all strategies, or None."""
        return (self._own_extensions._get_extension(class_type, extension_type)
                or _extensions_manager._get_extension(class_type, extension_type))

    def _patch_keras_extension(self, instance):
        """Gives an object the class that extends its own, if there is one. Raises RuntimeError for
        an object that another class has extended."""
        if not self._keras_extensions_enabled:
            return
        for (class_type, extension_type), extension in (
                self._own_extensions.items() + _extensions_manager.items()):
            if isinstance(instance, class_type):
                _patch(instance, extension_type, extension)
                return


def _patch(instance, extension_type, extension):
    if isinstance(instance, extension_type):
        if not isinstance(instance, extension):
            raise RuntimeError("KerasExtension patching failed - already patched with a different "
                               "extension.")
        return
    original = type(instance)

    def initialize(self, *arguments, **keywords):
        original.__init__(self, *arguments, **keywords)
        extension.__init__(self)

    # Keras reads the arguments of constructors, and saves the names of classes.
    initialize.__signature__ = inspect.signature(original.__init__)
    names = {name: value for name, value in vars(original).items()
             if name.startswith("_keras_api_names")}
    instance.__class__ = type(original.__name__, (original, extension), {
        **names, "__init__": initialize, "__module__": original.__module__,
        "__qualname__": original.__qualname__, "__original_class__": original})
    extension.__init__(instance)


def are_extended():
    """Whether models that are made now are extended."""
    return getattr(strategies.strategy(), "_keras_extensions_enabled", False)


# ---- Keras' methods ----

def extension_delegate(function):
    """Decorator of a method `f` of a class of Keras: where the object is extended, the extension
    has `_f_supported` and `_f_delegate`, the arguments of the latter are named as those of `f`,
    and _f_supported(arguments) is true, _f_delegate(arguments) is called in its place. The keyword
    `__extension_delegate=False` prevents that. Of a class method, under the decorator
    `classmethod`, the extension's methods are class methods too and get the same class."""
    name = function.__name__
    prefix = name if name.startswith("_") else f"_{name}"

    def delegating(self, *arguments, **keywords):
        wanted = keywords.pop("__extension_delegate", True)
        if wanted and isinstance(self, type):
            extension = _extension_of_class(self)
            delegate = _delegate(extension, function, prefix)
            if delegate is not None and getattr(extension, f"{prefix}_supported").__func__(
                    self, *arguments, **keywords):
                return delegate.__func__(self, *arguments, **keywords)
        elif wanted and isinstance(self, KerasExtension):
            delegate = _delegate(self, function, prefix)
            if delegate is not None and getattr(self, f"{prefix}_supported")(
                    *arguments, **keywords):
                return delegate(*arguments, **keywords)
        return function(self, *arguments, **keywords)

    # Keras asks for the arguments in TensorFlow's way, which knows decorators of this kind.
    delegating = tf.__internal__.decorator.make_decorator(function, delegating)
    delegating.__original_func__ = function
    return delegating


def _extension_of_class(cls):
    """The extension of a class in the current strategy, or None. A class method that hands over
    has no object that is extended."""
    find = getattr(strategies.strategy(), "_get_keras_extension", None)
    return find(cls, KerasExtension) if find is not None else None


def _delegate(instance, function, prefix):
    delegate = getattr(instance, f"{prefix}_delegate", None)
    if delegate is None or not hasattr(instance, f"{prefix}_supported"):
        return None
    same = _parameters(delegate.__func__) == _parameters(function)
    return delegate if same else None


@functools.cache
def _parameters(function):
    return inspect.getfullargspec(inspect.unwrap(function))._replace(annotations={})


def check_if_extension_delegate_exists(func_name, instance):
    """Whether an object has an extension of a method."""
    prefix = func_name if func_name.startswith("_") else f"_{func_name}"
    return isinstance(instance, KerasExtension) and hasattr(instance, f"{prefix}_delegate")


def extension_delegate_if_exists(func_name, instance, *args, **kwargs):
    """Calls an extension's `func_name` if the object has the extension and that supports the
    arguments."""
    prefix = func_name if func_name.startswith("_") else f"_{func_name}"
    if check_if_extension_delegate_exists(func_name, instance) and getattr(
            instance, f"{prefix}_supported")(*args, **kwargs):
        return getattr(instance, f"{prefix}_delegate")(*args, **kwargs)
    return None


_register = None  # registers the extensions, which stand above this module


@functools.cache
def install(register):
    """Makes Keras 2 ask the current strategy about each new layer, as soon as Keras is there.
    `register` registers the extensions of Keras' classes; it may be called again."""
    global _register
    from tremula import _finder
    _register = register
    for package in ("keras", "tf_keras"):  # the program's is known when it imports one
        source = f"{package}.src"
        _finder.watch(f"{source}.engine.base_layer", _install)
        _finder.watch(source, lambda module: register_if_loaded(strategies.strategy()))
        _finder.watch(f"{source}.mixed_precision.loss_scale_optimizer", lambda module: (
            patches.wrap_keras_methods(module, ["strategy_supports_loss_scaling"],
                                       _or_strategy_does)))
        _finder.watch(f"{source}.mixed_precision.device_compatibility_check", lambda module: (
            patches.wrap_keras_methods(module, ["log_device_compatibility_check"], _silent)))


def register_if_loaded(strategy):
    """Registers the extensions if Keras 2 is loaded and a strategy extends its models. Called
    where a scope begins and when Keras is loaded: a program may begin with loading a model, and
    what loads models knows of extensions only then."""
    source = sys.modules.get(f"{versions.keras_package()}.src")
    if getattr(strategy, "_keras_extensions_enabled", False) and hasattr(source, "Model"):
        _register()


def _or_strategy_does(has_in_list):
    """Keras has a list of the strategies in which losses can be scaled."""
    return lambda: has_in_list() or getattr(strategies.strategy(), "supports_loss_scaling", False)


def _silent(warn):
    """Keras warns of float16 where there is no GPU. IPUs have float16."""
    del warn
    return lambda policy_name: None


def _install(base_layer):
    if not hasattr(base_layer, "Layer"):
        return  # Keras 3
    patches.after_keras_layers(base_layer, _extend)
    patches.show_in_keras(base_layer, {"TFKerasExtension": KerasExtension, **{
        one.__name__: one for one in (
            KerasExtension, extension_delegate, extension_delegate_if_exists,
            check_if_extension_delegate_exists)}})


def _extend(layer):
    strategy = strategies.strategy()
    extend = getattr(strategy, "_patch_keras_extension", None)
    if extend is None or getattr(layer, "_tremula_own_fit", False):
        return
    if strategy._keras_extensions_enabled:
        _register()
    extend(layer)
