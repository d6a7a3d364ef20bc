"""`tf.contrib.framework`: checkpoints, variables by name and the global step."""

import tensorflow.compat.v1 as tf

from tremula.tf.inner.contrib import (deprecated, deprecated_arg_values, deprecated_args,
                                      is_tensor, nest)
from tremula.tf1 import contrib_slim, missing

__path__ = []  # the original had files below

__all__ = ["deprecated", "deprecated_arg_values", "deprecated_args", "is_tensor", "nest"]

CriticalSection = tf.CriticalSection
argsort = tf.argsort
sort = tf.sort
assert_global_step = tf.train.assert_global_step
create_global_step = tf.train.create_global_step
get_or_create_global_step = tf.train.get_or_create_global_step
get_global_step = tf.train.get_global_step
list_variables = tf.train.list_variables
load_variable = tf.train.load_variable
load_checkpoint = tf.train.load_checkpoint
init_from_checkpoint = tf.train.init_from_checkpoint

_SLIM = ("add_arg_scope", "arg_scope", "arg_scoped_arguments", "has_arg_scope")
_SLIM_VARIABLES = (
    "VariableDeviceChooser", "add_model_variable", "assert_or_get_global_step",
    "filter_variables", "get_model_variables", "global_variable", "local_variable",
    "model_variable", "variable", "zero_initializer")


def __getattr__(name):
    wanted = f"tf.contrib.framework.{name}"
    if name in _SLIM:
        return contrib_slim.attribute("", name, wanted)
    if name in _SLIM_VARIABLES:
        value = contrib_slim.attribute("ops.variables", name, wanted)
        if value is not None:
            return value
    raise missing.attribute("framework", name)


def get_variables(scope=None, suffix=None, collection=tf.GraphKeys.GLOBAL_VARIABLES):
    """The variables of `collection` whose names start with `scope` (a text, or a variable scope)
    and end with `suffix`."""
    if isinstance(scope, tf.VariableScope):
        scope = scope.name
    found = tf.get_collection(collection, scope)
    return [one for one in found if suffix is None or one.op.name.endswith(suffix)]


def get_trainable_variables(scope=None, suffix=None):
    """As get_variables(), of the trainable ones."""
    return get_variables(scope, suffix, tf.GraphKeys.TRAINABLE_VARIABLES)


def get_local_variables(scope=None, suffix=None):
    """As get_variables(), of the local ones."""
    return get_variables(scope, suffix, tf.GraphKeys.LOCAL_VARIABLES)


def get_variables_by_suffix(suffix, scope=None):
    """The variables whose names end with `suffix`."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name, scope=None):
    """The variables whose last part of the name is `given_name`."""
    return [one for one in get_variables(scope)
            if one.op.name == given_name or one.op.name.endswith(f"/{given_name}")]


def get_unique_variable(name):
    """The one variable with this name. Raises ValueError if there is none, or if there are more."""
    found = [one for one in get_variables() if one.op.name == name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} variables are called {name!r}.")
    return found[0]


def get_variables_to_restore(include=None, exclude=None):
    """The variables in the scopes `include` (None: all) that are in none of `exclude`."""
    found = []
    for scope in include if include is not None else [None]:
        found += [one for one in get_variables(scope) if not any(one is other for other in found)]
    left_out = [one for scope in exclude or [] for one in get_variables(scope)]
    return [one for one in found if not any(one is other for other in left_out)]


def assign_from_values(var_names_to_values):
    """Assigns the arrays of `var_names_to_values`, a dict of a variable's name -> its array.

    Returns (operation, feed): session.run(operation, feed) assigns. Raises ValueError for a name
    that no variable, or more than one, has.
    """
    operations, feed = [], {}
    for name, value in var_names_to_values.items():
        variable = get_unique_variable(name)
        source = tf.placeholder(variable.dtype.base_dtype, variable.shape, f"{name}_value")
        operations.append(tf.assign(variable, source))
        feed[source] = value
    return tf.group(*operations), feed


def assign_from_values_fn(var_names_to_values):
    """As assign_from_values(): returns a function that gets a session and assigns."""
    operation, feed = assign_from_values(var_names_to_values)
    return lambda session: session.run(operation, feed)


def assign_from_checkpoint(model_path, var_list, ignore_missing_vars=False):
    """Assigns the values that the checkpoint `model_path` has.

    `var_list` is variables, or a dict of a name in the checkpoint -> variable. Returns (operation,
    feed): session.run(operation, feed) assigns. Raises ValueError for a variable that the
    checkpoint does not have, unless `ignore_missing_vars`, and for one of another shape.
    """
    if not isinstance(var_list, dict):
        var_list = {one.op.name: one for one in var_list}
    reader = tf.train.load_checkpoint(model_path)
    operations, feed = [], {}
    for name, variables in var_list.items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                continue
            raise ValueError(f"Checkpoint is missing variable [{name}]")
        value = reader.get_tensor(name)
        for variable in variables if isinstance(variables, (list, tuple)) else [variables]:
            if not variable.shape.is_compatible_with(value.shape):
                raise ValueError(f"The variable {variable.op.name} has the shape {variable.shape},"
                                 f" but {name} in the checkpoint has {value.shape}.")
            source = tf.placeholder(variable.dtype.base_dtype, variable.shape)
            operations.append(tf.assign(variable, source))
            feed[source] = value
    return tf.group(*operations), feed


def assign_from_checkpoint_fn(model_path, var_list, ignore_missing_vars=False,
                              reshape_variables=False):
    """As assign_from_checkpoint(): returns a function that gets a session and restores.

    `reshape_variables` allows values of another shape with as many elements. Returns None, with a
    warning, if the checkpoint has none of the variables and `ignore_missing_vars` is true. Raises
    ValueError for an empty `var_list`; the function raises what tf.train.Saver.restore() does.
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if not isinstance(var_list, dict):
        var_list = {one.op.name: one for one in var_list}
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        for name in [name for name in var_list if not reader.has_tensor(name)]:
            tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
            del var_list[name]
    if not var_list:
        tf.logging.warning("No Variables to restore")
        return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)
