"""Functions whose code is on the IPU once, however often they are called
(`tensorflow.python.ipu.functional_ops`).

A call computes the same as a call of the Python function. Marks on the instructions tell the cost
model that they are one function.
"""

import functools
import re

import tensorflow.compat.v1 as tf

from tremula.tf.ipu import scopes
from tremula.tf.ipu.ops import _calls, control_flow_ops
from tremula.tf.runtime.nodes import op_types
from tremula.tf.runtime.tracing import tracing

OUTLINED_ATTRIBUTE = "outlined_function"  # which function: its operations share code
OUTLINED_CALL = "outlined_call"  # which of its calls (src/hlo/marked_calls.h)


def outlined_function(func=None, unique_sharding=False, keep_input_layouts=None, name=None):
    """Makes calls of `func` share their code: use it as a decorator, with or without arguments.

    func  takes tensors and structures of them and returns None, a tensor, operations or a structure
          of tensors, which is what a call returns; a single-element list stays one. What it
          takes is no constant to it: an operation that needs one, such as the shape of a reshape,
          cannot have a parameter there

    The options are about layouts and placement and change no numbers. Raises TypeError for what
    cannot be called.
    """
    attributes = {"unique_sharding": unique_sharding, "evaluate_as_constants": [],
                  "keep_input_layouts": keep_input_layouts is not False}

    def decorate(inner):
        if not callable(inner):
            raise TypeError(f"outlined_function takes a function, not {type(inner).__name__}.")
        label = name or getattr(inner, "__name__", "")
        # The name of a lambda has no allowed character but its letters.
        label = re.sub(r"^[^A-Za-z0-9.]+|[^A-Za-z0-9_.\\/>-]", "", label) or "function"

        @functools.wraps(inner, updated=())
        def call(*args, **kwargs):
            # The function may change the lists and dicts that it gets: they are its own.
            args = tf.nest.map_structure(_to_tensor, args)
            kwargs = tf.nest.map_structure(lambda one: one, kwargs)
            if tracing.current() is None:
                return inner(*args, **kwargs)
            with tf.name_scope(label) as scope, \
                    scopes.frontend_attribute(OUTLINED_ATTRIBUTE, label), \
                    scopes.frontend_attribute(OUTLINED_CALL, tracing.name_call(scope)):
                return _calls.call(op_types.FUNCTION, inner, args, kwargs, scope, **attributes)[0]

        return call

    return decorate if func is None else decorate(func)


def function(func, name=None):
    """outlined_function, as it was called at first."""
    return outlined_function(func, name=name)


def _convert_to_list(values):
    """`values` as a list: the items of a list or tuple, nothing of None, anything else in one."""
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _to_tensor(value):
    """Numbers and arrays as tensors, none of which is a constant in a program; what is none, such
    as a variable or None, as it is."""
    if isinstance(value, (int, float, bool)) or hasattr(value, "__array_interface__"):
        value = tf.convert_to_tensor(value)
    is_constant = tf.is_tensor(value) and tracing.current() is not None \
        and tf.get_static_value(value) is not None
    return control_flow_ops.barrier(value) if is_constant else value
