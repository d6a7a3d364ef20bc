"""Estimators whose models are pipelines (`tensorflow.python.ipu.ipu_pipeline_estimator`)."""

import collections

import tensorflow.compat.v1 as tf

from tremula.tf.inner import python_code
from tremula.tf.ipu import gradient_accumulation as ga
from tremula.tf.ipu import ipu_estimator, ipu_outfeed_queue
from tremula.tf.ipu.legacy_options import LegacyOptions
from tremula.tf.ipu.ops import pipelining_ops
from tremula.tf.runtime.base import checks, estimators

_model_fn = estimators.parts()[1]
_ModeKeys = tf.estimator.ModeKeys
_LOSS = _model_fn.LOSS_METRIC_KEY


class IPUPipelineEstimatorSpec(collections.namedtuple("IPUPipelineEstimatorSpec", [
        "mode", "computational_stages", "gradient_accumulation_count", "eval_metrics_fn",
        "optimizer_function", "device_mapping", "loss_accumulator_dtype", "training_hooks",
        "evaluation_hooks", "prediction_hooks", "reduction_method", "pipeline_op_kwargs",
        "count_gradient_accumulation_as_iterations"])):
    """What a model_fn returns to an IPUPipelineEstimator."""

    def __new__(cls, mode, computational_stages, gradient_accumulation_count=None,
                eval_metrics_fn=None, optimizer_function=None, device_mapping=None,
                loss_accumulator_dtype=None, training_hooks=None, evaluation_hooks=None,
                prediction_hooks=None,
                reduction_method=ga.GradientAccumulationReductionMethod.SUM,
                count_gradient_accumulation_as_iterations=None, pipeline_depth=None,
                **pipeline_op_kwargs):
        """
        computational_stages, gradient_accumulation_count, optimizer_function, device_mapping,
        reduction_method, pipeline_op_kwargs
                         as in pipelining_ops.pipeline; pipeline_depth is an older name of the count
        eval_metrics_fn  gets what the last stage returned, on the host, and returns a dict of
                         metrics, with the loss under "loss"
        count_gradient_accumulation_as_iterations
                         False: iterations_per_loop counts updates, and each takes the count of
                         mini-batches; True: it counts mini-batches, and is a multiple of it. The
                         default is False in a program of SDK 2.0 and before, which gives a
                         pipeline_depth or configures by create_ipu_config, and True in a later one

        Raises ValueError if a function is missing that the mode needs.
        """
        ipu_estimator._check_mode(mode)
        if mode == _ModeKeys.TRAIN and not optimizer_function:
            raise ValueError("`IPUPipelineEstimatorSpec` must contain `optimizer_function` when "
                             "training")
        if mode == _ModeKeys.EVAL and not eval_metrics_fn:
            raise ValueError("`IPUPipelineEstimatorSpec` must contain `eval_metrics_fn` when "
                             "evaluating")
        if pipeline_depth is not None:
            gradient_accumulation_count = pipeline_depth
            if count_gradient_accumulation_as_iterations is None:
                count_gradient_accumulation_as_iterations = False
        if not isinstance(computational_stages, (list, tuple)):
            raise TypeError("computational_stages must be a list of functions, but it is "
                            f"{computational_stages!r}.")
        if gradient_accumulation_count is None:
            raise ValueError("gradient_accumulation_count must be specified.")
        gradient_accumulation_count = checks.whole(
            "gradient_accumulation_count", gradient_accumulation_count, least=1)
        checks.function("eval_metrics_fn", eval_metrics_fn, optional=True)
        checks.function("optimizer_function", optimizer_function, optional=True)
        hooks = [_model_fn._validate_estimator_spec_hooks(one)
                 for one in (training_hooks, evaluation_hooks, prediction_hooks)]
        return super().__new__(
            cls, mode, computational_stages, gradient_accumulation_count, eval_metrics_fn,
            optimizer_function, device_mapping, loss_accumulator_dtype, *hooks, reduction_method,
            pipeline_op_kwargs, count_gradient_accumulation_as_iterations)


class _PipelineProgram(ipu_estimator._Program):
    """Builds the pipeline of one mode."""

    def __init__(self, estimator, infeed, mode):
        super().__init__(estimator, infeed, mode)
        self._outfeed = ipu_outfeed_queue.IPUOutfeedQueue()
        self._loss_count = 1

    def loop(self):
        spec = self._call_pipeline_fn()
        count = spec.gradient_accumulation_count
        repeat = self._iterations
        counts_mini_batches = spec.count_gradient_accumulation_as_iterations
        if counts_mini_batches is None:
            options = self._estimator.config.ipu_run_config.ipu_options
            counts_mini_batches = not isinstance(options, LegacyOptions)
        if counts_mini_batches:
            if self._iterations < count:
                raise ValueError(
                    f"`IPURunConfig.iterations_per_loop` (got {self._iterations}) cannot be less "
                    f"than `gradient_accumulation_count` (got {count})")
            if self._iterations % count:
                raise ValueError(
                    f"`IPURunConfig.iterations_per_loop` (got {self._iterations}) must be "
                    f"divisible by `gradient_accumulation_count` (got {count})")
            repeat //= count
        options = dict(spec.pipeline_op_kwargs)
        self._eval_metrics_fn = spec.eval_metrics_fn
        if self._mode == _ModeKeys.TRAIN:
            self.hooks += spec.training_hooks
            self._loss_count = count
            options.update(
                optimizer_function=spec.optimizer_function, outfeed_loss=True,
                accumulate_outfeed=True, reduction_method=spec.reduction_method,
                accumulate_outfeed_dtype=spec.loss_accumulator_dtype)
        else:
            self.hooks += spec.evaluation_hooks if self._mode == _ModeKeys.EVAL \
                else spec.prediction_hooks
        return pipelining_ops.pipeline(
            spec.computational_stages, count, repeat_count=repeat, infeed_queue=self._infeed,
            outfeed_queue=self._outfeed, device_mapping=spec.device_mapping,
            name=f"ipu_pipeline_estimator_{self._mode}", **options)

    def results(self, compiled):
        with tf.control_dependencies([compiled]):
            values = self._outfeed.dequeue()
        if self._mode == _ModeKeys.TRAIN:
            loss = tf.reduce_mean(tf.cast(values, tf.float32)) / self._loss_count
            return {"loss": loss, "train_op": compiled}
        if self._mode == _ModeKeys.PREDICT:
            return {"predictions": _single(self._of_replicas(values))}
        if isinstance(values, dict):
            metrics = self._eval_metrics_fn(**values)
        else:
            metrics = self._eval_metrics_fn(*values)
        if not isinstance(metrics, dict):
            raise TypeError("The `eval_metrics_fn` must return a dict, but got "
                            f"{type(metrics)}.")
        if _LOSS not in metrics:
            raise KeyError("The dict returned from `eval_metrics_fn` must contain "
                           f"'{_LOSS}'.")
        metrics = dict(metrics)
        loss = tf.convert_to_tensor(metrics.pop(_LOSS))
        return {"loss": tf.reduce_mean(loss), "eval_metric_ops": metrics}

    def _call_pipeline_fn(self):
        names = python_code.function_arguments(self._estimator._model_fn)
        if "features" in names or "labels" in names:
            raise ValueError(
                "The `model_fn` used with `IPUPipelineEstimator` must not have `features` or "
                "`labels` arguments. They are instead passed to the first pipeline stage "
                "function.")
        spec = self._estimator._model_fn(**self._estimator._user_arguments(self._mode))
        if not isinstance(spec, IPUPipelineEstimatorSpec):
            raise TypeError("The `model_fn` used with `IPUPipelineEstimator` must return "
                            "`IPUPipelineEstimatorSpec`.")
        needed = len(set(tf.nest.flatten(list(spec.device_mapping)))) \
            if spec.device_mapping is not None else len(spec.computational_stages)
        if not self._shards // 2 < needed <= self._shards:
            raise ValueError(
                f"This pipeline requires {needed} devices, but `IPURunConfig.num_shards` was set "
                f"to {self._shards} (num_shards/2 < pipeline_devices <= num_shards).")
        return spec


def _single(values):
    if not isinstance(values, (list, tuple)):
        return values
    if len(values) != 1:
        raise ValueError("The last computational stage must return exactly one prediction tensor, "
                         f"but got {len(values)}")
    return values[0]


class IPUPipelineEstimator(ipu_estimator._IPUEstimatorBase):
    """An Estimator whose model is a pipeline over several IPUs."""

    _program = _PipelineProgram
    _shows_mean_of_workers = False  # but their sum

    def __init__(self, model_fn, model_dir=None, config=None, params=None, warm_start_from=None):
        """`model_fn` takes mode, params and config, as far as it wants them, and returns an
        IPUPipelineEstimatorSpec. The rest is as in IPUEstimator."""
        checks.function("model_fn", model_fn)
        super().__init__(_with_params if params is not None else _without_params, model_dir,
                         config, params, warm_start_from)
        self._model_fn = model_fn


def _with_params(features, params):
    """What Estimator takes for a model_fn at first: it insists on features."""
    raise AssertionError


def _without_params(features):
    raise AssertionError
