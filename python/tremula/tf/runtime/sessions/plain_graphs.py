"""Sessions of graphs in which TensorFlow's graph optimisers have little to do.

A graph of a program for the IPU consists mostly of variables, nodes that initialise and save them,
and nodes that run compiled parts. TensorFlow optimises the whole graph at every new kind of run.
For ResNet-50's training that was more than half of the time between the graph and the first step,
and changed nothing. So a session of such a graph gets options of its own. If it has no functions:

    rewrite_options.min_graph_nodes   graphs with fewer nodes are not optimised: a few more than the
                                      graph has. Once more have been added, TensorFlow optimises
                                      again.
    optimizer_options.opt_level       L0, since otherwise an older optimiser, which runs after that
                                      one, would fold the zeros of optimizer slots into constants.

If it has functions, which may belong to a dataset, they are optimised, but once instead of twice,
and neither for GPUs nor to save memory.

A session whose user has set any of `graph_options` is left alone, and so is any other graph.
"""

from tremula.tf.inner import sessions

# Nodes that may be added before TensorFlow optimises again: initialisers of a few things, and the
# operations that group them.
_ROOM = 16

NOT_PLAIN, PLAIN, PLAIN_WITH_FUNCTIONS = range(3)

# Ops that no optimiser makes anything of, wherever they are: variables, and what feeds programs. So
# are our own, and datasets.
_PLAIN = frozenset((
    "Assign", "AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "Const",
    "ControlTrigger", "Enter", "Exit", "Identity", "IdentityN", "If", "IsVariableInitialized",
    "IteratorGetNext", "IteratorGetNextAsOptional", "IteratorToStringHandle", "IteratorV2",
    "LoopCond", "MakeIterator", "Merge", "MergeSummary", "MergeV2Checkpoints", "NextIteration",
    "NoOp", "OneShotIterator", "OptionalGetValue", "OptionalHasValue", "Placeholder",
    "PlaceholderWithDefault", "ReadVariableOp", "RestoreV2", "SaveV2", "ScalarSummary",
    "ShardedFilename", "StatelessIf", "StatelessWhile", "Switch", "VarHandleOp",
    "VarIsInitializedOp", "VariableV2", "While"))
# Initial values and names of files. On an IPU these would be programs (clusters.py).
_PLAIN_ON_CPU = frozenset((
    "Add", "AddV2", "Cast", "Fill", "Mul", "Pack", "RandomStandardNormal", "RandomUniform",
    "RandomUniformInt", "Reshape", "StatelessRandomGetKeyCounter", "StatelessRandomNormalV2",
    "StatelessRandomUniformV2", "StatelessTruncatedNormalV2", "StringJoin", "Sub",
    "TruncatedNormal", "ZerosLike"))
_RUNS_PROGRAM = frozenset(("IpuLaunch", "IpuStart"))
_EFFECT = "IpuEffect"  # it is to become part of a program (clusters.py)


def options_for(target, graph, config):
    """(ConfigProto, kind) for a session with these arguments: options that it should get instead
    of `config`, or None, and what its graph is."""
    import tensorflow.compat.v1 as tf
    graph = tf.get_default_graph() if graph is None else graph
    config = sessions.default_config() if config is None else config
    if target or not isinstance(graph, tf.Graph) or not isinstance(config, tf.ConfigProto):
        return None, NOT_PLAIN  # TensorFlow says what is wrong
    if config.graph_options.ByteSize() or sessions.rewrites_precision():
        return None, NOT_PLAIN
    kind = kind_of(graph)
    if kind == NOT_PLAIN:
        return None, kind
    own = tf.ConfigProto()
    own.CopyFrom(config)
    rewriting = own.graph_options.rewrite_options
    if kind == PLAIN:
        rewriting.min_graph_nodes = len(graph.get_operations()) + 1 + _ROOM
        own.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    else:
        rewriting.meta_optimizer_iterations = rewriting.ONE
        rewriting.layout_optimizer = rewriting.OFF
        rewriting.memory_optimization = rewriting.NO_MEM_OPT
    return own, kind


def kind_of(graph):
    """Whether optimising a graph, with compiled parts in it, would be for nothing: PLAIN,
    PLAIN_WITH_FUNCTIONS or NOT_PLAIN."""
    runs_program = False
    for operation in graph.get_operations():
        op, on_ipu = operation.type, "device:IPU:" in operation.device
        if op in _RUNS_PROGRAM:
            runs_program = True
        elif op == _EFFECT:
            return NOT_PLAIN
        elif op not in _PLAIN and not op.startswith("Ipu") and "Dataset" not in op and (
                on_ipu or op not in _PLAIN_ON_CPU):
            return NOT_PLAIN
        if not on_ipu and _is_marked(operation):
            return NOT_PLAIN
    if not runs_program:
        return NOT_PLAIN
    return PLAIN_WITH_FUNCTIONS if graph._functions else PLAIN


def _is_marked(operation):
    """Whether TensorFlow would compile an operation, unless clusters.py takes the mark away."""
    try:
        return operation.get_attr("_XlaCompile")
    except ValueError:
        return False
