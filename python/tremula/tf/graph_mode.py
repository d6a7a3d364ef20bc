"""Programs that were written for TensorFlow 1.15 by its name `tensorflow.compat.v1`.

There graphs were the rule, so many of them do not say that they want no eager execution. With
stock TensorFlow they would fail at their first placeholder.
"""

import ast
import os
import sys

# A program that names one of these says itself what it wants, or asks what it got.
_DECISIONS = {"disable_eager_execution", "enable_eager_execution", "disable_v2_behavior",
              "enable_v2_behavior", "executing_eagerly", "run_functions_eagerly"}
# What there is in eager execution only, or does the same there.
_OF_EAGER = {"numpy", "wrap_function", "IPUStrategy"}
# What cannot be used while everything runs eagerly, unless it is in a graph that the program makes.
_SESSIONS = {"Session", "InteractiveSession", "MonitoredTrainingSession"}
_OF_GRAPHS = {*_SESSIONS, "placeholder"}
# What makes graphs of its own.
_ESTIMATORS = {"Estimator", "IPUEstimator", "IPUPipelineEstimator"}


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
    """Whether the program of this text cannot work with eager execution and leaves open whether it
    wants that. False for what is no Python.

    It imports no other `tensorflow` than `compat.v1`, makes sessions or placeholders, and uses
    nothing of eager execution. If it makes graphs of its own, sessions work in any case; then the
    answer is True only if it reads sizes of shapes as `.value`, which TensorFlow 2 does not have.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    imported, named = set(), set()
    makes_graphs = False
    for node in nodes:
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            named.add(node.attr)
        elif isinstance(node, ast.keyword):
            makes_graphs |= node.arg == "graph"
    names = named | {one.rpartition(".")[2] for one in imported if one.startswith("tensorflow.")}
    makes_graphs |= "Graph" in names or bool(names & _ESTIMATORS and not named & _SESSIONS)
    return ("tensorflow.compat.v1" in imported and "tensorflow" not in imported
            and "tensorflow.compat.v2" not in imported and bool(named & _OF_GRAPHS)
            and not names & (_DECISIONS | _OF_EAGER)
            and (not makes_graphs or "value" in named))


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
