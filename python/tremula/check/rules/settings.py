"""Settings that are refused, or that contradict each other."""

import ast

from tremula.check import names
from tremula.check.rules import config, rule

_RUN = "ipu.ipu_run_config.IPURunConfig"
_CONNECTIONS = ("NEVER", "PRE_COMPILE")


@rule(
    "refused-setting", "error", "Settings that do not go together",
    """A device, an estimator and a pipeline check what they are given: replicas times shards are
    the IPUs of the device, an estimator trains whole loops, each stage has one IPU, Poplar's
    options are texts, a queue is initialised once.""",
    "Change the one or the other as the message says.",
    """
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.matmuls.poplar_options = {"availableMemoryProportion": 0.3}
    config.configure_ipu_system()
    """,
    """
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.matmuls.poplar_options = {"availableMemoryProportion": "0.3"}
    config.configure_ipu_system()
    """)
def refused_settings(project):
    yield from _options(project)
    for file, call, called in project.calls():
        if called == _RUN:
            yield from _devices(project, file, call)
        elif called == "ipu.pipelining_ops.pipeline":
            yield from _mapping(file, call)
        yield from _steps(project, file, call)
    for file, node in project.nodes(ast.Attribute):
        if node.attr == "initializer" and isinstance(node.ctx, ast.Load) \
                and names.loop_around(node) is not None and _is_queue(file, node.value):
            yield file, node, ("a queue gives its initializer once, and this loop asks for it "
                               "again: take it before the loop")


def _set(project):
    """{path: [(file, target, expression)]} of the options that the program sets."""
    found = {}
    for file, target, path in config.settings(project):
        if isinstance(target.parent, ast.Assign):
            found.setdefault(path, []).append((file, target, target.parent.value))
    return found


def _options(project):
    given = _set(project)
    for path, places in given.items():
        for file, target, value in places if path.endswith("poplar_options") else ():
            items = [value] if isinstance(target, ast.Subscript) else getattr(
                value, "values", []) if isinstance(value, ast.Dict) else []
            for one in items:
                if isinstance(one, ast.Constant) and not isinstance(one.value, str):
                    yield file, one, f"an option of Poplar is a text: \"{one.value}\""
    for file, target, value in given.get("io_tiles.place_ops_on_io_tiles", ()):
        if names.constant(value) is True and "io_tiles.num_io_tiles" not in given:
            yield file, target, "there are no I/O tiles to place ops on: set io_tiles.num_io_tiles"
    for file, target, value in given.get("device_connection.type", ()):
        if getattr(value, "attr", "") in _CONNECTIONS and "device_connection.version" not in given:
            yield file, target, (f"a connection of type {value.attr} needs "
                                 "device_connection.version")


def _number(file, node, default=None):
    value = file.value(node) if node is not None else None
    value = names.constant(value) if value is not None else None if node is not None else default
    return value if type(value) is int else None


def _devices(project, file, call):
    """An estimator's devices: replicas times shards."""
    counts = {_number(other, value)
              for other, _, value in _set(project).get("auto_select_ipus", ())}
    parts = [_number(file, names.argument(call, name), 1)
             for name in ("num_replicas", "num_shards")]
    if names.is_open_ended(call) or None in (*parts, *counts) or len(counts) != 1 \
            or names.argument(call, "ipu_options") is None:
        return
    [count], needed = counts, parts[0] * parts[1]
    if needed != count:
        yield file, call, (f"{parts[0]} replicas times {parts[1]} shards are {needed} IPUs, and "
                           f"auto_select_ipus is {count}")


def _mapping(file, call):
    stages = file.value(names.argument(call, "computational_stages", 0))
    mapping = names.argument(call, "device_mapping")
    given = file.value(mapping) if mapping is not None else None
    if isinstance(stages, ast.List) and isinstance(given, ast.List) and not any(
            isinstance(one, ast.Starred) for one in [*stages.elts, *given.elts]) \
            and len(stages.elts) != len(given.elts):
        yield file, mapping, (f"{len(given.elts)} IPUs are given for {len(stages.elts)} stages: "
                              "each stage has one")


def _steps(project, file, call):
    """Steps of an estimator that are no whole loops."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("train", "evaluate"):
        return
    made = file.value(call.func.value)
    if not isinstance(made, ast.Call) or file.called(made) != \
            "ipu.ipu_estimator.IPUEstimator":
        return
    loops = {_number(other, names.argument(one, "iterations_per_loop", 0))
             for other, one, called in project.calls() if called == _RUN}
    steps = names.argument(call, "steps", 2 if call.func.attr == "train" else 1)
    count = _number(file, steps)
    if len(loops) == 1 and None not in loops and count is not None and count % max(loops):
        yield file, steps, f"{count} steps are no multiple of iterations_per_loop, {max(loops)}"


def _is_queue(file, node):
    value = file.value(node)
    return isinstance(value, ast.Call) and file.called(value) == \
        "ipu.ipu_infeed_queue.IPUInfeedQueue"
