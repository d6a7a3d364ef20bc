"""Makes the IPUs known to TensorFlow when a program names them before it imports the IPU API.

Stock TensorFlow finds no `/device:IPU:0` until `tensorflow.python.ipu` is imported. For a program
that asks for one by name (`tf.config.list_physical_devices("IPU")`, `tf.device("/device:IPU:0")`)
the import is made. A program that names no IPU runs TensorFlow's own methods; the cost is the
search of a text.

A process that runs a SavedModel may have loaded the plugin by itself, and have the IPUs without the
API. It does not get the API.
"""

import functools

PLUGIN = "libtremula_tf.so"

_METHODS = {
    "tensorflow.python.eager.context": ("Context", ("device", "list_physical_devices",
                                                    "list_logical_devices")),
    "tensorflow.python.framework.ops": ("Graph", ("device",)),
}
_replaced = []  # (class, name, ours, TensorFlow's own method)


def watch(when_imported, import_api):
    """Has the methods of _METHODS look for IPUs as soon as their modules are imported, and call
    import_api() for the first one. when_imported(name, function) calls function(module) when the
    module is there."""
    for module, (owner, methods) in _METHODS.items():
        when_imported(module, functools.partial(_replace, owner, methods, import_api))


def loaded_plugin():
    """The path of the plugin that the process has loaded; or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if line.rstrip().endswith("/" + PLUGIN):
                return line.rstrip().split(maxsplit=5)[-1]
    return None


def settle():
    """Gives TensorFlow its methods back: it knows the IPUs."""
    while _replaced:
        owner, name, ours, before = _replaced.pop()
        if getattr(owner, name) is ours:
            setattr(owner, name, before)


def _replace(owner, methods, import_api, module):
    owner = getattr(module, owner)
    for name in methods:
        before = getattr(owner, name)
        ours = _looking_for_ipus(name, before, import_api)
        _replaced.append((owner, name, ours, before))
        setattr(owner, name, ours)


def _looking_for_ipus(name, before, import_api):
    @functools.wraps(before)
    def method(self, *arguments, **keywords):
        if not _replaced or not _name_ipus((*arguments, *keywords.values())):
            return before(self, *arguments, **keywords)
        settle()
        if loaded_plugin() is None:
            import_api()
        return getattr(self, name)(*arguments, **keywords)
    return method


def _name_ipus(arguments):
    return any("IPU" in str(one) for one in arguments if not callable(one))
