"""Unique names for nodes, and what is known about each.

Marks such as the IPU that an op is on do not survive TensorFlow's lowering, but names do. So every
node gets a unique name without a meaning, such as "n17". A table says what is known about n17.
src/hlo/lowered.c writes the table's entries on the instructions that the node has become.
"""

import functools
import itertools
import os

from tremula.tf.inner import marks
from tremula.tf.runtime.nodes import node_marks


@functools.cache
def _foreign_folders():
    """Frames below these folders are not the user's."""
    import tensorflow
    import tremula
    packages = [os.path.dirname(os.path.abspath(package.__file__))
                for package in (tensorflow, tremula)]
    beside = os.path.dirname(packages[0])
    packages += [os.path.join(beside, name) for name in
                 ("keras", "tf_keras", "tensorflow_estimator")]
    return tuple(path + os.sep for path in packages)


@functools.cache  # asked for each frame of each operation
def _is_foreign(filename):
    return filename.startswith(_foreign_folders()) or filename.startswith("<")


def user_frame(operation, known=None):
    """(file, line) of the program's line that made an operation, or (None, 0). `known` remembers
    answers by tracebacks, which live only as long as their operations."""
    frames = operation.traceback
    if frames is None:
        return None, 0
    found = known.get(frames) if known is not None else None
    if found is None:
        found = next(((frame.filename, frame.lineno) for frame in reversed(frames)
                      if not _is_foreign(frame.filename)), (None, 0))
        if known is not None:
            known[frames] = found
    return found


def describe(operation, known=None):
    """What the table says about an operation: {"name", "file", "line"} and, where they are set,
    "shard" (a list of IPU numbers) and "attributes" (a dict of text). `known` as for user_frame():
    many operations come from one line. "type" is added to nodes whose op is rewritten."""
    file, line = user_frame(operation, known)
    entry = {"name": operation.name, "file": file, "line": line}
    sharding, attributes = _marks(operation)
    if sharding:
        entry["shard"] = node_marks.decode_sharding(sharding)
    if attributes:
        entry["attributes"] = attributes
    return entry


def _marks(operation):
    """The sharding (bytes or None) and the attributes (a dict) of an operation. A gradient takes
    those that it lacks from the operation that it is the gradient of."""
    sharding, attributes = None, {}
    seen = set()
    while operation is not None and operation not in seen:
        seen.add(operation)
        sharding = sharding or marks.operation_attribute(operation, node_marks.SHARDING)
        own = marks.operation_attribute(operation, node_marks.FRONTEND_ATTRIBUTES)
        if own:
            attributes = {**node_marks.decode_attributes(own), **attributes}
        operation = getattr(operation, "_original_op", None)
    return sharding, attributes


class NodeTable:
    """{unique name: what is known about the node}, and how new unique names are made."""

    def __init__(self, entries=None):
        self.entries = dict(entries or {})
        self._numbers = itertools.count(len(self.entries) + 1)

    def add(self, entry):
        """A new unique name for the node that `entry` describes."""
        name = f"n{next(self._numbers)}"
        self.entries[name] = entry
        return name

    def find(self, op_name):
        """The entry for an instruction's op_name, which is a path of names, or None."""
        for part in reversed(op_name.split("/")):
            if part in self.entries:
                return self.entries[part]
        return None
