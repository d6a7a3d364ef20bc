"""How data comes to the device, and how often the host is asked."""

import ast
import re

from tremula.check import launches, names
from tremula.check.names import FUNCTIONS
from tremula.check.project import ESTIMATORS, SESSIONS, names_of, results
from tremula.check.rules import rule, shapes


@rule(
    "iterator-input", "error", "An iterator where the Estimator wants a dataset",
    """An IPUEstimator feeds its loop from a dataset. An `input_fn` that returns an iterator's next
    element gives it tensors of the host, one step at a time.""",
    "Return the dataset itself from the `input_fn`.",
    """
    import tensorflow.compat.v1 as tf

    def model_fn(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features))

    def input_fn():
        dataset = tf.data.Dataset.from_tensors(tf.zeros([8])).repeat()
        return dataset.make_one_shot_iterator().get_next()

    estimator = tf.estimator.Estimator(model_fn)
    estimator.train(input_fn, steps=10)
    """,
    """
    import tensorflow.compat.v1 as tf

    def model_fn(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features))

    def input_fn():
        return tf.data.Dataset.from_tensors(tf.zeros([8])).repeat()

    estimator = tf.estimator.Estimator(model_fn)
    estimator.train(input_fn, steps=10)
    """)
def iterators(project):
    seen = set()
    for file, call, called in project.calls():
        if called == "ipu.ipu_infeed_queue.IPUInfeedQueue":
            given = names.argument(call, "dataset", 0)
            if _makes_iterator(file, given):
                yield file, given, "an infeed queue takes a dataset, and this is an iterator"
        if not is_estimators(project, file, call):
            continue
        for other, function in project.functions(file, names.argument(call, "input_fn", 0)):
            if function in seen:
                continue
            seen.add(function)
            for at, one in _results(project, other, function):
                place = _element(at, one)
                if place is not None:
                    yield at, place, ("this input_fn returns an iterator's element; an "
                                      "IPUEstimator wants the dataset")


def _results(project, file, function, deep=3):
    """Yields (file, expression) of what a function returns, also by a call of another."""
    for result in results(function):
        called = project.functions(file, result.func, 3) if isinstance(result, ast.Call) else []
        if called and deep:
            for other, one in called:
                yield from _results(project, other, one, deep - 1)
        else:
            yield file, result


def is_estimators(project, file, call):
    """Whether a call is train, evaluate or predict of an Estimator, or makes the spec of one."""
    if (file.called(call) or "") in ("tf.estimator.TrainSpec", "tf.estimator.EvalSpec"):
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in (
            "train", "evaluate", "predict"):
        return False
    owner = file.value(call.func.value)
    return isinstance(owner, ast.Call) and (
        file.called(owner) in ESTIMATORS or (file.called(owner) or "").startswith("tf.estimator."))\
        or names.argument(call, "input_fn") is not None


def _makes_iterator(file, node):
    value = file.value(node) if node is not None else None
    if not isinstance(value, ast.Call):
        return False
    return isinstance(value.func, ast.Attribute) and value.func.attr in (
        "make_one_shot_iterator", "make_initializable_iterator") or (file.called(value) or "") in (
        "tf.data.make_one_shot_iterator", "tf.data.make_initializable_iterator")


def _element(file, node):
    """The get_next() that a result comes from, in one step."""
    for value in [one for name in _parts(node) for one in file.values(name)] + _parts(node):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) \
                and value.func.attr == "get_next":
            return value.func
    if isinstance(node, (ast.Tuple, ast.Name)):  # features, labels = iterator.get_next()
        for name in _parts(node):
            scope = name.scope.find(name.id) if isinstance(name, ast.Name) else None
            for one in ast.walk(scope.node) if scope is not None else ():
                if isinstance(one, ast.Assign) and any(
                        isinstance(leaf, ast.Name) and leaf.id == name.id
                        for target in one.targets for leaf in ast.walk(target)) \
                        and isinstance(one.value, ast.Call) \
                        and isinstance(one.value.func, ast.Attribute) \
                        and one.value.func.attr == "get_next":
                    return one.value.func
    return None


def _parts(node):
    return list(node.elts) if isinstance(node, ast.Tuple) else [] if node is None else [node]


@rule(
    "feed-without-queue", "warning", "Data fed step by step, without a queue",
    """`session.run(..., feed_dict)` in a loop stops the device at every step: the host copies one
    batch, waits for the step, and fetches the result. So does a loop over a dataset that gives
    each batch to a `tf.function`.""",
    """Give the data as a dataset to an `IPUInfeedQueue`, repeat the step on the device with
    `ipu.loops.repeat` (in TensorFlow 2 with a `for _ in tf.range(n)` in the `tf.function`), and
    take results from an `IPUOutfeedQueue`.""",
    """
    import numpy as np
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()

    x = tf.placeholder(tf.float32, [32, 4])
    w = tf.get_variable("w", [4, 1])
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.matmul(x, w)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(100):
            batch = np.ones([32, 4], np.float32) * step
            session.run(train, feed_dict={x: batch})
    """,
    """
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()

    dataset = tf.data.Dataset.from_tensors([[1.0, 2.0]]).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def step(x):
        return outfeed.enqueue(tf.reduce_mean(x))

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(
            lambda: ipu.loops.repeat(100, step, infeed_queue=infeed))
    """)
def fed_loops(project):
    for file, call, called in project.calls():
        if project.is_v1 and called in _QUEUES:
            yield file, call.func, (f"{called.split('.')[-1]} fills a queue from threads of the "
                                    "host: make a dataset, and feed it through an IPUInfeedQueue")
        loop = names.loop_around(call)
        run = file.value(call.func)
        if loop is None or not isinstance(run, ast.Attribute) or run.attr != "run" \
                or not project.is_v1 or not _is_session(file, run.value):
            continue
        feed = names.argument(call, "feed_dict", 1)
        given = file.value(feed) if isinstance(feed, ast.Name) else feed
        if isinstance(feed, ast.Name) and given is None:  # made anew in the loop
            given = next((one for one in file.values(feed)
                          if isinstance(one, (ast.Dict, ast.Call))), None)
        if not isinstance(given, (ast.Dict, ast.Call)) or not _trains(file, call):
            continue
        values = given.values if isinstance(given, ast.Dict) else [
            *given.args, *(one.value for one in given.keywords)]
        changed = {leaf.id for one in ast.walk(_outermost(loop)) if isinstance(one, ast.Name)
                   and isinstance(one.ctx, ast.Store) for leaf in [one]}
        if any(isinstance(leaf, ast.Name) and leaf.id in changed
               or isinstance(leaf, ast.Call)
               for value in values for leaf in ast.walk(value)):
            yield file, feed, _WAITS
    yield from _loops_over_datasets(project)


_QUEUES = ("tf.train.batch", "tf.train.batch_join", "tf.train.shuffle_batch",
           "tf.train.shuffle_batch_join")
_DATA = re.compile("(^|_)(ds|dataset|dataloader|batches)$")  # a parameter
_WAITS = "every step waits for the host: feed through an IPUInfeedQueue"


def _loops_over_datasets(project):
    for file, loop in project.nodes(ast.For):
        call = step_of_loop(project, file, loop)
        if call is not None:
            yield file, call, _WAITS


def step_of_loop(project, file, loop):
    """The first call of a compiled function with the batch of a loop over a dataset, or None."""
    if project.how_compiled(file, loop) or not _gives_batches(project, file, loop.iter):
        return None
    batch = {leaf.id for leaf in ast.walk(loop.target) if isinstance(leaf, ast.Name)}
    return next((call for call in ast.walk(loop)
                 if isinstance(call, ast.Call) and is_step(project, file, call)
                 and any(isinstance(leaf, ast.Name) and leaf.id in batch
                         for given in call.args for leaf in ast.walk(given))), None)


def _gives_batches(project, file, node):
    """Whether a loop's iterable is a dataset, also in enumerate()."""
    while isinstance(node, ast.Call) and file.called(node) in ("enumerate", "zip") and node.args:
        node = node.args[0]
    return shapes.is_dataset(project, file, node) or isinstance(node, ast.Name) \
        and None in file.values(node) and bool(_DATA.search(node.id))


def _is_session(file, node):
    """Whether an expression is a session, by what makes it or by its name."""
    made = names.entered(node) or file.value(node)
    return "sess" in names_of(node).lower() or isinstance(made, ast.Call) \
        and file.called(made) in SESSIONS


def _trains(file, call):
    """Whether a session's run is a step of training, by the name of what it runs."""
    first = call.args[0] if call.args else names.argument(call, "fetches")
    words = [leaf.id if isinstance(leaf, ast.Name) else leaf.attr for leaf in
             (ast.walk(first) if first is not None else ()) if isinstance(
                 leaf, (ast.Name, ast.Attribute))]
    words += [leaf.value for leaf in (ast.walk(first) if first is not None else ())
              if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)]
    for leaf in ast.walk(first) if first is not None else ():
        value = file.value(leaf) if isinstance(leaf, ast.Name) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) \
                and value.func.attr in ("minimize", "apply_gradients"):
            return True
    return any("train" in word.lower() or "optim" in word.lower() for word in words)


def _outermost(loop):
    for one in names.parents(loop):
        if isinstance(one, (ast.For, ast.While)):
            loop = one
        elif isinstance(one, FUNCTIONS):
            break
    return loop


@rule(
    "host-round-trip", "warning", "The host is asked in every step of a loop",
    """The device stops whenever the host wants a number, or does a part of the program. In a loop
    that happens in every step, and costs more than the step.""",
    """Collect values in an outfeed queue and read them after many steps; give Keras
    `steps_per_execution=`, and `predict` all items in one call; keep host parts and prints out of
    the repeated body.""",
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_mean(x * x)

    x = tf.ones([8])
    for number in range(100):
        print(number, step(x).numpy())
    """,
    """
    import tensorflow as tf

    @tf.function(jit_compile=True)
    def step(x):
        return tf.reduce_mean(x * x)

    x = tf.ones([8])
    for number in range(100):
        loss = step(x)
        if number % 20 == 0:
            print(number, loss.numpy())
    """)
def round_trips(project):
    for file, call, called in project.calls():
        if called in ("tf.print", "tf.Print", "ipu.internal_ops.print_tensor",
                      "ipu.scopes.outside_compilation_scope"):
            if _in_device_loop(project, file, call):
                yield file, call, (f"{called} is in the repeated body: the IPU waits for the host "
                                   "in every step")
            continue
        if names.loop_around(call) is None or project.how_compiled(file, call):
            continue
        if isinstance(call.func, ast.Name) and call.func.id in ("float", "int") and call.args \
                and is_step(project, file, call.args[0]) \
                and not names.is_rare(call, _made(file, call.args[0])):
            yield file, call, "every step waits for this value"
        if not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr.endswith("_on_batch"):
            yield file, call.func, (f"{call.func.attr} in a loop is a launch, and a fetch, every "
                                    "step")
        elif call.func.attr in ("fit", "evaluate", "predict") \
                and launches.is_small(project, file, call):
            yield file, call.func, (f"{call.func.attr} in a loop is a launch with a feed of its "
                                    "own, every time: give it all items at once")
        elif call.func.attr == "numpy" and not call.args and is_step(
                project, file, call.func.value) \
                and not names.is_rare(call, _made(file, call.func.value)):
            yield file, call.func, "every step waits for this value"


def _in_device_loop(project, file, call):
    return any(project.compiled.get(one, ("", ""))[1].startswith("ipu.loops.")
               for one in names.parents(call))


def _made(file, node):
    """What makes a value."""
    return file.value(node) if isinstance(node, ast.Name) else node


def is_step(project, file, node):
    """Whether a value is the result of a compiled function."""
    value = file.value(node) if isinstance(node, ast.Name) else node
    is_part = isinstance(value, ast.Subscript)
    if is_part:  # of several results
        value = file.value(value.value)
        value = value.value if isinstance(value, ast.Subscript) else value
    if not isinstance(value, ast.Call):
        return False
    loops = [*names.parents(node), *([] if is_part else [None])]
    if names.loop_around(value) not in loops:
        return False  # of a loop that has ended: the value of its last step
    if any(project.compiled.get(one, ("", ""))[1] in ("tf.function", "strategy.run")
           for _, one in project.functions(file, value.func)):
        return True
    return isinstance(value.func, ast.Attribute) and value.func.attr in (
        "run", "experimental_run_v2") and bool(value.args) and any(
            one in project.compiled for _, one in project.functions(file, value.args[0]))
