"""The options of a model: the methods set_..._options(), and their checks."""

import enum

from tremula.tf.keras.extensions import messages
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.tracing import accumulation

_Method = accumulation.GradientAccumulationReductionMethod

# Arguments of the pipeline that set_pipelining_options() has itself, that Keras sets, and that are
# not for Keras.
_EXPLICIT = {"gradient_accumulation_count": "gradient_accumulation_steps_per_replica",
             "device_mapping": "device_mapping", "accumulate_outfeed": "accumulate_outfeed"}
_AUTOMATIC = ("computational_stages", "repeat_count", "inputs", "infeed_queue", "outfeed_queue",
              "optimizer_function")
_INCOMPATIBLE = ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations")


class ReplicatedMetricReductionMethod(enum.Enum):
    """How the replicas' metrics become one. NONE: the last replica's count. LIST: an array of all.
    SUM, MEAN: their sum or mean."""
    NONE = 1
    LIST = 2
    SUM = 3
    MEAN = 4

    @classmethod
    def parse(cls, value):
        """The member for a member, or for its name in any case. Raises ValueError."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(messages.REPLICATED_METHOD.format(value))


class Options:
    """The methods set_..._options() of a model. A change takes effect at the next call of fit,
    evaluate or predict. None leaves an option as it is."""

    def _init_options(self):
        self._keep(
            _pipelining_gradient_accumulation_steps_per_replica=None,
            _pipelining_device_mapping=None, _pipelining_accumulate_outfeed=None,
            _pipelining_kwargs={}, _gradient_accumulation_steps_per_replica=None,
            _gradient_accumulation_optimizer_kwargs={},
            _gradient_accumulation_reduction_method=_Method.SUM,
            _use_v2_gradient_accumulation_optimizer=False, _asynchronous_callbacks=False,
            _replicated_metric_reduction_method=ReplicatedMetricReductionMethod.NONE,
            _infeed_kwargs={}, _outfeed_kwargs={})

    def set_asynchronous_callbacks(self, asynchronous=False):
        """`asynchronous` calls the callbacks of a batch after each step, from a thread, while the
        program runs. Otherwise they are called once an execution. A pipeline that accumulates its
        outfeed ignores it."""
        self._keep(_asynchronous_callbacks=asynchronous)

    def set_replication_options(self, replicated_metric_reduction_method="NONE"):
        """Sets how the metrics, and the outputs of predict, of several replicas become one: a
        ReplicatedMetricReductionMethod or its name. Set it before the first call.

        Raises ValueError for another method.
        """
        self._keep(_replicated_metric_reduction_method=ReplicatedMetricReductionMethod.parse(
            replicated_metric_reduction_method))

    def set_gradient_accumulation_options(
            self, gradient_accumulation_steps_per_replica=None,
            gradient_accumulation_reduction_method="sum",
            use_v2_gradient_accumulation_optimizer=False,
            **gradient_accumulation_optimizer_kwargs):
        """Makes fit() apply gradients once in so many steps. Pipelines ignore this.

        gradient_accumulation_reduction_method   a GradientAccumulationReductionMethod or its name
        use_v2_gradient_accumulation_optimizer   adds up each variable's gradients by itself, with
                                                 keras.ipu.optimizers.GradientAccumulationOptimizer
        gradient_accumulation_optimizer_kwargs   arguments of the optimizer that adds up

        The last three are set by every call. Raises ValueError for what is out of range or for
        Keras to set.
        """
        self._set_gradient_accumulation_options_impl(
            gradient_accumulation_steps_per_replica, gradient_accumulation_reduction_method,
            use_v2_gradient_accumulation_optimizer, gradient_accumulation_optimizer_kwargs)

    def _set_gradient_accumulation_options_impl(self, steps, method, use_v2, kwargs):
        if not isinstance(kwargs, dict):
            raise TypeError(messages.NO_DICT.format("gradient_accumulation_optimizer_kwargs"))
        if "opt" in kwargs:
            raise ValueError(messages.OPT)
        if "num_mini_batches" in kwargs:
            raise ValueError(messages.NUM_MINI_BATCHES)
        _refuse_normalizing(kwargs, "set_gradient_accumulation_options")
        method = _parse_method(method)
        if steps is not None:
            self._keep(_gradient_accumulation_steps_per_replica=_positive(steps))
        self._set(_gradient_accumulation_reduction_method=method,
                  _use_v2_gradient_accumulation_optimizer=bool(use_v2),
                  _gradient_accumulation_optimizer_kwargs=dict(kwargs))

    def set_pipelining_options(
            self, gradient_accumulation_steps_per_replica=None, device_mapping=None,
            accumulate_outfeed=None, gradient_accumulation_reduction_method="sum",
            **pipelining_kwargs):
        """How the pipeline runs, if the model is one.

        gradient_accumulation_steps_per_replica   steps for each weight update; fit() needs it
        device_mapping                            the IPU of each stage
        accumulate_outfeed                        gives results once a weight update
        gradient_accumulation_reduction_method    a GradientAccumulationReductionMethod or its name
        pipelining_kwargs                         arguments of pipelining_ops.pipeline()

        The last two are set by every call. Raises ValueError for what is out of range or for Keras
        to set.
        """
        self._set_pipelining_options_impl(
            gradient_accumulation_steps_per_replica, device_mapping, accumulate_outfeed,
            gradient_accumulation_reduction_method, pipelining_kwargs)

    def _set_pipelining_options_impl(self, steps, mapping, accumulate_outfeed, method, kwargs):
        if not isinstance(kwargs, dict):
            raise TypeError(messages.NO_DICT.format("pipelining_kwargs"))
        for name, argument in _EXPLICIT.items():
            if name in kwargs:
                raise ValueError(messages.EXPLICIT.format(name, argument))
        _refuse(kwargs, _AUTOMATIC, messages.AUTOMATIC, "pipelining_kwargs")
        _refuse(kwargs, _INCOMPATIBLE, messages.INCOMPATIBLE, "pipelining_kwargs")
        _refuse_normalizing(kwargs, "set_pipelining_options")
        method = _parse_method(method)
        steps = None if steps is None else _positive(steps)
        if mapping is not None and not (isinstance(mapping, list) and all(
                isinstance(one, int) for one in mapping)):
            raise ValueError(messages.DEVICE_MAPPING)
        given = {"_pipelining_gradient_accumulation_steps_per_replica": steps,
                 "_pipelining_device_mapping": mapping,
                 "_pipelining_accumulate_outfeed": accumulate_outfeed}
        self._set(_gradient_accumulation_reduction_method=method,
                  _pipelining_kwargs={"gradient_accumulation_for_captured_grads": False, **kwargs},
                  **{name: value for name, value in given.items() if value is not None})

    def set_infeed_queue_options(self, **kwargs):
        """Sets the arguments of the infeed queues, which replace all earlier ones. Raises
        ValueError for those that Keras sets."""
        _refuse(kwargs, ("dataset", "infeed_spec", "element_spec"), messages.AUTOMATIC, "kwargs")
        _refuse(kwargs, ("_internal_id",), messages.INCOMPATIBLE, "kwargs")
        self._set(_infeed_kwargs=kwargs)

    def set_outfeed_queue_options(self, **kwargs):
        """Sets the arguments of the outfeed queues, which replace all earlier ones. Raises
        ValueError for those that Keras sets."""
        _refuse(kwargs, ("outfeed_mode", "device_ordinal", "_internal_id"), messages.INCOMPATIBLE,
                "kwargs")
        self._set(_outfeed_kwargs=kwargs)

    def _keep(self, **values):
        """Sets attributes without Keras, which would track their values."""
        self.__dict__.update(values)

    def _set(self, **values):
        """Sets options that functions and queues depend on."""
        self._keep(**values)
        self._reset_ipu_extension()


def _refuse(kwargs, names, message, where):
    for name in names:
        if name in kwargs:
            raise ValueError(message.format(name, where))


def _refuse_normalizing(kwargs, method):
    if "experimental_normalize_gradients" in kwargs:
        raise ValueError(messages.REMOVED.format(method))


def _positive(steps):
    if checks.is_bool(steps) or not hasattr(steps, "__index__") or steps < 1:
        raise ValueError(messages.POSITIVE.format(steps))
    return int(steps)


def _parse_method(method):
    try:
        return _Method.parse(method)
    except ValueError:
        raise ValueError(messages.METHOD.format(method)) from None
