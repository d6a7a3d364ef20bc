"""Checks of the arguments of the models' methods."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.inner import logs
from tremula.tf.keras.extensions import messages

# In the order of their names in a message.
_UNSUPPORTED = (
    "sample_weight_mode", "weighted_metrics", "target_tensors", "distribute", "run_eagerly",
    "validation_split", "validation_data", "class_weight", "sample_weight", "validation_steps",
    "validation_freq", "max_queue_size", "workers", "use_multiprocessing")


def check_supported(method, keywords):
    """Raises NotImplementedError for arguments of Keras' that these models do not have."""
    given = [name for name in _UNSUPPORTED if name in keywords]
    if given:
        raise NotImplementedError(messages.UNSUPPORTED.format(method, ", ".join(given)))


def check_batch_size(who, method, x, batch_size):
    """Raises ValueError for a batch size beside a dataset, which has its own."""
    if batch_size and isinstance(x, tf.data.Dataset):
        raise ValueError(messages.BATCH_SIZE.format(who, method))


def check_elements(method, dataset, count):
    """Raises ValueError for a dataset of another number of elements."""
    found = len(tf.nest.flatten(dataset.element_spec))
    if found != count:
        raise ValueError(messages.ELEMENTS % (method, count, found))


def check_compile(optimizer, loss_weights, keywords):
    """Raises ValueError and NotImplementedError for what these models cannot be compiled with."""
    if isinstance(optimizer, inner.module("optimizers.optimizer_v1").Optimizer):
        raise ValueError(messages.KERAS_V1_OPTIMIZER)
    if not isinstance(loss_weights, (list, type(None))):
        raise ValueError(messages.LOSS_WEIGHTS)
    if keywords.get("steps_per_execution") not in (None, 1):
        raise ValueError(messages.STEPS_PER_EXECUTION)
    check_supported("compile", keywords)


def renamed(who, old_name, old, new_name, new, default):
    """The value of an argument that had another name before SDK 2.0."""
    if old == default:
        return new
    logs.module().warning(messages.RENAMED.format(who, old_name, new_name))
    if new != default:
        raise ValueError(messages.BOTH_NAMES.format(old_name, new_name))
    return old


def is_layer(value):
    """Whether a value is a layer of Keras 2."""
    return isinstance(value, inner.layer_class())
