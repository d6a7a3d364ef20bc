"""Texts that a program puts together, and the environment variables that it sets to them."""

import ast
import re

from tremula.check import names

HOLE = "\0"  # stands for a part that the code does not tell
_DEEP = 8
_MOST = 32  # texts that an expression may be
_PERCENT = re.compile(r"%(?:\(\w+\))?[-+ #0]*[\d*]*(?:\.[\d*]+)?[a-zA-Z]|%%")
_BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}")


def texts(file, node, deep=_DEEP):
    """The texts that an expression may be; [HOLE] where the code does not tell."""
    if deep == 0 or node is None:
        return [HOLE]
    parts = _parts(file, node, deep - 1)
    if parts is None:
        parts = [one for value in _alternatives(file, node)
                 for one in texts(*value, deep - 1)] or [HOLE]
    return list(dict.fromkeys(parts))[:_MOST]


def _parts(file, node, deep):
    """The texts of an expression that makes one; None for other expressions."""
    if isinstance(node, ast.Constant):
        return [str(node.value)] if isinstance(node.value, (str, int)) else [HOLE]
    if isinstance(node, ast.JoinedStr):
        return _joined([texts(file, one, deep) for one in node.values])
    if isinstance(node, ast.FormattedValue):
        return [HOLE] if node.format_spec or node.conversion != -1 else texts(
            file, node.value, deep)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([texts(file, node.left, deep), texts(file, node.right, deep)])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        given = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return _filled(file, node.left, _PERCENT, given, deep)
    if isinstance(node, ast.Call):
        return _called(file, node, deep)
    return None


def _called(file, call, deep):
    called = file.dotted(call.func) or ""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if called in ("os.path.join", "posixpath.join"):
        return _joined([texts(file, one, deep) for one in call.args], "/")
    if called == "str" and len(call.args) == 1:
        return texts(file, call.args[0], deep)
    if method == "format":
        return _filled(file, call.func.value, _BRACES, call.args, deep)
    if method == "join" and len(call.args) == 1:
        items = listed(file, call.args[0])
        return [HOLE] if items is None else [
            one for between in texts(file, call.func.value, deep)
            for one in _joined([texts(file, item, deep) for item in items], between)]
    return [HOLE]


def _joined(parts, between=""):
    found = [""]
    for number, part in enumerate(parts):
        found = [one + (between if number else "") + other
                 for one in found for other in part][:_MOST]
    return found


def _filled(file, node, pattern, given, deep):
    """Texts with places for others: in their order, as far as these are texts."""
    found = []
    for text in texts(file, node, deep):
        waiting = list(given)

        def fill(match, waiting=waiting):
            if match[0] in ("%%", "{{", "}}"):
                return match[0][0]
            one = texts(file, waiting.pop(0), deep) if waiting else [HOLE]
            return one[0] if len(one) == 1 and match[0] in ("%s", "%d", "{}") else HOLE
        found.append(pattern.sub(fill, text))
    return found


def _alternatives(file, node):
    """[(file, expression)] that a name, an attribute, an item or a condition may stand for."""
    if isinstance(node, ast.IfExp):
        return [(file, node.body), (file, node.orelse)]
    if isinstance(node, ast.Name):
        scope = node.scope.find(node.id)
        bound = scope.bound[node.id] if scope is not None else []
        if bound and all(isinstance(one, ast.expr) for one in bound):
            return [(file, one) for one in bound if one is not node]
        return [(file, one) for one in _of_loop(file, node, scope)] if bound == [None] else []
    if isinstance(node, ast.Attribute):
        found = file.attribute(node)
        return [(file, found)] if isinstance(found, ast.expr) else []
    if isinstance(node, ast.Subscript):
        items = names.unpacked(node.value) or {}
        found = items.get(names.constant(node.slice))
        return [] if found is None else [(file, found)]
    return []


def _of_loop(file, name, scope):
    """What the loop that binds a name goes through: of a list, or of a dictionary's items()."""
    for use in scope.uses(name.id):
        one = use.parent.parent if isinstance(use.parent, ast.Tuple) else use.parent
        if not isinstance(one, (ast.For, ast.comprehension)) or use in ast.walk(one.iter):
            continue
        target, items = one.target, one.iter
        if isinstance(target, ast.Tuple) and isinstance(items, ast.Call) and isinstance(
                items.func, ast.Attribute) and items.func.attr == "items":
            given = names.unpacked(items.func.value) or {}
            if getattr(target.elts[0], "id", None) == name.id:
                return [ast.Constant(key) for key in given]
            if getattr(target.elts[-1], "id", None) == name.id:
                return list(given.values())
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(
                items, ast.Call) and file.called(items) == "enumerate" and items.args:
            target, items = target.elts[1], items.args[0]
        if isinstance(target, ast.Name) and target.id == name.id:
            return listed(file, items) or []
    return []


def listed(file, node):
    """The items of a list that is written out, with those that are appended to it later; of a
    comprehension its item. None where the file does not tell."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return [node.elt]
    value = file.value(node)
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return [value.elt]
    if not isinstance(value, (ast.List, ast.Tuple)):
        return None
    found = list(value.elts)
    for call in file.calls if isinstance(node, ast.Name) else ():
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) \
                and call.func.value.id == node.id and call.args:
            if call.func.attr == "append":
                found.append(call.args[0])
            elif call.func.attr == "extend":
                found += getattr(call.args[0], "elts", [])
    return found


def settings(project):
    """Yields (file, node, variable, expression) of every environment variable that is set."""
    for file, node in project.nodes(ast.Assign, ast.AugAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Subscript):
                yield from _set(file, node, target.slice, node.value)
    for file, call, called in project.calls():
        if called in ("os.environ.setdefault", "os.putenv") and len(call.args) == 2:
            yield from _set(file, call, *call.args)
        elif called == "os.environ.update":
            given = {one.arg: one.value for one in call.keywords if one.arg}
            for one in [*call.args, *(one.value for one in call.keywords if not one.arg)]:
                given.update(names.unpacked(one) or {})
            yield from ((file, value, name, value) for name, value in given.items())


def _set(file, node, name, value):
    for one in texts(file, name):
        if HOLE not in one:
            yield file, node, one, value
