"""The files of a program as they are run to be traced: a loop that has made steps ends early.

Each loop of the program's own files asks before a round whether it has had enough. A loop that
makes no step, such as one that builds layers, has all of its rounds. Lines stay where they are.
"""

import ast
import importlib.machinery
import importlib.util
import os
import sys

# Some programs do something else in every fifth round.
_ROUNDS = 8
_NAME = "__tremula_loops__"


class Loops:
    """What the changed files call. count() tells how many steps there were so far."""

    def __init__(self, count):
        self._count = count

    def enter(self):
        """At the beginning of a loop: a function that says whether the loop ends."""
        before, rounds = self._count(), 0

        def ends():
            nonlocal rounds
            rounds += 1
            return rounds > _ROUNDS and self._count() > before

        return ends


class _Ending(ast.NodeTransformer):
    def _visit_loop(self, node):
        self.generic_visit(node)
        name = f"__tremula_loop_{node.lineno}_{node.col_offset}"
        begin, end = ast.parse(f"{name} = {_NAME}.enter()\nif {name}():\n    break").body
        node.body.insert(0, end)
        for one in (begin, end):
            for part in ast.walk(one):
                ast.copy_location(part, node)
        return [begin, node]

    visit_For = visit_While = _visit_loop


def compiled(data, path):
    """The code of a file, whose loops end early."""
    tree = _Ending().visit(ast.parse(data, filename=path))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name, path, loops):
        super().__init__(name, path)
        self._loops = loops

    def get_code(self, fullname):
        """The changed code; no file of byte code is read or written."""
        path = self.get_filename(fullname)
        return compiled(self.get_data(path), path)

    def exec_module(self, module):
        setattr(module, _NAME, self._loops)
        super().exec_module(module)


class _Finder:
    """Finds the modules whose files are among `files`."""

    def __init__(self, files, loops):
        self._files, self._loops = files, loops

    def find_spec(self, fullname, path=None, target=None):
        del target
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None \
                or os.path.realpath(found.origin) not in self._files:
            return None
        return importlib.util.spec_from_file_location(
            fullname, found.origin, loader=_Loader(fullname, found.origin, self._loops),
            submodule_search_locations=found.submodule_search_locations)


def run(path, files, loops):
    """Runs a script as `python path` does, with the program's files changed."""
    import types
    folder = os.path.dirname(os.path.abspath(path))
    parts = []
    while os.path.isfile(os.path.join(folder, "__init__.py")):  # python -m package.script
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    sys.path.insert(0, folder)
    sys.meta_path.insert(0, _Finder(files, loops))
    module = types.ModuleType("__main__")
    module.__file__, module.__package__ = os.path.abspath(path), ".".join(parts) or None
    setattr(module, _NAME, loops)
    sys.modules["__main__"] = module
    with open(path, "rb") as file:
        code = compiled(file.read(), os.path.abspath(path))
    exec(code, vars(module))  # pylint: disable=exec-used
