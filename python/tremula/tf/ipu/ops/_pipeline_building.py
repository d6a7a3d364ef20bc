"""What a pipeline does: the operations of a mini-batch, and those after all of them."""

import tensorflow.compat.v1 as tf

from tremula import custom_calls
from tremula.tf.inner import calls, eager, graphs, marks, python_code
from tremula.tf.ipu import loops, scopes, sharding
from tremula.tf.ipu.ops import _calls, _captured_gradients
from tremula.tf.ipu.ops._pipeline_arguments import (ALL_DEVICES, OptimizerFunctionOutput,
                                                    overlap_length, to_list)
from tremula.tf.ipu.optimizers import gradient_accumulation_optimizer
from tremula.tf.runtime.nodes import op_types
from tremula.tf.runtime.tracing import accumulation, hoisting, host_tables, tracing

# Attributes of what is built, for the model of the machine.
PIPELINE_ATTRIBUTE = "pipeline"       # of the loop: JSON
STAGE_ATTRIBUTE = "pipeline_stage"    # the number of the stage, from 0
PHASE_ATTRIBUTE = "pipeline_phase"    # "backward", "update"; forward otherwise


_LOOPS = ("While", "StatelessWhile")


def build(pipeline, inputs):
    """The operation that runs a Pipeline. Raises RuntimeError outside of a computation."""
    if tracing.current() is None:
        raise RuntimeError("A pipeline is a part of an IPU program: build it in a computation "
                           "that ipu_compiler.compile traces.")
    checks = _checks_of_count(pipeline)
    parts = _Parts(pipeline)

    def mini_batch(*element, **named):
        return parts.mini_batch([*inputs, *element], named)

    def update():
        with _unmarked():
            batches = loops.repeat(pipeline.count * pipeline.serialization, mini_batch, [],
                                   pipeline.infeed)
            parts.function = next(one.get_attr("body").name for one in reversed(
                tf.get_default_graph().get_operations()) if one.type in _LOOPS)
            with tf.control_dependencies([batches]):
                return parts.finish()

    with tf.control_dependencies(checks), tf.name_scope(pipeline.name), \
            scopes.frontend_attribute(PIPELINE_ATTRIBUTE, pipeline.describe()), \
            graphs.of_type(op_types.PIPELINE, _LOOPS, lambda: parts.function,
                           pipeline.attributes()) as made:
        loops.repeat(pipeline.repeat_count, update, [])
        return made[0]


def _unmarked():
    """The description is for the loop itself, not for all that is in it."""
    return marks.graph_attributes({scopes.FRONTEND_ATTRIBUTES_NAME: None})


class _StageOutput:
    """What a function that gives a sum's type is called with: an output of the last stage, by the
    name that the original's operation gives it."""

    def __init__(self, tensor, place):
        self.name, self.dtype, self.shape = f"PipelineStage:{place}", tensor.dtype, tensor.shape


class _Parts:
    """Builds what a mini-batch does, then what is done after all of them."""

    def __init__(self, pipeline):
        self.pipeline = pipeline
        self._grads_and_vars, self._sums = [], []
        self._body = None  # the graph of a mini-batch
        self.function = None  # its name
        self._optimizer = None
        self._outfed, self._outfed_sums = None, []
        self._captured = {}  # tag: Accumulators of the gradients that layers have captured
        self._used = {}  # id of the handle of a variable: (handle, devices of its stages)
        self._changed = set()  # ids of the handles that stages assign to, as those of metrics

    def mini_batch(self, values, named):
        """Returns the operations of one mini-batch."""
        pipeline = self.pipeline
        self._body = tf.get_default_graph()
        stage_values, effects = values, []
        for number, (stage, device) in enumerate(zip(pipeline.stages, pipeline.devices)):
            with scopes.frontend_attribute(STAGE_ATTRIBUTE, str(number)):
                stage_values, operations = self._stage(stage, number, device, stage_values, named)
            effects += operations
            named = {}
        self._check_places()
        if not pipeline.training:
            # As in the original, TensorFlow 1 enqueues one tensor as a list of one.
            is_alone = tf.is_tensor(stage_values) and eager.is_outside_functions()
            if not is_alone and not isinstance(stage_values, dict):
                stage_values = to_list(stage_values)
            if is_alone or stage_values:
                effects += self._out(stage_values, stage_values)
            return effects
        outputs = to_list(stage_values)
        with scopes.ipu_shard(pipeline.devices[-1]), \
                scopes.frontend_attribute(STAGE_ATTRIBUTE, str(len(pipeline.stages) - 1)):
            made = python_code.user_function(pipeline.optimizer_function)(*outputs)
            if not isinstance(made, OptimizerFunctionOutput):
                raise TypeError("optimizer_function must return an OptimizerFunctionOutput, not "
                                f"{type(made).__name__}.")
        effects += self._out_of_training(made, outputs)
        return effects + self._gradients(made)

    def _stage(self, stage, number, device, values, named):
        """(what the stage returned, operations that it returned)."""
        if isinstance(stage, (list, tuple)):
            results = [self._stage(one, number, on, values, named)
                       for one, on in zip(stage, device)]
            return ([value for result, _ in results for value in to_list(result)],
                    [one for _, operations in results for one in operations])
        values = to_list(values)
        with scopes.ipu_shard(device), \
                tf.name_scope(f"{self.pipeline.name}_stage_{number}") as scope:
            returned, call = _calls.call(op_types.STAGE, python_code.user_function(stage), values,
                                         named, scope, stage_id=number)
        graph = calls.graph_of(call)
        # The counter of mini-batches is the loop's: internal_ops.get_current_iteration_counter().
        _check_captures(graph, [*tf.nest.flatten([values, named]), loops.current()[0]])
        for operation in graph.get_operations():
            for one in operation.inputs:
                if one.dtype == tf.resource:
                    handle = _origin(one)
                    self._used.setdefault(id(handle), (handle, set()))[1].add(device)
                    if operation.type.startswith("Assign"):
                        self._changed.add(id(handle))
        if isinstance(returned, dict) or tf.is_tensor(returned):
            return returned, []
        returned = to_list(returned)
        operations = [one for one in returned if isinstance(one, tf.Operation)]
        return [one for one in returned if not isinstance(one, tf.Operation)], [*operations, call]

    def _check_places(self):
        """Makes the program fail if a variable would have to be on several IPUs."""
        wrong = [(handle, devices) for key, (handle, devices) in self._used.items()
                 if len(devices - {ALL_DEVICES}) > 1 and key not in self._changed]
        for handle, devices in wrong[:1]:
            tracing.refuse(
                f"{_variable_name(handle)} is used by stages on the IPUs {sorted(devices)}, but an "
                "input can only be used by pipeline stages on the same IPU. Give these stages one "
                "IPU with `device_mapping`.", before_others=True)

    def _out_of_training(self, made, outputs):
        pipeline = self.pipeline
        if pipeline.outfeed_loss:
            return self._out(made.loss, made.loss)
        mask = pipeline.outfeed_mask or [False] * len(outputs)
        if len(mask) != len(outputs):
            raise ValueError(
                "The last computational stage has %d outputs, but the `outfeed_mask` has elements "
                "%d - these need to match in size." % (len(outputs), len(mask)))
        wanted = [one for masked, one in zip(mask, outputs) if not masked]
        return self._out(wanted, outputs) if wanted else []

    def _out(self, values, outputs):
        """Operations that hand values, a tensor or a structure, to the outfeed, or add them up.
        They are some of the outputs of the last stage."""
        pipeline = self.pipeline
        if pipeline.outfeed is None:
            raise ValueError(
                "The last computational stage has tensor outputs: %s, but no outfeed_queue has "
                "been provided." % ", ".join(str(one) for one in tf.nest.flatten(values)))
        if not pipeline.accumulate:
            return [pipeline.outfeed.enqueue(values)]
        self._outfed = values
        flat = tf.nest.flatten(self._outfed)
        places = {id(one): place for place, one in enumerate(tf.nest.flatten(outputs))}
        dtype = pipeline.outfeed_dtype
        by_name = callable(dtype) and not isinstance(dtype, (type, tf.DType))
        self._outfed_sums = [accumulation.Accumulator(
            one, dtype(_StageOutput(one, places[id(one)])) if by_name else dtype, "outfeed sum")
                             for one in flat]
        return [total.add(one) for total, one in zip(self._outfed_sums, flat)]

    def _gradients(self, made):
        """Operations that add the mini-batch's gradients to the sums."""
        pipeline = self.pipeline
        with scopes.frontend_attribute(PHASE_ATTRIBUTE, "backward"):
            self._grads_and_vars = [self._with_zeros(*one) for one in _compute_gradients(made)]
            self._sums = accumulation.of_gradients(self._grads_and_vars, pipeline.dtype,
                                                   pipeline.name)
            index = loops.current()[0]
            count = pipeline.count
            self._optimizer = made
            added = []
            for total, (gradient, _) in zip(self._sums, self._grads_and_vars):
                if total is not None:
                    with sharding.beside(gradient):
                        added.append(total.add(gradient, pipeline.method, index, count))
            return added + self._capture(_captured_gradients.of(made), index)

    def _capture(self, captured, index):
        """Operations that add up captured gradients, {tag: list}, or keep those of the last
        mini-batch."""
        pipeline, totals = self.pipeline, _captured_gradients.sums(captured)
        self._captured.update(totals)
        return [total.add(one, pipeline.method, index, pipeline.count) if pipeline.for_captured
                else total.assign(one)
                for total, one in _captured_gradients.pairs(totals, captured)]

    def _with_zeros(self, gradient, variable):
        """A stage is differentiated as a whole: a variable that it uses has a gradient, of zeros
        where the loss does not depend on it."""
        if gradient is None and id(_origin(variable.handle)) in self._used:
            gradient = tf.zeros_like(variable)
        return gradient, variable

    def finish(self):
        """Builds what runs after all mini-batches, the update of the weights; its operations."""
        done = []
        offload, shards = (self.pipeline.memory[name] for name in (
            "offload_weight_update_variables", "replicated_optimizer_state_sharding"))
        place = gradient_accumulation_optimizer.place_of_state(offload, shards)
        with scopes.frontend_attribute(PHASE_ATTRIBUTE, "update"), \
                scopes.frontend_attribute(gradient_accumulation_optimizer.UPDATE_ATTRIBUTE, place):
            if self.pipeline.training:
                with tf.name_scope(f"{self.pipeline.name}/WU") as scope:
                    _, call = _calls.call(
                        op_types.UPDATE, self._update, [], {}, scope,
                        **gradient_accumulation_optimizer.update_attributes(offload, shards))
                done.append(call)
            if self._outfed_sums:
                totals = [one.read() for one in self._outfed_sums]
                done.append(self.pipeline.outfeed.enqueue(
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
            if _captured_gradients.are_taken_by(made.opt):
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


def _check_captures(graph, given):
    """Raises ValueError if the graph of a stage takes tensors from outside of it that are no
    handles and have not been given to it."""
    given = {id(_origin(one)) for one in given if tf.is_tensor(one)}
    for one in graph.external_captures:
        origin = _origin(one)
        if one.dtype != tf.resource and id(origin) not in given and not eager.is_eager(origin):
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


# ---- The number of mini-batches ----

_COUNT_NAMES = ("This number might be called `gradient_accumulation_count`, `pipeline_depth` or "
                "`steps_per_execution`: the schedule %s works on that many mini-batches at once.")


def _checks_of_count(pipeline):
    """Makes a program that breaks the rule of overlap_length() fail when it is run, at once or,
    where only the program knows the count, in the program. Returns operations that check it."""
    count = tf.get_static_value(pipeline.count)
    length = overlap_length(pipeline.devices, pipeline.schedule, pipeline.training)
    if count is None:
        fits = tf.logical_and(tf.equal(pipeline.count % length, 0), pipeline.count >= length)
        message = ("Pipeline depth is invalid. Check that it is a multiple of the overlap length "
                   f"({length}), and not less. " + _COUNT_NAMES % pipeline.schedule.name)
        return [tracing.side_effect(custom_calls.ASSERT, {"message": message},
                                    [tf.reshape(fits, [])], [], [])]
    if count % length or count < length:
        tracing.refuse(
            "The number of iterations of the pipeline must be a multiple of %d, but it is %d. " %
            (length, count) + _COUNT_NAMES % pipeline.schedule.name)
    return []
