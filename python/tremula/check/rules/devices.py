"""Code for TPUs and GPUs."""

import ast
import re

from tremula.check import names
from tremula.check.rules import rule

_TPU = ("tf.contrib.tpu.", "tf.tpu.", "tf.estimator.tpu.", "tf.distribute.cluster_resolver.TPU",
        "tf.distribute.TPUStrategy", "tf.distribute.experimental.TPUStrategy",
        "tf.config.experimental_connect_to_cluster")
_STRATEGIES = ("tf.distribute.MirroredStrategy", "tf.contrib.distribute.MirroredStrategy",
               "tf.distribute.MultiWorkerMirroredStrategy",
               "tf.distribute.experimental.MultiWorkerMirroredStrategy",
               "tf.distribute.experimental.ParameterServerStrategy",
               "tf.distribute.experimental.CentralStorageStrategy")
_CUDNN = ("tf.compat.v1.keras.layers.CuDNNLSTM", "tf.keras.layers.CuDNNLSTM",
          "tf.keras.layers.CuDNNGRU", "tf.contrib.cudnn_rnn.CudnnLSTM",
          "tf.contrib.cudnn_rnn.CudnnGRU")
_TO_DEVICE = ("tf.data.experimental.prefetch_to_device", "tf.data.experimental.copy_to_device")
_GPU = re.compile(r"(^|[/:])gpu(:|$)", re.IGNORECASE)


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
    """A device `/gpu:0`, a strategy that mirrors variables over GPUs and layers of cuDNN do not
    place anything on an IPU.""",
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
        if called == "tf.device" or called in _TO_DEVICE:
            given = call.args[0] if call.args else None
            for one in (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,):
                name = names.constant(one)
                if isinstance(name, str) and _GPU.search(name):
                    yield file, call, f"'{name}' is a GPU"
    for file, node, name in project.named():
        if name in _STRATEGIES:
            yield file, node, f"{name} is for several GPUs; an IPUStrategy has replicas"
        elif name in _CUDNN:
            yield file, node, f"{name} needs a GPU"
