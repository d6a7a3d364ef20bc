"""The base of the models of SDK 2.1."""

import tensorflow as tf

from tremula.tf.inner import keras as inner
from tremula.tf.inner import strategies
from tremula.tf.keras.extensions import extensions_util, messages, step_functions
from tremula.tf.keras.models import arguments, data, programs, running, steps
from tremula.tf.runtime.base import checks, feed_arguments

untracked = tf.__internal__.tracking.no_automatic_dependency_tracking


class IpuModelBase(inner.public().Model):
    """A model whose fit, evaluate and predict each are a loop on the IPU. It cannot be called.

    gradient_accumulation_count  mini-batches whose gradients are added up in one step
    gradient_accumulation_dtype  of the sums: a type, a function of the variable, or None
    shard_count                  how many IPUs a replica takes
    infeed, outfeed              the queues, while a method runs
    """

    _tremula_own_fit = True

    @untracked
    def _set_up(self, count, dtype, shard_count):
        self.gradient_accumulation_count = checks.whole("gradient_accumulation_count", count,
                                                        least=1)
        self.gradient_accumulation_dtype = dtype
        self.shard_count = 1 << (shard_count - 1).bit_length()
        self.infeed = self.outfeed = self.history = None
        self.args = {}
        self._num_inputs = self._num_outputs = 1
        self._programs = {}

    # ---- Calling, building, saving ----

    def __call__(self, *args, **kwargs):
        """Raises ValueError."""
        raise ValueError(messages.CALLED.format(type(self).__name__))

    def call(self, *_):
        """Raises ValueError."""
        self()

    def build(self, input_shape):
        """Makes the weights, if there are none yet."""

    def save(self, filepath, overwrite=True, include_optimizer=True, save_format=None,
             signatures=None, options=None):
        """Raises NotImplementedError: save_weights() and tf.train.Checkpoint work."""
        raise NotImplementedError(messages.SAVE)

    def _assert_weights_created(self):
        pass  # there are as many as the layers have

    @untracked
    def compile(self, optimizer="rmsprop", loss=None, metrics=None, loss_weights=None, **kwargs):
        """As keras.Model.compile. `optimizer` may be one of TensorFlow 1, too.

        Raises ValueError for `loss_weights` that are no list and for optimizers of Keras 1,
        NotImplementedError for arguments that these models do not have.
        """
        arguments.check_compile(optimizer, loss_weights, kwargs)
        self._programs = {}
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics,
                        loss_weights=loss_weights, **kwargs)

    # ---- Running ----

    @property
    def replication_factor(self):
        """How many replicas of the model the device of the current strategy has.

        Raises ValueError outside of an IPUStrategy and for a device with too few IPUs.
        """
        ordinal = getattr(strategies.strategy(), "_device_ordinal", None)
        if ordinal is None:
            raise ValueError(messages.NO_IPU.format(type(self).__name__))
        return extensions_util.num_replicas(ordinal, self.shard_count)

    def _get_replication_factor(self):
        return self.replication_factor

    def fit(self, x=None, y=None, *, batch_size=None, epochs=1, verbose=1, callbacks=None,
            shuffle=True, initial_epoch=0, steps_per_epoch=None, steps_per_run=None,
            prefetch_depth=None, **kwargs):
        """Trains the model. Returns a History.

        x, y             a dataset of inputs and targets; or arrays, with `batch_size`, the size of
                         a replica's mini-batch
        steps_per_epoch  updates of the weights in an epoch, of all replicas together; by default
                         all for which there are data
        steps_per_run    updates of a replica in one execution; by default all of the epoch
        shuffle          is not used: a dataset shuffles itself

        Raises ValueError for numbers and data that do not fit, NotImplementedError for arguments
        of Keras' that these models do not have.
        """
        del shuffle
        self._run(steps.TRAIN, x, y, batch_size, epochs, verbose, callbacks, initial_epoch,
                  steps_per_epoch, steps_per_run, prefetch_depth, kwargs)
        return self.history

    def evaluate(self, x=None, y=None, *, batch_size=None, verbose=1, steps=None, callbacks=None,
                 steps_per_run=None, prefetch_depth=None, **kwargs):
        """The mean loss and the metrics, a list. The arguments are as in fit()."""
        return self._run(TEST, x, y, batch_size, 1, verbose, callbacks, 0, steps, steps_per_run,
                         prefetch_depth, kwargs)

    def predict(self, x, *, batch_size=None, verbose=0, steps=None, callbacks=None,
                steps_per_run=None, prefetch_depth=None, **kwargs):
        """The outputs for all mini-batches: an array, or a list of several; of a Model in the
        structure of its outputs. The arguments are as in fit()."""
        found = self._run(PREDICT, x, None, batch_size, 1, verbose, callbacks, 0, steps,
                          steps_per_run, prefetch_depth, kwargs)
        return self._in_structure(found)

    def _in_structure(self, found):
        """The list of outputs that predict() has found, as it gives them."""
        return found[0] if len(found) == 1 else found

    @untracked
    def _run(self, mode, x, y, batch_size, epochs, verbose, callbacks, initial_epoch, count,
             steps_per_run, prefetch_depth, keywords):
        who = type(self).__name__
        outfeed_options = keywords.pop("outfeed_options", (False, None))
        arguments.check_batch_size(who, mode, x, batch_size)
        dataset, size = data.of_input(x, y, batch_size)
        arguments.check_supported(mode, keywords)
        self.args = keywords
        arguments.check_elements(mode, dataset, self._num_inputs + (
            0 if mode == PREDICT else self._num_outputs))
        if mode != PREDICT:
            self._assert_compile_was_called()
        plan = steps.plan(
            who, mode, int(dataset.cardinality()), size, count, steps_per_run,
            self.gradient_accumulation_count, self.replication_factor,
            lambda batches: inner.module("engine.training_utils_v1").infer_steps_for_dataset(
                self, dataset, batches, epochs,
                steps_name="steps_per_epoch" if mode == steps.TRAIN else "steps"))
        listed = running.callback_list(self, callbacks, mode, verbose, epochs, plan)
        program = self._program(mode, plan.steps_of_an_execution, outfeed_options, dataset,
                                prefetch_depth)
        self.infeed, self.outfeed = program.infeed, program.outfeed
        try:
            return running.run(self, mode, program, dataset, listed, plan, epochs, initial_epoch,
                               outfeed_options[0])
        finally:
            self.infeed = self.outfeed = None

    def _program(self, mode, steps_per_run, outfeed_options, dataset, prefetch_depth):
        """The program for these arguments, made by the first call that needs it."""
        strategy = strategies.strategy()
        key = (mode, steps_per_run, outfeed_options, prefetch_depth, strategy._device_ordinal,
               self.replication_factor, self.gradient_accumulation_count,
               repr(dataset.element_spec))
        if key not in self._programs:
            self._make_variables(mode, dataset)
            self._programs[key] = programs.Program(
                mode, self._build_program(mode, steps_per_run, *outfeed_options), dataset,
                strategy._device_ordinal, prefetch_depth)
        return self._programs[key]

    def _make_variables(self, mode, dataset):
        """Makes the variables that the first trace would make, after which TensorFlow would trace
        again."""
        specs = self._in_order(*feed_arguments.of_element(dataset.element_spec), mode)
        outputs = self._symbolic_outputs(specs[0])
        if mode == PREDICT:
            return
        targets = specs[self._num_inputs:]
        if self._num_outputs == 1:
            outputs, targets = outputs[0], targets[0]
        step_functions.create_metrics(self, outputs, targets)
        if mode == steps.TRAIN:
            step_functions.create_slots(self.optimizer, self.trainable_variables)

    # ---- Implemented by the classes ----

    def _symbolic_outputs(self, spec):
        """The outputs, as Keras' symbols. `spec` is the first input's. Layers make their weights,
        if they have none yet."""
        raise NotImplementedError

    def _build_program(self, mode, steps_per_run, accumulate, accumulate_dtype):
        """The `build` of programs.Program."""
        raise NotImplementedError

    def _extra_losses(self):
        """Losses that layers have added."""
        return self.losses

    def _in_order(self, element, named, mode):
        """The tensors of a dataset's element: inputs, then targets."""
        del mode
        return tf.nest.flatten([list(element), named])


TEST, PREDICT = steps.TEST, steps.PREDICT
