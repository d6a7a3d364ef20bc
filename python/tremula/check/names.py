"""One Python file, read: its tree, its scopes, and what its names mean.

`resolve` gives the canonical name of an expression: "tf.nn.relu" for whatever a file calls it,
"ipu.loops.repeat" for the IPU's, "np.zeros". It is None where the file does not tell.
"""

import ast
import functools
import re

# A module as it is imported -> how this package names it; the longest that fits counts.
_ROOTS = {
    "tensorflow": "tf", "tensorflow.compat.v1": "tf", "tensorflow.compat.v2": "tf",
    "tensorflow.keras": "tf.keras", "tensorflow.python.keras": "tf.keras", "keras": "tf.keras",
    "tf_keras": "tf.keras", "keras.ipu": "ipu.keras", "tf_keras.ipu": "ipu.keras",
    "tensorflow.keras.ipu": "ipu.keras", "tensorflow.python.ipu": "ipu",
    "tensorflow.contrib.ipu": "ipu", "tensorflow.contrib.ipu.python": "ipu",
    "tensorflow.python.framework.dtypes": "tf", "numpy": "np"}
_V1 = re.compile(r"^tensorflow\.(compat\.v1|contrib)\b")
_DEEP = 12  # names of names that are followed


@functools.cache
def canonical(name):
    """The canonical form of a dotted name that begins with an imported module's."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        root = _ROOTS.get(".".join(parts[:count]))
        if root:
            name = ".".join([root, *parts[count:]])
            break
    for old, new in (("tf.compat.v1.", "tf."), ("tf.compat.v2.", "tf."), ("tf.python.ipu", "ipu"),
                     ("tf.contrib.ipu.python.", "ipu."), ("tf.contrib.ipu", "ipu"),
                     ("tf.keras.ipu", "ipu.keras"), ("tf.python.keras.", "tf.keras.")):
        if name == old.rstrip(".") or name.startswith(old):
            name = new + name[len(old):]
    for flat in ("ipu.ops.", "ipu.optimizers."):
        if name.startswith(flat):
            name = "ipu." + name[len(flat):]
    return name


class Scope:
    """A module, a class, a function or a lambda, and what it binds: {name: [value or None]}. A
    value is an expression, a function, a class, or the text of an import."""

    def __init__(self, node, parent):
        self.node, self.parent = node, parent
        self.bound, self.outer, self.parameters = {}, set(), set()
        self.mentions = {} if parent is None else parent.mentions  # of the file: {name: [nodes]}

    def bind(self, name, value):
        self.bound.setdefault(name, []).append(value)

    def uses(self, name):
        """The nodes of a name that this scope binds."""
        return [one for one in self.mentions.get(name, ()) if one.scope.find(name) is self]

    def find(self, name):
        """The scope that binds a name as Python looks it up; None for builtins."""
        scope, first = self, True
        while scope is not None:
            if (first or not isinstance(scope.node, ast.ClassDef)) and name in scope.bound \
                    and name not in scope.outer:
                return scope
            scope, first = scope.parent, False
        return None


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class File:
    """A file of a program. Every node of `tree` has .scope and .parent."""

    def __init__(self, path, text):
        self.path, self.text = str(path), text
        self.lines = text.splitlines()
        self.tree = ast.parse(text, filename=self.path)
        self.calls, self.functions, self.classes, self.imports = [], [], [], []
        self.nodes = []
        self.top = Scope(self.tree, None)
        self.is_v1 = False
        self.project = None  # that the file is of
        self._loaded = None
        self._read(self.tree, self.top)

    # ---- Reading ----

    def _read(self, node, scope):
        """Gives the nodes below `node` their scopes, and the scopes what they bind. Without
        recursion: a long sum is a deep tree."""
        waiting = [(node, scope)]
        while waiting:
            node, scope = waiting.pop()
            node.scope = scope
            self.nodes.append(node)
            self._collect(node, scope)
            inner = scope
            if isinstance(node, _SCOPES):
                inner = node.own = Scope(node, scope)
            children = []
            for field, value in ast.iter_fields(node):
                below = scope if field in ("decorator_list", "bases", "keywords", "returns") \
                    else inner
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        child.parent = node
                        children.append((child, below))
            waiting.extend(reversed(children))

    def _collect(self, node, scope):
        if isinstance(node, ast.Name):
            scope.mentions.setdefault(node.id, []).append(node)
        if isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions.append(node)
            scope.bind(node.name, node)
        elif isinstance(node, ast.Lambda):
            self.functions.append(node)
        elif isinstance(node, ast.ClassDef):
            self.classes.append(node)
            scope.bind(node.name, node)
        elif isinstance(node, ast.arg):
            node.scope.bind(node.arg, None)
            node.scope.parameters.add(node.arg)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.outer.update(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            scope.bind(node.id, _assigned(node))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.bind(node.name, None)

    def _import(self, node, scope):
        if isinstance(node, ast.Import):
            for one in node.names:
                name = one.asname or one.name.partition(".")[0]
                scope.bind(name, one.name if one.asname else name)
                self._add_import(node, one.name)
            return
        module = "." * node.level + (node.module or "")
        for one in node.names:
            joint = "" if module.endswith(".") else "."
            scope.bind(one.asname or one.name, f"{module}{joint}{one.name}")
            self._add_import(node, f"{module}{joint}{one.name}")

    def _add_import(self, node, name):
        self.imports.append((node, name))
        self.is_v1 = self.is_v1 or bool(_V1.match(name))

    # ---- What names mean ----

    def attribute(self, node, deep=4):
        """What self.x, cls.x, Class.x or Class().x is bound to, where the class or one of its bases
        in the file binds it only once; None where it does not tell."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return None
        owner = self.value(node.value)
        if node.value.id in ("self", "cls"):
            owner = next((one for one in parents(node) if isinstance(one, ast.ClassDef)), None)
        elif isinstance(owner, ast.Call):  # what a class makes
            owner = self.value(owner.func)
        while isinstance(owner, ast.ClassDef) and deep:
            found = [*owner.own.bound.get(node.attr, ()), *(
                one.value for one in ast.walk(owner) if isinstance(one, ast.Assign)
                for target in one.targets if isinstance(target, ast.Attribute)
                and target.attr == node.attr and is_of_self(target))]
            if found:
                return found[0] if len(found) == 1 else None
            bases = [self.value(one) for one in owner.bases]
            bases = [one for one in bases if isinstance(one, ast.ClassDef)]
            owner, deep = bases[0] if len(bases) == 1 else None, deep - 1
        return None

    def expanded(self, call):
        """The call that a call of a partial() makes; other calls are themselves."""
        partial = self.value(call.func) if isinstance(call.func, ast.Name) else None
        if not isinstance(partial, ast.Call) or not partial.args \
                or self.called(partial) != "functools.partial":
            return call
        given = {one.arg for one in call.keywords}
        made = ast.Call(partial.args[0], [*partial.args[1:], *call.args], [
            *(one for one in partial.keywords if one.arg is None or one.arg not in given),
            *call.keywords])
        made = ast.copy_location(made, call)
        made.scope, made.parent = call.scope, call.parent
        return made

    def value(self, node, deep=_DEEP):
        """What a name stands for, where it is bound only once; other expressions are themselves.
        None for parameters, several assignments, and names of elsewhere."""
        while isinstance(node, ast.Name) and deep > 0:
            scope = node.scope.find(node.id)
            if scope is None or len(scope.bound[node.id]) != 1:
                return None
            found = scope.bound[node.id][0]
            if found is None or isinstance(found, str):
                return found
            if found is node:
                return None
            node, deep = found, deep - 1
        return node

    def values(self, node):
        """All that a name is bound to, or the expression itself."""
        if not isinstance(node, ast.Name):
            return [node]
        scope = node.scope.find(node.id)
        return [] if scope is None else scope.bound[node.id]

    def dotted(self, node, deep=_DEEP):
        """The name of an expression as its imports spell it, or None."""
        attributes = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or deep == 0:
            return None
        scope = node.scope.find(node.id)
        if scope is None:
            found = node.id if node.id in _BUILTINS else None
        else:
            found = scope.bound[node.id]
            strings = {one for one in found if isinstance(one, str)}
            if len(strings) == 1 and len([one for one in found if one is None]) == 0 \
                    and all(isinstance(one, str) for one in found):
                found = strings.pop()  # also where `try` imports it in two places
            elif len(found) == 1 and isinstance(found[0], (ast.Name, ast.Attribute)):
                found = self.dotted(found[0], deep - 1)
            elif strings and all(isinstance(one, str) for one in found):
                names = {canonical(one) for one in strings}
                found = strings.pop() if len(names) == 1 else None
            else:
                found = None
        return None if found is None else ".".join([found, *reversed(attributes)])

    def is_unused(self, function):
        """Whether nothing reads the name of a function that stands in another one."""
        name = getattr(function, "name", None)
        if isinstance(function, ast.Lambda) and isinstance(function.parent, ast.Assign):
            name = getattr(function.parent.targets[0], "id", None)
        if name is None or not isinstance(function.scope.node, FUNCTIONS) \
                or getattr(function, "decorator_list", None):
            return False
        if self._loaded is None:
            self._loaded = {one.id for one in self.nodes if isinstance(one, ast.Name)
                            and isinstance(one.ctx, ast.Load)}
        return name not in self._loaded

    def resolve(self, node):
        name = self.dotted(node)
        return None if name is None else canonical(name)

    def called(self, node):
        """The canonical name of what a call calls, or None."""
        return self.resolve(node.func) if isinstance(node, ast.Call) else None


_BUILTINS = {"print", "open", "input", "float", "int", "bool", "range", "len", "list", "tuple",
             "dict", "set", "zip", "enumerate", "map", "str", "isinstance", "sum", "max", "min"}


def _assigned(name):
    """The expression that an assignment gives a name, f()[1] for a part of a call's result; None
    where it does not tell."""
    parent = name.parent
    if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is not None:
        return parent.value
    if isinstance(parent, ast.withitem):
        return None
    if isinstance(parent, ast.NamedExpr):
        return parent.value
    if isinstance(parent, (ast.Tuple, ast.List)) and isinstance(parent.parent, ast.Assign):
        values = parent.parent.value
        if isinstance(values, (ast.Tuple, ast.List)) and len(values.elts) == len(parent.elts):
            return values.elts[parent.elts.index(name)]
        if isinstance(values, ast.Call):
            return _item(values, parent.elts.index(name))
    return None


def _item(call, number):
    """What `call()[number]` would be read as."""
    node = ast.copy_location(ast.Subscript(call, ast.Constant(number), ast.Load()), call)
    node.scope, node.parent = call.parent.scope, call.parent
    return node


# ---- Small questions about nodes ----

def argument(call, name, position=None):
    """The argument of a call that has a name, also in **options that the file writes out, or
    stands at a position; None without it."""
    for one in call.keywords:
        given = {one.arg: one.value} if one.arg else unpacked(one.value) or {}
        if name in given:
            return given[name]
    if position is not None and position < len(call.args) \
            and not any(isinstance(one, ast.Starred) for one in call.args[:position + 1]):
        return call.args[position]
    return None


def entered(node):
    """What `with ... as name` around a name enters, or None."""
    for one in parents(node) if isinstance(node, ast.Name) else ():
        for item in one.items if isinstance(one, (ast.With, ast.AsyncWith)) else ():
            if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == node.id:
                return item.context_expr
    return None


def is_of_self(node):
    """Whether an expression is an attribute of self or cls."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def unpacked(node):
    """{name: value} of a dictionary that is written out, by itself or by a name that nothing else
    changes; None where the file does not tell all of it."""
    if isinstance(node, ast.Name):
        scope = node.scope.find(node.id)
        bound = scope.bound[node.id] if scope is not None else []
        if len(bound) != 1 or not isinstance(bound[0], (ast.Dict, ast.Call)):
            return None
        found = unpacked(bound[0])
        return None if found is None else _with_items(found, scope, node.id)
    if isinstance(node, ast.Dict):
        keys = [constant(key) for key in node.keys]
        return dict(zip(keys, node.values)) if all(isinstance(key, str) for key in keys) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" \
            and node.scope.find("dict") is None and not node.args \
            and all(one.arg for one in node.keywords):
        return {one.arg: one.value for one in node.keywords}
    return None


def _with_items(found, scope, name):
    """A dictionary with what name["key"] = value gives it; None if other code may change it."""
    found = dict(found)
    for one in scope.uses(name):
        if not isinstance(one.ctx, ast.Load) or isinstance(one.parent, ast.keyword) \
                and one.parent.arg is None:
            continue
        item = one.parent
        if isinstance(item, ast.Attribute) and item.attr in ("items", "keys", "values", "get"):
            continue
        if not isinstance(item, ast.Subscript) or item.value is not one:
            return None
        if isinstance(item.ctx, ast.Load):
            continue
        key = constant(item.slice)
        if not isinstance(key, str) or not isinstance(item.parent, ast.Assign):
            return None
        found[key] = item.parent.value
    return found


def type_name(file, node):
    """"float64" of tf.float64, np.float64 or "float64"; None for what is no type."""
    if node is None:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    name = file.resolve(node)
    if name and name.startswith(("tf.", "np.", "tf.dtypes.")):
        return name.split(".")[-1]
    value = file.value(node) if isinstance(node, ast.Name) else file.attribute(node)
    if isinstance(value, ast.AST) and value is not node:
        return type_name(file, value)
    return None


def is_open_ended(call):
    """Whether *args or **kwargs may give arguments that the call does not show."""
    return any(one.arg is None and unpacked(one.value) is None for one in call.keywords) or any(
        isinstance(one, ast.Starred) for one in call.args)


def constant(node, default=None):
    """The value of a literal, also a negative number."""
    try:
        return ast.literal_eval(node) if node is not None else default
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return default


def parents(node):
    """The nodes around a node, the nearest first."""
    while (node := getattr(node, "parent", None)) is not None:
        yield node


def function_around(node):
    """The nearest function around a node, or None."""
    return next((one for one in parents(node) if isinstance(one, FUNCTIONS)), None)


def loop_around(node):
    """The nearest Python loop around a node in its own function, or None."""
    for one in parents(node):
        if isinstance(one, (ast.For, ast.While, ast.AsyncFor)):
            return one
        if isinstance(one, FUNCTIONS):
            return None
    return None


def is_rare(node, step=None):
    """Whether an `if` in the nearest loop decides on a node, other than one that asks whether there
    is enough for a step, and decides on the step too."""
    for one in parents(node):
        if isinstance(one, (ast.If, ast.IfExp)) and not (
                _asks_for_enough(one.test) and step is not None and one in parents(step)):
            return True
        if isinstance(one, (ast.For, ast.While)):
            return False
    return False


def _asks_for_enough(test):
    """Whether a condition is like len(buffer) >= SIZE."""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE)) \
        and isinstance(test.left, ast.Call) and isinstance(test.left.func, ast.Name) \
        and test.left.func.id == "len"
