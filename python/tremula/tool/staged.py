"""A file of Keras' whose model has pipeline stages -> the program that its fit() or predict() runs.

The model is loaded in the scope of an IPUStrategy, with its options, and called on zeros. The call
ends where its program is lowered, so nothing is computed and no IPU is attached.
"""

import functools
import os
import re
import zipfile

from tremula import tool
from tremula.tool import lower

_STAGES = re.compile(rb'\\?"pipeline_stage_assignment\\?": *\[ *[^\] ]')


def has_stages(path):
    """Whether a file of Keras', .keras or .h5, or a SavedModel holds a model with stages."""
    if os.path.isdir(path):
        path = os.path.join(path, "keras_metadata.pb")
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                data = archive.read("config.json")
        else:
            with open(path, "rb") as file:
                data = file.read()
    except (OSError, KeyError, zipfile.BadZipFile):
        return False  # the ordinary reader says what is wrong
    return _STAGES.search(data) is not None


def use_ipu_model():
    """Lets the configuration have any number of IPUs. Before TensorFlow is imported."""
    known = os.environ.get("TF_POPLAR_FLAGS", "")
    os.environ["TF_POPLAR_FLAGS"] = f"{known} --use_ipu_model".strip()


def lower_program(path, shapes, batch, optimiser=None):
    """The bytes of the module that predict(), or with an optimiser fit(), runs for one weight
    update. batch: of a mini-batch, where the model does not say its own."""
    from tremula.tf.runtime.launching import launching
    with _strategy(1).scope():
        ipus = _load(path)._get_shard_count()
    with _strategy(1 << (ipus - 1).bit_length()).scope():
        model = _load(path)
        count = _accumulate(model)
        inputs = _inputs(model, shapes, batch)
        if not optimiser:
            model.compile(steps_per_execution=count)
            call = functools.partial(model.predict, _repeated(_packed(model, inputs)), steps=count)
        else:
            loss, targets = _loss(model, inputs)
            model.compile(_optimizer(optimiser), loss, steps_per_execution=count)
            call = functools.partial(
                model.fit, _repeated((_packed(model, inputs), targets)), steps_per_epoch=count,
                verbose=0)
        return launching.lowered_by(call)


def _strategy(ipus):
    from tensorflow.python import ipu
    ipu.config.reset_ipu_configuration()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def _load(path):
    from tremula.tf.inner import keras
    try:
        return keras.load_model(path)
    except Exception as error:
        raise tool.Complaint(f"Keras cannot load {path}: {error}") from error


def _accumulate(model):
    """The mini-batches of a weight update: the model's own number, or the least that every schedule
    takes."""
    count = model._pipelining_gradient_accumulation_steps_per_replica
    if count is None:
        count = 2 * (model._get_pipeline_maximum_pipeline_stage() + 1)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=count)
    return count


def _inputs(model, shapes, batch):
    """Zeros for the model's inputs, by name."""
    import tensorflow as tf
    known = {one.name.split(":")[0]: one for one in model.inputs or ()}
    if not known:
        raise tool.Complaint("the model does not say what it takes, as models of classes of one's "
                             "own do: plan a functional or Sequential one")
    lower.refuse_idle_batch(batch, {name: one.shape for name, one in known.items()}, shapes)
    size = lower.Batch(batch) if batch else None
    found = {name: tf.zeros(lower.full_shape(name, one.shape, shapes, size), one.dtype)
             for name, one in known.items()}
    lower.refuse_unused(shapes, known)
    return found


def _packed(model, inputs):
    """The inputs as the model takes them: one, or a list in its order."""
    values = list(inputs.values())
    return values[0] if len(values) == 1 else tuple(values)


def _repeated(element):
    import tensorflow as tf
    return tf.data.Dataset.from_tensors(element).repeat()


def _loss(model, inputs):
    """Keras' loss, and targets: the cross-entropy of one output [items, classes] with labels,
    otherwise the mean squared difference, as training.py has it for other models."""
    import tensorflow as tf
    from tremula.tf.inner import keras
    batch = next(iter(inputs.values())).shape[0]
    shapes = [tf.TensorShape([batch]).concatenate(one.shape[1:]) for one in model.outputs]
    if len(shapes) == 1 and shapes[0].rank == 2 and shapes[0][1] > 1:
        last = getattr(model.layers[-1], "activation", None)
        is_softmax = getattr(last, "__name__", "") == "softmax"
        loss = keras.public("losses").SparseCategoricalCrossentropy(from_logits=not is_softmax)
        return loss, tf.zeros([batch], tf.int32)
    targets = [tf.zeros(shape, one.dtype) for shape, one in zip(shapes, model.outputs)]
    return "mse", targets[0] if len(targets) == 1 else tuple(targets)


def _optimizer(name):
    """Keras' older optimizers: the newer SGD keeps momenta that are zero."""
    from tremula.tf.inner import keras
    kinds = keras.public("optimizers").legacy
    return {"sgd": kinds.SGD, "adam": kinds.Adam,
            "momentum": functools.partial(kinds.SGD, momentum=.9)}[name]()
