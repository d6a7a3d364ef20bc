"""The arguments of a pipeline (pipelining_ops.py), checked."""

import enum
import json

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.ipu import gradient_accumulation as ga
from tremula.tf.ipu import ipu_infeed_queue, ipu_outfeed_queue
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.nodes import op_types

# In a device mapping: on all IPUs.
ALL_DEVICES = -1


class PipelineSchedule(enum.IntEnum):
    """In which order the stages of the mini-batches run."""
    Grouped = 0
    Interleaved = 1
    Sequential = 2

    __str__ = enum.Enum.__str__  # Python 3.11 made it the number; programs cut the name out of it


class RecomputationMode(enum.Enum):
    """How the backward pass computes activations again, where recomputation is allowed."""
    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class OptimizerFunctionOutput:
    """What an `optimizer_function` returns: the optimizer, the loss, and further arguments of the
    optimizer's compute_gradients and apply_gradients."""

    def __init__(self, opt, loss, compute_gradients_args=None, compute_gradients_kwargs=None,
                 apply_gradients_args=None, apply_gradients_kwargs=None, variables=None, tape=None,
                 gradient_capture_context=None, captured_gradient_outfeed=None):
        """
        opt        a tf.train.Optimizer; or a Keras optimizer, with `variables` or a `tape`
        loss       a scalar tensor, float32 or float16
        variables  those that a Keras optimizer trains
        tape       a tf.GradientTape that has watched them

        Raises TypeError and ValueError for arguments of other types.
        """
        for name, value, kind in (
                ("compute_gradients_args", compute_gradients_args, (list, tuple)),
                ("compute_gradients_kwargs", compute_gradients_kwargs, dict),
                ("apply_gradients_args", apply_gradients_args, (list, tuple)),
                ("apply_gradients_kwargs", apply_gradients_kwargs, dict)):
            if value is not None and not isinstance(value, kind):
                wanted = "dict" if kind is dict else "list or tuple"
                raise TypeError(f"OptimizerFunctionOutput.{name} must be a {wanted}, not "
                                f"{type(value).__name__}.")
        if not hasattr(opt, "apply_gradients"):
            raise TypeError("OptimizerFunctionOutput.opt must be an optimizer of TensorFlow or "
                            f"Keras, not {type(opt).__name__}.")
        _check_queue("OptimizerFunctionOutput.captured_gradient_outfeed",
                     captured_gradient_outfeed, ipu_outfeed_queue.IPUOutfeedQueue)
        if not tf.is_tensor(loss):
            raise TypeError("OptimizerFunctionOutput.loss must be a Tensor, not "
                            f"{type(loss).__name__}.")
        first = isinstance(opt, tf.train.Optimizer)
        if first and tape is not None:
            raise ValueError("OptimizerFunctionOutput.tape may only be used with OptimizerV2.")
        if first and variables:
            raise ValueError("OptimizerFunctionOutput.variables may only be used with OptimizerV2.")
        for name, value in (("compute_gradients_args", compute_gradients_args),
                            ("compute_gradients_kwargs", compute_gradients_kwargs)):
            if value and not first:
                raise ValueError(f"OptimizerFunctionOutput.{name} may not be used with OptimizerV2 "
                                 "instances.")
        if tape is not None and not isinstance(tape, tf.GradientTape):
            raise TypeError("OptimizerFunctionOutput.tape must be a GradientTape.")
        if tape is not None and variables:
            raise ValueError("OptimizerFunctionOutput.tape may not be used when "
                             "OptimizerFunctionOutput.variables is nonempty.")
        self.opt = opt
        self.loss = loss
        self.compute_gradients_args = tuple(compute_gradients_args or ())
        self.compute_gradients_kwargs = dict(compute_gradients_kwargs or {})
        self.apply_gradients_args = tuple(apply_gradients_args or ())
        self.apply_gradients_kwargs = dict(apply_gradients_kwargs or {})
        self.tape = tape
        self.variables = variables
        self.gradient_capture_context = gradient_capture_context
        self.captured_gradient_outfeed = captured_gradient_outfeed

    @property
    def variables(self):
        """What a Keras optimizer trains, a tuple; empty with a tape."""
        return self._variables

    @variables.setter
    def variables(self, value):
        """Raises ValueError if there is a tape."""
        if value and self.tape is not None:
            raise ValueError("OptimizerFunctionOutput.variables must be empty when "
                             "OptimizerFunctionOutput.tape is used.")
        self._variables = tuple(value or ())


class PipelineStageOptions:
    """Options of the convolutions, matrix multiplications and slices of one stage: dicts of text.
    """

    def __init__(self, convolution_options=None, matmul_options=None, slice_options=None):
        """Raises TypeError for what is not a dict."""
        self._options = {}
        for name, value in (("convolution_options", convolution_options),
                            ("matmul_options", matmul_options),
                            ("slice_options", slice_options)):
            if value is not None and not isinstance(value, dict):
                raise TypeError(f"{name} must be a dictionary, not {type(value).__name__}.")
            self._options[name] = {str(key): str(one) for key, one in (value or {}).items()}

    def by_kind(self):
        """The options by the name of their argument, a dict of dicts."""
        return {name: dict(value) for name, value in self._options.items()}

    def get_proto(self):
        """The options as a pipeline_config_pb2.PipelineStagePoplarConfig."""
        from tremula.tf.plugin.poplar.driver import option_flag_pb2, pipeline_config_pb2
        return pipeline_config_pb2.PipelineStagePoplarConfig(**{
            name: [option_flag_pb2.PoplarOptionFlag(option=key, value=one)
                   for key, one in value.items()] for name, value in self._options.items()})


class Pipeline:
    """What pipeline() has been told to build."""

    def __init__(self, name, stages, count, repeat_count, serialization, infeed, outfeed,
                 optimizer_function, devices, schedule, recomputation, outfeed_loss, outfeed_mask,
                 accumulate_outfeed, method, continuous):
        self.name = checks.text("name", name)
        self.count = _checked_count(count)
        self.repeat_count = checks.whole("repeat_count", repeat_count, least=1)
        checks.function("optimizer_function", optimizer_function, optional=True)
        self.training = optimizer_function is not None
        self.optimizer_function = optimizer_function
        self.method = ga.GradientAccumulationReductionMethod.parse(method)
        if self.method is not ga.GradientAccumulationReductionMethod.SUM and serialization != 1:
            raise ValueError("batch_serialization_iterations != 1 is only supported when "
                             "reduction_method is GradientAccumulationReductionMethod.SUM")
        if checks.boolean("continuous_weight_updates", continuous, optional=True):
            raise NotImplementedError("Continuous weight updates are currently not supported.")
        self.serialization = checks.whole("batch_serialization_iterations", serialization, least=1)
        self.schedule = _checked_schedule(schedule, self.serialization)
        self.recomputation = RecomputationMode.Auto if recomputation is None else recomputation
        if not isinstance(self.recomputation, RecomputationMode):
            raise TypeError("The given recomputation_mode is not a member of the "
                            "RecomputationMode enumeration.")
        _check_queue("infeed_queue", infeed, ipu_infeed_queue.IPUInfeedQueue)
        _check_queue("outfeed_queue", outfeed, ipu_outfeed_queue.IPUOutfeedQueue)
        self.infeed, self.outfeed = infeed, outfeed
        self._take_stages(stages, devices)
        self._take_outfeed(outfeed_loss, outfeed_mask, accumulate_outfeed)
        self.options, self.memory = {}, {}
        self.dtype = self.outfeed_dtype = None

    def _take_stages(self, stages, devices):
        if not isinstance(stages, (list, tuple)):
            raise TypeError("computational_stages argument needs to be a list or a tuple.")
        if len(stages) < 2:
            raise ValueError("Pipeline requires at least two computational stages.")
        for one in tf.nest.flatten(list(stages)):
            checks.function("Every one of computational_stages", one)
        if devices is None:
            devices = [0] * len(stages) if self.serialization > 1 else list(range(len(stages)))
        if not isinstance(devices, (list, tuple)):
            raise TypeError("device_mapping argument needs to be a list or a tuple.")
        if len(devices) != len(stages):
            raise ValueError("Each stage must be mapped to an IPU: %d mappings != %d stages" %
                             (len(devices), len(stages)))
        flat = tf.nest.flatten(list(devices))
        for one in flat:
            checks.integer("Every number of an IPU in device_mapping", one, least=ALL_DEVICES)
        several = len(flat) != len(set(flat))
        if self.schedule is PipelineSchedule.Interleaved and self.training and several:
            raise NotImplementedError(
                "The pipelining schedule 'Interleaved' does not currently support multiple "
                "pipeline stages on the same device for training graphs. Please use a different "
                "pipeline schedule.")
        if self.serialization > 1 and len(set(flat)) != 1:
            raise NotImplementedError("When using batch serialization, all the pipeline stages "
                                      "need to be mapped to a single IPU.")
        self.stages, self.devices = list(stages), list(devices)

    def _take_outfeed(self, loss, mask, accumulate):
        checks.boolean("outfeed_loss", loss, optional=True)
        checks.boolean("accumulate_outfeed", accumulate, optional=True)
        if mask is not None and not isinstance(mask, (list, tuple)):
            raise TypeError(f"outfeed_mask must be a list of bools, but it is {mask!r}.")
        for one in mask or []:
            checks.boolean("Every one of outfeed_mask", one)
        if mask and not self.training:
            raise ValueError("An optimizer_function must be provided when outfeed_mask is set.")
        if loss and not self.training:
            raise ValueError("An optimizer_function must be provided when outfeed_loss is True.")
        if loss and mask:
            raise ValueError("Only one of `outfeed_loss` and `outfeed_mask` can be set.")
        if loss and self.outfeed is None:
            raise ValueError("An outfeed_queue must be provided when outfeed_loss is True")
        if mask and self.outfeed is None:
            raise ValueError("An `outfeed_mask` has been given, but no outfeed_queue has been "
                             "provided.")
        if accumulate and self.outfeed is None:
            raise ValueError("An outfeed_queue must be provided when accumulate_outfeed is True.")
        if accumulate and self.outfeed._mode is not ipu_outfeed_queue.IPUOutfeedMode.ALL:
            raise ValueError("To accumulate the outfeed, it must be in IPUOutfeedMode ALL.")
        self.outfeed_loss, self.outfeed_mask, self.accumulate = loss, mask, accumulate

    def take_options(self, forward, backward, update):
        """The options of the stages' convolutions and matrix multiplications, by phase."""
        self.options["forward"] = self._stage_options(
            forward, "forward_propagation_stages_poplar_options")
        if not self.training:
            return
        self.options["backward"] = self._stage_options(
            backward, "backward_propagation_stages_poplar_options")
        if update is not None and not isinstance(update, PipelineStageOptions):
            raise TypeError("weight_update_poplar_options to be of type PipelineStageOptions, but "
                            "got %s instead." % str(update))
        self.options["update"] = update or PipelineStageOptions()

    def take_memory(self, **options):
        """What is offloaded and shared out among replicas: options of pipeline(), by name."""
        self.memory = {name: checks.boolean(name, value, optional=True)
                       for name, value in options.items()}
        if (self.memory["replicated_optimizer_state_sharding"]
                and self.memory["offload_weight_update_variables"] is False):
            raise ValueError(
                "replicated_optimizer_state_sharding shares out what is offloaded, so the "
                "optimizer state must be offloaded, but offload_weight_update_variables is False.")

    def _stage_options(self, options, name):
        if options is None:
            return [PipelineStageOptions() for _ in self.stages]
        if not isinstance(options, (list, tuple)):
            raise TypeError("%s must be a list or a tuple of PipelineStageOptions objects." % name)
        if len(options) != len(self.stages):
            raise ValueError(
                "%s must be a list or a tuple of PipelineStageOptions objects of length %d (same "
                "number as the number of computational stages) but is %d." %
                (name, len(self.stages), len(options)))
        for one in options:
            if not isinstance(one, PipelineStageOptions):
                raise TypeError("Expected all elements of %s to be of type PipelineStageOptions, "
                                "but got %s instead." % (name, str(one)))
        return list(options)

    def describe(self):
        """What the model of the machine wants to know, as JSON."""
        count = tf.get_static_value(self.count)
        return json.dumps({
            "name": self.name, "stages": len(self.stages), "device_mapping": self.devices,
            "training": self.training, "schedule": self.schedule.name,
            "recomputation_mode": self.recomputation.name,
            "gradient_accumulation_count": None if count is None else int(count),
            "batch_serialization_iterations": self.serialization,
            "options": tf.nest.map_structure(lambda one: one.by_kind(), self.options),
            "memory": {key: value for key, value in self.memory.items() if value is not None}})


    def attributes(self):
        """Those of the operation by the original's names, apart from its function."""
        from google.protobuf import json_format
        from tremula.tf.plugin.poplar.driver import backend_config_pb2, pipeline_config_pb2
        options = self.options
        config = pipeline_config_pb2.PipelinePoplarConfig(
            forward_stages=[one.get_proto() for one in options["forward"]],
            backward_stages=[one.get_proto() for one in options.get("backward", [])],
            resource_update=options["update"].get_proto() if self.training else None)
        modes = backend_config_pb2.PoplarBackendConfig.CallConfig.PipelineConfig.RecomputationMode
        return {"batch_serialization_iterations": self.serialization,
                "repeat_count": self.repeat_count, "schedule": int(self.schedule),
                "recomputation_mode": modes.Name(self.recomputation.value),
                "pipeline_poplar_config": json_format.MessageToJson(config),
                **{name: op_types.three_state(self.memory[name]) for name in (
                    "offload_activations", "offload_gradient_accumulation_buffers",
                    "replicated_weight_sharding", "offload_weights")}}


def one_count(count, pipeline_depth):
    """The number of mini-batches by either of its names. Raises ValueError for both."""
    if count is not None and pipeline_depth is not None:
        raise ValueError("pipeline_depth is an older name of gradient_accumulation_count: give one "
                         "of them.")
    return pipeline_depth if count is None else count


def _checked_count(count):
    if count is None:
        raise ValueError("gradient_accumulation_count must be specified.")
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    if isinstance(count, float):
        raise TypeError(f"gradient_accumulation_count must be an int or a tensor, not {count!r}.")
    checks.scalar("gradient_accumulation_count", count)
    if isinstance(count, int):
        if count < 0:
            raise ValueError("gradient_accumulation_count must be >= 0.")
        if count > np.iinfo(np.int32).max:
            raise ValueError("gradient_accumulation_count must be < max int32.")
    return tf.cast(tf.convert_to_tensor(count), tf.int32)


def _checked_schedule(schedule, serialization):
    if schedule is None:
        return PipelineSchedule.Sequential if serialization > 1 else PipelineSchedule.Grouped
    if not isinstance(schedule, PipelineSchedule):
        raise TypeError("The given pipeline_schedule is not a member of the PipelineSchedule "
                        "enumeration.")
    if serialization > 1 and schedule is not PipelineSchedule.Sequential:
        raise NotImplementedError("Batch serialization is only supported with the `Sequential` "
                                  "schedule.")
    return schedule


def _check_queue(name, queue, kind):
    if queue is not None and not isinstance(queue, kind):
        raise TypeError(f"{name} is not an instance of {kind.__module__.rpartition('.')[2]}."
                        f"{kind.__name__}")


def overlap_length(devices, schedule, training):
    """How many mini-batches a pipeline works on at once: their number must be a multiple of it.

    Grouped: the number of forward and backward stages. Sequential: 1. Interleaved: the number of
    rotations of the stages' IPUs, taken greedily, that differ from each other everywhere.
    """
    mapping = [tuple(one) if isinstance(one, (list, tuple)) else one for one in devices]
    if training:
        mapping += mapping[::-1]
    if schedule is PipelineSchedule.Sequential:
        return 1
    if schedule is PipelineSchedule.Grouped:
        return len(mapping)
    accepted = []
    for shift in range(len(mapping)):
        rotated = mapping[shift:] + mapping[:shift]
        if all(a != b for other in accepted for a, b in zip(rotated, other)):
            accepted.append(rotated)
    return len(accepted)


def to_list(values):
    """A tensor, some or None as a list."""
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]
