"""The one place that knows how the supported TensorFlow versions differ, and their inner names.

Every name of TensorFlow that is not public API and that Tremula's Python needs is reached from
here, so that a new version of TensorFlow is one file's work.
"""

import contextlib
import functools
import importlib
import importlib.util
import os
import sys


def has_legacy_keras():
    """Whether `tf_keras`, Keras 2 for a TensorFlow that comes with Keras 3, is installed."""
    return importlib.util.find_spec("tf_keras") is not None


def prefer_legacy_keras():
    """Makes a TensorFlow that is imported later use Keras 2, where tf_keras is installed.

    TensorFlow 2.16 and later come with Keras 3, which has no TensorFlow 1 layers.
    """
    if has_legacy_keras():
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


def keras_package():
    """The name of the package that `tf.keras` is made of."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    return "tf_keras" if legacy and has_legacy_keras() else "keras"


@contextlib.contextmanager
def graph_attributes(attributes):
    """Puts `attributes` (name -> bytes, str, bool, or None for "not set") on the nodes that are
    added to the default graph meanwhile.

    It reaches inner function graphs only as inherit_graph_attributes() says, and no operations
    that run eagerly.
    """
    from tensorflow.python.framework import ops
    graph = ops.get_default_graph()
    with graph._attr_scope({name: _attr_value(value) for name, value in attributes.items()}):
        yield


def keep_graph_attribute(name, value):
    """The same for one attribute, until the graph_attributes() scope around it ends."""
    from tensorflow.python.framework import ops
    ops.get_default_graph()._attr_scope_map[name] = _attr_value(value)


def inherit_graph_attributes(names):
    """Makes what graph_attributes() puts on nodes as one of `names` reach the graphs of functions
    that are built meanwhile: bodies of loops and branches among them."""
    from tensorflow.python.framework import func_graph, ops

    make = func_graph.FuncGraph.__init__

    @functools.wraps(make)
    def make_inheriting(self, *args, **kwargs):
        make(self, *args, **kwargs)
        outer = ops.get_default_graph()._attr_scope_map
        self._attr_scope_map.update((name, outer[name]) for name in names if name in outer)

    func_graph.FuncGraph.__init__ = make_inheriting


def compile_xla_on_ipus(compile_on_ipu):
    """Makes `xla.compile(computation, inputs)`, as the first IPU programs had it, call
    `compile_on_ipu` with these where the device scope around names an IPU."""
    from tensorflow.python.compiler.xla import xla
    from tensorflow.python.framework import ops

    compile_elsewhere = xla._compile_internal

    @functools.wraps(compile_elsewhere)
    def compile_anywhere(computation, inputs=None):
        scopes = ops.get_default_graph()._device_function_stack.peek_objs()
        if any("device:ipu" in str(scope.display_name).lower() for scope in scopes):
            return compile_on_ipu(computation, inputs)
        return compile_elsewhere(computation, inputs)

    xla._compile_internal = compile_anywhere


def leave_dependencies_unmarked():
    """Keeps TensorFlow from marking operations that others are made to wait for.

    Only statistics read the mark, and setting it on an operation that a session has seen, such as
    the initializer of a variable, prints a warning that the program is wrong.
    """
    from tensorflow.python.framework import ops

    set_attribute = ops.Operation._set_attr

    @functools.wraps(set_attribute)
    def set_but_for_the_mark(self, attr_name, attr_value):
        if attr_name != "_has_manual_control_dependencies":
            set_attribute(self, attr_name, attr_value)

    ops.Operation._set_attr = set_but_for_the_mark


def accept_half_batch_norm():
    """Makes `tf.nn.fused_batch_norm` take scale, offset, mean and variance in float16, as IPU
    programs give them: TensorFlow's own operation has them in float32 always. The statistics that
    come out are float16 then, too."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import gen_nn_ops, math_ops

    normalise = gen_nn_ops.fused_batch_norm_v3

    @functools.wraps(normalise)
    def normalise_any(x, scale, offset, mean, variance, *arguments, **keywords):
        scale = ops.convert_to_tensor(scale)
        if scale.dtype.base_dtype != dtypes.float16:
            return normalise(x, scale, offset, mean, variance, *arguments, **keywords)
        wide = [math_ops.cast(value, dtypes.float32) for value in (scale, offset, mean, variance)]
        result = normalise(x, *wide, *arguments, **keywords)
        return result._replace(batch_mean=math_ops.cast(result.batch_mean, dtypes.float16),
                               batch_variance=math_ops.cast(result.batch_variance, dtypes.float16))

    gen_nn_ops.fused_batch_norm_v3 = normalise_any


def keep_half_batch_norm_parameters(load=False):
    """Makes the parameters of Keras 2's and tf.layers' batch normalization float16 where the layer
    is, as in the original: Keras has them in float32 always. `load` loads Keras if it is not."""
    name = f"{keras_package()}.src.layers.normalization.batch_normalization"
    module = importlib.import_module(name) if load else sys.modules.get(name)
    base = getattr(module, "BatchNormalizationBase", None)  # Keras 3 has none
    if base is None:
        return

    def parameters_type(self):
        # bfloat16, which no IPU has, stays as it is.
        return "float32" if self.dtype in (None, "bfloat16") else self.dtype

    base._param_dtype = property(parameters_type)


def restore_initialized_value():
    """Gives resource variables `initialized_value()` again: the value, or the initial one before
    the variable has any."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import cond, resource_variable_ops

    def initialized_value(self):
        with ops.init_scope():
            return cond.cond(self.is_initialized(), self.read_value, lambda: self.initial_value)

    resource_variable_ops.BaseResourceVariable.initialized_value = initialized_value


def graph_attribute(name):
    """The bytes that graph_attributes() puts on new nodes as `name` now, or None."""
    from tensorflow.python.framework import ops
    value = ops.get_default_graph()._attr_scope_map.get(name)
    return value.s if value is not None else None


def operation_attribute(operation, name):
    """The bytes of the attribute `name` of a node, or None if it has none."""
    try:
        return operation.get_attr(name)
    except ValueError:
        return None


def set_operation_attribute(operation, name, value):
    """Sets an attribute of a node to bytes, text or a bool. One that it has already is left alone:
    TensorFlow warns of every node that changes after a session has run."""
    present = operation_attribute(operation, name)
    wanted = value.encode() if isinstance(value, str) else value
    if type(present) is not type(wanted) or present != wanted:
        operation._set_attr(name, _attr_value(value))


def clear_operation_attribute(operation, name):
    """Removes an attribute of a node, if it is there."""
    if operation_attribute(operation, name) is not None:
        operation._clear_attr(name)


def _attr_value(value):
    from tensorflow.core.framework import attr_value_pb2
    if value is None:
        return None
    if isinstance(value, bool):
        return attr_value_pb2.AttrValue(b=value)
    return attr_value_pb2.AttrValue(s=value.encode() if isinstance(value, str) else value)


def set_operation_device(operation, device):
    """Moves a node to `device`, if it is not there."""
    if operation.device != device:
        operation._set_device(device)


def in_compiled_function():
    """Whether what is built now ends in a function or in a computation for XLA."""
    from tensorflow.python.framework import func_graph, ops
    from tensorflow.python.ops import control_flow_util
    graph = ops.get_default_graph()
    if isinstance(graph, func_graph.FuncGraph):
        return True
    context = graph._get_control_flow_context()
    return control_flow_util.GetContainingXLAContext(context) is not None


def registered_gradient(op_type):
    """TensorFlow's function (operation, *gradients) -> gradients for an op."""
    from tensorflow.python.framework import ops
    return ops.gradient_registry.lookup(op_type)


def forget_eager_start():
    """TensorFlow notes in every thread whether it began in eager mode, and goes back there to
    create variables, even where eager execution has been disabled since. This makes it as if that
    had come first."""
    from tensorflow.python.eager import context
    if context.default_execution_mode != context.GRAPH_MODE:
        return
    stack = context.context().context_switches.stack
    while stack and stack[0].enter_context_fn is context.eager_mode:
        del stack[0]


@contextlib.contextmanager
def resource_variables():
    """Makes variables that are created meanwhile resources."""
    from tensorflow.python.ops import variable_scope
    scope = variable_scope.get_variable_scope()
    before = scope.use_resource
    scope.set_use_resource(True)
    try:
        yield
    finally:
        scope.set_use_resource(before)


def in_static_program():
    """Whether what is built now is in a program for XLA, or in a function inside one."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import control_flow_util
    return control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph())


def wrap_gradients(enter):
    """Makes `tf.gradients` build the gradient of each operation inside `enter(operation)`, a
    context manager."""
    from tensorflow.python.ops import gradients_util
    build = gradients_util._MaybeCompile

    def build_inside(scope, op, func, grad_fn):
        with enter(op):
            return build(scope, op, func, grad_fn)

    gradients_util._MaybeCompile = build_inside


def wrap_tape_gradients(attribute, enter):
    """Makes `tf.GradientTape`, where it records a graph, build the gradient of each operation
    that has `attribute` inside `enter(value)`, a context manager; `value` is bytes."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import backprop, execute

    build, record = backprop._gradient_function, execute.record_gradient

    def record_with_attribute(op_name, inputs, attrs, outputs):
        # A tape keeps these four, not the operation; the outputs only where a gradient needs them.
        operation = getattr(outputs[0], "op", None) if outputs else None
        value = operation_attribute(operation, attribute) if operation is not None else None
        if value is not None:
            attrs = (*(attrs or ()), attribute, value)
        return record(op_name, inputs, attrs, outputs)

    def build_inside(op_name, attr_tuple, *rest):
        names, values = (attr_tuple or ())[::2], (attr_tuple or ())[1::2]
        value = dict(zip(names, values)).get(attribute)
        if value is None:
            return build(op_name, attr_tuple, *rest)
        with enter(value):
            return build(op_name, attr_tuple, *rest)

    execute.record_gradient = record_with_attribute
    backprop._gradient_function = build_inside
    pywrap_tfe.TFE_Py_RegisterGradientFunction(build_inside)


def python_operation(function, name):
    """An operation on the CPU that calls `function()` each time it runs.

    Called at once, and None, in eager mode.
    """
    import tensorflow.compat.v1 as tf
    if tf.executing_eagerly():
        function()
        return None

    def call():
        function()
        return []

    with tf.device("cpu"):
        return tf.py_func(call, [], [], stateful=True, name=name)


def cpu_operation(op, name, shape):
    """The one result of the plugin's operation `op` on the CPU, which has neither inputs nor
    attributes: a tensor of `shape`, in eager mode its value."""
    import tensorflow.compat.v1 as tf
    from tremula.tf.runtime import inside, plugin
    plugin.load()
    with tf.device("cpu"):
        if tf.executing_eagerly():
            from tensorflow.python.eager import context, execute
            context.ensure_initialized()
            return execute.execute(op.encode(), 1, inputs=[], attrs=(), ctx=context.context(),
                                   name=name)[0]
        result = inside.apply_op(op, name=name).outputs[0]
    result.set_shape(shape)
    return result


def dataset_of_variant(variant, types, shapes):
    """The tf.data.Dataset of a variant tensor, whose elements are tuples."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops
    spec = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in zip(shapes, types))
    return dataset_ops._VariantDataset(variant, spec)
