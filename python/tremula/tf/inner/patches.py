"""Everything that Tremula changes in TensorFlow: the only file that sets attributes of its modules
and classes.

Each function makes one change, once for the process, and says why. Who calls it says what is to
happen; what of TensorFlow that takes is said here. Every change holds for TensorFlow 2.15.1 and
2.21.0, if it does not say otherwise.
"""

import functools
import importlib
import re
import sys

from tremula.tf.inner import marks, old_names, versions


def _wrap(owner, name, make):
    """Puts make(what `owner` has as `name`) there, under the same name."""
    before = getattr(owner, name)
    setattr(owner, name, functools.wraps(before)(make(before)))


# ---- Graphs ----

def inherit_graph_attributes(names):
    """Makes what marks.graph_attributes() puts on nodes as one of `names` reach the graphs of
    functions that are built meanwhile, bodies of loops and branches among them: TensorFlow keeps
    the scopes of attributes to the graph that they were entered in."""
    from tensorflow.python.framework import func_graph, ops

    def make_inheriting(make):
        def create(self, *args, **kwargs):
            make(self, *args, **kwargs)
            outer = ops.get_default_graph()._attr_scope_map
            self._attr_scope_map.update((name, outer[name]) for name in names if name in outer)
        return create

    _wrap(func_graph.FuncGraph, "__init__", make_inheriting)


def after_new_graph(do):
    """Calls do(graph) for every graph that the program makes, and for the default one, because
    graphs that TensorFlow optimises come without what Python knows of them."""
    from tensorflow.python.framework import ops

    def make_telling(create):
        def create_and_tell(self, *arguments, **keywords):
            create(self, *arguments, **keywords)
            do(self)
        return create_and_tell

    _wrap(ops.Graph, "__init__", make_telling)
    graph = ops._default_graph_stack._global_default_graph
    if graph is not None:
        do(graph)


def leave_dependencies_unmarked():
    """Keeps TensorFlow from marking operations that others are made to wait for.

    Only statistics read the mark, and setting it on an operation that a session has seen, such as
    the initializer of a variable, prints a warning that the program is wrong.
    """
    from tensorflow.python.framework import ops

    def but_for_the_mark(set_attribute):
        def set_attr(self, attr_name, attr_value):
            if attr_name != "_has_manual_control_dependencies":
                set_attribute(self, attr_name, attr_value)
        return set_attr

    _wrap(ops.Operation, "_set_attr", but_for_the_mark)


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

    def make_preferring(create):
        def create_preferring(self, *arguments, **keywords):
            create(self, *arguments, **keywords)
            if type(self) is ops.Graph:  # graphs of functions take over the devices around them
                self._add_device_to_stack(_cpu_if_free)
        return create_preferring

    _wrap(ops.Graph, "__init__", make_preferring)
    graph = ops._default_graph_stack._global_default_graph
    if graph is not None and not len(list(graph._device_function_stack.peek_objs())):
        graph._add_device_to_stack(_cpu_if_free)


def _cpu_if_free(operation):
    """The device of an operation: the CPU, if it has none and need not follow another one."""
    from tensorflow.python.framework import dtypes
    follows = any(one.dtype == dtypes.resource or one.dtype._is_ref_dtype
                  for one in getattr(operation, "inputs", ()))  # strategies ask for a mere device
    return operation.device or ("" if follows else "/device:CPU:0")


def compile_xla_on_ipus(compile_on_ipu):
    """Makes `xla.compile(computation, inputs)`, as the first IPU programs had it, call
    `compile_on_ipu` with these where the device scope around names an IPU."""
    from tensorflow.python.compiler.xla import xla
    from tensorflow.python.framework import ops

    def anywhere(compile_elsewhere):
        def compile_anywhere(computation, inputs=None):
            scopes = ops.get_default_graph()._device_function_stack.peek_objs()
            if any("device:ipu" in str(scope.display_name).lower() for scope in scopes):
                return compile_on_ipu(computation, inputs)
            return compile_elsewhere(computation, inputs)
        return compile_anywhere

    _wrap(xla, "_compile_internal", anywhere)


def accept_old_collective_keys():
    """Makes the numbers of collectives take the arguments of TensorFlow 1.15 too: every group has
    instances of its own since."""
    from tensorflow.python.distribute import cross_device_utils

    def make(create):
        def create_of_old(self, group_key_start=1, op_instance_key_start=None,
                          variable_instance_key_start=None):
            del op_instance_key_start, variable_instance_key_start
            create(self, group_key_start)
        return create_of_old

    _wrap(cross_device_utils.CollectiveKeys, "__init__", make)


def leave_unconverted():
    """Keeps AutoGraph from rewriting our own functions in a tf.function that calls them, which
    takes ten seconds: we are no part of the package whose name it knows."""
    from tensorflow.python.autograph.core import config
    config.CONVERSION_RULES = (config.DoNotConvert("tremula"), *config.CONVERSION_RULES)


def put_errors_first():
    """Makes what a session says of an error in our nodes begin with the error.

    TensorFlow begins with where the node was made, and says everything twice if something else
    waited for the node.
    """
    from tensorflow.python.framework import error_interpolation

    def ours_first(interpolate):
        return functools.partial(_interpolate, interpolate)

    _wrap(error_interpolation, "interpolate_graph", ours_first)


def _interpolate(interpolate, message, graph):
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


def _not_initialized(graph):
    names = {name.decode() for one in graph.get_operations() if one.type == "IpuStart"
             for name in one.get_attr("feeds") if name.startswith(b"infeed") or len(
                 one.get_attr("feeds")) == 1}
    which = f" '{names.pop()}'" if len(names) == 1 else ""
    return ("Trying to access an infeed dataset iterator which has not been created. Did you "
            f"initialize the infeed_queue{which} ? Run its `initializer` first.")


# ---- Running ----

# The methods of BaseSession, and of its callables, that wrap_session() takes: {name: attribute}.
_SESSION_METHODS = {
    "create": "__init__", "close": "close", "extend": "_extend_graph", "run": "_do_run",
    "call": "_call_tf_sessionrun", "call_partial": "_call_tf_sessionprun",
    "set_up_partial_run": "partial_run_setup", "make_callable": "make_callable",
    "make_callable_from_options": "_make_callable_from_options",
}
_CALLABLE_METHODS = {"create_callable": "__init__", "call_callable": "__call__"}


def wrap_session(**make):
    """Makes sessions do more: `make[name]` takes a method of _SESSION_METHODS or
    _CALLABLE_METHODS, as it is, and gives what is to stand there. TensorFlow has hooks around a run
    for its own sessions only, and none for placing, closing and callables."""
    from tensorflow.python.client import session
    for name, one in make.items():
        if name in _SESSION_METHODS:
            _wrap(session.BaseSession, _SESSION_METHODS[name], one)
        else:
            _wrap(session.BaseSession._Callable, _CALLABLE_METHODS[name], one)


def forget_session(session):
    """Makes closing a session do nothing: it would wait for a run that does not end."""
    session._closed = True


def wrap_function_calls(make):
    """Puts make(call) for the method by which a context runs a tf.function: call(context, function
    name, ...)."""
    from tensorflow.python.eager import context
    _wrap(context.Context, "call_function", make)


def before_eager_operations(check):
    """Calls check(devices), a function that gives the names of devices, before an eager operation
    puts values on a device or reads them there. Forked processes need it, in which nobody else
    looks at single operations."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context
    from tensorflow.python.framework import constant_op, ops

    def present():
        return [context.context().device_name or ""]

    def of_values(*values):
        return [one.device for one in _flat(values) if isinstance(one, ops.EagerTensor)]

    def checked(devices):
        def make(call):
            def call_checked(*arguments, **keywords):
                check(lambda: devices(*arguments))
                return call(*arguments, **keywords)
            return call_checked
        return make

    tensor = next(one for one in ops.EagerTensor.__mro__ if "_numpy" in vars(one))
    for owner, name, devices in (
            (pywrap_tfe, "TFE_Py_FastPathExecute",
             lambda _, __, *values: present() + of_values(*values)),
            (pywrap_tfe, "TFE_Py_Execute",
             lambda _, device, __, values, *___: [device or present()[0], *of_values(values)]),
            (constant_op, "convert_to_eager_tensor", lambda *_: present()),
            (tensor, "_numpy", of_values),
            (tensor, "_copy", lambda self, _=None, device="": of_values(self) + [device or ""])):
        _wrap(owner, name, checked(devices))


def _flat(values):
    for one in values:
        if isinstance(one, (list, tuple)):
            yield from one
        else:
            yield one


# ---- Gradients ----

def wrap_gradients(enter):
    """Makes `tf.gradients` build the gradient of each operation inside `enter(operation)`, a
    context manager."""
    from tensorflow.python.ops import gradients_util

    def inside(build):
        def build_inside(scope, op, func, grad_fn):
            with enter(op):
                return build(scope, op, func, grad_fn)
        return build_inside

    _wrap(gradients_util, "_MaybeCompile", inside)


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


# ---- Types and names ----

def accept_half_batch_norm():
    """Makes `tf.nn.fused_batch_norm` take scale, offset, mean and variance in float16, as IPU
    programs give them: TensorFlow's own operation has them in float32 always. The statistics that
    come out are float16 then, too."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import gen_nn_ops, math_ops

    def of_any_type(normalise):
        def normalise_any(x, scale, offset, mean, variance, *arguments, **keywords):
            scale = ops.convert_to_tensor(scale)
            if scale.dtype.base_dtype != dtypes.float16:
                return normalise(x, scale, offset, mean, variance, *arguments, **keywords)
            wide = [math_ops.cast(value, dtypes.float32)
                    for value in (scale, offset, mean, variance)]
            result = normalise(x, *wide, *arguments, **keywords)
            return result._replace(
                batch_mean=math_ops.cast(result.batch_mean, dtypes.float16),
                batch_variance=math_ops.cast(result.batch_variance, dtypes.float16))
        return normalise_any

    _wrap(gen_nn_ops, "fused_batch_norm_v3", of_any_type)


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


def restore_moved_names():
    """Gives TensorFlow's private modules names that programs import from there, and that later
    versions moved (old_names.MOVED). Each is looked up when it is first used; what a module has
    stays as it is."""
    for name, moved in old_names.MOVED.items():
        module = sys.modules.get(name) or importlib.import_module(name)
        missing = {one: place for one, place in moved.items() if one not in vars(module)}
        if missing and not hasattr(vars(module).get("__getattr__"), "_tremula_moved"):
            module.__getattr__ = _getter(module, missing)


def _getter(module, missing):
    before = vars(module).get("__getattr__")

    def get(name):
        if name in missing:
            place, _, attribute = missing[name].partition(":")
            value = getattr(importlib.import_module(place), attribute)
            setattr(module, name, value)
            return value
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    get._tremula_moved = True
    return get


# ---- TensorFlow 1: called by tremula.tf1 only ----

def silence_deprecations():
    """Stops TensorFlow 2 from saying of TensorFlow 1's names that they are TensorFlow 1's."""
    from tensorflow.python.util import deprecation, module_wrapper
    deprecation._PRINT_DEPRECATION_WARNINGS = False
    module_wrapper._PER_MODULE_WARNING_LIMIT = 0


def accept_float_dimensions():
    """Makes a float that is a whole number a dimension, as in `shape=[3, 3, 128 / 32, 8]`.

    Other floats raise ValueError. A Dimension divided by `/` is a float, too.
    """
    import numpy
    from tensorflow.python.framework import tensor_shape

    make = tensor_shape.Dimension.__init__

    def make_whole(self, value):
        if isinstance(value, (float, numpy.floating)):
            if value != int(value):
                raise ValueError(f"Ambiguous dimension: {value}")
            value = int(value)
        make(self, value)

    def divide(self, other):
        other = getattr(other, "value", other)
        return None if self.value is None or other is None else self.value / other

    def divide_by(self, other):
        return None if self.value is None else other / self.value

    tensor_shape.Dimension.__init__ = make_whole
    tensor_shape.Dimension.__truediv__ = divide
    tensor_shape.Dimension.__rtruediv__ = divide_by


def count_resources_as_variables(v1):
    """Makes `isinstance(variable, tf.Variable)` true of resource variables too."""
    from tensorflow.python.ops import variables
    first, any_variable = v1.Variable, variables.Variable

    def is_variable(cls, value):
        return type.__instancecheck__(any_variable if cls is first else cls, value)

    variables.VariableMetaclass.__instancecheck__ = is_variable


def restore_layer_classes(v1):
    """Gives `tensorflow.python.layers` the classes of tf.layers: TensorFlow looks for them in a
    package, legacy_tf_layers, that Keras keeps elsewhere now."""
    together = importlib.import_module("tensorflow.python.layers.layers")
    for name, (classes, functions) in old_names.LAYERS.items():
        module = importlib.import_module(f"tensorflow.python.layers.{name}")
        for attribute in (*classes, *functions):
            setattr(module, attribute, getattr(v1.layers, attribute))
        for attribute in functions:
            setattr(together, attribute, getattr(v1.layers, attribute))


def restore_keras_modules(v1):
    """Gives TensorFlow's own copy of Keras the modules that the copy lost: those of tf.keras."""
    package = importlib.import_module("tensorflow.python.keras")

    def of_keras(part):
        def find(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(getattr(v1.keras, part), name)
        return find

    for part in old_names.KERAS_PARTS:
        module = importlib.import_module(f"tensorflow.python.keras.{part}")
        if "__getattr__" not in vars(module):
            module.__getattr__ = of_keras(part)
    if "__getattr__" not in vars(package):
        def find_module(name):
            if name in old_names.KERAS_MODULES:
                return importlib.import_module(f"tensorflow.python.keras.{name}")
            raise AttributeError(f"module 'tensorflow.python.keras' has no attribute {name!r}")
        package.__getattr__ = find_module


def restore_scalar_shape():
    """Gives `tensor_shape` the function scalar() again."""
    from tensorflow.python.framework import tensor_shape
    if not hasattr(tensor_shape, "scalar"):
        tensor_shape.scalar = lambda: tensor_shape.TensorShape([])


def restore_data_statistics(names, options):
    """Gives tf.data.experimental `names` ({name: value}), which TensorFlow 2 dropped, where they
    are missing, and tf.data.Options the property `experimental_stats`."""
    import tensorflow.compat.v1 as tf
    for name, value in names.items():
        if not hasattr(tf.data.experimental, name):
            setattr(tf.data.experimental, name, value)
    if not hasattr(tf.data.Options, "experimental_stats"):
        tf.data.Options.experimental_stats = options


def restore_app_flags(v1):
    """Gives tf.app the flags, as TensorFlow 1 had them."""
    v1.app.flags = v1.flags


def answer_version(v1, version):
    """Makes `tensorflow.compat.v1.__version__` and VERSION what version(frame) says to the code of
    a frame."""
    def get(name):
        if name not in ("__version__", "VERSION"):
            if before is not None:
                return before(name)
            raise AttributeError(f"module {v1.__name__!r} has no attribute {name!r}")
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith("module_wrapper.py"):
            frame = frame.f_back
        return version(frame)

    wrapped = getattr(v1, "_tfmw_wrapped_module", v1)  # TensorFlow asks it for what v1 lacks
    before = vars(wrapped).get("__getattr__")
    for module in (v1, wrapped):
        for name in ("__version__", "VERSION"):
            vars(module).pop(name, None)
    wrapped.__dict__["__getattr__"] = get


# ---- Tests ----

def add_test_methods(methods):
    """Gives every TensorFlowTestCase `methods`, {name: function}: the original's tests call them on
    test cases of any class."""
    from tensorflow.python.framework import test_util
    for name, method in methods.items():
        setattr(test_util.TensorFlowTestCase, name, method)


# ---- TensorFlow 2 ----

def wrap_traced_functions(make):
    """Puts make(call) in the place of `call(atomic_function, *arguments)`, by which TensorFlow
    calls every function that it has traced, from Python or while it builds a graph: TensorFlow has
    no XLA platform for the device of a plugin, so it could not compile such a function itself."""
    from tensorflow.python.eager.polymorphic_function import atomic_function
    _wrap(atomic_function.AtomicFunction, "call_flat", make)


def wrap_function_traces(make):
    """Puts make(generate) in the place of `generate(function, python_function, scope_type)`, which
    says how a tf.function is traced: what a program needs to know of its trace is seen there."""
    from tensorflow.python.eager.polymorphic_function import polymorphic_function
    _wrap(polymorphic_function.Function, "_generate_tracing_options", make)


def wrap_dataset_iterators(make):
    """Puts make(iterate) in the place of `iter(dataset)`: in the scope of an IPUStrategy an
    iterator is an infeed queue, as in the original's TensorFlow."""
    from tensorflow.python.data.ops import dataset_ops
    _wrap(dataset_ops.DatasetV2, "__iter__", make)


def answer_shapes_at_once(is_wanted):
    """Makes tf.shape of a value in eager mode a constant where is_wanted(): TensorFlow refuses to
    run the operation Shape of int32 on the device of a plugin."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import constant_op, dtypes, ops
    from tensorflow.python.ops import gen_array_ops

    def make(shape):
        def shape_at_once(input, out_type=dtypes.int32, name=None):  # noqa: A002
            if context.executing_eagerly() and is_wanted():
                value = ops.convert_to_tensor(input)
                return constant_op.constant(value.shape.as_list(), out_type, name=name)
            return shape(input, out_type=out_type, name=name)
        return shape_at_once

    _wrap(gen_array_ops, "shape", make)


# ---- Keras ----

def after_keras_layers(base_layer, do):
    """Calls do(layer) at the end of the base constructor of every layer: models are extended there,
    and Keras has no hook. `base_layer` is the module of Keras 2's layers."""
    def make_telling(create):
        def create_and_tell(self, *arguments, **keywords):
            create(self, *arguments, **keywords)
            do(self)
        return create_and_tell

    _wrap(base_layer.Layer, "__init__", make_telling)


def wrap_keras_methods(owner, names, make):
    """Puts make(method) in the place of methods of a class of Keras 2, under their names and with
    their signatures, which Keras inspects."""
    for name in names:
        _wrap(owner, name, make)


def wrap_keras_class_methods(owner, names, make):
    """The same for class methods: make(function of the class and the arguments)."""
    for name in names:
        before = vars(owner)[name].__func__
        setattr(owner, name, classmethod(functools.wraps(before)(make(before))))


def wrap_keras_saving(module, make):
    """Puts make[name](what is there) in the place of functions and methods by which Keras 2 loads
    SavedModels, clones models and names classes; `module(name)` is a private module of Keras. They
    know nothing of extended classes, and no method of a model is called there."""
    loading = module("saving.legacy.saved_model.load")
    loader = loading.KerasObjectLoader
    cloning, registration = module("models.cloning"), module("saving.object_registration")
    for owner, name in ((loader, "_reconstruct_model"), (loader, "finalize_objects"),
                        (loader, "_revive_layer_or_model_from_config"),
                        (loading, "revive_custom_object"),
                        (cloning, "_clone_functional_model"),
                        (cloning, "_clone_sequential_model"),
                        (registration, "get_registered_name")):
        _wrap(owner, name, make[name])


def show_in_keras(module, names):
    """Gives a private module of Keras names that the original's has, {name: value}."""
    for name, value in names.items():
        setattr(module, name, value)
