"""Context managers that place operations on IPUs and mark them (`tensorflow.python.ipu.scopes`).

Marks are attributes of graph nodes, under the names that the original gave them. What they say to
the compiler is taken off again before TensorFlow lowers the graph and travels beside it.
"""

import contextlib
import itertools

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs, marks
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.nodes import node_marks

FRONTEND_ATTRIBUTES_NAME = node_marks.FRONTEND_ATTRIBUTES
OUTSIDE_COMPILATION_NAME = "_xla_outside_compilation"

_STOCHASTIC_ROUNDING = "STOCHASTIC_ROUNDING"
_PARTIALS_TYPE = "PARTIALS_TYPE"

_outside_scopes = itertools.count()


@contextlib.contextmanager
def ipu_jit_scope(ipu_scope):
    """Marks what is built as one unit to compile, the scope number `ipu_scope`."""
    checks.integer("ipu_scope", ipu_scope)
    with marks.graph_attributes({
            "_XlaCompile": True,
            "_XlaSeparateCompiledGradients": False,
            "_XlaScope": f"jit_scope_ipu_{ipu_scope}"}):
        yield


@contextlib.contextmanager
def ipu_scope(device):
    """Puts what is built on `device`, such as "/device:IPU:0", and makes variables resources."""
    if not (device is None or isinstance(device, str) or callable(device)
            or hasattr(device, "to_string")):
        raise TypeError(f'ipu_scope takes the name of a device, such as "/device:IPU:0", not '
                        f"{device!r}.")
    with tf.variable_scope("", use_resource=True):
        with tf.device(device):
            with ipu_jit_scope(0) as scope:
                yield scope


@contextlib.contextmanager
def outside_compilation_scope(name="outside"):
    """Keeps what is built out of the compiled computation around it: it runs on the host.

    Raises ValueError outside a compiled computation, and inside another such scope.
    """
    checks.text("name", name)
    if not graphs.in_compiled_function():
        raise ValueError("outside_compilation_scope is only allowed in XLA context")
    if marks.graph_attribute(OUTSIDE_COMPILATION_NAME) is not None:
        raise ValueError("Illegal nesting of outside_compilation_scope")
    with tf.name_scope(name), marks.graph_attributes({
            OUTSIDE_COMPILATION_NAME: f"{name}_{next(_outside_scopes)}"}):
        yield


@contextlib.contextmanager
def ipu_shard(index):
    """Puts what is built on the IPU number `index` (from 0) of the device; -1: on any.

    `index` may be a list, for operations that several IPUs share. Gradients of these operations
    get the same number. Raises ValueError for what is neither an int nor a list of ints.
    """
    indices = list(index) if isinstance(index, (list, tuple)) else [index]
    if not indices:
        raise ValueError("ipu_shard takes the number of an IPU or a list of them, not an empty "
                         "list.")
    if indices == [-1]:
        around = marks.graph_attribute(node_marks.SHARDING)
        with marks.graph_attributes({} if around is None else {node_marks.SHARDING: None}):
            yield
        return
    for one in indices:
        if isinstance(one, bool) or not hasattr(one, "__index__") or one < 0:
            raise ValueError(f"The number of an IPU must be an int, 0 or more, but it is {one!r}.")
    encoded = node_marks.encode_sharding([int(one) for one in indices])
    with marks.graph_attributes({node_marks.SHARDING: encoded}):
        yield


@contextlib.contextmanager
def frontend_attribute(attribute_name, attribute_value, restore_to=None):
    """Gives what is built the attribute `attribute_name` of the value `attribute_value`, both
    text, beside the attributes that it has already.

    After the scope the attribute is what it was before; if it was not there, `restore_to`, or
    gone if that is None.
    """
    checks.text("attribute_name", attribute_name)
    checks.text("attribute_value", attribute_value)
    checks.text("restore_to", restore_to, optional=True)
    before = marks.graph_attribute(FRONTEND_ATTRIBUTES_NAME)
    attributes = node_marks.decode_attributes(before or b"")
    outer = attributes.get(attribute_name)
    attributes[attribute_name] = attribute_value
    with marks.graph_attributes({
            FRONTEND_ATTRIBUTES_NAME: node_marks.encode_attributes(attributes)}):
        yield
    if restore_to is not None and outer is None:
        attributes[attribute_name] = restore_to
        marks.keep_graph_attribute(FRONTEND_ATTRIBUTES_NAME,
                                    node_marks.encode_attributes(attributes))


@contextlib.contextmanager
def stochastic_rounding(override):
    """Turns stochastic rounding of float16 results on (True) or off (False) for what is built.

    A StochasticRoundingBehaviour will do too.
    """
    from tremula.tf.ipu.config import StochasticRoundingBehaviour
    if isinstance(override, StochasticRoundingBehaviour):
        override = override != StochasticRoundingBehaviour.OFF
    checks.boolean("override", override)
    value = "THREESTATE_ON" if override else "THREESTATE_OFF"
    with frontend_attribute(_STOCHASTIC_ROUNDING, value, restore_to="THREESTATE_UNDEFINED"):
        yield


@contextlib.contextmanager
def partials_type(override_type):
    """Sets the type of partial sums of the convolutions and matrix multiplications in it:
    np.float32 (tf.float32) or np.float16 (tf.float16).

    Raises ValueError for other types.
    """
    import numpy as np
    name = getattr(override_type, "name", None)
    if name is None:
        try:
            name = np.dtype(override_type).name if override_type is not None else "None"
        except TypeError:
            name = repr(override_type)
    if name not in ("float32", "float16"):
        raise ValueError("Only support float16, float32, provided %s" % name)
    with frontend_attribute(_PARTIALS_TYPE, "float" if name == "float32" else "half"):
        yield
