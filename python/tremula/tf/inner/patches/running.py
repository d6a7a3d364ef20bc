"""Sessions, functions and eager operations."""

from tremula.tf.inner.patches.wrapping import wrap

# The methods of BaseSession, and of its callables, that wrap_session() takes: {name: attribute}.
_SESSION_METHODS = {
    "create": "__init__", "close": "close", "extend": "_extend_graph", "run": "_do_run",
    "traced": "run", "call": "_call_tf_sessionrun",
    "call_partial": "_call_tf_sessionprun", "set_up_partial_run": "partial_run_setup",
    "make_callable": "make_callable",
    "make_callable_from_options": "_make_callable_from_options",
}
_CALLABLE_METHODS = {"create_callable": "__init__", "call_callable": "__call__"}


def wrap_session(**make):
    """Makes sessions do more: `make[name]` takes a method of _SESSION_METHODS or
    _CALLABLE_METHODS, as it is, and gives what is to stand there. TensorFlow has hooks around a run
    for its own sessions only, and none for placing, closing and callables."""
    from tensorflow.python.client import session
    for name, one in make.items():
        if name in _SESSION_METHODS:
            wrap(session.BaseSession, _SESSION_METHODS[name], one)
        else:
            wrap(session.BaseSession._Callable, _CALLABLE_METHODS[name], one)


def forget_session(session):
    """Makes closing a session do nothing: it would wait for a run that does not end."""
    session._closed = True


def wrap_function_calls(make):
    """Puts make(call) for the method by which a context runs a tf.function: call(context, function
    name, ...)."""
    from tensorflow.python.eager import context
    wrap(context.Context, "call_function", make)


def before_eager_operations(check):
    """Calls check(devices), a function that gives the names of devices, before an eager operation
    puts values on a device or reads them there. Forked processes need it: nothing else there
    checks single operations."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context
    from tensorflow.python.framework import constant_op, ops

    def present():
        return [context.context().device_name or ""]

    def of_values(*values):
        return [one.device for one in _flat(values) if isinstance(one, ops.EagerTensor)]

    def checked(devices):
        def make(call):
            def call_checked(*arguments, **keywords):
                check(lambda: devices(*arguments))
                return call(*arguments, **keywords)
            return call_checked
        return make

    tensor = next(one for one in ops.EagerTensor.__mro__ if "_numpy" in vars(one))
    for owner, name, devices in (
            (pywrap_tfe, "TFE_Py_FastPathExecute",
             lambda _, __, *values: present() + of_values(*values)),
            (pywrap_tfe, "TFE_Py_Execute",
             lambda _, device, __, values, *___: [device or present()[0], *of_values(values)]),
            (constant_op, "convert_to_eager_tensor", lambda *_: present()),
            (tensor, "_numpy", of_values),
            (tensor, "_copy", lambda self, _=None, device="": of_values(self) + [device or ""])):
        wrap(owner, name, checked(devices))


def _flat(values):
    for one in values:
        if isinstance(one, (list, tuple)):
            yield from one
        else:
            yield one
