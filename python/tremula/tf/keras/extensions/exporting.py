"""SavedModels of extended models for TensorFlow Serving."""

import contextlib
import inspect

import tensorflow as tf

from tremula.tf.ipu import serving
from tremula.tf.keras.extensions import messages


class Exporting:
    """The method that exports a model."""

    def export_for_ipu_serving(
            self, export_dir, batch_size=None, output_names=None, preprocessing_step=None,
            preprocessing_step_signature=None, postprocessing_step=None,
            postprocessing_step_signature=None, purge_export_dir=False):
        """Writes a SavedModel that predicts on IPUs, with preprocessing_step before the model and
        postprocessing_step after it on the CPU (see serving.export_single_step()).

        export_dir        folder; must be empty or not there, unless purge_export_dir
        batch_size        samples in a batch, where the model's inputs do not say it
        output_names      names of the outputs, by default output_0, output_1, ...
        *_signature       list of tf.TensorSpec of the arguments of a step

        A call of the exported function does one step on one IPU. Neither the
        `steps_per_execution` of compile() nor pipeline stages change its results. Returns a
        function of tensors that calls the exported one.

        Raises RuntimeError for a model whose inputs are not known, ValueError for one whose shapes
        are not and for a folder that is not empty.
        """
        specs = _with_batch_size(_inputs(self), batch_size)
        steps = self._steps_per_execution
        iterations = 1 if steps is None else int(steps.numpy())
        signature = tf.nest.flatten(specs)

        def packed(values):
            return tf.nest.pack_sequence_as(specs, values)

        def call(*values):
            with _strategy_scope(self):
                return self(packed(values), training=False)

        predict = _named(call, signature)
        return serving.export_single_step(
            predict, export_dir, iterations, signature, output_names=output_names,
            preprocessing_step=preprocessing_step,
            preprocessing_step_signature=preprocessing_step_signature,
            postprocessing_step=postprocessing_step,
            postprocessing_step_signature=postprocessing_step_signature,
            purge_export_dir=purge_export_dir)


def _strategy_scope(model):
    """A block in the scope of an IPUStrategy, which stages in call() ask for: the one that is
    around already, else the model's own."""
    is_around = isinstance(tf.distribute.get_strategy(), type(model.distribute_strategy))
    return contextlib.nullcontext() if is_around else model.distribute_strategy.scope()


def _inputs(model):
    """A structure of TensorSpecs of a model's inputs. Raises RuntimeError if they are not known."""
    signature = getattr(model.call, "input_signature", None)
    if signature is not None:
        return list(signature)[0] if len(signature) == 1 else list(signature)
    known = getattr(model, "_nested_inputs", None)
    if known is None:
        known = model.inputs or model.save_spec(dynamic_batch=False)
        known = known[0][0] if isinstance(known, tuple) else known
    if known is None:
        raise RuntimeError(messages.NO_SIGNATURE)
    return tf.nest.map_structure(
        lambda one: tf.TensorSpec(one.shape, one.dtype, getattr(one, "name", None)), known)


def _with_batch_size(specs, batch_size):
    def fixed(spec):
        shape = spec.shape.as_list() if spec.shape.rank is not None else [None]
        if batch_size is not None and shape:
            shape[0] = batch_size
        if None in shape:
            raise ValueError(messages.NO_BATCH_SIZE)
        return tf.TensorSpec(shape, spec.dtype, spec.name)

    return tf.nest.map_structure(fixed, specs)


def _named(function, signature):
    """The function with arguments that have the names of the inputs, if these can be names."""
    names = [one.name or "" for one in signature]
    if len(set(names)) == len(names) and all(one.isidentifier() for one in names):
        function.__signature__ = inspect.Signature([
            inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD) for one in names])
    function.__name__ = "predict"
    return function
