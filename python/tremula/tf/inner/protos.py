"""Classes of protocol buffers that have no public name, by their own: `protos.OpSharding`.

Those that have one are tf.compat.v1.GraphDef, AttrValue, NodeDef, ConfigProto.
"""

import importlib

_MODULES = {
    "FrontendAttributes": "tensorflow.compiler.xla.xla_data_pb2",
    "HloModuleProto": "tensorflow.compiler.xla.service.hlo_pb2",
    "KernelList": "tensorflow.core.framework.kernel_def_pb2",
    "OpSharding": "tensorflow.compiler.xla.xla_data_pb2",
    "TensorShapeProto": "tensorflow.core.framework.tensor_shape_pb2",
    "VersionDef": "tensorflow.core.framework.versions_pb2",
}


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
