"""One peer, in a process of its own: prepares a row and runs it when asked.

    python peer.py PEER ROW THREADS

Reads numbers of calls from the standard input, a line each, and answers with lines of JSON.
"""

import functools
import json
import os
import pathlib
import resource
import sys
import time

THREADS = int(sys.argv[3])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
os.environ.update(OMP_NUM_THREADS=str(THREADS), TF_CPP_MIN_LOG_LEVEL="3",
                  JAX_PLATFORMS=os.environ.get("BENCH_PLATFORM", "cpu"))
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[2])

import numpy as np  # noqa: E402

from comparison.league import backends, rows  # noqa: E402

TITLES = {"tremula": "Tremula", "jax": "JAX", "torch": "PyTorch", "tf": "TensorFlow", "xla": "XLA",
          "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def _jax(row, compiled_by, wait, halves=False):
    """The call. wait(result) returns when the result is there."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    b = backends.jax_backend()

    def narrowed(value):
        return value.astype(np.float16) if halves and value.dtype == np.float32 else value

    arrays = [jnp.asarray(narrowed(one)) for one in row.inputs()]
    found = rows.Weights(lambda value, kind: narrowed(value))
    jax.eval_shape(lambda: row.net(b, found, *arrays))
    weights = [jnp.asarray(one) for one in found.values]

    def net(weights, *inputs):
        return row.net(b, rows.Weights(None, weights), *inputs)

    def step(weights, *inputs):
        loss, gradients = jax.value_and_grad(net)(weights, *inputs)
        return [w - row.rate * g for w, g in zip(weights, gradients)], loss

    def loop(weights, *inputs):
        return lax.fori_loop(0, row.steps, lambda i, state: step(state[0], *inputs),
                             (weights, jnp.float32(0)))

    function = net if not row.rate else step if row.steps == 1 else loop
    options = {"donate_argnums": 0} if row.rate else {}
    jitted = compiled_by(function, **options)
    state = [weights]

    def call():
        result = jitted(state[0], *arrays)
        if row.rate:
            state[0], result = result
        return wait(result)
    return call


def _tremula(row):
    import jax
    import tremula.jax
    if os.environ.get("TREMULA_ACCELERATOR"):
        return _jax(row, functools.partial(tremula.jax.jit, outputs="lazy"), jax.block_until_ready,
                    row.halves)
    return _jax(row, tremula.jax.jit, lambda arrays: arrays, row.halves)  # NumPy's are there


def _xla_of_jax(row):
    import jax
    return _jax(row, jax.jit, jax.block_until_ready)


def _torch(row):
    import torch
    torch.set_num_threads(THREADS)
    b = backends.torch_backend()
    arrays = [torch.from_numpy(one) for one in row.inputs()]

    def make(value, kind):
        tensor = torch.from_numpy(value)
        if kind == "kernel":
            tensor = tensor.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        return tensor.requires_grad_(bool(row.rate))

    found = rows.Weights(make)
    with torch.set_grad_enabled(False):
        row.net(b, found, *arrays)
    weights = found.values

    def call():
        if not row.rate:
            with torch.inference_mode():
                return row.net(b, rows.Weights(None, weights), *arrays)
        for _ in range(row.steps):
            loss = row.net(b, rows.Weights(None, weights), *arrays)
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                torch._foreach_add_(weights, list(gradients), alpha=-row.rate)
        return loss.detach()
    return call


def _tensorflow(row, jit_compile):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    b = backends.tensorflow_backend()
    arrays = [tf.constant(one) for one in row.inputs()]
    found = rows.Weights(lambda value, kind: value)
    with tf.Graph().as_default():
        row.net(b, found, *[tf.constant(one) for one in row.inputs()])
    variables = [tf.Variable(one) for one in found.values]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def call():
        if not row.rate:
            return row.net(b, rows.Weights(None, variables), *arrays)

        def step():
            with tf.GradientTape() as tape:
                loss = row.net(b, rows.Weights(None, variables), *arrays)
            for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                gradient = tf.convert_to_tensor(gradient)
                variable.assign_sub(row.rate * gradient)
            return loss

        if row.steps == 1:
            return step()
        return tf.while_loop(lambda i, _: i < row.steps, lambda i, _: (i + 1, step()),
                             (0, tf.constant(0.0)))[1]

    return lambda: tf.nest.map_structure(lambda one: one.numpy(), call())


def _onnx_model(row):
    from comparison.league import onnx_graph
    if row.rate:
        raise NotImplementedError("ONNX has no training")
    graph = onnx_graph.Graph()
    arrays = row.inputs()
    inputs = [graph.input(one) for one in arrays]
    return graph.model(row.net(graph, rows.Weights(graph.weight), *inputs)), arrays


def _onnxruntime(row):
    import onnxruntime
    model, arrays = _onnx_model(row)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    feeds = {f"i{n}": one for n, one in enumerate(arrays)}
    return lambda: session.run(None, feeds)


def _openvino(row):
    import openvino
    model, arrays = _onnx_model(row)
    compiled = openvino.Core().compile_model(
        openvino.Core().read_model(model.SerializeToString()), "CPU",
        {"INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    return lambda: list(request.infer(arrays, share_inputs=True).values())


PREPARE = {"tremula": _tremula, "jax": _xla_of_jax, "torch": _torch,
           "tf": lambda row: _tensorflow(row, False), "xla": lambda row: _tensorflow(row, True),
           "onnxruntime": _onnxruntime, "openvino": _openvino}
MODULES = {"tremula": "tremula.jax", "jax": "jax", "torch": "torch", "tf": "tensorflow",
           "xla": "tensorflow", "onnxruntime": "onnxruntime", "openvino": "openvino"}


def _digest(result):
    """The mean magnitude of the first array of a result, by which results are compared."""
    while isinstance(result, (list, tuple)):
        result = result[0]
    return float(np.abs(np.asarray(result, np.float64)).mean())


def _memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    peer, name = sys.argv[1:3]
    row = next(one for one in rows.ROWS if one.name == name)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # for what libraries print
    try:
        __import__(MODULES[peer])
        before = _memory()
        row.inputs()  # their numbers are found again below
        start = time.perf_counter()
        call = PREPARE[peer](row)
        prepared = time.perf_counter()
        result = call()
        first = time.perf_counter()
        memory = _memory() - before
        answers.write(json.dumps({"prepare": prepared - start, "first": first - prepared,
                                  "memory": memory, "digest": _digest(result)}) + "\n")
        del result
        for line in sys.stdin:
            seconds = []
            for _ in range(int(line)):
                if row.rest:
                    time.sleep(row.rest)
                start = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - start)
            answers.write(json.dumps({"seconds": seconds}) + "\n")
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        answers.write(json.dumps({"error": f"{type(error).__name__}: {lines[0][:200]}"}) + "\n")


if __name__ == "__main__":
    main()
