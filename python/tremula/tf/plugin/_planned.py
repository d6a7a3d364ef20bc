"""The modules below `tensorflow.compiler.plugin` that this version of Tremula does not have yet."""

import tremula

# Package -> its modules.
PLANNED = {
    "poplar.driver": ("poplar_executable_pb2", "poplar_feed_config_pb2"),
    "poplar": ("tools",),
}


def message(name):
    """Why the module `name` ("poplar.ops.gen_popnn_ops") cannot be had, or None where the original
    has no such module."""
    package, _, module = name.rpartition(".")
    if module not in PLANNED.get(package, ()):
        return None
    return (f"tensorflow.compiler.plugin.{name} is a part of the IPU API that Tremula "
            f"{tremula.__version__} does not have yet.")
