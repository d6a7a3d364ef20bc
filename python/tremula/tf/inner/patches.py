"""PATCHES"""

import functools
import importlib
import re
import sys

from tremula.tf.inner import marks, versions


def inherit_graph_attributes(names):
    """Makes what marks.graph_attributes() puts on nodes as one of `names` reach the graphs of
    functions that are built meanwhile: bodies of loops and branches among them."""
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
    name = f"{versions.keras_package()}.src.layers.normalization.batch_normalization"
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
        value = marks.operation_attribute(operation, attribute) if operation is not None else None
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


def put_errors_first():
    """Makes what a session says of an error in our nodes begin with the error.

    TensorFlow begins with where the node was made, and says everything twice if something else
    waited for the node.
    """
    from tensorflow.python.framework import error_interpolation
    interpolate = error_interpolation.interpolate_graph

    @functools.wraps(interpolate)
    def interpolate_ours(message, graph):
        if re.search(r"iterator has not been initialized"
                     r".*\{\{node \S*feed\S*/IteratorGetNextAsOptional", message, re.DOTALL):
            return _not_initialized(graph) + "\n" + interpolate(message, graph)
        for name in re.findall(r"\{\{node (\S+?)\}\}", message):
            try:
                operation = graph.get_operation_by_name(name)
            except (KeyError, ValueError):
                continue
            if operation.type.startswith("Ipu"):
                found = re.search(r"(?:\A|\(0\) [A-Z_]+: )(?!\d+ root error)(.*?)\s+\[\[", message,
                                  re.DOTALL)
                return f"{found.group(1)}\n(while running {name})" if found else message
        return interpolate(message, graph)

    error_interpolation.interpolate_graph = interpolate_ours


def _not_initialized(graph):
    names = {name.decode() for one in graph.get_operations() if one.type == "IpuStart"
             for name in one.get_attr("feeds") if name.startswith(b"infeed") or len(
                 one.get_attr("feeds")) == 1}
    which = f" '{names.pop()}'" if len(names) == 1 else ""
    return ("Trying to access an infeed dataset iterator which has not been created. Did you "
            f"initialize the infeed_queue{which} ? Run its `initializer` first.")


def leave_unconverted():
    """Keeps AutoGraph from rewriting our own functions in a tf.function that calls them, which takes
    ten seconds: we are no part of the package whose name it knows."""
    from tensorflow.python.autograph.core import config
    config.CONVERSION_RULES = (config.DoNotConvert("tremula"), *config.CONVERSION_RULES)


def prefer_cpu():
    """Keeps what is placed nowhere on the CPU.

    TensorFlow prefers devices that come as plugins for the ops that it has kernels of for every
    device, such as variables; programs for IPUs say what is to be on an IPU.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.framework import device as device_lib, ops
    if not context.context().device_name:
        name = "/job:localhost/replica:0/task:0/device:CPU:0"
        context.context()._set_device(name, device_lib.DeviceSpec.from_string(name))
    create = ops.Graph.__init__

    @functools.wraps(create)
    def create_preferring(self, *arguments, **keywords):
        create(self, *arguments, **keywords)
        if type(self) is ops.Graph:  # graphs of functions take over the devices around them
            self._add_device_to_stack(_cpu_if_free)

    ops.Graph.__init__ = create_preferring
    graph = ops._default_graph_stack._global_default_graph
    if graph is not None and not len(list(graph._device_function_stack.peek_objs())):
        graph._add_device_to_stack(_cpu_if_free)


def _cpu_if_free(operation):
    """The device of an operation: the CPU, if it has none and need not follow another one."""
    from tensorflow.python.framework import dtypes
    follows = any(one.dtype == dtypes.resource or one.dtype._is_ref_dtype
                  for one in operation.inputs)
    return operation.device or ("" if follows else "/device:CPU:0")
