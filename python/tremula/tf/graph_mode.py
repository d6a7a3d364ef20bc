"""Programs that were written for TensorFlow 1.15 by its name `tensorflow.compat.v1`.

There graphs were the rule, so many of them do not say that they want no eager execution. With
stock TensorFlow they would fail at their first placeholder.
"""

import ast
import os
import sys

# A program that names one of these says itself what it wants.
_DECISIONS = {"disable_eager_execution", "enable_eager_execution", "disable_v2_behavior",
              "enable_v2_behavior"}
# What cannot be used while everything runs eagerly.
_OF_GRAPHS = {"Session", "InteractiveSession", "MonitoredTrainingSession", "placeholder"}


def begin_if_wanted():
    """Turns TensorFlow 2's behaviour off if the program that runs is such a one, and logs that."""
    import tensorflow.compat.v1 as tf
    if not tf.executing_eagerly() or not wants_graphs(_source()):
        return
    level = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)  # it warns that variables are no resources
    try:
        tf.disable_v2_behavior()
    finally:
        tf.logging.set_verbosity(level)
    tf.logging.info("This program uses tensorflow.compat.v1 with sessions and does not say whether "
                    "it wants eager execution: TensorFlow 2's behaviour is off, as in 1.15.")


def wants_graphs(source):
    """Whether the program of this text imports no other `tensorflow` than `compat.v1`, makes
    sessions or placeholders, and leaves open whether it wants eager execution. False for what is
    no Python."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    imported = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.update(f"{node.module}.{alias.name}" for alias in node.names)
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return ("tensorflow.compat.v1" in imported and "tensorflow" not in imported
            and "tensorflow.compat.v2" not in imported
            and bool(named & _OF_GRAPHS) and not named & _DECISIONS)


def _source():
    """The text of the program, "" where there is none."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not path or os.path.splitext(path)[1] != ".py":
        return ""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return ""
