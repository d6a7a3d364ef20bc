"""The program's own Python functions."""



def user_function(function):
    """A function of the program's, to be called while something of it is traced: where a
    tf.function is traced that AutoGraph rewrites, this is, too."""
    from tensorflow.python.autograph.core import ag_ctx
    from tensorflow.python.autograph.impl import api
    return api.tf_convert(function, ag_ctx.control_status_ctx(), convert_by_default=False)


def function_arguments(function):
    """The names of a function's arguments; of a functools.partial, of those that are left."""
    from tensorflow.python.util import function_utils
    return function_utils.fn_args(function)
