"""The modules of the original's API that this version of Tremula does not have yet."""

import tremula

# What a group of modules is for -> the modules, as they are named below `tensorflow.python.ipu`.
PLANNED = {
    "pipelining": ("pipelining_ops_grad",),
    "custom operations": ("vertex_edsl",),
}

# Functions that the original's `__init__` shows -> the module that has them.
FUNCTIONS = {
    "outlined_function": "functional_ops",
    "function": "functional_ops",
}

_GROUP = {module: group for group, modules in PLANNED.items() for module in modules}


def names():
    """The names of all planned modules, sorted."""
    return sorted(_GROUP)


def message(name):
    """Why `name` ("rnn_ops", "ops.rnn_ops", "keras.layers") cannot be had, or None where the
    original has no such module either."""
    parts = name.split(".")
    while len(parts) > 1 and parts[0] in ("ops", "optimizers", "experimental"):
        parts = parts[1:]
    group = _GROUP.get(parts[0])
    if group is None:
        return None
    return (f"tensorflow.python.ipu.{name} is a part of the IPU API ({group}) that Tremula "
            f"{tremula.__version__} does not have yet.")
