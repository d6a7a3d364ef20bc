"""Models in stages, each on an IPU of its own (`tensorflow.python.ipu.pipelining_ops`).

A pipeline computes the same numbers whatever its schedule: for each of `repeat_count` times the
gradients of `gradient_accumulation_count` mini-batches, which are then applied at once. So the
program is two loops, and the schedule, like where each stage is, is written on them for the model
of the machine to read.
"""

import enum
import inspect
import json

import numpy as np
import tensorflow.compat.v1 as tf

from tremula import custom_calls
from tremula.tf.inner import eager, marks, python_code
from tremula.tf.ipu import gradient_accumulation as ga
from tremula.tf.ipu import ipu_infeed_queue, ipu_outfeed_queue, loops, scopes, sharding
from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.tracing import accumulation, hoisting, host_tables, tracing

# Attributes of what is built, for the model of the machine.
PIPELINE_ATTRIBUTE = "pipeline"       # of the loop: JSON
STAGE_ATTRIBUTE = "pipeline_stage"    # the number of the stage, from 0
PHASE_ATTRIBUTE = "pipeline_phase"    # "backward", "update"; forward otherwise

# In a device mapping: on all IPUs.
_ALL_DEVICES = -1


class PipelineSchedule(enum.IntEnum):
    """In which order the stages of the mini-batches run."""
    Grouped = 0
    Interleaved = 1
    Sequential = 2

    __str__ = enum.Enum.__str__  # Python 3.11 made it the number; programs cut the name out of it


class RecomputationMode(enum.Enum):
    """How activations are had again in the backward pass, where recomputation is allowed."""
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
        loss       a tensor
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

    def get_proto(self):
        """The options by kind, as a dict of dicts: there is no protocol buffer of it here."""
        return {name: dict(value) for name, value in self._options.items()}


def recomputation_checkpoint(tensors, name=None):
    """The tensors, as a place from which the backward pass may compute again."""
    with scopes.frontend_attribute("recomputation_checkpoint", "true"):
        return tf.nest.map_structure(lambda one: tf.identity(one, name=name), tensors)


def pipeline(computational_stages, gradient_accumulation_count=None,
             gradient_accumulation_dtype=None, gradient_accumulation_for_captured_grads=True,
             repeat_count=1, batch_serialization_iterations=1, inputs=None, infeed_queue=None,
             outfeed_queue=None, optimizer_function=None, device_mapping=None,
             pipeline_schedule=None, recomputation_mode=None,
             forward_propagation_stages_poplar_options=None,
             backward_propagation_stages_poplar_options=None, weight_update_poplar_options=None,
             offload_weight_update_variables=None, replicated_optimizer_state_sharding=False,
             offload_activations=None, offload_gradient_accumulation_buffers=None,
             replicated_weight_sharding=None, offload_weights=None,
             continuous_weight_updates=False, outfeed_loss=False, accumulate_outfeed=False,
             accumulate_outfeed_dtype=None, outfeed_mask=None,
             reduction_method=ga.GradientAccumulationReductionMethod.SUM, name=None,
             pipeline_depth=None, count_gradient_accumulation_as_iterations=None):
    """Runs stages one after the other on each of `gradient_accumulation_count` mini-batches, and
    all of that `repeat_count` times. Call it in a computation that is compiled.

    computational_stages    functions; each gets what the one before returned, the first `inputs`
                            and then an element of the infeed queue (by name if it is a dict). An
                            element may be a list of functions, that run side by side.
    optimizer_function      gets what the last stage returned and returns an
                            OptimizerFunctionOutput; without it nothing is trained
    outfeed_queue           gets what the last stage returned (a list, also of one tensor, or a
                            dict), or the loss with `outfeed_loss`; not those for which
                            `outfeed_mask` is true; their sums over the mini-batches with
                            `accumulate_outfeed`
    device_mapping          the shard of each stage; stage i is on shard i without it. The
                            configuration's `selection_order` says which IPUs take the shards
    pipeline_depth          an older name of gradient_accumulation_count

    Options of memory and plans travel with the program and change no numbers. Returns an operation.

    Raises ValueError, TypeError and NotImplementedError for what does not fit together.
    """
    checks.boolean("gradient_accumulation_for_captured_grads",
                   gradient_accumulation_for_captured_grads, optional=True)
    checks.boolean("count_gradient_accumulation_as_iterations",
                   count_gradient_accumulation_as_iterations, optional=True)
    if gradient_accumulation_count is None:
        gradient_accumulation_count = pipeline_depth
    elif pipeline_depth is not None:
        raise ValueError("pipeline_depth is an older name of gradient_accumulation_count: give one "
                         "of them.")
    plan = _Plan(
        name=name or "pipeline", stages=computational_stages, count=gradient_accumulation_count,
        repeat_count=repeat_count, serialization=batch_serialization_iterations,
        infeed=infeed_queue, outfeed=outfeed_queue, optimizer_function=optimizer_function,
        devices=device_mapping, schedule=pipeline_schedule, recomputation=recomputation_mode,
        outfeed_loss=outfeed_loss, outfeed_mask=outfeed_mask, accumulate_outfeed=accumulate_outfeed,
        method=reduction_method, continuous=continuous_weight_updates)
    plan.take_options(
        forward_propagation_stages_poplar_options, backward_propagation_stages_poplar_options,
        weight_update_poplar_options)
    plan.memory = {
        "offload_weight_update_variables": offload_weight_update_variables,
        "replicated_optimizer_state_sharding": replicated_optimizer_state_sharding,
        "offload_activations": offload_activations,
        "offload_gradient_accumulation_buffers": offload_gradient_accumulation_buffers,
        "replicated_weight_sharding": replicated_weight_sharding,
        "offload_weights": offload_weights}
    plan.memory = {option: checks.boolean(option, value, optional=True)
                   for option, value in plan.memory.items()}
    if (plan.memory["replicated_optimizer_state_sharding"]
            and plan.memory["offload_weight_update_variables"] is False):
        raise ValueError(
            "replicated_optimizer_state_sharding shares out what is offloaded, so the optimizer "
            "state must be offloaded, but offload_weight_update_variables is False.")
    plan.for_captured = gradient_accumulation_for_captured_grads
    plan.dtype = checks.dtype("gradient_accumulation_dtype", gradient_accumulation_dtype)
    plan.outfeed_dtype = checks.dtype("accumulate_outfeed_dtype", accumulate_outfeed_dtype)
    return _build(plan, checks.tensors("inputs", _to_list(inputs)))


class _Plan:
    """The arguments of a pipeline, checked."""

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
            checks.integer("Every number of an IPU in device_mapping", one, least=_ALL_DEVICES)
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
        self.options["forward"] = self._stage_options(
            forward, "forward_propagation_stages_poplar_options")
        if not self.training:
            return
        self.options["backward"] = self._stage_options(
            backward, "backward_propagation_stages_poplar_options")
        if update is not None and not isinstance(update, PipelineStageOptions):
            raise TypeError("weight_update_poplar_options to be of type PipelineStageOptions, but "
                            "got %s instead." % str(update))
        self.options["update"] = (update or PipelineStageOptions()).get_proto()

    def _stage_options(self, options, name):
        if options is None:
            return [PipelineStageOptions().get_proto() for _ in self.stages]
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
        return [one.get_proto() for one in options]

    def describe(self):
        """What the model of the machine wants to know, as JSON."""
        count = tf.get_static_value(self.count)
        return json.dumps({
            "name": self.name, "stages": len(self.stages), "device_mapping": self.devices,
            "training": self.training, "schedule": self.schedule.name,
            "recomputation_mode": self.recomputation.name,
            "gradient_accumulation_count": None if count is None else int(count),
            "batch_serialization_iterations": self.serialization,
            "options": self.options,
            "memory": {key: value for key, value in self.memory.items() if value is not None}})


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


_COUNT_NAMES = ("This number might be called `gradient_accumulation_count`, `pipeline_depth` or "
                "`steps_per_execution`: the schedule %s works on that many mini-batches at once.")


def _check_overlap(plan):
    """Makes a program that breaks the rule of overlap_length() fail when it is run, at once or,
    where only the program knows the count, in the program. Returns operations that check it."""
    count = tf.get_static_value(plan.count)
    length = overlap_length(plan.devices, plan.schedule, plan.training)
    if count is None:
        fits = tf.logical_and(tf.equal(plan.count % length, 0), plan.count >= length)
        message = ("Pipeline depth is invalid. Check that it is a multiple of the overlap length "
                   f"({length}), and not less. " + _COUNT_NAMES % plan.schedule.name)
        return [tracing.side_effect(custom_calls.ASSERT, {"message": message},
                                    [tf.reshape(fits, [])], [], [])]
    if count % length or count < length:
        tracing.refuse(
            "The number of iterations of the pipeline must be a multiple of %d, but it is %d. " %
            (length, count) + _COUNT_NAMES % plan.schedule.name)
    return []


# ---- Building ----

def _build(plan, inputs):
    if tracing.current() is None:
        raise RuntimeError("A pipeline is a part of an IPU program: build it in a computation "
                           "that ipu_compiler.compile traces.")
    checks = _check_overlap(plan)
    build = _Build(plan)

    def mini_batch(*element, **named):
        return build.mini_batch([*inputs, *element], named)

    def update():
        with _unmarked():
            batches = loops.repeat(plan.count * plan.serialization, mini_batch, [], plan.infeed)
            with tf.control_dependencies([batches]):
                return build.finish()

    with tf.control_dependencies(checks), tf.name_scope(plan.name), \
            scopes.frontend_attribute(PIPELINE_ATTRIBUTE, plan.describe()):
        return tf.group(loops.repeat(plan.repeat_count, update, []))


def _unmarked():
    """The description is for the loop itself, not for all that is in it."""
    return marks.graph_attributes({scopes.FRONTEND_ATTRIBUTES_NAME: None})


class _Build:
    """Builds what a mini-batch does, then what is done after all of them."""

    def __init__(self, plan):
        self.plan = plan
        self._grads_and_vars, self._sums = [], []
        self._body = None  # the graph of a mini-batch
        self._optimizer = None
        self._outfed, self._outfed_sums = None, []
        self._captured = {}  # tag: Accumulators of the gradients that layers have captured
        self._used = {}  # id of the handle of a variable: (handle, devices of its stages)
        self._changed = set()  # ids of the handles that stages assign to, as those of metrics

    def mini_batch(self, values, named):
        """Returns the operations of one mini-batch."""
        plan = self.plan
        self._body = tf.get_default_graph()
        stage_values, effects = values, []
        for number, (stage, device) in enumerate(zip(plan.stages, plan.devices)):
            with scopes.frontend_attribute(STAGE_ATTRIBUTE, str(number)):
                stage_values, operations = self._stage(stage, device, stage_values, named)
            effects += operations
            named = {}
        self._check_places()
        if not plan.training:
            if not isinstance(stage_values, dict):
                stage_values = _to_list(stage_values)  # one tensor is enqueued as a list of one
            if stage_values:
                effects += self._out(stage_values)
            return effects
        outputs = _to_list(stage_values)
        with scopes.ipu_shard(plan.devices[-1]), \
                scopes.frontend_attribute(STAGE_ATTRIBUTE, str(len(plan.stages) - 1)):
            made = python_code.user_function(plan.optimizer_function)(*outputs)
            if not isinstance(made, OptimizerFunctionOutput):
                raise TypeError("optimizer_function must return an OptimizerFunctionOutput, not "
                                f"{type(made).__name__}.")
        effects += self._out_of_training(made, outputs)
        return effects + self._gradients(made)

    def _stage(self, stage, device, values, named):
        """(what the stage returned, operations that it returned)."""
        if isinstance(stage, (list, tuple)):
            results = [self._stage(one, on, values, named) for one, on in zip(stage, device)]
            return ([value for result, _ in results for value in _to_list(result)],
                    [one for _, operations in results for one in operations])
        graph = tf.get_default_graph()
        before = len(graph.get_operations())
        # A stage may change the lists and dicts that it gets: they are its own.
        values, named = _copied(_to_list(values)), _copied(named)
        # The counter of mini-batches is the loop's: internal_ops.get_current_iteration_counter().
        given = [*tf.nest.flatten([values, named]), loops.current()[0]]
        with scopes.ipu_shard(device):
            returned = python_code.user_function(stage)(*values, **named)
        _check_captures(graph, before, given)
        for operation in graph.get_operations()[before:]:
            for one in operation.inputs:
                if one.dtype == tf.resource:
                    handle = _origin(one)
                    self._used.setdefault(id(handle), (handle, set()))[1].add(device)
                    if operation.type.startswith("Assign"):
                        self._changed.add(id(handle))
        if isinstance(returned, dict) or tf.is_tensor(returned):
            return returned, []
        returned = _to_list(returned)
        operations = [one for one in returned if isinstance(one, tf.Operation)]
        return [one for one in returned if not isinstance(one, tf.Operation)], operations

    def _check_places(self):
        """Makes the program fail if a variable would have to be on several IPUs."""
        wrong = [(handle, devices) for key, (handle, devices) in self._used.items()
                 if len(devices - {_ALL_DEVICES}) > 1 and key not in self._changed]
        for handle, devices in wrong[:1]:
            tracing.refuse(
                f"{_variable_name(handle)} is used by stages on the IPUs {sorted(devices)}, but an "
                "input can only be used by pipeline stages on the same IPU. Give these stages one "
                "IPU with `device_mapping`.")

    def _out_of_training(self, made, outputs):
        plan = self.plan
        if plan.outfeed_loss:
            return self._out(made.loss)
        mask = plan.outfeed_mask or [False] * len(outputs)
        if len(mask) != len(outputs):
            raise ValueError(
                "The last computational stage has %d outputs, but the `outfeed_mask` has elements "
                "%d - these need to match in size." % (len(outputs), len(mask)))
        wanted = [one for masked, one in zip(mask, outputs) if not masked]
        return self._out(wanted) if wanted else []

    def _out(self, values):
        """Operations that hand values, a tensor or a structure, to the outfeed, or add them up."""
        plan = self.plan
        if plan.outfeed is None:
            raise ValueError(
                "The last computational stage has tensor outputs: %s, but no outfeed_queue has "
                "been provided." % ", ".join(str(one) for one in tf.nest.flatten(values)))
        if not plan.accumulate:
            return [plan.outfeed.enqueue(values)]
        self._outfed = values
        flat = tf.nest.flatten(self._outfed)
        self._outfed_sums = [accumulation.Accumulator(one, plan.outfeed_dtype, "outfeed sum")
                             for one in flat]
        return [total.add(one) for total, one in zip(self._outfed_sums, flat)]

    def _gradients(self, made):
        """Operations that add the mini-batch's gradients to the sums."""
        plan = self.plan
        with scopes.frontend_attribute(PHASE_ATTRIBUTE, "backward"):
            self._grads_and_vars = [self._with_zeros(*one) for one in _compute_gradients(made)]
            self._sums = accumulation.of_gradients(self._grads_and_vars, plan.dtype, plan.name)
            index = loops.current()[0]
            count = plan.count
            self._optimizer = made
            added = []
            for total, (gradient, _) in zip(self._sums, self._grads_and_vars):
                if total is not None:
                    with sharding.beside(gradient):
                        added.append(total.add(gradient, plan.method, index, count))
            return added + self._capture(_captured_gradients(made), index)

    def _capture(self, captured, index):
        """Operations that add up captured gradients, {tag: list}, or keep those of the last
        mini-batch."""
        plan, done = self.plan, []
        for tag, gradients in captured.items():
            self._captured[tag] = [accumulation.Accumulator(one, None, f"captured {tag}")
                                   for one in gradients]
            for total, one in zip(self._captured[tag], gradients):
                if plan.for_captured:
                    done.append(total.add(one, plan.method, index, plan.count))
                else:
                    done.append(total.assign(one))
        return done

    def _with_zeros(self, gradient, variable):
        """A stage is differentiated as a whole: a variable that it uses has a gradient, of zeros
        where the loss does not depend on it."""
        if gradient is None and id(_origin(variable.handle)) in self._used:
            gradient = tf.zeros_like(variable)
        return gradient, variable

    def finish(self):
        """Operations of what is done once all mini-batches are: the update of the weights."""
        done = []
        place = gradient_accumulation_optimizer.place_of_state(
            self.plan.memory["offload_weight_update_variables"])
        with scopes.frontend_attribute(PHASE_ATTRIBUTE, "update"), \
                scopes.frontend_attribute(gradient_accumulation_optimizer.UPDATE_ATTRIBUTE, place):
            if self.plan.training:
                done += self._update()
            if self._outfed_sums:
                totals = [one.read() for one in self._outfed_sums]
                done.append(self.plan.outfeed.enqueue(
                    tf.nest.pack_sequence_as(self._outfed, totals)))
            with tf.control_dependencies(done):
                return [tf.group(*done),
                        *[one.clear() for one in [*self._sums, *self._outfed_sums,
                                                  *tf.nest.flatten(self._captured)]
                          if one is not None]]

    def _update(self):
        made = self._optimizer
        accumulated = [(one if one is None else one.read(), variable)
                       for one, (_, variable) in zip(self._sums, self._grads_and_vars)]
        keywords, done = dict(made.apply_gradients_kwargs), []
        if self._captured:
            captured = {tag: [one.read() for one in totals]
                        for tag, totals in self._captured.items()}
            if made.captured_gradient_outfeed is not None:
                done.append(made.captured_gradient_outfeed.enqueue(captured))
            if _takes_captured(made.opt):
                keywords["captured_grads"] = captured
        with hoisting.usable_after(self._body):
            applied = made.opt.apply_gradients(accumulated, *made.apply_gradients_args, **keywords)
        return [*done, *([applied] if applied is not None else []),
                *host_tables.apply_accumulated()]


def _compute_gradients(made):
    if isinstance(made.opt, tf.train.Optimizer):
        return list(made.opt.compute_gradients(made.loss, *made.compute_gradients_args,
                                               **made.compute_gradients_kwargs))
    variables = list(made.tape.watched_variables()) if made.tape is not None \
        else list(made.variables)
    if not variables:
        raise RuntimeError("No variables to optimize. When using OptimizerV2, "
                           "OptimizerFunctionOutput must contain a list of variables or a "
                           "GradientTape.")
    gradients = made.tape.gradient(made.loss, variables) if made.tape is not None \
        else tf.gradients(made.loss, variables)
    return list(zip(gradients, variables))


def _captured_gradients(made):
    """{tag: gradients} that layers have captured for an OptimizerFunctionOutput."""
    where = made.tape if made.gradient_capture_context is None else made.gradient_capture_context
    return getattr(where, "captured_gradients", None) or {}


def _takes_captured(optimizer):
    """Whether apply_gradients() of an optimizer has an argument `captured_grads`."""
    supports = getattr(optimizer, "supports_captured_grads", None)
    if supports is not None:
        return supports
    return "captured_grads" in inspect.signature(optimizer.apply_gradients).parameters


def _to_list(values):
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _copied(structure):
    """The same tensors in lists and dicts of their own."""
    return tf.nest.map_structure(lambda one: one, structure)


def _check_captures(graph, before, given):
    """Raises ValueError if operations that a stage has added take tensors from outside of it that
    are no handles and have not been given to it."""
    given = {id(_origin(one)) for one in given if tf.is_tensor(one)}
    inner = set(graph.get_operations()[before:])
    captured = _captured(graph)
    for operation in inner:
        for one in operation.inputs:
            origin = _origin(one) if id(one) in captured else one
            if one.dtype == tf.resource or id(origin) in given or \
                    origin is one and one.op in inner or \
                    origin is not one and one.op.type == "Const":  # of an eager tensor
                continue
            raise ValueError(
                "Trying to capture the tensor %s which is not a resource. This tensor needs to be "
                "passed as either part of the `input` or `infeed_queue` of the pipeline." %
                str(origin))


def _origin(tensor):
    """The tensor of an outer graph that a tensor stands for, or itself."""
    while not eager.is_eager(tensor):
        captured = _captured(tensor.graph)
        if id(tensor) not in captured:
            return tensor
        tensor = captured[id(tensor)]
    return tensor


def _variable_name(handle):
    """What an error calls the variable of a handle: eager handles have no names."""
    return "A variable" if eager.is_eager(handle) else f"The variable {handle.op.name}"


def _captured(graph):
    """{id of a placeholder of the graph: the outer tensor that it stands for}."""
    return {id(placeholder): outside for outside, placeholder in getattr(graph, "captures", [])}
