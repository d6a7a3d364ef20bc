"""Estimators on the IPU (`tensorflow.python.ipu.ipu_estimator`).

An IPUEstimator is TensorFlow's Estimator whose model runs `iterations_per_loop` steps on the IPU in
each session.run, fed by the dataset of the input_fn. The global step stays on the CPU.
"""

import collections.abc
import itertools

import tensorflow.compat.v1 as tf

from tremula.tf.inner import datasets, python_code
from tremula.tf.ipu import (_estimator_hooks, _worker_estimators, config as ipu_config,
                            ipu_compiler, ipu_infeed_queue, ipu_outfeed_queue, ipu_run_config,
                            loops, scopes, utils)
from tremula.tf.runtime.base import checks, estimators

_estimator, _model_fn = estimators.parts()
_ModeKeys = tf.estimator.ModeKeys
_HOST_DEVICE = "/device:CPU:0"
_INITIAL_LOSS = 0.0
_LOSS = _model_fn.LOSS_METRIC_KEY


class IPUEstimatorSpec(collections.namedtuple("IPUEstimatorSpec", [
        "mode", "predictions", "loss", "train_op", "eval_metric_ops", "eval_metrics", "host_call",
        "training_hooks", "evaluation_hooks", "prediction_hooks"])):
    """What a model_fn returns to an IPUEstimator; a tf.estimator.EstimatorSpec will do too."""

    def __new__(cls, mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None,
                eval_metrics=None, host_call=None, training_hooks=None, evaluation_hooks=None,
                prediction_hooks=None):
        """
        eval_metric_ops  {name: (value, update) or a Keras metric}: computed on the IPU
        eval_metrics     (function, tensors): tensors, a list or a dict of them, are brought to the
                         host, and the function makes a dict of metrics of them there. They come
                         with a dimension for the iterations, then one for the replicas if there
                         are several, before their own.
        host_call        (function, list of tensors): the function is called on the host with the
                         tensors' values of each run, and returns a tensor or an operation

        The rest is as in tf.estimator.EstimatorSpec: `loss` is a scalar, float32 or float16. Raises
        ValueError and TypeError for members that do not fit.
        """
        _check_mode(mode)
        train_op = _model_fn._validate_estimator_spec_train_op(train_op, mode)
        loss = _model_fn._validate_estimator_spec_loss(loss, mode)
        predictions = _model_fn._validate_estimator_spec_predictions(predictions, mode)
        hooks = [_model_fn._validate_estimator_spec_hooks(one)
                 for one in (training_hooks, evaluation_hooks, prediction_hooks)]
        if eval_metric_ops and eval_metrics:
            raise ValueError("IPUEstimatorSpec cannot contain both eval_metric_ops and "
                             "eval_metrics")
        eval_metric_ops = _model_fn._validate_eval_metric_ops(eval_metric_ops)
        _check_host_call(host_call)
        _check_eval_metrics(eval_metrics)
        return super().__new__(cls, mode, predictions, loss, train_op, eval_metric_ops,
                               eval_metrics, host_call, *hooks)


def _check_mode(mode):
    modes = (_ModeKeys.TRAIN, _ModeKeys.EVAL, _ModeKeys.PREDICT)
    if mode not in modes:
        raise ValueError(f"mode must be one of {', '.join(map(repr, modes))} (what model_fn is "
                         f"given), but it is {mode!r}.")


def _check_host_call(host_call):
    if host_call is None:
        return
    if not isinstance(host_call, tuple):
        raise ValueError("`host_call` must be a tuple")
    if len(host_call) != 2:
        raise ValueError("`host_call` must have two elements")
    if not isinstance(host_call[1], list):
        raise ValueError("second element in `host_call` must be a list")
    checks.function("first element in `host_call`", host_call[0])


def _check_eval_metrics(eval_metrics):
    if eval_metrics is None:
        return
    if not isinstance(eval_metrics, tuple):
        raise TypeError("`eval_metrics` must be a tuple")
    if len(eval_metrics) != 2:
        raise ValueError("`eval_metrics` must have two elements")
    if not callable(eval_metrics[0]):
        raise TypeError("first element in `eval_metrics` must be callable")
    if not isinstance(eval_metrics[1], (list, dict)):
        raise TypeError("second element in `eval_metrics` must be a list or dict")


class _PlainEstimator(_estimator.Estimator):
    """TensorFlow's Estimator with its model in a compiled loop.

    `_program` is a class whose objects build that loop: see _Program.
    """

    _program = None

    def __init__(self, model_fn, model_dir=None, config=None, params=None, warm_start_from=None):
        if not isinstance(config, ipu_run_config.RunConfig):
            raise ValueError("`config` must be provided with type `ipu_run_config.RunConfig`")
        if params is not None and not isinstance(params, dict):
            raise ValueError("`params` is expected to be of type `dict`")
        checks.path("model_dir", model_dir, optional=True)
        super().__init__(model_fn, model_dir, config, params, warm_start_from)

    def _assert_members_are_not_overridden(self):
        pass  # they are, and that is what this class is for

    # ---- What users call ----

    def train(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
        """As tf.estimator.Estimator.train; the numbers of steps are multiples of
        iterations_per_loop. `input_fn` returns a dataset."""
        _check_input_fn(input_fn)
        steps = self._checked_steps(steps)
        max_steps = checks.whole("max_steps", max_steps, optional=True)
        return super().train(input_fn, _list_of("hooks", hooks), steps, max_steps,
                             _list_of("saving_listeners", saving_listeners))

    def evaluate(self, input_fn, steps=None, hooks=None, checkpoint_path=None, name=None):
        """As tf.estimator.Estimator.evaluate, likewise."""
        _check_input_fn(input_fn)
        checks.text("name", name, optional=True)
        steps = self._checked_steps(steps)
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        return super().evaluate(input_fn, steps, _list_of("hooks", hooks), checkpoint_path, name)

    def predict(self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None,
                yield_single_examples=True, num_predictions=None):
        """As tf.estimator.Estimator.predict; ends after `num_predictions` elements if that is
        given, otherwise when the dataset has not enough for a whole loop. Without
        `yield_single_examples` each element is what an iteration gave, on all replicas."""
        _check_input_fn(input_fn)
        num_predictions = checks.whole("num_predictions", num_predictions, least=0, optional=True)
        checks.boolean("yield_single_examples", yield_single_examples)
        runs = super().predict(input_fn, predict_keys, _list_of("hooks", hooks), checkpoint_path,
                               yield_single_examples=False)
        return _first_of(_predictions_of(runs, yield_single_examples), num_predictions)

    def export_saved_model(self, *arguments, **keywords):
        """Refuses: what this class makes of a model takes its inputs from a dataset."""
        raise NotImplementedError(
            f"A {type(self).__name__}'s model is a loop over a dataset, which cannot be exported "
            "with a serving_input_receiver_fn. Export what it computes with "
            "ipu.serving.export_single_step and checkpoint_restore_dir=model_dir.")

    export_savedmodel = experimental_export_all_saved_models = export_saved_model

    def _checked_steps(self, steps):
        steps = checks.whole("steps", steps, optional=True)
        per_loop = self._config.ipu_run_config.iterations_per_loop
        if steps is not None and steps % per_loop:
            raise ValueError(f"steps ({steps}) must be a multiple of iterations_per_loop "
                             f"({per_loop})")
        return steps

    # ---- What Estimator calls ----

    def _create_global_step(self, graph):
        with tf.variable_scope(tf.get_variable_scope(), use_resource=True), \
                tf.device(_HOST_DEVICE):
            return tf.train.create_global_step(graph)

    def _convert_train_steps_to_hooks(self, steps, max_steps):
        per_loop = self._config.ipu_run_config.iterations_per_loop
        return [_estimator_hooks.GlobalStepHook(per_loop, steps, max_steps)]

    def _convert_eval_steps_to_hooks(self, steps):
        per_loop = self._config.ipu_run_config.iterations_per_loop
        return [_estimator_hooks.PassingGlobalStepHook(per_loop, None, None),
                *([] if steps is None else [_estimator_hooks.StopHook(steps // per_loop)])]

    def _get_features_and_labels_from_input_fn(self, input_fn, mode):
        return self._checked_dataset(self._call_input_fn(input_fn, mode)), None, []

    def _checked_dataset(self, dataset):
        if not isinstance(dataset, (tf.data.Dataset, datasets.dataset_class())):
            raise ValueError(f"input_fn must return Dataset, but it returned {dataset!r}.")
        return dataset

    def _get_features_from_input_fn(self, input_fn, mode):
        dataset, _, hooks = self._get_features_and_labels_from_input_fn(input_fn, mode)
        return dataset, hooks

    def _call_model_fn(self, features, labels, mode, config):
        """Builds the compiled loop over the dataset `features`. Returns an EstimatorSpec whose
        tensors are on the host."""
        del labels
        options = config.ipu_run_config
        if options.ipu_options is not None:
            ipu_config.configure_ipu_system(options.ipu_options, reset_configuration=True)
        device = f"/device:IPU:{options.ordinal}"
        arguments = {} if options.prefetch_depth is None else {
            "prefetch_depth": options.prefetch_depth}
        infeed = ipu_infeed_queue.IPUInfeedQueue(features, device_ordinal=options.ordinal,
                                                 **arguments)
        program = self._program(self, infeed, mode)
        with scopes.ipu_scope(device):
            compiled = ipu_compiler.compile(program.loop)
        utils.move_variable_initialization_to_cpu()
        hooks = [_estimator_hooks.InitializerHook(infeed), *program.hooks]
        with tf.device(_HOST_DEVICE):
            members = program.results(compiled)
        return tf.estimator.EstimatorSpec(mode, training_hooks=hooks, evaluation_hooks=hooks,
                                          prediction_hooks=hooks, **members)

    def _call_model_fn_eval(self, input_fn, config):
        dataset, _, hooks = self._get_features_and_labels_from_input_fn(input_fn, _ModeKeys.EVAL)
        spec = self._call_model_fn(dataset, None, _ModeKeys.EVAL, config)
        metrics = dict(spec.eval_metric_ops)
        if _LOSS not in metrics:
            metrics = _estimator._verify_and_create_loss_metric(metrics, spec.loss)
        update, values = _estimator._extract_metric_update_ops(metrics)
        return (spec.scaffold, spec.evaluation_hooks, hooks, tf.group(update, spec.loss), values)

    def _user_arguments(self, mode, **arguments):
        """The arguments that the user's model_fn takes, by name."""
        arguments.update(mode=mode, params=self._params_of(mode), config=self._config)
        names = python_code.function_arguments(self._model_fn)
        return {name: value for name, value in arguments.items() if name in names}

    def _params_of(self, mode):
        """The params that functions get in a mode."""
        del mode
        return self.params


class _IPUEstimatorBase(_worker_estimators.WorkerTraining, _PlainEstimator):
    """The same, by one worker or by several."""


def _check_input_fn(input_fn):
    if not callable(input_fn):
        raise TypeError("input_fn must be a function that makes a tf.data.Dataset and returns it, "
                        f"but it is {input_fn!r}.")


def _list_of(name, values):
    """The values, None or some in any order that can be iterated."""
    if values is None or isinstance(values, collections.abc.Iterable):
        return values
    raise TypeError(f"{name} must be a list, but it is {values!r}.")


def _predictions_of(runs, single):
    """What a loop's runs predicted, arrays of all iterations or dicts of them, one iteration or
    one example after the other."""
    for run in runs:
        flat = tf.nest.flatten(run)
        for i in range(len(flat[0])):
            values = [one[i] for one in flat]
            if not single or not all(getattr(one, "shape", ()) for one in values):
                yield tf.nest.pack_sequence_as(run, values)
                continue
            for j in range(len(values[0])):
                yield tf.nest.pack_sequence_as(run, [one[j] for one in values])


def _first_of(iterator, count):
    try:
        for _ in range(count) if count is not None else itertools.count():
            try:
                yield next(iterator)
            except StopIteration:
                return
    finally:
        iterator.close()


# ---- The loop ----

class _Program:
    """Builds the loop of one mode, and then, of what it gives, the EstimatorSpec's members."""

    def __init__(self, estimator, infeed, mode):
        self._estimator, self._infeed, self._mode = estimator, infeed, mode
        options = estimator.config.ipu_run_config
        self._iterations, self._replicas = options.iterations_per_loop, options.num_replicas
        self._shards, self._autosharding = options.num_shards, options.autosharding
        self.hooks = []
        self._outfeed = None
        self._host_call = None
        self._eval_metrics_fn = None

    def loop(self):
        """What is compiled."""
        if tf.distribute.has_strategy() and self._iterations > 1:
            raise NotImplementedError(f"iterations_per_loop > 1 (got {self._iterations}) not "
                                      "supported with distribution")
        if self._mode == _ModeKeys.PREDICT:
            return loops.repeat(self._iterations, self._predict, [], self._infeed)
        step = self._train if self._mode == _ModeKeys.TRAIN else self._evaluate
        total = loops.repeat(self._iterations, step, [_INITIAL_LOSS], self._infeed)
        return self._mean(total)

    def results(self, compiled):
        """The members of the EstimatorSpec."""
        if self._mode == _ModeKeys.TRAIN:
            loss = compiled[0]
            return {"loss": loss, "train_op": self._call_host(loss)}
        if self._mode == _ModeKeys.PREDICT:
            with tf.control_dependencies([compiled]):
                return {"predictions": self._of_replicas(self._outfeed.dequeue())}
        return {"loss": compiled[0], "eval_metric_ops": self._metrics(compiled[0])}

    def _of_replicas(self, values):
        """The batches of all replicas as one, for each iteration; of scalars one vector."""
        def join(value):
            shape = tf.shape(value)
            return tf.reshape(value, tf.concat([shape[:1], [-1], shape[3:]], 0))
        return values if self._replicas == 1 else tf.nest.map_structure(join, values)

    # -- Steps --

    def _call_model_fn(self, args, kwargs):
        features, labels = _features_and_labels(self._infeed, args, kwargs)
        first = tf.nest.flatten(features)[0]  # a model_fn may take features out of their dict
        if self._mode == _ModeKeys.PREDICT:
            labels = None
        arguments = self._estimator._user_arguments(self._mode, labels=labels)
        if labels is not None and "labels" not in arguments:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        spec = self._estimator._model_fn(features=features, **arguments)
        if not isinstance(spec, (IPUEstimatorSpec, tf.estimator.EstimatorSpec)):
            raise ValueError("`model_fn` must return IPUEstimatorSpec or EstimatorSpec")
        if self._autosharding and self._shards > 1 and spec.loss is not None:
            from tremula.tf.ipu import autoshard
            autoshard.automatic_sharding(self._shards, first, spec.loss)
        return spec

    def _train(self, total, *args, **kwargs):
        spec = self._call_model_fn(args, kwargs)
        if spec.loss is None:
            raise ValueError("EstimatorSpec must contain loss when training")
        if spec.train_op is None:
            raise ValueError("EstimatorSpec must contain train_op when training")
        self.hooks += spec.training_hooks
        _check_global_step()
        if self._replicas > 1:
            _check_replicated()
        effects = [spec.train_op]
        host_call = getattr(spec, "host_call", None)
        if host_call is not None:
            if self._iterations > 1:
                raise ValueError("host_call is not allowed for iterations_per_loop > 1")
            self._outfeed = ipu_outfeed_queue.IPUOutfeedQueue(
                outfeed_mode=ipu_outfeed_queue.IPUOutfeedMode.LAST)
            self._host_call = host_call[0]
            if host_call[1]:
                effects.append(self._outfeed.enqueue(host_call[1]))
        with tf.control_dependencies(effects):
            return total + tf.cast(spec.loss, tf.float32)

    def _evaluate(self, total, *args, **kwargs):
        spec = self._call_model_fn(args, kwargs)
        if spec.loss is None:
            raise ValueError("EstimatorSpec must contain loss when evaluating")
        self.hooks += spec.evaluation_hooks
        metrics = getattr(spec, "eval_metrics", None)
        if metrics is not None:
            self._eval_metrics_fn, values = metrics
            updates = []
            mode = ipu_outfeed_queue.IPUOutfeedMode.ALL
        elif spec.eval_metric_ops:
            if _LOSS in spec.eval_metric_ops:
                raise ValueError(f"Metric with name '{_LOSS}' is not allowed, because Estimator "
                                 "already defines a default metric with the same name.")
            updates, values = _updated({**spec.eval_metric_ops,
                                        _LOSS: tf.metrics.mean(spec.loss)})
            mode = ipu_outfeed_queue.IPUOutfeedMode.LAST
        else:
            raise ValueError("EstimatorSpec must contain either eval_metric_ops or eval_metrics "
                             "when evaluating")
        self._outfeed = ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode=mode)
        with tf.control_dependencies(updates):
            values = tf.nest.map_structure(tf.identity, values)
            total = total + tf.cast(spec.loss, tf.float32)
        return total, self._outfeed.enqueue(values)

    def _predict(self, *args, **kwargs):
        spec = self._call_model_fn(args, kwargs)
        if spec.predictions is None:
            raise ValueError("EstimatorSpec must contain predictions when predicting")
        self.hooks += spec.prediction_hooks
        self._outfeed = ipu_outfeed_queue.IPUOutfeedQueue()
        return self._outfeed.enqueue(spec.predictions)

    # -- Results --

    def _mean(self, total):
        """The mean of the loss over the loop and over the replicas."""
        if self._replicas > 1:
            from tremula.tf.ipu.ops import cross_replica_ops
            total = cross_replica_ops.cross_replica_sum(total) / self._replicas
        return total / self._iterations

    def _call_host(self, loss):
        if self._host_call is None:
            return loss
        with tf.control_dependencies([loss]):
            values = self._outfeed.dequeue() if self._outfeed.enqueued else []
            if self._replicas > 1:
                values = [value[0] for value in values]
            returned = self._host_call(*values)
        _model_fn._check_is_tensor_or_operation(returned, "`host_call` return value")
        return returned

    def _metrics(self, loss):
        if self._eval_metrics_fn is not None:
            with tf.control_dependencies([loss]):
                values = self._outfeed.dequeue()
            metrics = self._eval_metrics_fn(**values) if isinstance(values, dict) \
                else self._eval_metrics_fn(*values)
            if not isinstance(metrics, dict):
                raise TypeError("The function of `eval_metrics` must return a dict, but returned "
                                f"{type(metrics).__name__}.")
            return metrics
        # The IPU has updated them; each replica has its own.
        return {name: (tf.reduce_mean(value, 0) if self._replicas > 1 else value, tf.no_op())
                for name, value in self._outfeed.dequeue().items()}


def _updated(metric_ops):
    """(operations that update the metrics, {name: value after that})."""
    updates, values = [], {}
    for name, metric in metric_ops.items():
        if isinstance(metric, tuple):
            value, update = metric
            # The update of a TensorFlow 1 metric is its new value; its value may be the old one.
            is_value = tf.is_tensor(update) and update.dtype == value.dtype \
                and update.shape.is_compatible_with(value.shape)
            updates.append(update)
            values[name] = update if is_value else value
        else:
            updates += metric.updates
            with tf.control_dependencies(metric.updates):
                values[name] = metric.result()
    return updates, values


def _features_and_labels(infeed, args, kwargs):
    if isinstance(infeed._structure, tuple):
        if len(infeed._structure) != 2:
            raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
        return args
    return (kwargs or args[0]), None


def _check_global_step():
    """Raises ValueError if the model counts the global step itself."""
    graph = tf.get_default_graph()
    outside = {id(placeholder): one for one, placeholder in getattr(graph, "captures", [])}
    for operation in graph.get_operations():
        if operation.type == "AssignAddVariableOp":
            name = outside.get(id(operation.inputs[0]), operation.inputs[0]).name
            if "global_step" in name:
                raise ValueError(
                    "Illegal increment of the `global_step` variable in the `model_fn`. This is "
                    "usually caused by passing it as an argument to the `Optimizer.minimize()` "
                    "function. Please remove this argument as the IPUEstimator itself is "
                    "responsible for incrementing it.")


def _check_replicated():
    """Raises ValueError if a model for several replicas exchanges nothing between them."""
    from tremula.tf.ipu.ops import cross_replica_ops
    if not cross_replica_ops.in_graph(tf.get_default_graph()):
        raise ValueError(
            "This is not a valid replicated training graph because no IpuCrossReplicaSum "
            "operations were found. Did you remember to use the `tensorflow.python.ipu."
            "optimizers.cross_replica_optimizer.CrossReplicaOptimizer`?")


class IPUEstimator(_IPUEstimatorBase):
    """An Estimator whose model runs on IPUs: replicated on several, sharded over several, or on
    one."""

    _program = _Program

    def __init__(self, model_fn, model_dir=None, config=None, params=None, warm_start_from=None,
                 train_batch_size=None, eval_batch_size=None, predict_batch_size=None):
        """
        model_fn         as of a tf.estimator.Estimator; it may return an IPUEstimatorSpec
        config           an ipu_run_config.RunConfig
        params           a dict that model_fn and input_fn get
        warm_start_from  a checkpoint, or a tf.estimator.WarmStartSettings

        A batch size that is given is of all workers and replicas together: in that mode input_fn
        and model_fn get the share of one as params["batch_size"].
        Raises ValueError for a config or params of another kind, and for batch sizes that are not
        positive or cannot be shared out.
        """
        super().__init__(model_fn, model_dir, config, params, warm_start_from)
        self._batch_sizes = {_ModeKeys.TRAIN: ("train_batch_size", train_batch_size),
                             _ModeKeys.EVAL: ("eval_batch_size", eval_batch_size),
                             _ModeKeys.PREDICT: ("predict_batch_size", predict_batch_size)}
        replicas = config.ipu_run_config.num_replicas
        for mode, (name, size) in self._batch_sizes.items():
            if size is not None:
                size = checks.whole(name, size)
                workers = _worker_estimators.workers_of(
                    config.eval_distribute if mode == _ModeKeys.EVAL else config.train_distribute)
                if mode != _ModeKeys.EVAL:
                    workers = max(workers, config.num_worker_replicas)
                _check_batch_size(name, size, params, workers, replicas)
                size //= workers * replicas
            self._batch_sizes[mode] = size

    def _params_of(self, mode):
        size = self._batch_sizes[mode]
        return self.params if size is None else {**(self.params or {}), "batch_size": size}

    def _call_input_fn(self, input_fn, mode, input_context=None):
        if self._batch_sizes[mode] is None:
            return super()._call_input_fn(input_fn, mode, input_context)
        if "params" not in python_code.function_arguments(input_fn):
            raise ValueError("input_fn must have params argument to receive params['batch_size']")
        params = self._params
        self._params = self._params_of(mode)
        try:
            return super()._call_input_fn(input_fn, mode, input_context)
        finally:
            self._params = params


def _check_batch_size(name, size, params, workers, replicas):
    if "batch_size" in (params or {}):
        raise ValueError("batch_size cannot be passed in params when a batch size argument is "
                         "passed")
    if size < 1:
        raise ValueError(f"{name} (got {size}) must be positive")
    if size % (workers * replicas):
        raise ValueError(f"{name} (got {size}) must be divisible by num_workers * num_replicas "
                         f"({workers} * {replicas})")
