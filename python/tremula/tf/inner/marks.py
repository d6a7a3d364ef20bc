"""Attributes and devices of nodes, and the scopes that put them there."""

import contextlib


@contextlib.contextmanager
def graph_attributes(attributes):
    """Puts `attributes` (name -> bytes, str, bool, or None for "not set") on the nodes that are
    added to the default graph meanwhile.

    Inner function graphs get them only as patches.inherit_graph_attributes() says, and operations
    that run eagerly never.
    """
    from tensorflow.python.framework import ops
    graph = ops.get_default_graph()
    with graph._attr_scope({name: _attr_value(value) for name, value in attributes.items()}):
        yield


def keep_graph_attribute(name, value):
    """The same for one attribute, until the graph_attributes() scope around it ends."""
    from tensorflow.python.framework import ops
    ops.get_default_graph()._attr_scope_map[name] = _attr_value(value)


def graph_attribute(name):
    """The bytes that graph_attributes() puts on new nodes as `name` now, or None."""
    from tensorflow.python.framework import ops
    value = ops.get_default_graph()._attr_scope_map.get(name)
    return value.s if value is not None else None


@contextlib.contextmanager
def without_marks():
    """Nodes that are added to the default graph meanwhile get no attributes from scopes around."""
    from tensorflow.python.framework import ops
    graph = ops.get_default_graph()
    marks, graph._attr_scope_map = graph._attr_scope_map, {}
    try:
        yield
    finally:
        graph._attr_scope_map = marks


def operation_attribute(operation, name):
    """The bytes of the attribute `name` of a node, or None if it has none."""
    # A NodeDef tells that an attribute is absent in a fifth of the time that get_attr() takes to
    # fail, but that of a constant is a copy of its value.
    if operation.type != "Const" and name not in operation.node_def.attr:
        return None
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
