"""Which classes of Keras a strategy extends (`tensorflow.python.ipu.keras_extensions`)."""

import collections

import tensorflow as tf


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

    def _create_dataset_iterator(self, dataset):
        from tremula.tf.ipu import ipu_infeed_queue
        return ipu_infeed_queue.IPUOwnedIterator(
            dataset=dataset, device_ordinal=self._device_ordinal)

    def _register_keras_extension(self, class_type, extension_type, extension):
        self._own_extensions._register_extension(class_type, extension_type, extension)

    def _delete_keras_extension(self, class_type, extension_type):
        self._own_extensions._delete_extension(class_type, extension_type)

    def _get_keras_extension(self, class_type, extension_type):
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

    instance.__class__ = type(original.__name__, (original, extension), {"__init__": initialize})
    instance.__original_class__ = original
    extension.__init__(instance)
