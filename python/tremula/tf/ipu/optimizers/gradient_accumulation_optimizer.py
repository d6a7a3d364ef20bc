"""Optimizers that add up the gradients of several mini-batches before they apply them
(`tensorflow.python.ipu.gradient_accumulation_optimizer`).

Use one in the body of a loop whose number of iterations is a multiple of the number of
mini-batches.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs
from tremula.tf.ipu import gradient_accumulation, loops, scopes
from tremula.tf.ipu.ops import _calls, _captured_gradients
from tremula.tf.ipu.optimizers import ipu_optimizer
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.nodes import op_types
from tremula.tf.runtime.tracing import accumulation, host_tables, program_state, tracing

GradientAccumulationReductionMethod = gradient_accumulation.GradientAccumulationReductionMethod

# The attribute of the weight update: where what only it reads is kept (src/ipu/program/remote.c).
UPDATE_ATTRIBUTE = "weight_update"


class GradientAccumulationOptimizerV2(ipu_optimizer.IpuOptimizer):
    """Applies the gradients of `num_mini_batches` iterations at once, with any optimizer. A loop
    may have one."""

    _is_resource_update = True

    @accumulation.takes_old_positions
    def __init__(self, opt, num_mini_batches, offload_weight_update_variables=None,
                 replicated_optimizer_state_sharding=False, dtype=None,
                 reduction_method=GradientAccumulationReductionMethod.SUM,
                 name="GradientAccumulationOptimizerV2"):
        """
        num_mini_batches  an int, 1 or more
        dtype             of the sums: a type, a function of the variable that gives one, or None
                          for the variable's own
        reduction_method  a GradientAccumulationReductionMethod or its name

        Where variables are kept makes no difference to the numbers, so the two options about that
        are for reports only. Raises ValueError for a number below 1, TypeError for wrong kinds.
        """
        super().__init__(opt, name)
        num_mini_batches = checks.whole("num_mini_batches", num_mini_batches)
        for option, value in (
                ("offload_weight_update_variables", offload_weight_update_variables),
                ("replicated_optimizer_state_sharding", replicated_optimizer_state_sharding)):
            checks.boolean(option, value, optional=True)
        if num_mini_batches < 1:
            raise ValueError("num_mini_batches must be a positive number, but it is "
                             f"{num_mini_batches}.")
        self._num_mini_batches = num_mini_batches
        self._dtype = checks.dtype("dtype", dtype)
        self._method = GradientAccumulationReductionMethod.parse(reduction_method)
        self._offload_weight_update_variables = offload_weight_update_variables
        self._replicated_optimizer_state_sharding = replicated_optimizer_state_sharding

    @property
    def supports_captured_grads(self):
        """Whether the optimizer inside takes gradients that layers have captured."""
        return _captured_gradients.are_taken_by(self._opt)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, captured_grads=None):
        """The operation that adds gradients up, and, in the last of the mini-batches, applies the
        sums. `global_step` counts the times that they are applied. `captured_grads`, {tag: list},
        are added up too, for an optimizer inside that takes them.

        See ipu.ipu_optimizer.IpuOptimizer.apply_gradients(). The program fails with
        FailedPreconditionError if the loop around ends in the middle of a sum, or has another such
        update."""
        grads_and_vars = list(grads_and_vars)
        check_loop(self._num_mini_batches)
        if self._is_resource_update:
            check_only_update()
        name = name or self._name
        count = tf.constant(self._num_mini_batches)
        seen = program_state.State(tf.int32, [], f"{name}/count")
        before = seen.read()
        sums = accumulation.of_gradients(grads_and_vars, self._dtype, name)
        added = [one.add(gradient, self._method, before, count)
                 for one, (gradient, _) in zip(sums, grads_and_vars) if one is not None]
        captured = _captured_gradients.sums(captured_grads)
        for total, gradient in _captured_gradients.pairs(captured, captured_grads):
            added.append(total.add(gradient, self._method, before, count))

        def update():
            accumulated = [(one if one is None else one.read(), variable)
                           for one, (_, variable) in zip(sums, grads_and_vars)]
            more = {"captured_grads": tf.nest.map_structure(
                lambda one: one.read(), captured)} if captured else {}
            applied = self._opt.apply_gradients(accumulated, global_step, **more)
            with tf.control_dependencies([applied, *host_tables.apply_accumulated()]):
                return [one.clear() for one in [*sums, *tf.nest.flatten(captured)]
                        if one is not None]

        places = (self._offload_weight_update_variables, self._replicated_optimizer_state_sharding)
        return once_in(self._num_mini_batches, seen, before, added, update, places, name,
                       self._is_resource_update)


class CrossReplicaGradientAccumulationOptimizerV2(ipu_optimizer.IpuOptimizer):
    """The same with the sums added up over the replicas too."""

    @accumulation.takes_old_positions
    def __init__(self, opt, num_mini_batches, offload_weight_update_variables=None,
                 replicated_optimizer_state_sharding=False, dtype=None,
                 reduction_method=GradientAccumulationReductionMethod.SUM,
                 name="CrossReplicaGradientAccumulationOptimizerV2"):
        """As GradientAccumulationOptimizerV2."""
        from tremula.tf.ipu.optimizers import cross_replica_optimizer
        super().__init__(
            GradientAccumulationOptimizerV2(
                cross_replica_optimizer.CrossReplicaOptimizer(opt), num_mini_batches,
                offload_weight_update_variables, replicated_optimizer_state_sharding, dtype,
                reduction_method, name), name)


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """The first of these optimizers: as the second, with sums. A loop may have several."""

    _is_resource_update = False

    def __init__(self, opt, num_mini_batches, verify_usage=True,
                 name="GradientAccumulationOptimizer"):
        """`verify_usage` makes no difference: what the original checked needs no check here."""
        del verify_usage
        super().__init__(opt, num_mini_batches, name=name)


class CrossReplicaGradientAccumulationOptimizer(CrossReplicaGradientAccumulationOptimizerV2):
    """The same with the sums added up over the replicas too."""

    def __init__(self, opt, num_mini_batches, verify_usage=True,
                 name="CrossReplicaGradientAccumulationOptimizer"):
        del verify_usage
        super().__init__(opt, num_mini_batches, name=name)
        self._opt._is_resource_update = False


def once_in(num_mini_batches, seen, before, added, update, places, name, is_call=True):
    """The operation that does in the last of `num_mini_batches` iterations what update() builds.

    seen    the State that counts iterations; `before` is its value
    added   what comes before the update
    update  returns operations after which the next sum begins
    places  the two arguments of place_of_state()
    is_call whether the update is an operation ResourceUpdate
    """
    count = tf.constant(num_mini_batches)
    with tf.control_dependencies([before, *added]):
        now = tf.identity(before + 1)
        last = tf.equal(now, count)

    def apply():
        with scopes.frontend_attribute(UPDATE_ATTRIBUTE, place_of_state(*places)):
            with accumulation.applying(num_mini_batches):
                if is_call:
                    with tf.name_scope(f"{name}/WU") as scope:
                        cleared = [_calls.call(op_types.UPDATE, update, [], {}, scope,
                                               **update_attributes(*places))[1]]
                else:
                    cleared = update()
            with tf.control_dependencies([*cleared, seen.assign(0)]):
                return tf.constant(True)

    def go_on():
        with tf.control_dependencies([seen.assign(now)]):
            return tf.constant(False)

    with tf.control_dependencies(added), \
            scopes.frontend_attribute(
                accumulation.COUNT_ATTRIBUTE,
                str(accumulation.whole_count(num_mini_batches))):
        applied = tf.cond(last, apply, go_on)
    return tf.group(applied, name=name)


def place_of_state(offload, shards):
    """UPDATE_ATTRIBUTE's value for offload_weight_update_variables, which is True, False or None,
    and replicated_optimizer_state_sharding, which is True or not."""
    place = "auto" if offload is None else "offload" if offload else "keep"
    return f"{place},sharded" if shards else place


def update_attributes(offload, shards):
    """The attributes of an operation ResourceUpdate for the same two."""
    return {"offload_weight_update_variables": op_types.three_state(offload),
            "replicated_optimizer_state_sharding": op_types.three_state(shards)}


def check_only_update():
    """Makes the program fail with FailedPreconditionError if the loop around has an update that
    waits for all mini-batches already."""
    if loops.current() is None:
        return
    body = tf.get_default_graph()
    if getattr(body, "_tremula_resource_update", False):
        tracing.refuse("Detected multiple resource update instructions inside of a training loop "
                       "- only one resource update is allowed.")
    body._tremula_resource_update = True


def check_loop(num_mini_batches):
    """Makes the program fail with FailedPreconditionError if the loop around ends in the middle of
    a sum."""
    num_mini_batches = accumulation.whole_count(num_mini_batches)
    loop = loops.current()
    if loop is None and graphs.is_in_loop_body(tf.get_default_graph()):
        return  # of TensorFlow's own: its iterations are counted when it is compiled
    trip_count = loop[1] if loop is not None else 1
    if trip_count is not None and trip_count % num_mini_batches:
        tracing.refuse(
            f"Detected a gradient accumulation operation with {num_mini_batches} number of mini "
            f"batches inside a loop with {trip_count} iterations. The number of iterations must be "
            "a multiple of the number of mini batches, or gradients would be lost.")


def check_use(total, name):
    """Makes the program fail with FailedPreconditionError if the loop whose body makes `total`, a
    sum over mini-batches, adds it to a value that the loop carries. `name` is the sum's."""
    body = total.graph

    def check():
        if any({before.op, total.op} <= _ops_behind(after)
               for before, after in zip(body.inputs, body.outputs)):
            tracing.refuse(
                f"The sum {name} of an IpuStatefulGradientAccumulate op becomes a part of a value "
                "that the loop around carries, but it is for updates of variables only. Make that "
                "value a variable, or give verify_usage=False.")

    if graphs.is_loop_body(body):
        tracing.when_built(check)


def _ops_behind(tensor):
    """The operations of a graph that the value of a tensor is made of."""
    found, waiting = set(), [tensor.op]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [taken.op for taken in one.inputs]
    return found
