"""From a step to its program for an IPU, and what that needs there."""

import dataclasses
from typing import Any

_MOST_IPUS = 16


@dataclasses.dataclass
class Size:
    """plan: of the step on one IPU. ipus: how many IPUs it fits on, 0: on none up to 16. target."""
    step: Any
    plan: Any
    ipus: int
    fullest: float  # of the fullest tile on so many IPUs


class _Feeds:
    """Numbers the host functions of a program that is planned and never runs."""

    def __init__(self, graph):
        self.graph, self._ids, self.infeed = graph, [], None

    def feed(self, identity):
        """The number of a host function or a queue."""
        if identity not in self._ids:
            self._ids.append(identity)
        return str(self._ids.index(identity))


def lower(step):
    """The bytes of a step's module. Raises a Complaint that says why there is none."""
    if step.module is not None:
        return step.module
    from tremula import tool
    from tremula.tf.inner import bridge, handles
    from tremula.tf.runtime.host import outside
    from tremula.tf.runtime.lowering import lowering, staging
    import tensorflow as tf
    arguments, variables, sizes = _ends(step, handles)
    outputs = _outputs(step)
    try:
        host = outside.Host(_Feeds(step.graph))  # tf.print, and what is outside of compilation
        source = staging.stage(step.graph, arguments, variables, outputs, "/device:IPU:0",
                               host=host)
        return lowering.lower(source, shapes=sizes).module
    except (bridge.LoweringError, tf.errors.OpError, ValueError, TypeError) as error:
        raise tool.Complaint(getattr(error, "message", None) or str(error)) from error


def _ends(step, handles):
    """(tensors for values, handles of variables, shapes of the values) where a step begins."""
    from tremula.check.running import graphs
    given = {one.name: shape for one, shape in step.shapes if shape is not None}
    batch = _batch(step)
    arguments, variables, sizes = [], [], []
    for one, is_inner in graphs.operations(step):
        if is_inner or one.type not in graphs._SOURCES and one not in {
                tensor.op for tensor, _ in step.shapes}:
            continue
        for tensor in one.outputs:
            if tensor.dtype.name == "resource":
                if handles.is_resource_variable_handle(tensor):
                    variables.append(tensor)
            elif tensor.dtype.name not in ("variant", "string") and tensor.consumers():
                arguments.append(tensor)
                shape = given.get(tensor.name)
                if shape is None:
                    shape = [batch if size is None else size for size in tensor.shape.as_list()] \
                        if tensor.shape.rank is not None else []
                sizes.append([int(size) for size in shape])
    return arguments, variables, sizes


def _batch(step):
    """The size of a dimension that nothing tells: that of the first dimension of what is fed."""
    for tensor, shape in step.shapes:
        if shape and tensor.shape.rank and tensor.shape[0] is None:
            return int(shape[0])
    return step.batch or 1


def _outputs(step):
    """Tensors that need all that the step does."""
    import tensorflow as tf
    from tremula.check.running import graphs
    fetches = [part for one in step.fetches for part in (  # Keras 3 gives an Optional
        one.op.inputs if getattr(one, "dtype", None) == tf.variant else [one])]
    kept = [one for one in fetches if hasattr(one, "dtype")
            and one.dtype.name not in ("string", "variant", "resource")]
    acts = [one for one in fetches if not hasattr(one, "dtype")
            and not graphs._HOST.match(one.type)]
    if acts:
        with step.graph.as_default(), tf.control_dependencies(acts):
            kept.append(tf.constant(0, name="tremula_done"))
    return kept


def size(step):
    """The Size of a step. Raises a Complaint where the step cannot be lowered or planned."""
    from tremula import core, planning, tool
    module = lower(step)
    try:
        executable = core.compile(core.Module.read(module), target="mk2")
        plan = planning.plan(executable, target="mk2")
        one, ipus = plan, plan.num_ipus
        while not one.fits and 2 * ipus <= _MOST_IPUS:
            ipus *= 2
            one = planning.plan(executable, target="mk2", ipus=ipus)
    except core.TremulaError as error:
        raise tool.Complaint(str(error)) from error
    return Size(step, plan, ipus if one.fits else 0,
                one.worst_tile_bytes / one.bytes_per_tile)
