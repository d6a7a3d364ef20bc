"""The pages of the Python reference, from the walk over the sources that makes the stubs.

`scripts/stubs.py` knows signatures, types and docstrings; `docs/data/api_symbols.json` the names of
the original's API and whether they work. Nothing here imports TensorFlow. A docstring is the
content of the directive {plain} of docs/site/references.py.
"""

import ast
import functools
import itertools
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "docs/data")]
import make_api_table  # noqa: E402
import stubs  # noqa: E402

# Packages whose pages show what they export, besides the modules of api_symbols.json.
IPU = "tensorflow.python.ipu"
PACKAGES = [IPU, f"{IPU}.keras", f"{IPU}.keras.layers", f"{IPU}.keras.losses",
            f"{IPU}.keras.optimizers", f"{IPU}.optimizers",
            "keras.ipu", "keras.ipu.layers", "keras.ipu.losses", "keras.ipu.optimizers",
            "tensorflow.compiler.tests.xla_test"]
# Packages that are files, and the modules of theirs that programs import.
OWN = ["tremula", "tremula.core", "tremula.planning", "tremula.testing", "tremula.jax", "pva",
       "popdist", "popdist.tensorflow", "libpvti"]
# Names of modules that the tables of the import finder do not have.
OTHER_NAMES = {
    "horovod.tensorflow": "tremula.tf.ipu.horovod",
    f"{IPU}.test_utils": "tremula.tf.testing.utils",
    "tensorflow.compiler.plugin.poplar.tests.test_utils": "tremula.tf.testing.utils",
    "ipu_tensorflow_addons.test_utils": "tremula.tf.testing.utils",
    "ipu_tensorflow_addons.keras": "tremula.tf.keras",
    "ipu_tensorflow_addons.layers": "ipu_tensorflow_addons.layers",
    "ipu_tensorflow_addons.v1.layers": "ipu_tensorflow_addons.layers",
    "ipu_tensorflow_addons.keras.layers": "tremula.tf.keras.layers",
    "ipu_tensorflow_addons.keras.losses": "tremula.tf.keras.losses",
    "ipu_tensorflow_addons.keras.optimizers": "tremula.tf.keras.optimizers",
}
STATUS = {"ignored": "Accepted and ignored", "refused": "Refused"}


class Sources:
    """The stubs by their places, and what the table of the original's API says."""

    def __init__(self):
        self.first, others = stubs.places()
        self.spellings = {}  # module of Tremula -> its other places
        for place, name in others.items():
            self.spellings.setdefault(name, []).append(place)
        self.modules = {place: name for name, place in self.first.items()}
        self.modules.update(others)
        self.modules.update(OTHER_NAMES)
        self.modules.update({name: name for name in OWN})
        self.texts, self.trees = stubs.make(), {}
        self.types = stubs.read_types()
        self.data = make_api_table.load()
        self.homes = {}  # (module, name) of a definition -> the page that describes it

    def tree(self, place):
        """The syntax tree of a module's stub, or None where Tremula has no such module."""
        if place not in self.trees:
            paths = [] if place in OTHER_NAMES else [
                stubs.path_of(place, is_package) for is_package in (True, False)]
            text = next((self.texts[one] for one in paths if one in self.texts), None)
            module = stubs.load(self.modules.get(place, place))
            if text is None and module is not None:
                text = stubs.Writer(module, self.first.get(module.name, place), self.first,
                                    self.types).text()
            self.trees[place] = None if text is None else ast.parse(text)
        return self.trees[place]

    def find(self, place, name, seen=()):
        """(place, definitions) of a name that a module shows; overloads are several."""
        tree = self.tree(place)
        if tree is None or (place, name) in seen:
            return None
        own = [node for node in tree.body if name in stubs.names_of(node)]
        if own:
            return place, own
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module != place:
                for one in node.names:
                    if one.name == "*" or (one.asname or one.name) == name:
                        found = self.find(node.module, name if one.name == "*" else one.name,
                                          (*seen, (place, name)))
                        if found:
                            return found
        return None

    def exported(self, place):
        """The names of a package that are no modules."""
        own = stubs.load(self.modules.get(place, place))
        listed = own.listed() if own is not None and place in OWN else None
        names = listed or stubs.shown(ast.unparse(self.tree(place)))
        return [one for one in names if not one.startswith("_") and self.find(place, one)]

    def docstring(self, place):
        """A module's, with its indentation: all that follows the first line may be code."""
        module = stubs.load(self.modules.get(place, place))
        text = ast.get_docstring(module.tree, clean=False) if module is not None else ""
        return (text or "").strip()

    def defaults(self, place, name, member=None):
        """{argument: its default as text} of a function or a method in the sources."""
        module = stubs.load(self.modules.get(place, place))
        node = module.definition(name) if module is not None else None
        if member and isinstance(node, ast.ClassDef):
            node = next((one for one in node.body if getattr(one, "name", None) == member), None)
        if not isinstance(node, ast.FunctionDef):
            return {}
        arguments = [*node.args.posonlyargs, *node.args.args]
        return {one.arg: default_text(value) for one, value in [
            *zip(arguments[len(arguments) - len(node.args.defaults):], node.args.defaults),
            *zip(node.args.kwonlyargs, node.args.kw_defaults)] if value is not None}


@functools.lru_cache(maxsize=1)
def read():
    return Sources()


def shown_names(sources):
    """{module: {name: (members, status, why)}} of the reference."""
    names = {}
    for package, module, name, member, status, why in make_api_table.symbols(sources.data):
        if status != "not yet":
            one = names.setdefault(f"{package}.{module}", {}).setdefault(name, ([], status, why))
            if member:
                one[0].append(member)
    contrib = [place for place in sources.first.values()
               if place.split(".")[:2] == ["tensorflow", "contrib"]]
    for place in [*PACKAGES, *contrib, *OWN, "horovod.tensorflow"]:
        own = names.setdefault(place, {})
        for name in sources.exported(place):
            own.setdefault(name, ([], *make_api_table.state(sources.data, f"{place}.{name}")))
    return names


def pages():
    """(module's name, text of its page in reStructuredText)."""
    sources = read()
    names = shown_names(sources)
    for place in sorted(names, key=lambda one: (not one.startswith(IPU), one)):
        for name in names[place]:
            home = (sources.find(place, name) or (place,))[0]
            if place == home or sources.homes.setdefault((home, name), place) == place:
                sources.homes[home, name] = place
    inside = {}  # a page -> those of the modules inside, which no other page is nearer to
    for place in sorted(names):
        owner = next((one for one in parents(place) if one in names), None)
        inside.setdefault(owner, []).append(place)
    for place in sorted(names):
        yield place, "\n".join(page(sources, place, names[place], inside.get(place, ())))


def parents(place):
    """The packages around a module, the nearest first."""
    while "." in place:
        place = place.rpartition(".")[0]
        yield place


def shortcuts():
    """What docstrings call a function of `ipu`, such as ipu.nn_ops.gelu -> its full name."""
    sources = read()
    found = {}
    for place, names in shown_names(sources).items():
        if place.startswith(f"{IPU}."):
            for spelling in (place, *sources.spellings.get(sources.modules.get(place), ())):
                short = spelling.replace("tensorflow.python.", "")
                found.update({f"{short}.{name}": f"{place}.{name}" for name in names})
    return found


def page(sources, place, names, inside=()):
    lines = [place, "=" * len(place), "", f".. py:module:: {place}", ""]
    lines += plain(sources.docstring(place))
    also = spellings(sources, place)
    if also:
        lines += [f"Also called {', '.join(f'``{one}``' for one in also)}.", ""]
    if inside:
        links = [f":doc:`{one[len(place) + 1:]} </docs/reference/{one}>`" for one in inside]
        lines += [f"Modules: {', '.join(links)}.", ""]
    order = [name for node in (sources.tree(place) or ast.Module([])).body
             for name in stubs.names_of(node)]  # docstrings may say "the same" of the one before
    for name in sorted(names, key=lambda one: (
            order.index(one) if one in order else len(order), one.lower())):
        members, status, why = names[name]
        note = f"{STATUS[status]}: {why}." if status in STATUS else ""
        found = sources.find(place, name)
        home = sources.homes[(found or (place,))[0], name]
        if home == place:
            lines += entry(sources, name, found, members, note)
        else:
            nodes = found[1]
            defaults = sources.defaults(found[0], name)
            heads = [signature(name, one, defaults=defaults) for one in nodes] if isinstance(
                nodes[0], ast.FunctionDef) else [name]
            lines += described(kind_of(nodes[0]), heads, [note, first_sentence(nodes[-1])], [
                f"Described in :py:obj:`{home}.{name}`."])
    return lines


def spellings(sources, place):
    """The other names by which programs import a module."""
    module = sources.modules.get(place)
    others = [*sources.spellings.get(module, ()), *(
        one for one, name in OTHER_NAMES.items() if name == module)]
    return sorted({one for one in others if one != place and one.startswith(
        ("tensorflow.python", "tensorflow.compiler", "ipu_tensorflow_addons", "horovod"))})


def first_sentence(node):
    text = ast.get_docstring(node) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ""
    return re.split(r"(?<=\.)\s|\n\n", text or "")[0]


def kind_of(node):
    return {ast.FunctionDef: "function", ast.ClassDef: "class"}.get(type(node), "data")


def entry(sources, name, found, members, note):
    """The lines of one name."""
    home, nodes = found or (None, [])
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef)]
    if functions:
        defaults = sources.defaults(home, name)
        heads = [signature(name, one, defaults=defaults) for one in functions]
        return described("function", heads, [note, ast.get_docstring(functions[-1])], [])
    if nodes and isinstance(nodes[0], ast.ClassDef):
        return class_entry(sources, name, home, nodes[0], note)
    inner = [line for one in members for line in described("attribute", [one], [], [])]
    if nodes and isinstance(nodes[0].value, ast.Name):
        same = nodes[0].value.id
        inner = [f"Another name of :py:obj:`{sources.homes.get((home, same), home)}.{same}`."]
    if not note and nodes:
        note = original(sources, home, name)
    return described("class" if members else "data", [name], [note], inner,
                     value(nodes[0]) if nodes else "")


def original(sources, place, name):
    """What the sources call a name that they take from TensorFlow, as text; or ""."""
    module = stubs.load(sources.modules.get(place, place))
    node = module.definition(name) if module is not None else None
    text = ast.unparse(node.value) if isinstance(node, ast.Assign) else ""
    return f"`{text}` of TensorFlow." if re.fullmatch(r"tf(\.\w+)+", text) else ""


def class_entry(sources, name, place, node, note):
    inner, done = [], set()
    makers, told = [], {}  # heads, and the docstrings of what makes an object
    for base, found in bases(sources, place, node):
        if (found, base.name) in sources.homes:
            inner += [f"A subclass of :py:obj:`{sources.homes[found, base.name]}.{base.name}`.", ""]
    for owner, home in lineage(sources, place, node):
        for kind, group in methods(owner):
            one = group[-1]
            head = functools.partial(
                signature, defaults=sources.defaults(home, owner.name, one.name))
            if one.name in ("__init__", "__new__"):
                if not makers:
                    makers = [head(name, each, "method") for each in group]
                    told = {ast.get_docstring(each): 0 for each in group}
            elif one.name not in done:
                inner += described(kind, [head(one.name, each, kind) for each in group],
                                   [ast.get_docstring(one)], [])
            done.add(one.name)
        for member in owner.body:
            for attribute in stubs.names_of(member) if isinstance(
                    member, (ast.Assign, ast.AnnAssign)) else ():
                if attribute not in done and name != "IPUConfig":
                    done.add(attribute)
                    inner += described("attribute", [attribute], [], [], value(member))
    text, common = ast.get_docstring(node) or "", []
    for owner, _ in lineage(sources, place, node):
        if owner is not node and re.search(rf"\b{owner.name}\b", text):
            text = re.sub(rf"\b{owner.name}\b", "all such classes", text)
            common.append(ast.get_docstring(owner))
    texts = [note, text, *common, *told]
    if name == "IPUConfig":
        inner = [":doc:`/docs/ipu_config` lists its options.", "", *inner]
    return described("class", makers or [name], texts, inner)


def lineage(sources, place, node):
    """(class, its module): of a class, and of those of its bases that have no entry of their own.
    """
    yield node, place
    for base, found in bases(sources, place, node):
        if (found, base.name) not in sources.homes:
            yield from lineage(sources, found, base)


def bases(sources, place, node):
    """(class, its module) of the bases that stubs show."""
    for base in node.bases:
        found = sources.find(place, base.id) if isinstance(base, ast.Name) else None
        if found and isinstance(found[1][0], ast.ClassDef) and found[1][0] is not node:
            yield found[1][0], found[0]


def methods(node):
    """(kind, overloads) of each public method of a class; one without a docstring that Python's
    syntax calls needs none."""
    functions = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    for name, group in itertools.groupby(functions, key=lambda one: one.name):
        group = list(group)
        marks = {ast.unparse(mark).rpartition(".")[2]
                 for one in group for mark in one.decorator_list}
        if "setter" in marks:
            group = [one for one in group if not any(
                ast.unparse(mark).endswith("setter") for mark in one.decorator_list)]
        if name.startswith("__") and not ast.get_docstring(group[-1]) and \
                name not in ("__init__", "__new__"):
            continue
        yield "property" if "property" in marks else "method", group


def default_text(value):
    """A default as a page shows it; "..." for what has no name that a program could write."""
    text = ast.unparse(value)
    try:
        ast.literal_eval(value)
        return text
    except ValueError:
        named = re.fullmatch(r"(?:[a-z]\w*\.)?([A-Z]\w*\.\w+)", text)
        return named[1] if named else text if re.fullmatch(r"(tf|np)(\.\w+)+", text) else "..."


def signature(name, node, kind="function", defaults=()):
    """A function's head; `defaults` of the sources, where the stub has only "..."."""
    if kind == "property":
        return name
    arguments = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0].args
    own = [*arguments.posonlyargs, *arguments.args]
    for places, values in ((own[len(own) - len(arguments.defaults):], arguments.defaults),
                           (arguments.kwonlyargs, arguments.kw_defaults)):
        for i, one in enumerate(places):
            if one.arg in defaults and ast.unparse(values[i] or one) == "...":
                values[i] = ast.Name(defaults[one.arg])
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    if kind == "method" and "staticmethod" not in marks:
        (arguments.posonlyargs or arguments.args)[:1] = []
    result = node.returns is not None and ast.unparse(node.returns)
    if "contextlib.contextmanager" in marks:
        result = "ContextManager[None]"
    shown = f"{name}({ast.unparse(arguments)})"
    made = node.name in ("__init__", "__new__")
    return shown if made or result in (False, "Any") else f"{shown} -> {result}"


def value(node):
    """The option :value: of an assignment of a constant."""
    return f"   :value: {ast.unparse(node.value)}" if isinstance(node.value, ast.Constant) and \
        node.value.value is not ... else ""


def described(kind, heads, texts, inner, option=""):
    """An object of Sphinx's domain of Python."""
    lines = [f".. py:{kind}:: {heads[0]}",
             *(f"{' ' * len(f'.. py:{kind}:: ')}{one}" for one in heads[1:]), option]
    lines += [""] if option else []
    content = [line for text in texts if text for line in plain(text)] + inner
    return lines + textwrap.indent("\n".join(content), "   ").splitlines() + [""]


def plain(text):
    return [".. plain::", "", *textwrap.indent(text, "   ").splitlines(), ""] if text else []
