"""A program that is traced and not run (tremula.check.running): what would compute or write."""

import contextlib
import importlib

from tremula.tf.inner.patches.wrapping import wrap


def replace_session_runs(run):
    """Puts run(session, fetches, feed_dict) in the place of every way to run a session."""
    from tensorflow.python.client import session
    base = session.BaseSession

    def plain(self, fetches, feed_dict=None, options=None, run_metadata=None):
        del options, run_metadata
        return run(self, fetches, feed_dict)

    def make_callable(self, fetches, feed_list=None, accept_options=False):
        del accept_options
        feeds = feed_list or []
        return lambda *values, **_: run(self, fetches, dict(zip(feeds, values)))

    wrap(base, "run", lambda _: plain)
    wrap(base, "make_callable", lambda _: make_callable)


def wrap_calls_from_python(make):
    """Puts make(call) in the place of `call(function, *arguments)` of tf.functions and of
    ConcreteFunctions."""
    from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function
    for owner in (polymorphic_function.Function, concrete_function.ConcreteFunction):
        wrap(owner, "__call__", make)


def replace_eager_gradients(gradient):
    """Puts gradient(tape, targets, sources) in the place of a tape's, outside of functions. In
    functions the gradients of lookups are arrays, as they are on an IPU."""
    import tensorflow as tf
    from tensorflow.python.eager import backprop, context

    def dense(value):
        return tf.convert_to_tensor(value) if isinstance(value, tf.IndexedSlices) else value

    def make(compute):
        def eager_or_traced(self, target, sources, *arguments, **keywords):
            if context.executing_eagerly():
                return gradient(self, target, sources)
            return tf.nest.map_structure(
                dense, compute(self, target, sources, *arguments, **keywords))
        return eager_or_traced

    wrap(backprop.GradientTape, "gradient", make)


def count_elements(count):
    """Calls count() for each element that an iterator gives outside of functions."""
    from tensorflow.python.data.ops import iterator_ops

    def make(give):
        def counted(self):
            count()
            return give(self)
        return counted

    wrap(iterator_ops.OwnedIterator, "__next__", make)


def replace_monitored_sessions(make_session):
    """Puts make_session(...) in the place of what makes MonitoredSessions and Supervisors: they
    write checkpoints, and wait until the variables have values."""
    import tensorflow as tf
    for name in ("MonitoredTrainingSession", "MonitoredSession", "SingularMonitoredSession",
                 "Supervisor"):
        wrap(tf.compat.v1.train, name, lambda _: make_session)


def start_no_queues():
    """Makes queue runners start no threads: these would run sessions for ever."""
    import tensorflow as tf
    wrap(tf.compat.v1.train, "start_queue_runners", lambda _: lambda *_, **__: [])
    wrap(tf.compat.v1.train.QueueRunner, "create_threads", lambda _: lambda *_, **__: [])


def write_nothing(save):
    """Makes TensorFlow's checkpoints, models and summaries stay unwritten, and the values of
    checkpoints unread. save(path) is the result where one saves."""
    import tensorflow as tf
    from tensorflow.python.checkpoint import checkpoint
    from tensorflow.python.summary.writer import writer
    v1 = tf.compat.v1

    def saving(_):
        return lambda self, *values, **named: save(*values, **named)

    def nothing(_):
        return lambda *_, **__: None

    def reading(_):
        return lambda *_, **__: _Status()

    wrap(v1.train.Saver, "save", lambda _: lambda self, session, path=None, *_, **__: save(path))
    wrap(v1.train.Saver, "restore", nothing)
    for owner in (tf.train.Checkpoint, checkpoint.CheckpointV1):
        for name, make in (("save", saving), ("write", saving), ("restore", reading),
                           ("read", reading)):
            if hasattr(owner, name):
                wrap(owner, name, make)
    wrap(tf.train.CheckpointManager, "save", saving)
    wrap(tf.train.CheckpointManager, "restore_or_initialize", nothing)
    wrap(tf.saved_model, "save", nothing)
    wrap(tf.summary, "create_file_writer", lambda _: lambda *_, **__: (
        tf.summary.create_noop_writer()))
    for name in ("__init__", "add_summary", "add_graph", "add_event", "add_meta_graph",
                 "add_run_metadata", "add_session_log", "flush", "close", "reopen",
                 "get_logdir", "_add_event"):
        for owner in (writer.FileWriter, *writer.FileWriter.__mro__[1:-1]):
            if name in vars(owner):
                wrap(owner, name, nothing)


class _Status:
    """What restoring a checkpoint gives: every method of it is well."""

    def __getattr__(self, name):
        return lambda *_, **__: self


def stand_in_for_data_sets(make):
    """Puts make(name) in the place of the `load_data` of each of Keras' data sets: they would be
    fetched from elsewhere."""
    import tensorflow as tf
    for name in ("mnist", "fashion_mnist", "cifar10", "cifar100", "imdb", "reuters",
                 "boston_housing"):
        owner = getattr(tf.keras.datasets, name, None)
        if owner is not None and hasattr(owner, "load_data"):
            wrap(owner, "load_data", lambda _, name=name: make(name))


def note_layers(note):
    """Calls note(layer) when the base constructor of a layer of Keras' is done."""
    import tensorflow as tf

    def make(create):
        def create_and_note(self, *arguments, **keywords):
            create(self, *arguments, **keywords)
            note(self)
        return create_and_note

    wrap(tf.keras.layers.Layer, "__init__", make)


def wrap_loading(make):
    """Puts make(load) in the place of Keras' load(path), which gives a model that was saved."""
    import tensorflow as tf
    wrap(tf.keras.models, "load_model", make)


def build_for_programs():
    """Makes graphs keep, of loops that have gradients, lists of a fixed size, as those in a program
    do: other lists cannot be lowered."""
    import tensorflow as tf
    package = tf.keras.Model.__module__.partition(".")[0]  # Keras 2 asks a function of its own
    for name in ("tensorflow.python.ops", "tensorflow.python.keras.utils", f"{package}.src.utils"):
        with contextlib.suppress(ImportError):
            wrap(importlib.import_module(f"{name}.control_flow_util"),
                 "GraphOrParentsInXlaContext", lambda _: lambda graph: True)


def wrap_models(names, make):
    """Puts make(name, method) in the place of the methods `names` of Keras' models."""
    import tensorflow as tf
    for name in names:
        if hasattr(tf.keras.Model, name):
            wrap(tf.keras.Model, name, lambda method, name=name: make(name, method))


def wrap_estimators(make):
    """Puts make[name] in the place of the methods of TensorFlow's Estimators and of
    train_and_evaluate. Nothing where TensorFlow has none any more."""
    import tensorflow as tf
    try:
        owners = [tf.compat.v1.estimator, tf.estimator]
        kinds = {one.Estimator for one in owners}
    except (AttributeError, ImportError):
        return
    for name, one in make.items():
        if name == "train_and_evaluate":
            for owner in owners:
                wrap(owner, name, one)
        else:
            for kind in kinds:
                wrap(kind, name, one)


def keep_to_what_lowers():
    """Makes variables of TensorFlow 1 resources, and its loops and conditions functions, whatever
    the program says: only those can be lowered."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_v2_toggles, variable_scope
    places = [(tf.compat.v1, "disable_resource_variables"),
              (variable_scope, "disable_resource_variables"),
              (tf.compat.v1, "disable_control_flow_v2"),
              (control_flow_v2_toggles, "disable_control_flow_v2")]
    try:  # later than 2.15
        from tensorflow.python.ops import resource_variables_toggle
        places.append((resource_variables_toggle, "disable_resource_variables"))
    except ImportError:
        pass
    tf.compat.v1.enable_resource_variables()
    tf.compat.v1.enable_control_flow_v2()
    for owner, name in places:
        if hasattr(owner, name):
            wrap(owner, name, lambda _: lambda: None)
