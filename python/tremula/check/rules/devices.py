"""Code for TPUs and GPUs."""

import ast
import re

from tremula.check import names, texts
from tremula.check.rules import rule

_TPU = ("tf.contrib.tpu.", "tf.tpu.", "tf.estimator.tpu.", "tf.distribute.cluster_resolver.TPU",
        "tf.distribute.TPUStrategy", "tf.distribute.experimental.TPUStrategy",
        "tf.contrib.cluster_resolver.TPU", "tf.config.experimental_connect_to_cluster")
_STRATEGIES = ("tf.distribute.MirroredStrategy", "tf.contrib.distribute.MirroredStrategy",
               "tf.distribute.MultiWorkerMirroredStrategy",
               "tf.distribute.experimental.MultiWorkerMirroredStrategy",
               "tf.distribute.experimental.CentralStorageStrategy")
_CUDNN = ("tf.compat.v1.keras.layers.CuDNNLSTM", "tf.keras.layers.CuDNNLSTM",
          "tf.keras.layers.CuDNNGRU", "tf.contrib.cudnn_rnn.CudnnLSTM",
          "tf.contrib.cudnn_rnn.CudnnGRU")
_TENSORRT = ("tf.contrib.tensorrt.", "tf.experimental.tensorrt.",
             "tensorflow.python.compiler.tensorrt.")
_SERVERS = ("tf.train.SyncReplicasOptimizer", "tf.train.replica_device_setter",
            "tf.distribute.experimental.ParameterServerStrategy",
            "tf.distribute.ParameterServerStrategy")
# Functions that take a device, and its argument.
_TO_DEVICE = {"tf.device": "device_name", "tf.data.experimental.prefetch_to_device": "device",
              "tf.data.experimental.copy_to_device": "target_device",
              "tf.distribute.OneDeviceStrategy": "device",
              "tf.contrib.distribute.OneDeviceStrategy": "device"}
_GPU = re.compile(r"(^|[/:])gpu(:|$)", re.IGNORECASE)
_WHOLE_NAME = re.compile(r"/?(\w+:\w+/)*(device:)?gpu:\d+", re.IGNORECASE)
# Of Horovod's functions, those of ipu.horovod.
_HOROVOD = ("init", "shutdown", "size", "rank", "local_size", "local_rank", "is_homogeneous",
            "allreduce", "allgather", "broadcast", "Average", "Sum", "mpi_threads_supported",
            "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built", "nccl_built", "ddl_built",
            "Adasum")


@rule(
    "tpu-only", "error", "Code for a TPU",
    """TPUs have an Estimator, strategies and functions of their own, which need a TPU.""",
    """`IPUEstimator` for `TPUEstimator`, `IPUStrategy` for `TPUStrategy`; often it is quicker to
    move the model's functions into one of Tremula's examples.""",
    """
    import tensorflow as tf

    strategy = tf.distribute.TPUStrategy()
    """,
    """
    from tensorflow.python import ipu

    strategy = ipu.ipu_strategy.IPUStrategy()
    """)
def tpu(project):
    for file, node, name in project.named():
        if name.startswith(_TPU) and not _has_way_out(node):
            yield file, node, f"{name} needs a TPU"


def _has_way_out(node):
    """Whether the program goes on without the TPU: the name is in a `try` that catches."""
    below = node
    for one in names.parents(node):
        if isinstance(one, ast.Try) and one.handlers and below in one.body:
            return True
        if isinstance(one, names.FUNCTIONS):
            return False
        below = one
    return False


@rule(
    "gpu-only", "warning", "Code for GPUs",
    """A device `/gpu:0`, a strategy that mirrors variables over GPUs or keeps them on servers,
    layers of cuDNN and TensorRT do not place anything on an IPU.""",
    """`ipu.scopes.ipu_scope("/device:IPU:0")` for a device; `IPUStrategy`, whose replicas are set
    by `auto_select_ipus`, for a strategy; `PopnnLSTM` or Keras' own layer for cuDNN's.""",
    """
    import tensorflow as tf

    with tf.device("/gpu:0"):
        x = tf.zeros([8])
    """,
    """
    from tensorflow.python import ipu
    import tensorflow as tf

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        x = tf.zeros([8])
    """)
def gpu(project):
    for file, call, called in project.calls():
        if called in _TO_DEVICE:
            given = names.argument(call, _TO_DEVICE[called], 0)
            for one in (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,):
                name = next((text for text in texts.texts(file, one) if _GPU.search(text)), None)
                if name is not None and _is_made_here(file, one):
                    shown = name.replace(texts.HOLE, "...")
                    yield file, call, f"'{shown}' is a GPU"
    for file, node in project.nodes(ast.Constant):
        if isinstance(node.value, str) and _WHOLE_NAME.fullmatch(node.value) \
                and _is_setting(file, node):
            yield file, node, f"'{node.value}' is a GPU"
    for file, node, name in project.named():
        if name in _STRATEGIES:
            yield file, node, f"{name} is for several GPUs; an IPUStrategy has replicas"
        elif name in _SERVERS:
            yield file, node, (f"{name} has variables on other processes; an IPU has its own, and "
                               "replicas or a PopDistStrategy share gradients")
        elif name in _CUDNN:
            yield file, node, f"{name} needs a GPU"
        elif name.startswith(_TENSORRT):
            yield file, node, f"{name} compiles for GPUs; ipu_compiler.compile does for IPUs"


def _is_made_here(file, node):
    """Whether an expression makes the text itself, or puts it together elsewhere: a whole name
    that stands elsewhere is found there."""
    if isinstance(node, ast.Constant):
        return True
    value = file.value(node)
    return isinstance(value, (ast.JoinedStr, ast.BinOp, ast.Call)) or not any(
        _WHOLE_NAME.fullmatch(text) for text in texts.texts(file, node))


def _is_setting(file, node):
    """Whether the name of a device is a value that the program may use: none that it compares,
    shows or gives to what names devices, and no other choice than an IPU."""
    above = node.parent
    while isinstance(above, (ast.List, ast.Tuple, ast.keyword, ast.IfExp)):
        if isinstance(above, ast.IfExp) and "ipu" in ast.unparse(above).lower():
            return False
        above = above.parent
    if isinstance(above, ast.Call):
        called = file.called(above) or ""
        return called not in _TO_DEVICE and called not in _STRATEGIES and called != "print"
    return isinstance(above, (ast.Assign, ast.AnnAssign, ast.Dict, ast.arguments, ast.Return))


@rule(
    "horovod", "error", "What Horovod does with the gradients of GPUs",
    """Horovod's optimizers, hooks and callbacks reduce and broadcast with operations of their own,
    which have no kernel for an IPU. Of `horovod.tensorflow` Tremula has `init`, `rank`, `size` and
    the collectives; they work between the processes of `poprun`.""",
    """Processes: start them with `poprun`, and take `popdist` and
    `ipu.distributed.popdist_strategy.PopDistStrategy`. One process with several IPUs: replicas,
    whose gradients `ipu.optimizers.CrossReplicaOptimizer` adds up. Variables begin alike in every
    replica: leave the broadcast out.""",
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1 * hvd.size()))
    """,
    """
    from tensorflow.python import ipu
    from tensorflow.python.ipu.distributed import popdist_strategy
    import popdist.tensorflow

    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config, ipus_per_replica=1)
    config.configure_ipu_system()
    strategy = popdist_strategy.PopDistStrategy()
    """)
def horovod(project):
    for file, node in project.nodes(ast.Import, ast.ImportFrom):
        given = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module]
        for name in given:
            if name and name.split(".")[0] == "horovod" and name not in (
                    "horovod", "horovod.tensorflow"):
                yield file, node, f"{name} is for processes with GPUs"
    for file, node, name in project.named():
        if name.startswith("horovod.tensorflow.") and not name.startswith(
                "horovod.tensorflow.keras") and name.split(".")[2] not in _HOROVOD:
            yield file, node, f"{name} is for processes with GPUs"
