"""The IPU API of TensorFlow, `tensorflow.python.ipu`.

Modules are imported when they are first named: `ipu.scopes`, `ipu.ops.nn_ops` and `ipu.nn_ops`
(one and the same module) need no import of their own. Importing this package loads no TensorFlow.
"""

import importlib
import pkgutil

from tremula import _finder, _late_devices
from tremula.tf.ipu import _planned


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _planned.FUNCTIONS:
        function = _function(name, _planned.FUNCTIONS[name])
        globals()[name] = function
        return function
    module = _finder.resolve(__name__, name)
    if module is None:
        raise AttributeError(_planned.message(name)
                             or f"module 'tensorflow.python.ipu' has no attribute {name!r}")
    module = importlib.import_module(module)
    globals()[name] = module
    return module


def _function(name, module_name):
    module = _finder.resolve(__name__, module_name)
    if module is None:
        raise AttributeError(_planned.message(module_name).replace(
            f".{module_name} ", f".{name} "))
    return importlib.import_module(module).outlined_function


def _compile(computation, inputs):
    from tremula.tf.ipu import ipu_compiler
    return ipu_compiler.compile(computation, inputs)


def __dir__():
    names = {info.name for info in pkgutil.iter_modules(__path__)}
    for package in _finder.FLATTENED:
        module = _finder.resolve(__name__, package)
        if module is not None:
            names.update(info.name for info in
                         pkgutil.iter_modules(importlib.import_module(module).__path__))
    return sorted(name for name in names if not name.startswith("_"))


def _register_keras_extensions():
    from tremula.tf.keras.extensions import register_extensions
    register_extensions.register()


def _on_tensorflow_import():
    """Run by the finder when a program first imports `tensorflow.python.ipu`."""
    _late_devices.settle()
    from tremula.tf import graph_mode, runtime
    from tremula.tf.functions import hooks as functions_hooks
    from tremula.tf.inner import patches
    from tremula.tf.ipu import config, keras_extensions, sharding
    from tremula.tf.keras import keras3
    from tremula.tf.runtime.device import settings
    from tremula.tf.runtime.nodes import node_marks
    graph_mode.begin_if_wanted()
    patches.inherit_graph_attributes(
        (node_marks.SHARDING, node_marks.FRONTEND_ATTRIBUTES))
    patches.restore_moved_names()
    patches.compile_xla_on_ipus(_compile)
    patches.leave_dependencies_unmarked()
    patches.accept_half_batch_norm()
    patches.keep_half_batch_norm_parameters()
    patches.restore_initialized_value()
    sharding.enable_sharded_gradients()
    sharding.enable_sharded_gradient_tape()
    functions_hooks.install()
    _finder.serve_names_of_keras()
    keras_extensions.install(_register_keras_extensions)
    keras3.install()
    settings.set_default(config._default_snapshot)
    try:
        runtime.load()  # TensorFlow fixes its devices when it first runs something
    except FileNotFoundError:
        pass  # the plugin is not built: configuring the system says so
