"""A program: the files that it is made of, and which of its functions are for an IPU."""

import ast
import os
import pathlib
import warnings

from tremula.check import names

# What compiles a function -> the position of the function, and its name as an argument.
_COMPILING = {
    "ipu.ipu_compiler.compile": [(0, "computation")],
    "ipu.loops.repeat": [(1, "body")],
    "ipu.loops.while_loop": [(0, "condition"), (1, "body")],
    "ipu.outlined_function": [(0, "func")], "ipu.function": [(0, "func")],
    "ipu.functional_ops.outlined_function": [(0, "func")],
    "ipu.pipelining_ops.pipeline": [(0, "computational_stages")],
    "ipu.ipu_estimator.IPUEstimator": [(0, "model_fn")],
    "ipu.ipu_pipeline_estimator.IPUPipelineEstimator": [(0, "model_fn")],
    "tf.estimator.Estimator": [(0, "model_fn")],
    "tf.contrib.tpu.TPUEstimator": [(0, "model_fn")],
    "tf.estimator.tpu.TPUEstimator": [(0, "model_fn")],
    "tf.function": [(0, "func")], "tf.keras.layers.Lambda": [(0, "function")],
}
_FUNCTION = ("tf.function", "ipu.outlined_function", "ipu.functional_ops.outlined_function")
SESSIONS = ("tf.Session", "tf.InteractiveSession", "tf.train.MonitoredSession",
             "tf.train.MonitoredTrainingSession", "tf.train.Supervisor")
_HOST = ("map", "filter", "flat_map", "interleave", "from_generator", "py_function",
         "numpy_function")
_HOST_ARGUMENTS = ("host_call", "eval_metrics", "eval_metrics_fn")
_V1_ALONE = tuple(f"tensorflow.{one}" for one in (
    "app.", "contrib", "ConfigProto", "disable_v2_behavior", "flags.", "get_variable", "gfile",
    "global_variables_initializer", "InteractiveSession", "layers.", "logging.", "placeholder",
    "Session", "train.AdamOptimizer", "train.GradientDescentOptimizer", "train.Saver",
    "variable_scope"))
ESTIMATORS = tuple(name for name in _COMPILING if name.endswith("Estimator"))
_CLASSES = ("Model", "Layer", "Sequential", "Functional")
_METHODS = ("call", "train_step", "test_step", "predict_step")
_MOST_FILES = 2000


class Unreadable(Exception):
    """A file that is no Python of today: path, line, column and message."""

    def __init__(self, path, line, column, message):
        super().__init__(message)
        self.path, self.line, self.column, self.message = str(path), line, column, message


def parse(path):
    try:
        text = pathlib.Path(path).read_bytes()
        encoding = "utf-8-sig" if text.startswith(b"\xef\xbb\xbf") else "utf-8"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a string's "\d"
            return names.File(path, text.decode(encoding, errors="replace"))
    except SyntaxError as error:
        raise Unreadable(path, error.lineno or 1, max((error.offset or 1) - 1, 0),
                         error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:  # zero bytes, too deep a tree
        raise Unreadable(path, 1, 0, str(error) or "too deep to be read") from None


class Project:
    """The files of a program, with those that it imports from its own folders."""

    def __init__(self, paths):
        self.files, self.unreadable = [], []
        self._by_path, self._modules = {}, {}
        waiting = [pathlib.Path(path) for path in paths]
        self.roots = {one for path in waiting for one in _roots(path)}
        while waiting and len(self._by_path) < _MOST_FILES:
            path = waiting.pop(0)
            if path.resolve() in self._by_path:
                continue
            self._by_path[path.resolve()] = None
            try:
                file = parse(path)
            except Unreadable as problem:
                self.unreadable.append(problem)
                continue
            self._by_path[path.resolve()], file.project = file, self
            self.files.append(file)
            for _, name in file.imports:
                found = self._module(file, name)
                if found is not None:
                    waiting += [found, *_packages(found, name)]
        self.is_v1 = any(file.is_v1 for file in self.files) or self._has(
            "tf.disable_v2_behavior", "tf.placeholder", "tf.Session", "tf.get_variable",
            "tf.disable_eager_execution")
        self.for_ipu = any(names.canonical(name).split(".")[0] == "ipu"
                           for file in self.files for _, name in file.imports)
        self.uses_keras = self.mentions("keras")
        self._calls = [(file, call, file.called(call) or "") for file in self.files
                       for call in map(file.expanded, file.calls)]
        self._callers = None
        self.compiled, self.hosted = {}, {}
        self._find_compiled()
        # A program of TensorFlow 1 that knows nothing of IPUs: all of its graph is to be ported.
        self.ports_graph = self.is_v1 and not self.for_ipu and self._has(*SESSIONS)

    def _module(self, file, name):
        """The file of a module of the program, if `name` is one or something in one."""
        key = pathlib.Path(file.path).parent, name
        if key not in self._modules:
            self._modules[key] = self._find_module(*key)
        return self._modules[key]

    def _find_module(self, folder, name):
        roots = [folder, *self.roots]
        if name.startswith("."):
            level = len(name) - len(name.lstrip("."))
            for _ in range(level - 1):
                folder = folder.parent
            roots, name = [folder], name.lstrip(".")
        parts = name.split(".")
        for count in (len(parts), len(parts) - 1):
            for root in roots if count else ():
                path = root.joinpath(*parts[:count])
                for one in (path.with_suffix(".py") if path.name else path, path / "__init__.py"):
                    if one.is_file():
                        return one
        return None

    def _has(self, *wanted):
        return any(file.called(call) in wanted for file in self.files for call in file.calls)

    def uses(self, *wanted):
        """Whether some expression of the program has one of these canonical names."""
        return any(file.resolve(node) in wanted for file in self.files for node in file.nodes
                   if isinstance(node, (ast.Attribute, ast.Name)))

    def is_native_v1(self):
        """Whether the program takes from `tensorflow` what TensorFlow 1 alone has there."""
        return any((file.dotted(node) or "").startswith(_V1_ALONE) for file in self.files
                   for node in file.nodes if isinstance(node, ast.Attribute)) or any(
                       name.startswith(_V1_ALONE) for file in self.files
                       for _, name in file.imports)

    def mentions(self, *words):
        """Whether a file has one of the words, in any case, anywhere."""
        return any(word in file.text.lower() for file in self.files for word in words)

    # ---- Functions ----

    def functions(self, file, node, deep=6):
        """The functions [(file, function)] that an expression may be: a name, a lambda, a partial,
        a method of its own class, a function of another file, a list of those."""
        if deep == 0 or node is None:
            return []
        if isinstance(node, names.FUNCTIONS):
            return [(file, node)]
        if isinstance(node, (ast.List, ast.Tuple, ast.Dict)):
            parts = node.values if isinstance(node, ast.Dict) else node.elts
            return [one for part in parts for one in self.functions(file, part, deep - 1)]
        if isinstance(node, ast.Call):
            called = file.called(node) or ""
            if called.split(".")[-1] in ("partial", "function", "wraps") and node.args:
                return self.functions(file, node.args[0], deep - 1)
            made = [one for other, own in self.classes(file, node.func)
                    for one in _method(other, own, "__call__")]
            return made + [one for other, function in self.functions(file, node.func, deep - 1)
                           for result in results(function)
                           for one in self.functions(other, result, deep - 3)]
        if isinstance(node, ast.Name):
            found = []
            for value in file.values(node):
                if isinstance(value, str):
                    found += self._imported(file, value)
                elif value is not None and value is not node:
                    found += self.functions(file, value, deep - 1)
            return found
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                own = next((one for one in names.parents(node) if isinstance(one, ast.ClassDef)),
                           None)
                return _method(file, own, node.attr)
            owner = file.value(node.value)
            if isinstance(owner, ast.Call):  # a method of what a class of the program makes
                return [one for other, own in self.classes(file, owner.func)
                        for one in _method(other, own, node.attr)]
            name = file.dotted(node)
            return self._imported(file, name) if name else []
        return []

    def classes(self, file, node):
        """[(file, class)] of an expression that names a class of the program."""
        value = file.value(node)
        if isinstance(value, ast.ClassDef):
            return [(file, value)]
        name = file.dotted(node)
        return self._imported(file, name, ast.ClassDef) if name else []

    def _imported(self, file, name, kinds=names.FUNCTIONS):
        path = self._module(file, name)
        other = self._by_path.get(path.resolve()) if path else None
        if other is None or other is file and "." not in name:
            return []
        return [(other, value) for value in other.top.bound.get(name.split(".")[-1], [])
                if isinstance(value, kinds)]

    # ---- Values ----

    def possible(self, file, node, deep=4):
        """All expressions [(file, expression)] that a name may stand for, through parameters to the
        calls of their function; None where the program does not tell all of them."""
        if not isinstance(node, ast.Name):
            return [(file, node)]
        scope = node.scope.find(node.id)
        if scope is None or deep == 0:
            return None
        bound = scope.bound[node.id]
        if node.id not in scope.parameters:
            parts = [(file, one) for one in bound if isinstance(one, ast.AST) and one is not node]
            if len(parts) != len(bound):
                return None
        elif len(bound) > 1:
            return None
        else:
            parts = self._arguments(file, scope.node, node.id)
        found = [self.possible(*one, deep - 1) for one in parts] if parts else [None]
        return None if None in found else [one for part in found for one in part]

    def _arguments(self, file, function, name):
        """What the calls of a function give for a parameter; None if not all are known."""
        if not isinstance(function, ast.FunctionDef) or function.decorator_list:
            return None
        if self._callers is None:
            self._find_callers()
        listed = [*function.args.posonlyargs, *function.args.args]
        parameters = [one.arg for one in listed if one.arg not in ("self", "cls")]
        defaults = dict(zip([one.arg for one in listed][::-1], function.args.defaults[::-1]))
        defaults.update((one.arg, value) for one, value in zip(
            function.args.kwonlyargs, function.args.kw_defaults) if value is not None)
        calls = self._callers.get(function, ())
        if not calls or function.name in self._passed:
            return None
        found = []
        for other, call in calls:
            position = parameters.index(name) if name in parameters else None
            given = names.argument(call, name, position)
            if given is None and (names.is_open_ended(call) or name not in defaults):
                return None
            found.append((file, defaults[name]) if given is None else (other, given))
        return found

    def _find_callers(self):
        """Fills self._callers: {function: [(file, call)]}, and self._passed: the names of what is
        used in other ways than to be called."""
        self._callers, called = {}, set()
        for file, call, _ in self._calls:
            called.add(call.func)
            for _, function in self.functions(file, call.func):
                self._callers.setdefault(function, []).append((file, call))
        self._passed = {names_of(node) for _, node in self.nodes(ast.Name, ast.Attribute)
                        if isinstance(node.ctx, ast.Load) and node not in called}

    def _find_compiled(self):
        """Fills self.compiled: {function: (file, how)}, with all that those functions call."""
        waiting = []
        for file in self.files:
            for call in file.calls:
                waiting += self._given(file, call)
            for function in file.functions:
                for one in getattr(function, "decorator_list", []):
                    if file.resolve(one.func if isinstance(one, ast.Call) else one) in _FUNCTION:
                        waiting.append((file, function, "tf.function"))
            for node in file.classes:
                if is_keras_class(file, node):
                    waiting += [(file, one, "keras") for name in _METHODS
                                for one in bound_functions(file, node, name)]
        while waiting:
            file, function, how = waiting.pop(0)
            if function in self.compiled or function in self.hosted:
                continue
            self.compiled[function] = file, how
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and not self.is_outside(file, node):
                    waiting += [(*one, how) for one in self.functions(file, node.func)]
        self._follow_hosted()

    def _follow_hosted(self):
        """Adds to self.hosted what its functions call, and no compiled function calls."""
        waiting = list(self.hosted.items())
        while waiting:
            function, file = waiting.pop()
            for node in ast.walk(function):
                for other, one in self.functions(file, node.func) \
                        if isinstance(node, ast.Call) else ():
                    if one not in self.hosted and one not in self.compiled:
                        self.hosted[one] = other
                        waiting.append((one, other))

    def _given(self, file, call):
        """The functions that a call compiles; those that it gives to the host go to `hosted`."""
        called = file.called(call)
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        for one in call.keywords:  # (function, tensors) of an EstimatorSpec
            given = file.value(one.value) if one.arg in _HOST_ARGUMENTS else None
            given = given.elts[0] if isinstance(given, ast.Tuple) and given.elts else given
            if isinstance(given, ast.AST):
                self.hosted.update((function, other)
                                   for other, function in self.functions(file, given))
        if name in _HOST and call.args and called not in ("tf.map_fn",):
            self.hosted.update((one, other) for other, one in self.functions(file, call.args[0]))
            return []
        found = []
        for position, argument in _COMPILING.get(called, ()):
            found += [(*one, called) for one in self.functions(
                file, names.argument(call, argument, position))]
        if name == "compile" and (called or "tf.").startswith("tf."):  # Keras' losses, metrics
            for position, argument in ((1, "loss"), (2, "metrics")):
                given = names.argument(call, argument, position)
                found += [(*one, "keras") for one in
                          self.functions(file, given) + self._of_objects(file, given)]
        if name in ("run", "experimental_run_v2") and call.args:
            owner = file.value(call.func.value)
            if "trategy" in (file.called(owner) or "") or name == "experimental_run_v2" \
                    or "strategy" in (names_of(call.func.value) or "").lower():
                found += [(*one, "strategy.run") for one in self.functions(file, call.args[0])]
        return found

    def _of_objects(self, file, node):
        """The methods that Keras calls in a step, of objects of the program's metrics and losses.
        node: one, or a list or dictionary of them."""
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else node.values \
            if isinstance(node, ast.Dict) else [node]
        made = [file.value(one) for one in parts if one is not None]
        return [one for call in made if isinstance(call, ast.Call)
                for other, own in self.classes(file, call.func)
                for name in ("update_state", "result", "call")
                for one in _method(other, own, name)]

    # ---- Where a node is ----

    def how_compiled(self, file, node):
        """How the code around a node comes to the IPU: a word, "" for the host."""
        if self.is_outside(file, node):
            return ""
        for one in names.parents(node):
            if one in self.hosted:
                return ""
            if one in self.compiled:
                return self.compiled[one][1]
            if isinstance(one, names.FUNCTIONS) and file.is_unused(one):
                return ""
            if isinstance(one, (ast.With, ast.AsyncWith)):
                for item in one.items:
                    called = file.called(item.context_expr)
                    if called == "ipu.scopes.ipu_scope":
                        return "ipu_scope"
        return ""

    def comes_to_ipu(self, file, node):
        """Whether the code around a node is compiled, or is of a graph that will be."""
        return bool(self.how_compiled(file, node)) or self.ports_graph \
            and not self.is_outside(file, node) \
            and not any(one in self.hosted for one in names.parents(node))

    def is_outside(self, file, node):
        """Whether a node is in outside_compilation_scope, or in a `with` that places on the CPU."""
        for one in names.parents(node):
            if isinstance(one, (ast.With, ast.AsyncWith)):
                for item in one.items:
                    call = item.context_expr
                    called = file.called(call)
                    if called == "ipu.scopes.outside_compilation_scope" or called == "tf.device" \
                            and "cpu" in str(names.constant(call.args[0] if call.args else None,
                                                            "")).lower():
                        return True
            if isinstance(one, names.FUNCTIONS):
                return False
        return False

    def in_vain(self, file, node):
        """How the code around a node comes to the IPU, where tf.device("cpu") in a compiled part
        is to keep it on the host: a compiled part is one program. "" elsewhere."""
        if not self.is_outside(file, node):
            return ""
        for one in names.parents(node):
            if isinstance(one, (ast.With, ast.AsyncWith)) and any(
                    file.called(item.context_expr) == "ipu.scopes.outside_compilation_scope"
                    for item in one.items):
                return ""
            if isinstance(one, names.FUNCTIONS):
                how = "" if one in self.hosted else self.compiled.get(one, ("", ""))[1]
                return how if how.startswith("ipu.") or _is_jit(file, one) else ""
        return ""

    def nodes(self, *kinds):
        """Yields (file, node) of the program's nodes of these kinds."""
        for file in self.files:
            for node in file.nodes:
                if isinstance(node, kinds):
                    yield file, node

    def calls(self):
        """(file, call, canonical name or "") of every call; a call of a partial() is what that
        makes."""
        return self._calls

    def named(self):
        """Yields (file, node, canonical name) of every expression that names something imported,
        other than to ask for a type."""
        for file, node in self.nodes(ast.Name, ast.Attribute):
            if not isinstance(node.ctx, ast.Load) or isinstance(node.parent, ast.Attribute):
                continue
            first = node
            while isinstance(first, ast.Attribute):
                first = first.value
            scope = first.scope.find(first.id) if isinstance(first, ast.Name) else None
            bound = scope.bound[first.id] if scope is not None else ()
            is_import = any(isinstance(one, str) for one in bound)
            name = file.resolve(node) if is_import or isinstance(node, ast.Attribute) else None
            if name and not _asks_for_type(node):
                yield file, node, name


def _is_jit(file, function):
    """Whether a function is of tf.function(jit_compile=True)."""
    return any(isinstance(one, ast.Call) and file.called(one) == "tf.function"
               and any(names.constant(names.argument(one, word)) is True
                       for word in ("jit_compile", "experimental_compile"))
               for one in getattr(function, "decorator_list", ()))


def _asks_for_type(node):
    """Whether an expression is an annotation, an argument of isinstance(), or compared."""
    below = node
    for one in names.parents(node):
        if isinstance(one, ast.arg) or isinstance(one, ast.AnnAssign) and below is one.annotation \
                or isinstance(one, names.FUNCTIONS) and below is getattr(one, "returns", None):
            return True
        if isinstance(one, ast.Compare):
            return True
        if isinstance(one, ast.Call):
            return below is not one.func and names_of(one.func) in (
                "isinstance", "issubclass", "hasattr", "cast")
        if isinstance(one, ast.stmt):
            return False
        below = one
    return False


def results(function):
    """The expressions that a function returns."""
    if isinstance(function, ast.Lambda):
        return [function.body]
    return [one.value for one in ast.walk(function) if isinstance(one, ast.Return)
            and one.value is not None and names.function_around(one) is function]


def _roots(path):
    """Where a script's imports are looked for: its folder and, where that is a package, the folder
    that the package is in."""
    folder = path.resolve().parent
    while True:
        yield folder if path.is_absolute() else pathlib.Path(os.path.relpath(folder))
        if not (folder / "__init__.py").is_file():
            return
        folder = folder.parent


def _method(file, owner, name, deep=4):
    """The method of a class, or of a class of the same file that it derives from."""
    if not isinstance(owner, ast.ClassDef) or deep == 0:
        return []
    own = [(file, one) for one in owner.body if isinstance(one, names.FUNCTIONS)
           and one.name == name]
    return own or [one for base in owner.bases
                   for one in _method(file, file.value(base), name, deep - 1)]


def bound_functions(file, owner, name):
    """The functions that a class of Keras' binds to a name, by `def` or `name = function`, itself
    or in a class of the file that it shares with others."""
    bases = [file.value(one) for one in owner.bases]
    found = [file.value(one) if isinstance(one, ast.Name) else one
             for part in [owner, *(one for one in bases if isinstance(one, ast.ClassDef)
                                   and not is_keras_class(file, one))]
             for one in part.own.bound.get(name, ())]
    return [one for one in found if isinstance(one, names.FUNCTIONS)]


def _packages(path, name):
    """The __init__.py of the folders that an import of a module in them runs."""
    found = []
    for _ in range(name.strip(".").count(".")):
        path = path.parent / "__init__.py"
        if path.is_file():
            found.append(path)
        path = path.parent
    return found


def names_of(node):
    """The last word of an expression: "strategy" of self.strategy."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_keras_class(file, node, deep=4):
    """Whether a class is a model or a layer of Keras'."""
    for base in node.bases:
        name = file.resolve(base) or ""
        if name.startswith(("tf.keras.", "ipu.keras.")) and (
                name.split(".")[-1] in _CLASSES or ".layers." in name):
            return True
        if deep and any(own is not node and is_keras_class(other, own, deep - 1)
                        for other, own in file.project.classes(file, base)):
            return True
    return False
