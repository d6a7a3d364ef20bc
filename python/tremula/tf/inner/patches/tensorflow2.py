"""Traced functions, datasets and shapes in TensorFlow 2."""

from tremula.tf.inner.patches.wrapping import wrap


def wrap_traced_functions(make):
    """Puts make(call) in the place of `call(atomic_function, *arguments)`, by which TensorFlow
    calls every function that it has traced, from Python or while it builds a graph: TensorFlow has
    no XLA platform for the device of a plugin, so it could not compile such a function itself."""
    from tensorflow.python.eager.polymorphic_function import atomic_function
    wrap(atomic_function.AtomicFunction, "call_flat", make)


def wrap_function_traces(make):
    """Puts make(generate) in the place of `generate(function, python_function, scope_type)`, which
    says how a tf.function is traced: what a program needs to know of its trace is seen there."""
    from tensorflow.python.eager.polymorphic_function import polymorphic_function
    wrap(polymorphic_function.Function, "_generate_tracing_options", make)


def wrap_dataset_iterators(make):
    """Puts make(iterate) in the place of `iter(dataset)`: in the scope of an IPUStrategy an
    iterator is an infeed queue, as in the original's TensorFlow."""
    from tensorflow.python.data.ops import dataset_ops
    wrap(dataset_ops.DatasetV2, "__iter__", make)


def loop_over_iterators(iterator_class, refuse):
    """Makes AutoGraph's `for element in iterator` of this class a loop that ends by break only:
    TensorFlow's own asks for Optionals, which a program does not have. refuse() is called for a
    loop without one."""
    from tensorflow.python.autograph.operators import control_flow
    from tensorflow.python.data.ops import iterator_ops
    loops = control_flow.for_loop_registry._registry
    others = loops[iterator_ops.OwnedIterator]  # the class from which iterator_class inherits

    def loop(iterator, goes_on, body, *state):
        if not isinstance(iterator, iterator_class):
            others(iterator, goes_on, body, *state)
            return
        if goes_on is None:
            refuse()
        control_flow._tf_while_stmt(goes_on, lambda: body(iterator.get_next()), *state)

    loops[iterator_ops.OwnedIterator] = loop


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

    wrap(gen_array_ops, "shape", make)


def gather_from_values(is_ipu):
    """Makes an eager lookup in a variable whose device is_ipu(device) a read and a lookup in the
    value: one operation alone cannot work on a variable of an IPU."""
    from tensorflow.python.eager import context
    from tensorflow.python.ops import array_ops, gen_resource_variable_ops

    def make(gather):
        def gather_value(resource, indices, dtype, batch_dims=0, validate_indices=True, name=None):
            if context.executing_eagerly() and is_ipu(resource.device):
                value = gen_resource_variable_ops.read_variable_op(resource, dtype)
                return array_ops.gather(value, indices, batch_dims=batch_dims, name=name)
            return gather(resource, indices, dtype=dtype, batch_dims=batch_dims,
                          validate_indices=validate_indices, name=name)
        return gather_value

    wrap(gen_resource_variable_ops, "resource_gather", make)
