"""The peers, each in a process of its own, so that stock TensorFlow is stock: ours through
ipu_compiler and a Session (what a user runs), TensorFlow's graph and XLA through a Session, and our
C core alone.

A worker takes over a pipe ("prepare", case name), ("run", times) and ("close",), and answers
("ok", value) or ("failed", message).
"""

import os
import time

import numpy as np

from comparison import machine, networks

PEERS = {"ours": "ipu_compiler", "tf": "TensorFlow graph", "xla": "XLA", "core": "C core alone"}
BEFORE = {"before": "ipu_compiler before"}  # ours, of another tree
OURS = ("ours", "before")
LIBRARY_DIR = "TREMULA_LIBRARY_DIR"


def main(peer, pipe, log):
    """`log`: the file to which TensorFlow's standard error goes."""
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 2)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["OMP_NUM_THREADS"] = str(machine.cores())
    prepared = None
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        try:
            if request[0] == "prepare":
                case = next(one for one in networks.cases() if one.name == request[1])
                _import(peer)
                start = time.perf_counter()
                prepared = (_Core if peer == "core" else _Session)(peer, case)
                results = [np.array(prepared.run())]
                first = time.perf_counter() - start
                results.append(np.array(prepared.run()))  # after an update of the weights
                answer = {"first": first, "results": results,
                          "kernels": prepared.kernels() if peer == "core" else []}
            elif request[0] == "run":
                answer = _time(prepared, request[1])
            else:
                prepared, answer = None, None
            pipe.send(("ok", answer))
        except Exception as error:  # pylint: disable=broad-except
            lines = str(error).strip().splitlines() or [""]
            pipe.send(("failed", f"{type(error).__name__}: {lines[0]}"))


def _import(peer):
    """Imports TensorFlow before the measurement; startup.py measures that."""
    import tensorflow  # pylint: disable=unused-import
    if peer in OURS:
        import tremula
        from tensorflow.python.ipu import ipu_compiler  # pylint: disable=unused-import
        chosen = os.environ.get("PYTHONPATH", "").split(os.pathsep)[0]
        if peer == "before" and not tremula.__file__.startswith(chosen + os.sep):
            raise ImportError(f"tremula is that of {tremula.__file__}, not of {chosen}")
    elif peer == "core":
        from tremula import core
        core.library()


def _time(prepared, times):
    start = time.perf_counter()
    for _ in range(times):
        prepared.run()
    return (time.perf_counter() - start) / times


class _Session:
    """A graph with the weights in variables, and a Session that runs one step."""

    def __init__(self, peer, case):
        import tensorflow as tf
        tf1 = tf.compat.v1
        self._graph = tf.Graph()
        specs = case.weight_specs()
        with self._graph.as_default():
            place = (lambda: _ipu_scope()) if peer in OURS else (lambda: tf.device("/CPU:0"))
            arrays = case.inputs()
            with tf.device("/CPU:0"):
                inputs = [tf1.placeholder(one.dtype, one.shape) for one in arrays]
                sources = [tf1.placeholder(one.dtype, one.shape) for one in specs]
            with place():
                variables = [tf1.get_variable(f"w{i}", one.shape, one.dtype, use_resource=True,
                                              initializer=tf1.zeros_initializer())
                             for i, one in enumerate(specs)]

            def step(*values):
                return _step(case, variables, values)

            with place():
                if peer in OURS:
                    from tensorflow.python.ipu import ipu_compiler
                    self._result = ipu_compiler.compile(step, inputs)[0]
                elif peer == "xla":
                    self._result = tf.function(step, jit_compile=True, autograph=False)(*inputs)
                else:
                    self._result = step(*inputs)
            # Without initialisers, because a graph holds no more than 2 GB.
            with tf.device("/CPU:0"):
                assign = [tf.raw_ops.AssignVariableOp(resource=variable.handle, value=source)
                          for variable, source in zip(variables, sources)]
        config = tf1.ConfigProto(intra_op_parallelism_threads=machine.cores(),
                                 inter_op_parallelism_threads=machine.cores())
        self._session = tf1.Session(graph=self._graph, config=config)
        for i, (operation, source, spec) in enumerate(zip(assign, sources, specs)):
            self._session.run(operation, {source: spec.value(i)})
        self._feed = dict(zip(inputs, arrays))

    def run(self):
        return self._session.run(self._result, self._feed)

    def __del__(self):
        if hasattr(self, "_session"):
            self._session.close()


def _ipu_scope():
    from tensorflow.python.ipu import config, scopes
    # On the IPU Model, because not every network here fits on one IPU.
    os.environ.setdefault("TF_POPLAR_FLAGS", "--use_ipu_model")
    configuration = config.IPUConfig()
    configuration.auto_select_ipus = 1
    configuration.configure_ipu_system()
    return scopes.ipu_scope("/device:IPU:0")


def _step(case, variables, values):
    import tensorflow as tf
    weights = [variable.read_value() for variable in variables]
    result = case.compute(networks.Weights(weights), *values)
    if not case.rate:
        return result
    gradients = tf.gradients(result, weights)
    updates = [tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=case.rate,
                                                       delta=gradient)
               for variable, gradient in zip(variables, gradients)]
    with tf.control_dependencies(updates):
        return tf.identity(result)


class _Core:
    """The program as HLO, with weights as inputs and, in training, new weights as outputs."""

    def __init__(self, _, case):
        import tensorflow as tf
        from tremula import core
        weights = [spec.value(i) for i, spec in enumerate(case.weight_specs())]
        self._inputs = case.inputs()
        count = len(self._inputs)

        def step(*values):
            given = list(values[count:])
            result = case.compute(networks.Weights(given), *values[:count])
            if not case.rate:
                return (result,)
            gradients = tf.gradients(result, given)
            return (result, *[weight - tf.cast(case.rate, weight.dtype) * gradient
                              for weight, gradient in zip(given, gradients)])

        function = tf.function(step, jit_compile=True, autograph=False)
        with tf.device("/CPU:0"):
            module = function.experimental_get_compiler_ir(
                *[tf.constant(one) for one in self._inputs + weights])(stage="hlo_serialized")
        executable = core.compile(core.Module.read(module))
        self._engine = core.Engine(executable)
        self._outputs = [_empty(info) for info in executable.outputs]
        # The core packs weights with a version once; weights that every step changes have none.
        self._weights, self._version = weights, 0 if case.rate else 1

    def run(self):
        versions = [0] * len(self._inputs) + [self._version] * len(self._weights)
        result, *updated = self._engine.run(self._inputs + self._weights, versions, self._outputs)
        if updated:  # a step reads one set of weights and writes the other
            self._outputs, self._weights = [self._outputs[0], *self._weights], updated
        return result  # valid until the next run


    def kernels(self):
        """The sums by kernel of one run, the slowest first: [(name, share)]."""
        self._engine.time_steps()
        self.run()
        *_, sums = self._engine.print_times().strip().split("share  kernel\n")
        self._engine.time_steps(False)
        lines = [line.split() for line in sums.split("\n\n")[0].splitlines()]
        return [(line[3], line[2]) for line in lines if len(line) == 4]


def _empty(info):
    import numpy as np
    return np.empty(info.shape, info.dtype)
