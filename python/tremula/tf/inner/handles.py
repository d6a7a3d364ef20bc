"""Resource variables and their handles."""

import contextlib


def is_resource_variable_handle(tensor):
    """Whether a tensor is the handle of a resource variable whose type and shape are known."""
    from tensorflow.python.framework import dtypes
    return tensor.dtype == dtypes.resource and variable_type(tensor) is not None


def variable_type(handle):
    """(dtype, shape) of the variable that a handle leads to, or None."""
    from tensorflow.python.framework import dtypes, tensor_shape
    from tensorflow.python.ops import handle_data_util
    data = getattr(handle, "_handle_data", None) or handle_data_util.get_resource_handle_data(
        handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    one = data.shape_and_type[0]
    return dtypes.as_dtype(one.dtype), tensor_shape.TensorShape(one.shape)


def variable_handle(dtype, shape):
    """A placeholder in the default graph for the handle of a variable of a type and a shape."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.framework import cpp_shape_inference_pb2
    from tensorflow.python.ops import handle_data_util
    handle = tf.placeholder(tf.resource, [])
    data = cpp_shape_inference_pb2.CppShapeInferenceResult.HandleData()
    data.is_set = True
    data.shape_and_type.append(cpp_shape_inference_pb2.CppShapeInferenceResult.HandleShapeAndType(
        shape=shape.as_proto(), dtype=dtype.as_datatype_enum))
    handle_data_util.set_handle_data(handle, data)
    return handle


def unborn_variable(dtype, shape):
    """The eager handle of a variable that never gets a value."""
    import tensorflow as tf
    with tf.init_scope(), tf.device("/device:CPU:0"):
        return new_handle(dtype, shape)


def new_handle(dtype, shape):
    """The eager handle of a variable without a value, which lives as long as the handle."""
    import tensorflow as tf
    from tensorflow.python.eager import context
    # All such variables share the kernel that makes them. A name would need a kernel of its own.
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=context.anonymous_name())
    set_variable_type(handle, dtype, shape)
    return handle


def set_variable_type(handle, dtype, shape):
    """Tells an eager handle the type and shape of its variable."""
    from tensorflow.python.framework import tensor_shape
    from tensorflow.python.ops import handle_data_util
    handle_data_util.set_handle_data(handle, handle_data_util.create_handle_data(
        tensor_shape.TensorShape(shape), dtype))


def apply_read(handle, dtype):
    """The value of the variable behind a handle."""
    from tensorflow.python.ops import gen_resource_variable_ops
    return gen_resource_variable_ops.read_variable_op(handle, dtype)


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
