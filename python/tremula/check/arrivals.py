"""What goes to the device from outside: datasets by an infeed queue, Keras' fit, an Estimator, a
loop that gives each batch to a compiled function, an iterator that such a function gets; and the
arrays that Keras' fit makes a dataset of."""

import ast

from tremula.check import launches, names
from tremula.check.project import results
from tremula.check.rules import feeds, shapes


def datasets(project):
    """Yields (file, expression) of each."""
    for file, call, called in project.calls():
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if called == "ipu.ipu_infeed_queue.IPUInfeedQueue":
            yield file, names.argument(call, "dataset", 0)
        elif method in ("fit", "evaluate"):
            for given in (names.argument(call, "x", 0), names.argument(call, "validation_data")):
                if shapes.is_dataset(project, file, given):
                    yield file, given
        if feeds.is_estimators(project, file, call):
            for other, function in project.functions(file, names.argument(call, "input_fn", 0)):
                yield from ((other, one) for one in results(function))
        yield from iterators(project, file, call)
    for file, loop in project.nodes(ast.For):
        if feeds.step_of_loop(project, file, loop) is not None:
            yield file, loop.iter


def arrays(project):
    """Yields (file, expression) of what a Keras model's fit and evaluate get that is no dataset."""
    for file, call, _ in project.calls():
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("fit", "evaluate") \
                or not launches.is_keras_model(project, file, call.func.value):
            continue
        for given in (names.argument(call, "x", 0), names.argument(call, "y", 1),
                      names.argument(call, "validation_data")):
            if given is not None and not shapes.is_dataset(project, file, given):
                yield file, given


def iterators(project, file, call):
    """Of what a compiled function is given, the iterators' datasets."""
    given = [*call.args, *(one.value for one in call.keywords)]
    given += [one for part in given if isinstance(part, (ast.Tuple, ast.List)) for one in part.elts]
    made = [one for one in map(file.value, given) if isinstance(one, ast.Call) and one.args
            and isinstance(one.func, ast.Name) and one.func.id == "iter"]
    if made and feeds.is_step(project, file, call):
        yield from ((file, one.args[0]) for one in made)
