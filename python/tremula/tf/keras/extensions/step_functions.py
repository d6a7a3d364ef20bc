"""The functions that run on the IPU, of models that are no pipelines: a loop over steps, each with
an element of the infeed and a result for the outfeed."""

import tensorflow as tf

from tremula.tf.inner import functions
from tremula.tf.inner import keras as inner
from tremula.tf.ipu import devices
from tremula.tf.ipu.eager import backprop
from tremula.tf.ipu.ops import _captured_gradients, all_to_all_op, cross_replica_ops
from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer
from tremula.tf.keras.extensions import extensions_util, messages, options

_Reduction = options.ReplicatedMetricReductionMethod


def make_train_function(model, accumulation_count):
    """A function of (steps, iterator, outfeed) that trains a model."""
    apply = _applier(model, accumulation_count)
    unpack = inner.module("engine.data_adapter").unpack_x_y_sample_weight

    def train_step(data):
        x, y, sample_weight = unpack(data)
        with backprop.GradientCaptureContext() as captured:
            with tf.GradientTape() as tape:
                predicted = model(x, training=True)
                loss = model.compute_loss(x, y, predicted, sample_weight)
            if not model.losses:  # those of layers are enough
                model._validate_target_and_loss(y, loss)
            results = model.compute_metrics(x, y, predicted, sample_weight)
            gradients = compute_gradients(model.optimizer, loss, model.trainable_variables, tape)
        apply(gradients, captured.captured_gradients)
        return results

    return _loop(model, train_step, "train_function")


def make_test_function(model):
    """A function of (steps, iterator, outfeed) that evaluates a model."""
    return _loop(model, model.test_step, "test_function")


def make_predict_function(model):
    """A function of (steps, iterator, outfeed) that predicts."""
    return _loop(model, model.predict_step, "predict_function")


def _loop(model, step, name):
    def run(steps, iterator, outfeed):
        def body(done):
            element = tf.nest.map_structure(extensions_util.with_two_dimensions, next(iterator))
            outfeed.enqueue(reduced(model, step(element), name))
            return done + 1

        tf.while_loop(lambda done: done < steps, body, [tf.constant(0)])

    run.__name__ = name
    return functions.without_retracing_warning(tf.function(run, jit_compile=True))


def reduced(model, results, name):
    """The results of a step, of several replicas as the option asks. Losses and metrics are the
    same in all processes."""
    method, processes = model._replicated_metric_reduction_method, devices.num_processes()
    count = model._get_replication_factor() * processes
    if method is _Reduction.NONE and processes > 1 and name != "predict_function":
        method = _Reduction.MEAN
    if count == 1 or method is _Reduction.NONE:
        return results

    def reduce(value):
        if method is _Reduction.LIST:
            return all_to_all_op.all_gather(value, count)
        if method is _Reduction.SUM:
            return cross_replica_ops.cross_replica_sum(value)
        return cross_replica_ops.cross_replica_mean(value)

    return tf.nest.map_structure(lambda one: reduce(tf.convert_to_tensor(one)), results)


def create_variables(model, element_spec):
    """Makes slots and metrics before a function is traced, because TensorFlow traces a function
    again that makes variables. The trace makes those that cannot be made yet."""
    if not model.built:
        return
    create_slots(model.optimizer, model.trainable_variables)
    outputs = getattr(model, "_nested_outputs", None)
    if outputs is None:
        return
    _, targets, _ = inner.module("engine.data_adapter").unpack_x_y_sample_weight(element_spec)
    outputs = tf.nest.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), outputs)
    create_metrics(model, outputs, targets)


def create_slots(optimizer, variables):
    """Makes the variables of an optimizer of Keras."""
    if isinstance(optimizer, inner.legacy_optimizer()):
        optimizer._create_all_weights(variables)
    elif hasattr(optimizer, "build"):
        optimizer.build(variables)


def create_metrics(model, outputs, targets):
    """Makes the variables of a compiled model's loss and metrics."""
    loss, metrics = model.compiled_loss, model.compiled_metrics
    if loss is not None and not loss.built:
        loss.build(outputs)
    if metrics is not None and not metrics.built:  # targets may be a dict by names of outputs
        metrics.build(outputs, metrics._conform_to_outputs(outputs, targets))


# ---- Optimizers ----

def compute_gradients(optimizer, loss, variables, tape):
    """Pairs of gradients and variables, as an optimizer of Keras computes them from a tape. Raises
    ValueError for a variable that the loss does not depend on."""
    if isinstance(optimizer, inner.legacy_optimizer()):
        return _checked(optimizer._compute_gradients(loss, variables, tape=tape))
    if hasattr(optimizer, "compute_gradients"):
        return _checked(optimizer.compute_gradients(loss, variables, tape))
    return optimizer.get_grads(loss, variables)  # Keras' wrapper of one of TensorFlow 1


def _checked(gradients):
    for gradient, variable in gradients:
        if gradient is None:
            raise ValueError(messages.NO_GRADIENT.format(variable.name))
    return gradients


def check_optimizer(optimizer):
    """Raises ValueError for an optimizer whose class has a minimize() of its own, which is not
    called when sums of gradients are applied. As in the original, a class may inherit one."""
    legacy = inner.legacy_optimizer()
    kind = type(getattr(optimizer, "inner_optimizer", optimizer))
    own = vars(kind).get("minimize", legacy.minimize)
    if issubclass(kind, legacy) and own is not legacy.minimize and not kind.__module__.startswith(
            ("tremula.", f"{inner.package()}.")):
        raise ValueError(messages.MINIMIZE)


class _KerasOptimizerWrapper(tf.compat.v1.train.Optimizer):
    """An optimizer of Keras as one of TensorFlow 1. The variables are those of `model`, which may
    be None."""

    _needs_all = True  # the gradients: a variable without one is refused

    def __init__(self, model, opt):
        super().__init__(False, "optimizer_shim")
        self._model, self._optimizer = model, opt

    @property
    def supports_captured_grads(self):
        """Whether the optimizer takes gradients that layers have captured."""
        return _captured_gradients.are_taken_by(self._optimizer)

    def compute_gradients(self, loss, var_list=None, **_):
        """Pairs of gradients and variables. Raises ValueError without variables."""
        if self._model is None and not var_list:
            raise ValueError(messages.NO_VARIABLES)
        variables = var_list if self._model is None else self._model.trainable_weights
        legacy = inner.legacy_optimizer()
        if isinstance(self._optimizer, legacy) and (
                self._needs_all or type(self._optimizer).get_gradients is not legacy.get_gradients):
            return list(zip(self._optimizer.get_gradients(loss, variables), variables))
        if hasattr(self._optimizer, "get_grads"):  # Keras' wrapper of one of TensorFlow 1
            return self._optimizer.get_grads(loss, variables)
        if hasattr(self._optimizer, "get_scaled_loss"):
            scaled = tf.gradients(self._optimizer.get_scaled_loss(loss), variables)
            gradients = self._optimizer.get_unscaled_gradients(scaled)
        else:
            gradients = tf.gradients(loss, variables)
        pairs = list(zip(gradients, variables))
        return _checked(pairs) if self._needs_all else pairs

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, captured_grads=None):
        """The operation that applies gradients. Raises ValueError for captured ones where the
        optimizer takes none."""
        del global_step, name
        if captured_grads:
            if not _captured_gradients.are_taken_by(self._optimizer):
                raise ValueError(messages.NO_CAPTURED)
            applied = self._optimizer.apply_gradients(grads_and_vars, captured_grads=captured_grads)
        else:
            applied = self._optimizer.apply_gradients(grads_and_vars)
        return tf.no_op() if applied is None else applied


def _applier(model, count):
    """The function of (pairs, captured gradients) that applies gradients, or adds them up."""
    optimizer = accumulating(model, model.optimizer, count) if count > 1 else model.optimizer

    def apply(gradients, captured):
        if captured and _captured_gradients.are_taken_by(optimizer):
            optimizer.apply_gradients(gradients, captured_grads=captured)
        else:
            optimizer.apply_gradients(gradients)

    return apply


def accumulating(model, optimizer, count):
    """An optimizer that applies another one in each `count`th step."""
    from tremula.tf.keras.optimizers import als_optimizer
    from tremula.tf.keras.optimizers import gradient_accumulation_optimizer as by_variable
    check_optimizer(optimizer)
    keywords = {"reduction_method": model._gradient_accumulation_reduction_method,
                **model._gradient_accumulation_optimizer_kwargs}
    if isinstance(optimizer, als_optimizer.ALSOptimizer):
        return als_optimizer.ALSGradientAccumulationOptimizer(optimizer, count, **keywords)
    if not model._use_v2_gradient_accumulation_optimizer:
        return gradient_accumulation_optimizer.GradientAccumulationOptimizerV2(
            _KerasOptimizerWrapper(model, optimizer), count, **keywords)
    try:
        optimizer = inner.to_legacy(optimizer)
    except ValueError:
        raise ValueError(messages.ONLY_V2) from None
    return by_variable.GradientAccumulationOptimizer(optimizer, count, **keywords)
