"""What stands in TensorFlow's places while a script is traced: nothing is trained or written.

Sessions, functions, Keras' and Estimators' methods note their graphs with the Recorder and give
zeros. What the script does eagerly, and its input, is computed.
"""

import collections
import contextlib
import copy
import functools
import inspect
import sys
import threading

import numpy as np

from tremula.check.running import zeros
from tremula.tf.inner import patches

_local = threading.local()


def install(recorder, for_ipu):
    """Puts them there, once for the process. Before the script imports anything. for_ipu: whether
    the script makes programs for IPUs itself."""
    if for_ipu:
        _extend_models()  # the methods below stand around what that puts there
        _select_by_number()
        from tremula.tf.ipu.ipu_outfeed_queue import IPUOutfeedQueue
        IPUOutfeedQueue.enqueue = recorder.outfeeds.enqueue(IPUOutfeedQueue.enqueue)
        IPUOutfeedQueue.dequeue = recorder.outfeeds.dequeue(IPUOutfeedQueue.dequeue)
        with contextlib.suppress(ImportError, AttributeError):  # no Estimators
            from tremula.tf.ipu.ipu_estimator import _PlainEstimator
            del _PlainEstimator.predict  # the Estimator's stands there, and gives single items
    else:
        patches.keep_to_what_lowers()
        patches.build_for_programs()
    patches.write_nothing(lambda path=None, *_, **__: path if isinstance(path, str) else "")
    patches.start_no_queues()
    patches.count_elements(recorder.count_one)
    patches.stand_in_for_data_sets(zeros.data_set)
    patches.replace_session_runs(functools.partial(_run, recorder))
    patches.replace_monitored_sessions(functools.partial(_Monitored, recorder))
    patches.wrap_calls_from_python(functools.partial(_from_python, recorder))
    patches.wrap_traced_functions(functools.partial(_function, recorder))
    patches.replace_eager_gradients(functools.partial(_eager_gradient, recorder))
    patches.wrap_models(("fit", "evaluate", "predict", "train_on_batch", "test_on_batch",
                         "predict_on_batch"), functools.partial(_keras, recorder))
    saved = {}  # path: model
    patches.wrap_models(("save",), lambda *_: lambda model, path, *_, **__: saved.update(
        {str(path): model}))
    patches.wrap_models(("save_weights", "load_weights", "export"),
                        lambda *_: lambda *_, **__: None)
    patches.wrap_loading(lambda load: lambda path, *rest, **named: saved[str(path)] if str(
        path) in saved else load(path, *rest, **named))
    patches.note_layers(lambda layer: object.__setattr__(
        layer, "_tremula_place", recorder.place()))
    patches.wrap_models(("compile",), _compile)
    patches.wrap_estimators(_estimators(recorder))


def _extend_models():
    try:
        from tremula.tf.keras.extensions import register_extensions
    except ImportError:  # Keras 3
        return
    register_extensions.register()


def _select_by_number():
    """Lets the IPU Model, which has no ids, have as many IPUs as those of select_ipus stand for."""
    from tremula.tf.ipu import config
    from tremula.tf.runtime.device import settings
    create = config.IPUConfig._create_snapshot

    def by_number(chosen):
        ids = config._as_list(chosen.select_ipus)
        if ids and chosen.auto_select_ipus == [] and len(set(ids)) == len(ids):
            chosen = copy.deepcopy(chosen)
            chosen.select_ipus = []
            chosen.auto_select_ipus = [settings.ipus_of_id(one) for one in ids]
        return create(chosen)

    config.IPUConfig._create_snapshot = by_number


# ---- Sessions ----

def _run(recorder, session, fetches, feed_dict):
    """Session.run: notes what is fetched, and gives zeros."""
    from tremula.tf.inner import sessions
    graph = session.graph
    elements, build = sessions.fetched(graph, fetches)
    feeds = [(graph.as_graph_element(getattr(key, "name", key)), np.shape(value))
             for key, value in _flat_feeds(feed_dict)]
    if elements and not _only_initialises(graph, elements):
        key = (id(graph), tuple(one.name for one in elements), tuple(one.name for one, _ in feeds))
        recorder.add(key, "session", graph=graph, fetches=elements, shapes=feeds, fed=bool(feeds))
    batch = next((shape[:1] for tensor, shape in feeds if tensor.shape.rank
                  and tensor.shape[0] is None and shape), ())
    return build([None if not hasattr(one, "dtype") else zeros.array(
        one, [recorder.outfeeds.enqueued(one.op.get_attr("feed").decode())]
        if one.op.type == "IpuOutfeedDequeue" else batch) for one in elements])


def _flat_feeds(feed_dict):
    """(tensor or name, value) of each feed; a structure of tensors may be a key."""
    import tensorflow as tf
    for key, value in (feed_dict or {}).items():
        if isinstance(key, (tuple, list)):
            yield from zip(tf.nest.flatten(key), tf.nest.flatten_up_to(key, value)
                           if hasattr(tf.nest, "flatten_up_to") else tf.nest.flatten(value))
        elif not hasattr(key, "dense_shape"):  # a sparse tensor has no one shape
            yield key, value


def _only_initialises(graph, elements):
    """Whether a run gives variables, tables and iterators their first values, and no more."""
    import tensorflow as tf
    with graph.as_default():
        v1 = tf.compat.v1
        initialisers = {one.initializer for one in v1.global_variables() + v1.local_variables()}
    waiting, seen = [getattr(one, "op", one) for one in elements], set()
    while waiting:
        one = waiting.pop()
        if one in seen or one in initialisers or one.type in (
                "MakeIterator", "InitializeTableV2", "InitializeTableFromTextFileV2",
                "LookupTableImportV2"):
            continue
        if one.type != "NoOp":
            return False
        seen.add(one)
        waiting += one.control_inputs
    return True


class _Monitored:
    """A MonitoredSession or a Supervisor that runs nothing. Its hooks are not called."""

    def __init__(self, recorder, *arguments, **named):
        import tensorflow as tf
        self._recorder = recorder
        self.graph = named.get("graph") or tf.compat.v1.get_default_graph()
        self._session = tf.compat.v1.Session(graph=self.graph)
        del arguments

    def run(self, fetches, feed_dict=None, **_):
        return _run(self._recorder, self._session, fetches, feed_dict)

    def run_step_fn(self, step):
        return step(self)

    @property
    def session(self):
        return self._session

    def should_stop(self):
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    @contextlib.contextmanager
    def managed_session(self, *_, **__):
        with self._session:
            yield self._session

    def __getattr__(self, name):
        return lambda *_, **__: None  # close, request_stop, summary_computed, ...


# ---- Functions ----

def _from_python(recorder, call):
    """A tf.function or ConcreteFunction that the program calls outside of functions: what it runs
    is a step, unless TensorFlow calls a function of its own."""
    def call_from_python(self, *arguments, **keywords):
        import tensorflow as tf
        if not tf.executing_eagerly():
            return call(self, *arguments, **keywords)
        before = getattr(_local, "is_step", False)
        _local.is_step = _is_own(recorder, self) or (
            getattr(_local, "model", None) is not None and not _name(self).startswith("_update_"))
        try:
            return call(self, *arguments, **keywords)
        finally:
            _local.is_step = before

    return call_from_python


def _name(function):
    return getattr(getattr(function, "python_function", None), "__name__", "")


def _is_own(recorder, function):
    """Whether the program wrote a function, or calls it itself."""
    python = getattr(function, "python_function", None)
    while isinstance(python, functools.partial):
        python = python.func
    code = getattr(inspect.unwrap(python), "__code__", None) if callable(python) else None
    if code is not None and recorder.is_own(code.co_filename):
        return True
    frame = inspect.currentframe()
    for _ in range(2):  # this function and call_from_python
        frame = frame.f_back if frame is not None else None
    return frame is not None and recorder.is_own(frame.f_code.co_filename)


def _function(recorder, call_flat):
    """What a function that is called eagerly does: noted instead, where it is a step."""
    def note(self, *arguments):
        from tremula.tf.inner import functions
        if functions.bound_device(self) is None or not getattr(_local, "is_step", False) \
                or b"initialize_variables" in self.name:
            return call_flat(self, *arguments)
        graph = self.graph
        sizes = [one.shape.as_list() if getattr(one, "shape", None) is not None
                 and one.shape.rank is not None else None for one in arguments]
        size = next((shape[0] for shape, inner in zip(sizes, graph.inputs)
                     if shape and inner.shape.rank and inner.shape[0] is None), 1)
        results = zeros.tensors(graph.outputs, size, self.function_type.output)
        if results is None:
            return call_flat(self, *arguments)
        _launch(recorder, self, arguments)
        recorder.add(id(graph), getattr(_local, "kind", "function"), graph=graph,
                     fetches=[*graph.outputs, *graph.control_outputs],
                     batch=getattr(_local, "batch", None), items=getattr(_local, "items", 0),
                     shapes=[(inner, shape) for inner, shape in zip(graph.inputs, sizes)
                             if shape is not None and inner.dtype.name != "resource"])
        return results

    return note


def _launch(recorder, function, arguments):
    """Makes the program of a function that is called for an IPU; launching tells the Recorder."""
    hooks = sys.modules.get("tremula.tf.functions.hooks")
    device = hooks and hooks.device_of_call(function, arguments)
    if device:
        from tremula.tf.functions import programs
        program = programs.find(function, device)
        recorder.outfeeds.run(program.function if program is not None else function)


def _eager_gradient(recorder, tape, target, sources):
    """A tape's gradient outside of functions: zeros."""
    import tensorflow as tf
    del tape, target
    if getattr(_local, "model", None) is None:
        path, line = recorder.place()
        recorder.add((path, line), "eager")
    return tf.nest.map_structure(tf.zeros_like, sources)


# ---- Keras ----

def _keras(recorder, name, method):
    """A method of a model: one step of one epoch of it is traced."""
    def traced(self, *arguments, **keywords):
        before = getattr(_local, "model", None), getattr(_local, "kind", "function")
        if before[0] is not None:  # fit() calls evaluate()
            return method(self, *arguments, **keywords)
        given = dict(inspect.signature(method).bind(self, *arguments, **keywords).arguments)
        given.pop("self", None)
        given.update(given.pop("kwargs", {}))
        epochs = given.get("epochs", 1) if name == "fit" else 1
        first = given.get("initial_epoch", 0)
        _local.model, _local.kind = self, "fit" if "fit" in name or "train" in name else name
        _local.batch, _local.items = _batch_of(given)
        _note_layers(recorder, self)
        try:
            given["callbacks"] = _own_callbacks(recorder, given.get("callbacks"))
            result = _traced(recorder, self, method, name, _short(name, given, first), given)
        finally:
            _local.model, _local.kind = before
        if name == "fit":
            _lengthen(result, first, epochs)
        elif name == "predict":
            return _as_long(result, given.get("x"), given.get("steps"))
        return result

    return traced


def _compile(name, method):
    """Model.compile, one step an execution: the loop around the steps is not looked at."""
    del name

    def compile_steps(self, *arguments, **keywords):
        if getattr(self, "_get_shard_count", None) is None and "steps_per_execution" in keywords:
            keywords["steps_per_execution"] = 1
        return method(self, *arguments, **keywords)

    return compile_steps


def _batch_of(given):
    """(size of the batches that a method of a model gets, how many items it gets as arrays)."""
    data, size = given.get("x"), given.get("batch_size")
    import tensorflow as tf
    first = next((one for one in tf.nest.flatten(data) if hasattr(one, "shape")), None) \
        if isinstance(data, (np.ndarray, tf.Tensor, list, tuple, dict)) else None
    if first is not None:
        size = size or 32
        return size, len(first)
    while not isinstance(size, int) and data is not None:
        size = getattr(data, "_batch_size", None)
        size = int(size) if size is not None else None
        data = getattr(data, "_input_dataset", None)
    return size or 32, 0


def _note_layers(recorder, model):
    """Tells the Recorder which lines made the layers of a model, by the layers' names."""
    for one in model.submodules if hasattr(model, "submodules") else ():
        place = getattr(one, "_tremula_place", None)
        if place is not None:
            recorder.layers.setdefault(one.name, place)


def _short(name, given, first):
    """The arguments for one step."""
    given = dict(given)
    if name == "fit":
        given.update(epochs=first + 1, steps_per_epoch=1, verbose=0)
        if given.get("validation_data") is not None or given.get("validation_split"):
            given["validation_steps"] = 1
    elif name in ("evaluate", "predict"):
        given.update(steps=1, verbose=0)
    else:
        given.pop("callbacks")
    return given


def _own_callbacks(recorder, callbacks):
    """Those of the callbacks that the program wrote: Keras' own save, log and stop."""
    def is_own(one):
        module = sys.modules.get(type(one).__module__)
        return recorder.is_own(getattr(module, "__file__", None) or "<none>")

    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    return [one for one in given if one is not None and is_own(one)]


def _traced(recorder, model, method, name, short, given):
    given = {key: value for key, value in given.items() if key in short}
    if getattr(model, "_get_shard_count", None) is None:
        return method(model, **short)
    # In the scope of an IPUStrategy: the program is made, and the call ends there.
    from tremula.tf.runtime.launching import launching
    whole = {**given, "verbose": 0} if "verbose" in short else given
    recorder.modules.append((launching.lowered_by(functools.partial(method, model, **whole)),
                             name in ("fit", "train_on_batch")))
    recorder.add((id(model), name), _local.kind)
    return _ipu_result(model, name)


def _ipu_result(model, name):
    """What the method returns in place of a run."""
    import tensorflow as tf
    names = getattr(model, "metrics_names", None) or ["loss"]
    if name == "fit":
        history = tf.keras.callbacks.History()
        history.epoch, history.history = [0], {one: [0.0] for one in names}
        model.history = history
        return history
    if name.startswith("predict"):
        found = [np.zeros([one or 1 for one in output.shape]) for output in model.outputs or []]
        return found[0] if len(found) == 1 else found
    return [0.0] * len(names) if len(names) > 1 else 0.0


def _lengthen(history, first, epochs):
    """Gives a History as many epochs as were asked for."""
    if isinstance(epochs, int) and epochs > first and history is not None:
        history.epoch = list(range(first, epochs))
        for key, values in history.history.items():
            history.history[key] = list(values[:1]) * (epochs - first)


def _as_long(result, data, steps):
    """Predictions for as many items as the data has, where it has a length."""
    import tensorflow as tf
    first = tf.nest.flatten(data)[0] if data is not None else None
    count = len(first) if isinstance(first, (np.ndarray, tf.Tensor)) else _items(first, steps)
    if count is None:
        return result
    return tf.nest.map_structure(
        lambda one: np.zeros([count, *one.shape[1:]], one.dtype), result)


def _items(data, steps):
    """How many items so many steps take of a dataset, None: all; None where it does not tell."""
    import tensorflow as tf
    if not isinstance(data, tf.data.Dataset) or not tf.executing_eagerly():
        return None
    batches = steps or int(data.cardinality())
    size = tf.nest.flatten(tf.compat.v1.data.get_output_shapes(data))[0][:1].as_list()
    if batches < 0 or not size:
        return None
    if size[0] is not None:
        return batches * size[0]
    while data is not None and not hasattr(data, "_batch_size"):
        data = getattr(data, "_input_dataset", None)
    total = int(data._input_dataset.cardinality()) if data is not None else -1
    return min(total, batches * int(data._batch_size)) if total >= 0 else None


# ---- Estimators ----

def _estimators(recorder):
    import tensorflow as tf

    def train(original):
        def traced(self, input_fn, *_, **__):
            _model_fn(recorder, self, original, input_fn, "train")
            return self
        return traced

    def evaluate(original):
        def traced(self, input_fn, *_, **__):
            spec = _model_fn(recorder, self, original, input_fn, "eval")
            found = collections.defaultdict(float, loss=0.0, global_step=0)
            names = recorder.outfeeds.last if spec is None else spec.eval_metric_ops
            found.update(dict.fromkeys(names if isinstance(names, dict) else (), 0.0))
            return found
        return traced

    def predict(original):
        def traced(self, input_fn, *_, yield_single_examples=True, num_predictions=None, **__):
            spec = _model_fn(recorder, self, original, input_fn, "infer")
            batch = tf.nest.map_structure(
                zeros.array, recorder.outfeeds.last if spec is None else spec.predictions)
            if not yield_single_examples:
                yield batch
                return
            size = num_predictions or len(tf.nest.flatten(batch)[0])
            for _ in range(size):
                yield tf.nest.map_structure(lambda one: one[0], batch)
        return traced

    def both(_):
        def traced(estimator, train_spec, eval_spec):
            estimator.train(train_spec.input_fn)
            estimator.evaluate(eval_spec.input_fn)
            return {"loss": 0.0, "global_step": 0}, []
        return traced

    def export(_):
        return lambda *_, **__: b""

    return {"train": train, "evaluate": evaluate, "predict": predict, "train_and_evaluate": both,
            "export_saved_model": export, "export_savedmodel": export}


def _model_fn(recorder, estimator, original, input_fn, mode):
    """Builds an Estimator's graph in one of its modes, and notes it. Returns the EstimatorSpec;
    None of an IPUEstimator, whose program is made instead."""
    import tensorflow as tf
    from tremula.tf.runtime.launching import launching
    v1 = tf.compat.v1
    if type(estimator).__module__.startswith("tremula."):
        with v1.Graph().as_default():
            recorder.modules.append((launching.lowered_by(
                lambda: list(original(estimator, input_fn) or ())), mode == "train"))
        recorder.add((id(estimator), mode), "estimator")
        return None
    with tf.Graph().as_default() as graph:
        v1.train.get_or_create_global_step()
        params = dict(estimator.params)
        context = getattr(estimator, "_ctx", None)
        if context is not None:  # a TPUEstimator
            params.setdefault("batch_size", getattr(context, "_train_batch_size", None) or 1)
            params.setdefault("use_tpu", False)
        values = {"mode": mode, "params": params, "config": estimator.config}
        features, labels = _inputs(_call(input_fn, values))
        spec = _call(estimator._model_fn, {**values, "labels": labels}, features)
        wanted = [getattr(spec, "train_op", None), getattr(spec, "loss", None)]
        wanted += tf.nest.flatten(getattr(spec, "predictions", None) or []) \
            if mode == "infer" else []
        for _, update in (getattr(spec, "eval_metric_ops", None) or {}).values() \
                if mode == "eval" else ():
            wanted.append(update)
        recorder.add((id(estimator), mode), "estimator", graph=graph,
                     fetches=[one for one in wanted if one is not None])
    return spec


def _inputs(given):
    """(features, labels) of what an input_fn returns."""
    import tensorflow as tf
    if isinstance(given, tf.data.Dataset):
        given = tf.compat.v1.data.make_initializable_iterator(given).get_next()
    return given if isinstance(given, tuple) and len(given) == 2 else (given, None)


def _call(function, values, *arguments):
    """A function with those of the values, by name, that it takes."""
    from tremula.tf.inner import python_code
    names = python_code.function_arguments(function)
    return function(*arguments, **{name: value for name, value in values.items() if name in names})
