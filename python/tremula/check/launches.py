"""Keras' fit, evaluate and predict, each call of which is a launch with a feed of its own."""

import ast

from tremula.check import names
from tremula.check.project import is_keras_class, names_of


def is_small(project, file, call):
    """Whether a Keras model's fit, evaluate or predict is for a part of the data that a loop goes
    through: what it is given is made in the loop, which is none of epochs, folds or models."""
    loop = names.loop_around(call)
    given = call.args[:1] + [one.value for one in call.keywords if one.arg == "x"]
    if not given or names.is_rare(call) or not is_keras_model(project, file, call.func.value) \
            or isinstance(loop, ast.For) and isinstance(loop.iter, (ast.List, ast.Tuple)):
        return False
    inside = list(ast.walk(loop))
    stored = {one.id for one in inside if isinstance(one, ast.Name)
              and isinstance(one.ctx, ast.Store)}
    owner = {one.id for one in ast.walk(call.func.value) if isinstance(one, ast.Name)}
    if owner & stored:
        return False
    if call.func.attr == "fit":  # of a step's own items, as they come
        items = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)} \
            if isinstance(loop, ast.For) and not _is_split(loop) else stored
        return isinstance(given[0], ast.Name) and given[0].id in items and all(
            one.arg not in ("batch_size", "validation_data", "validation_split", "callbacks")
            and (one.arg != "epochs" or names.constant(one.value) == 1) for one in call.keywords)
    return not _is_split(loop) and bool(stored & {
        one.id for one in ast.walk(given[0]) if isinstance(one, ast.Name)}) and not any(
            isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
            and one.func.attr in ("fit", "fit_generator") for one in inside)


def _is_split(loop):
    """Whether a loop is over the folds of a cross-validation."""
    return isinstance(loop, ast.For) and any(
        isinstance(one, ast.Attribute) and one.attr == "split" for one in ast.walk(loop.iter))


def is_keras_model(project, file, node):
    """Whether an expression is a model of Keras': its class says so or, where the file does not
    tell what it is, its name does."""
    value = file.value(node)
    if isinstance(value, ast.Call):
        made = file.value(value.func)
        if isinstance(made, ast.ClassDef):
            return is_keras_class(file, made)
        if file.called(value):
            return file.called(value).startswith(("tf.keras.", "ipu.keras."))
    return "model" in names_of(node).lower() and project.uses_keras
