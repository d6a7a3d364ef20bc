"""The questions that stand before a port, answered as far as the code tells."""

import ast

from tremula.check import names
from tremula.check.project import ESTIMATORS

_SHAPES = ("unknown-shape", "drop-remainder", "value-dependent-shape")
_REPLICAS = ("tf.distribute.MirroredStrategy", "tf.distribute.TPUStrategy",
             "tf.distribute.experimental.TPUStrategy",
             "tf.distribute.MultiWorkerMirroredStrategy", "tf.contrib.tpu.TPUEstimator",
             "ipu.cross_replica_optimizer.CrossReplicaOptimizer", "ipu.horovod.init",
             "ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy", "horovod.tensorflow.init",
             "ipu.distributed.popdist_strategy.PopDistStrategy")
_STAGES = ("ipu.pipelining_ops.pipeline", "ipu.scopes.ipu_shard", "ipu.keras.PipelineStage",
           "ipu.sharded_optimizer.ShardedOptimizer",
           "ipu.ipu_pipeline_estimator.IPUPipelineEstimator")


def answers(project, findings):
    """Five texts: size, training or inference, static shapes, IPUs, the next step."""
    called = {name for _, _, name in project.calls()}
    methods = {call.func.attr for _, call, _ in project.calls()
               if isinstance(call.func, ast.Attribute)}
    return [_size(), _training(called, methods), _shapes(findings),
            _ipus(project, called, methods), _next(project, called, methods, findings)]


def _size():
    return ("size: the code alone does not tell; save the model, and `tremula plan MODEL` says its "
            "bytes and whether it fits (an IPU of the second generation has 941 MB, of the first "
            "319 MB)")


def _training(called, methods):
    if methods & {"minimize", "apply_gradients", "fit", "fit_generator", "train_on_batch",
                  "gradient"} or "tf.gradients" in called or "tf.estimator.TrainSpec" in called \
            or any(one.endswith("Optimizer") for one in called):
        return "training or inference: training, which also keeps activations, gradients and " \
               "the optimizer's state in memory"
    if methods & {"predict", "run", "evaluate"}:
        return "training or inference: inference; no optimizer was found"
    return "training or inference: neither a training step nor a call of the model was found"


def _shapes(findings):
    places = [one for one in findings if one.rule.id in _SHAPES]
    if not places:
        return "static shapes: nothing in the code makes a shape unknown"
    first = places[0]
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"static shapes: no, from {first.path}:{first.line} on ({first.rule.id}{more})"


def _ipus(project, called, methods):
    counts = [names.constant(node.value) for _, node in project.nodes(ast.Assign)
              if isinstance(node.targets[0], ast.Attribute)
              and node.targets[0].attr == "auto_select_ipus"]
    counts = [one for one in counts if isinstance(one, int)]
    number = f"{max(counts)} as configured" if counts else "`tremula plan MODEL` finds how many"
    stages, replicas = called & set(_STAGES), called & set(_REPLICAS)
    if "set_pipelining_options" in methods:
        stages = {"set_pipelining_options"}
    kind = " and ".join(f"{kind} parallel ({min(found)})" for kind, found in (
        ("model", stages), ("data", replicas)) if found)
    return f"IPUs: {number}; {kind or 'nothing in the code divides the model or the data'}"


def _next(project, called, methods, findings):
    wrong = [one for one in findings if one.rule.level == "error"]
    if any(one.rule.id == "syntax" for one in wrong):
        return "next: make the file Python 3, then check it again"
    edits = sum(one.edit is not None for one in findings)
    if wrong:
        return f"next: mend {wrong[0].path}:{wrong[0].line} ({wrong[0].rule.id})" + (
            f"; --fix shows {edits} of the changes as a diff" if edits else "")
    if project.for_ipu:
        return "next: run it; `tremula plan` and the report of a profile say what an IPU needs"
    if called & set(ESTIMATORS) or any(one.startswith("tf.estimator.") for one in called):
        return "next: IPUEstimator for Estimator, with iterations_per_loop (examples/estimator.py)"
    if methods & {"fit", "fit_generator"}:
        return ("next: make and compile the model in an IPUStrategy's scope, with "
                "steps_per_execution (examples/keras_fit.py)")
    if project.is_v1:
        return ("next: compile the step with ipu_compiler.compile in ipu_scope, between an infeed "
                "and an outfeed queue (examples/feeds.py)")
    if "tf.GradientTape" in called or "tf.function" in called:
        return ("next: call the step by IPUStrategy.run, with jit_compile=True "
                "(examples/custom_loop.py)")
    return "next: place the part to compute in ipu_scope (examples/basic_graph.py)"
