"""Models of Keras 3 in the scope of an IPUStrategy: unmodified fit, evaluate and predict.

Keras 3 calls a function of its own for each execution of `steps_per_execution` steps. In the scope
that function takes the batches from the host's iterator and runs those of one shape as one program
with a loop. So a last batch may be smaller. Accumulation, pipelines and replicas, which stock Keras
does not have, need Keras 2.
"""

import functools
import itertools

import tensorflow as tf

from tremula import _finder
from tremula.tf.inner import functions, patches
from tremula.tf.ipu import ipu_outfeed_queue, ipu_strategy, utils
from tremula.tf.keras.extensions import messages

_ONE_IPU = (
    "A model of Keras 3 runs on one IPU, but the device {} has {}. Configure a device with one "
    "IPU, or use Keras 2, whose models run in replicas there: set TF_USE_LEGACY_KERAS=1, or "
    "import tf_keras.")


@functools.cache
def install():
    """Makes Keras 3 call this module as soon as it is imported."""
    _finder.watch("keras.src.backend.tensorflow.trainer", _install_trainer)
    _finder.watch("keras.src.trainers.trainer", _install_compile)


def _install_trainer(module):
    patches.wrap_keras_methods(module.TensorFlowTrainer, ["_make_function"], _making_function)
    patches.wrap_keras_methods(module.TensorFlowTrainer, ["make_predict_function"],
                               _making_predict_function)
    patches.wrap_keras_methods(module.TensorFlowTrainer, ["fit", "evaluate", "predict"],
                               _iterating_on_the_host)


def _install_compile(module):
    if hasattr(module.Trainer, "_resolve_auto_jit_compile"):
        patches.wrap_keras_methods(module.Trainer, ["_resolve_auto_jit_compile"], _not_for_ipus)


def _not_for_ipus(resolve):
    """Keras compiles if there are devices beside CPUs. IPUs must not count, because a model outside
    of a strategy's scope does not run on them."""
    def resolve_auto_jit_compile(self):
        kinds = {one.device_type for one in tf.config.list_physical_devices()}
        return resolve(self) if kinds - {"CPU", "IPU"} else False
    return resolve_auto_jit_compile


def _strategy(model):
    """The IPUStrategy that a model was made in, or None."""
    strategy = model._distribute_strategy
    return strategy if isinstance(strategy, ipu_strategy.IPUStrategyV1) else None


def _iterating_on_the_host(method):
    def call(self, *arguments, **keywords):
        strategy = _strategy(self)
        if strategy is None:
            return method(self, *arguments, **keywords)
        with strategy.plain_dataset_iterators():
            return method(self, *arguments, **keywords)
    return call


# ---- Functions of executions ----

def _making_function(make):
    def make_function(self, step_function):
        if _strategy(self) is None:
            return make(self, step_function)
        run = _Execution(self, step_function, ipu_outfeed_queue.IPUOutfeedMode.LAST)

        def execute(iterator):
            batches = list(itertools.islice(iterator, self.steps_per_execution))
            if not batches:
                raise StopIteration
            return run(batches)[-1]

        return execute
    return make_function


def _making_predict_function(make):
    def make_predict_function(self, force=False):
        if _strategy(self) is None:
            return make(self, force)
        if self.predict_function is None or force:
            run = _Execution(self, self.predict_step, ipu_outfeed_queue.IPUOutfeedMode.ALL)

            def execute(batches):
                outputs = [tf.nest.map_structure(_joined, one) for one in run(batches)]
                return tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *outputs)

            self.predict_function = execute
        return self.predict_function
    return make_predict_function


def _joined(value):
    """[steps, batch, ...] as [steps * batch, ...]."""
    return tf.reshape(value, [-1, *value.shape[2:]])


class _Execution:
    """Runs steps of a model on the IPU. One program serves all executions with the same number of
    batches of the same shapes."""

    def __init__(self, model, step, mode):
        if model.run_eagerly:
            raise RuntimeError(messages.EAGER)
        self._strategy = _strategy(model)
        self._step = model._autoconvert_optionals(step)
        self._mode = mode
        self._programs = {}

    def __call__(self, batches):
        """A list of the results of each run of batches of one shape: those of the last step, or
        those of all with a dimension for the steps."""
        device = self._strategy.extended.non_slot_devices(None)
        count = utils.get_num_of_ipus_in_device(device)
        if count != 1:
            raise ValueError(_ONE_IPU.format(device, count))
        with tf.device("/device:CPU:0"):
            batches = [tf.nest.map_structure(_plain, one) for one in batches]
            return [self._run(list(run)) for _, run in itertools.groupby(batches, _types)]

    def _run(self, batches):
        data = tf.nest.map_structure(
            lambda *parts: None if parts[0] is None else tf.stack(parts), *batches)
        key = _types(data)
        if key not in self._programs:
            outfeed = ipu_outfeed_queue.IPUOutfeedQueue(self._mode)
            self._programs[key] = self._make(len(batches), outfeed), outfeed
        program, outfeed = self._programs[key]
        self._strategy.run(program, args=(data,))
        return outfeed.dequeue()

    def _make(self, count, outfeed):
        def execution(data):
            def body(done):
                batch = tf.nest.map_structure(
                    lambda one: None if one is None else one[done], data)
                outfeed.enqueue(self._step(batch))
                return done + 1

            tf.while_loop(lambda done: done < count, body, [tf.constant(0)])

        return functions.without_retracing_warning(
            tf.function(execution, jit_compile=True, autograph=False))


def _plain(value):
    """A value of an element as a tensor of a type that an IPU has; None for None."""
    if value is None or isinstance(value, tf.experimental.Optional):
        return None
    value = tf.convert_to_tensor(value)
    return tf.cast(value, tf.float32) if value.dtype == tf.float64 else value


def _types(structure):
    """The structure with types and shapes in the place of tensors, as a key."""
    return repr(tf.nest.map_structure(
        lambda one: None if one is None else (one.dtype.name, tuple(one.shape)), structure))
