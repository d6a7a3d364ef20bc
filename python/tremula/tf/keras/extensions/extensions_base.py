"""fit, evaluate and predict of models that are made in the scope of an IPUStrategy."""

import copy

import popdist

from tremula.tf.inner import keras as inner
from tremula.tf.inner import logs
from tremula.tf.ipu import devices, keras_extensions
from tremula.tf.keras.extensions import (data_adapter, data_feed_manager, executions,
                                         exporting, extensions_util, messages, options,
                                         stage_assignments, step_functions)

ReplicatedMetricReductionMethod = options.ReplicatedMetricReductionMethod
_KerasOptimizerWrapper = step_functions._KerasOptimizerWrapper
_MODES = {"train": data_feed_manager.Mode.FIT, "test": data_feed_manager.Mode.EVALUATE,
          "predict": data_feed_manager.Mode.PREDICT}
_training = inner.module("engine.training")

logged_steps_per_execution_warning = False  # whether messages.ONE_STEP has been logged


def inputs_of(element_spec):
    """The types of a model's inputs, from those of an element (x, y, sample_weight)."""
    return inner.module("engine.data_adapter").unpack_x_y_sample_weight(element_spec)[0]


class KerasExtensionBase(options.Options, exporting.Exporting, stage_assignments.Stages,
                         keras_extensions.KerasExtension):
    """The extension of every model in the scope of an IPUStrategy."""

    _validation_handler = None  # the validation data of the fit() that runs

    def __init__(self, *args, **kwargs):
        del args, kwargs  # Keras passes those of a functional model to every base
        if "_replication_factor" not in self.__dict__:
            self._init_options()
            self._keep(_infeed_manager=data_feed_manager.InfeedManager(),
                       _outfeed_manager=data_feed_manager.OutfeedManager())
            self._reset_ipu_extension()

    # ---- What depends on options ----

    def _reset_ipu_extension(self):
        """Forgets functions, queues and the number of replicas, because an option has changed."""
        self._keep(_ipu_train_function=None, _ipu_test_function=None, _ipu_predict_function=None,
                   _function_keys={}, _replication_factor=None)
        self._infeed_manager.reset()
        self._outfeed_manager.reset()

    def _reset_compile_cache_supported(self):
        return True

    def _reset_compile_cache_delegate(self):
        KerasExtensionBase.__init__(self)
        self._reset_ipu_extension()
        return self._reset_compile_cache(__extension_delegate=False)

    def _trackable_children_supported(self, save_type="checkpoint", **kwargs):
        del kwargs
        return save_type == "savedmodel"

    def _trackable_children_delegate(self, save_type="checkpoint", **kwargs):
        names = ("_ipu_train_function", "_ipu_test_function", "_ipu_predict_function")
        functions = {name: self.__dict__[name] for name in names}
        self._keep(**dict.fromkeys(names))  # a SavedModel does not need them
        try:
            return _training.Model._trackable_children.__original_func__(
                self, save_type, **kwargs)
        finally:
            self._keep(**functions)

    # ---- Replicas and accumulation ----

    def _get_shard_count(self):
        """How many IPUs the model is on."""
        if not self._is_pipelined():
            return 1
        if self._pipelining_device_mapping:
            return max(self._pipelining_device_mapping) + 1
        return self._get_pipeline_maximum_pipeline_stage() + 1

    def _get_replication_factor(self):
        """How many replicas the strategy's device has in this process. Raises ValueError if it is
        no IPU or has too few."""
        if self._replication_factor is None:
            device = self.distribute_strategy.extended.non_slot_devices(None)
            if "IPU" not in device.upper():
                raise ValueError(messages.NO_IPU.format(type(self).__name__))
            self._keep(_replication_factor=extensions_util.num_replicas(
                devices.ordinal(device), self._get_shard_count()))
        return self._replication_factor

    def _verify_and_get_gradient_accumulation_steps_per_replica(self, steps_per_execution):
        """The steps of a weight update. Raises RuntimeError if they do not divide those of an
        execution, ValueError if a pipeline has none."""
        pipelined = self._is_pipelined()
        count = (self._pipelining_gradient_accumulation_steps_per_replica if pipelined
                 else self._gradient_accumulation_steps_per_replica)
        if count is None and pipelined:
            raise ValueError(messages.NO_ACCUMULATION)
        count = count or 1
        if steps_per_execution % count:
            raise RuntimeError(messages.NOT_DIVISIBLE.format(
                "pipelined " if pipelined else "", steps_per_execution, count))
        return count

    # ---- Functions ----

    def _function(self, attribute, key, refuse, make):
        """The function that an attribute holds. make() makes it again if `key` has changed."""
        if self.__dict__[attribute] is None or self._function_keys.get(attribute) != key:
            refuse()
            self._keep(**{attribute: make()})
            self._function_keys[attribute] = key
        return self.__dict__[attribute]

    def _train_function_for(self, steps, count):
        def refuse():
            self._refuse_overridden("make_train_function", "train_step")
            if self._is_pipelined():
                step_functions.check_optimizer(self.optimizer)

        if self._is_pipelined():
            from tremula.tf.keras.extensions import pipeline_functions
            return self._function("_ipu_train_function", (steps // count, count), refuse, lambda: (
                pipeline_functions.make_train_function(self, steps // count, count)))
        return self._function("_ipu_train_function", count, refuse, lambda: (
            step_functions.make_train_function(self, count)))

    def _inference_function_for(self, kind, steps):
        """The function of `kind`, "test" or "predict"."""
        def refuse():
            self._refuse_overridden(f"make_{kind}_function")
            if self._is_pipelined():
                self._refuse_overridden(f"{kind}_step", text=messages.OVERRIDDEN_IN_PIPELINE)
                if self._is_compiled:
                    step_functions.check_optimizer(self.optimizer)

        attribute = f"_ipu_{kind}_function"
        if self._is_pipelined():
            from tremula.tf.keras.extensions import pipeline_functions
            make = getattr(pipeline_functions, f"make_{kind}_function")
            return self._function(attribute, steps, refuse, lambda: make(self, 1, steps))
        make = getattr(step_functions, f"make_{kind}_function")
        return self._function(attribute, None, refuse, lambda: make(self))

    def _refuse_overridden(self, *names, text=messages.OVERRIDDEN):
        for name in names:
            if getattr(type(self), name) is not getattr(_training.Model, name) \
                    or name in self.__dict__:
                raise RuntimeError(text.format(name, self.name))

    def _assert_weights_created_supported(self):
        return True

    def _assert_weights_created_delegate(self):
        # Keras asks the class whether it has a build() of its own, and this one has none.
        if not self.dynamic and not self.built and "build" in vars(self.__original_class__):
            raise ValueError(messages.NO_WEIGHTS.format(self.name))

    # ---- Preparing a call ----

    def _check_mode(self):
        if self.run_eagerly:
            raise RuntimeError(messages.EAGER)

    def _check_call(self, method):
        self._check_call_args(method)
        _training._disallow_inside_tf_function(method)
        self._check_mode()

    def _handler(self, **arguments):
        """The data of a call. Afterwards the model has weights and replicas."""
        if self._steps_per_execution is None:
            self._configure_steps_per_execution(1)
        handler = data_adapter.IPUDataHandler(
            model=self, steps_per_execution=self._steps_per_execution, replication_factor=None,
            **arguments)
        self._build_for_data(handler.element_spec)
        handler.set_replication_factor(self._get_replication_factor())
        if handler.steps_per_execution_value == 1:
            global logged_steps_per_execution_warning
            logged_steps_per_execution_warning = True
            logs.module().info(messages.ONE_STEP.format(self.name, 1))
        return handler

    def _callbacks(self, callbacks, verbose, epochs, handler):
        module = inner.module("callbacks")
        if isinstance(callbacks, module.CallbackList):
            return callbacks
        return module.CallbackList(
            callbacks, add_history=True, add_progbar=verbose != 0, model=self, verbose=verbose,
            epochs=epochs, steps=handler.inferred_steps)

    def _log_training(self, handler, count):
        replicas = self._get_replication_factor() * popdist.getNumInstances()
        steps = handler.steps_of_an_execution
        if replicas > 1 or count > 1:
            logs.module().info(messages.EFFECTIVE.format(
                " distributed" if replicas > 1 else " not distributed",
                f" and accumulating {count} batches per optimizer step" if count > 1 else "",
                f" across {replicas} replicas" if replicas > 1 else "",
                handler.batch_size * count * replicas))
        updates = steps // count
        logs.module().info(messages.UPDATES.format(
            updates, "" if updates == 1 else "s", handler.inferred_steps // count))

    # ---- Running ----

    def _is_asynchronous(self, count):
        """Whether a thread calls the callbacks. `count`: the steps of one result, where a pipeline
        accumulates its outfeed."""
        is_accumulated = self._is_pipelined() and self._pipelining_accumulate_outfeed and count > 1
        return self._asynchronous_callbacks and not is_accumulated

    def _fit_supported(self, *args, **kwargs):
        return True

    def _fit_delegate(self, x=None, y=None, batch_size=None, epochs=1, verbose="auto",
                      callbacks=None, validation_split=0.0, validation_data=None, shuffle=True,
                      class_weight=None, sample_weight=None, initial_epoch=0, steps_per_epoch=None,
                      validation_steps=None, validation_batch_size=None, validation_freq=1,
                      max_queue_size=10, workers=1, use_multiprocessing=False):
        adapter = inner.module("engine.data_adapter")
        self._assert_compile_was_called()
        self._check_call("fit")
        verbose = _training._get_verbosity(verbose, self.distribute_strategy)
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = adapter.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split)
        validation = None
        if validation_data:
            names = ("x", "y", "sample_weight")
            validation = dict(zip(names, adapter.unpack_x_y_sample_weight(validation_data)))
            validation.update(
                batch_size=validation_batch_size or batch_size, steps=validation_steps,
                max_queue_size=max_queue_size, workers=workers,
                use_multiprocessing=use_multiprocessing)
        with self.distribute_strategy.scope(), \
                inner.module("engine.training_utils").RespectCompiledTrainableState(self):
            handler = self._handler(
                x=x, y=y, sample_weight=sample_weight, batch_size=batch_size,
                steps_per_epoch=steps_per_epoch, initial_epoch=initial_epoch, epochs=epochs,
                shuffle=shuffle, class_weight=class_weight, max_queue_size=max_queue_size,
                workers=workers, use_multiprocessing=use_multiprocessing)
            count = self._verify_and_get_gradient_accumulation_steps_per_replica(
                handler.steps_of_an_execution)
            self._log_training(handler, count)
            if self._ipu_train_function is None:
                step_functions.create_variables(self, handler.element_spec)
            callbacks = self._callbacks(callbacks, verbose, epochs, handler)
            self.stop_training = False
            self._train_counter.assign(0)
            callbacks.on_train_begin()
            handler._initial_epoch, handler._initial_step = (
                self._maybe_load_initial_counters_from_ckpt(handler.inferred_steps, initial_epoch))
            epoch_logs = self._fit_epochs(handler, callbacks, count, validation, validation_freq)
            if epochs > 0 and hasattr(self.optimizer, "finalize_variable_values"):
                self.optimizer.finalize_variable_values(self.trainable_variables)
            callbacks.on_train_end(logs=epoch_logs)
            return self.history

    def _fit_epochs(self, handler, callbacks, count, validation, validation_freq):
        """Trains. Returns the last epoch's logs."""
        def function():
            self.train_tf_function = self._train_function_for(handler.steps_of_an_execution, count)
            return self.train_tf_function  # whose graph Keras' TensorBoard writes

        def logs_of(epoch, results):
            logs = copy.copy(_plain(_checked(results)))
            if validation is not None and self._should_eval(epoch, validation_freq):
                found = self.evaluate(callbacks=callbacks, return_dict=True,
                                      _use_cached_eval_dataset=True, **validation)
                logs.update({f"val_{name}": one for name, one in found.items()})
            return logs

        try:
            return self._run_epochs("train", handler, callbacks, function,
                                    self._is_asynchronous(count), logs_of=logs_of)
        finally:
            self._keep(_validation_handler=None)

    def _run_epochs(self, kind, handler, callbacks, function, asynchronous, **options):
        """Executions.epochs() of a handler's data with the queues of the mode."""
        mode = _MODES[kind]
        outfeed = self._outfeed_manager.get_outfeed(
            mode, handler.element_spec, self._outfeed_kwargs)
        try:
            return executions.Executions(self, kind, handler, outfeed, callbacks).epochs(
                handler.enumerate_epochs_with_reuse(
                    self._infeed_manager, mode, self._infeed_kwargs),
                function, asynchronous, **options)
        finally:
            self._outfeed_manager.empty(outfeed)

    def _run_once(self, kind, handler, callbacks, asynchronous):
        """Runs evaluate's or predict's function on a handler's data. Returns the results."""
        function = self._inference_function_for(kind, handler.steps_of_an_execution)
        getattr(self, f"_{kind}_counter").assign(0)
        getattr(callbacks, f"on_{kind}_begin")()
        return _checked(self._run_epochs(kind, handler, callbacks, lambda: function, asynchronous))

    def _evaluate_supported(self, *args, **kwargs):
        return True

    def _evaluate_delegate(self, x=None, y=None, batch_size=None, verbose="auto",
                           sample_weight=None, steps=None, callbacks=None, max_queue_size=10,
                           workers=1, use_multiprocessing=False, return_dict=False, **kwargs):
        self._assert_compile_was_called()
        self._check_call("evaluate")
        self._check_sample_weight_warning(x, sample_weight)
        is_validation = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise TypeError(f"Invalid keyword arguments: {list(kwargs)}")
        verbose = _training._get_verbosity(verbose, self.distribute_strategy)
        with self.distribute_strategy.scope():
            handler = self._validation_handler if is_validation else None
            if handler is None:
                handler = self._handler(
                    x=x, y=y, sample_weight=sample_weight, batch_size=batch_size,
                    steps_per_epoch=steps, max_queue_size=max_queue_size, workers=workers,
                    use_multiprocessing=use_multiprocessing)
            if is_validation:
                self._keep(_validation_handler=handler)
            callbacks = self._callbacks(callbacks, verbose, 1, handler)
            results = _plain(self._run_once(
                "test", handler, callbacks,
                self._is_asynchronous(handler.steps_of_an_execution)))
            callbacks.on_test_end(logs=results)
        if return_dict:
            return results
        return _training.flatten_metrics_in_order(results, self.metrics_names)

    def _predict_supported(self, *args, **kwargs):
        return True

    def _predict_delegate(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None,
                          max_queue_size=10, workers=1, use_multiprocessing=False):
        self._check_call("predict")
        verbose = _training._get_verbosity(verbose, self.distribute_strategy)
        with self.distribute_strategy.scope():
            handler = self._handler(
                x=x, batch_size=batch_size, steps_per_epoch=steps, max_queue_size=max_queue_size,
                workers=workers, use_multiprocessing=use_multiprocessing)
            callbacks = self._callbacks(callbacks, verbose, 1, handler)
            outputs = self._run_once("predict", handler, callbacks, self._asynchronous_callbacks)
            callbacks.on_predict_end()
        return executions.joined(outputs)


def _checked(results):
    if results is None:
        raise ValueError(messages.NO_DATA)
    return results


def _plain(logs):
    return inner.module("utils.tf_utils").sync_to_numpy_or_python_type(logs)
