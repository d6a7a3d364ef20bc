"""The stubs that scripts/stubs.py makes for editors and type checkers: they parse, stand where the
import finder finds the module, share no file with types-tensorflow, have docstrings, and say of the
arguments what the sources say."""
import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The folders of types-tensorflow that have an __init__.pyi, of those on our way.
ITS_FILES = {"tensorflow-stubs/__init__.pyi", "tensorflow-stubs/py.typed",
             "tensorflow-stubs/python/__init__.pyi", "tensorflow-stubs/keras/__init__.pyi"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the stubs, made by an interpreter without packages."""
    path = tmp_path_factory.mktemp("stubs")
    subprocess.run([sys.executable, "-I", "-S", ROOT / "scripts/stubs.py", path], check=True)
    return path


@pytest.fixture(scope="module")
def trees(folder):
    """Place of a stub -> its syntax tree."""
    found = {}
    for path in folder.rglob("*.pyi"):
        parts = path.relative_to(folder).with_suffix("").parts
        place = ".".join((parts[0].removesuffix("-stubs"), *parts[1:])).removesuffix(".__init__")
        found[place] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def types():
    """Place -> names whose types scripts/stub_types.pyi gives."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import stubs
    finally:
        sys.path[:] = before
    return stubs.read_types()


def definitions(tree, name):
    return [node for node in tree.body if getattr(node, "name", None) == name]


def test_no_file_is_another_package_s(folder):
    ours = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert not ours & ITS_FILES
    assert "tensorflow-stubs/python/ipu/__init__.pyi" in ours


def test_stubs_stand_where_the_finder_looks(trees):
    from tremula import _finder
    roots = {**_finder.ALIASES, "tensorflow.python.ipu.keras": "tremula.tf.keras"}
    wrong = []
    for place in trees:
        alias = next((one for one in _finder.ALIASES if place.startswith(one + ".")), None)
        if alias is None or place.startswith(tuple(
                one + "." for one in roots if one not in _finder.ALIASES)):
            continue
        if place.endswith("._typing"):
            continue
        if _finder.resolve(_finder.ALIASES[alias], place[len(alias) + 1:]) is None:
            wrong.append(place)
    assert not wrong


def test_all_spellings_of_a_module_are_there(trees):
    for place in ("nn_ops", "ops.nn_ops", "rand_ops", "popnn_rnn", "optimizers.sharded_optimizer",
                  "sharded_optimizer", "keras.layers", "layers.rnn", "popfloat_cast_to_gfloat"):
        assert f"tensorflow.python.ipu.{place}" in trees
    assert {"keras.ipu.layers", "tf_keras.ipu", "tensorflow.keras.ipu.optimizers",
            "tensorflow.compiler.plugin.poplar.ops.gen_ipu_ops"} <= set(trees)


def test_names_of_tensorflow_1_and_of_horovod(trees):
    """A module that takes names from elsewhere too lets a checker find any name."""
    for place in ("tensorflow.contrib", "tensorflow.contrib.layers", "tensorflow.contrib.slim",
                  "horovod", "horovod.tensorflow"):
        assert definitions(trees[place], "__getattr__"), place
    for place in ("tensorflow.contrib.ipu", "tensorflow.contrib.ipu.python"):
        assert not definitions(trees[place], "__getattr__")
        assert {f"{place}.utils", f"{place}.popnn_rnn", f"{place}.ops.internal_ops"} <= set(trees)
    shown = {one.asname: one.name for node in trees["horovod.tensorflow"].body
             if isinstance(node, ast.ImportFrom) for one in node.names}
    assert {"init", "rank", "size", "allreduce"} <= set(shown)
    assert definitions(trees["tensorflow.contrib.training"], "HParams")


def test_given_types_have_the_sources_arguments(types):
    """The same names in the same order with the same defaults; a source that takes *args for the
    arguments of two releases is given as overloads."""
    import stubs
    first, _ = stubs.places()
    compared = 0
    for name, place in first.items():
        for what, given in types.get(place, {}).items():
            source = _source(stubs, stubs.load(name), what)
            if isinstance(source, ast.ClassDef) and isinstance(given[0], ast.ClassDef):
                pairs = [(one, method) for one in given[0].body if isinstance(one, ast.FunctionDef)
                         for method in source.body if getattr(method, "name", "") == one.name]
            else:
                pairs = [(one, source) for one in given if isinstance(one, ast.FunctionDef)]
            for one, original in pairs:
                assert original is not None, f"{place}.{what} is not in the sources"
                if original.args.vararg is None:
                    assert _names(one.args) == _names(original.args), f"{place}.{what}"
                    assert len(given) > 1 or \
                        len(one.args.defaults) == len(original.args.defaults), what
                assert one.returns is not None, f"{place}.{what}"
                compared += 1
    assert compared >= 30


def _source(stubs, module, name):
    found = module.definition(name)
    if found is None and name in module.imports:
        source, original = module.imports[name]
        inner = stubs.load(source)
        found = inner.definition(original) if inner is not None else None
    return found


def _names(arguments):
    return [one.arg for one in (*arguments.args, *arguments.kwonlyargs)]


def test_functions_have_their_docstrings(trees):
    """Those of the modules that programs use most, so that hovering over one tells something."""
    for place in ("loops", "scopes", "ipu_compiler", "ipu_infeed_queue", "ipu_outfeed_queue",
                  "ops.nn_ops", "ops.pipelining_ops", "ops.rand_ops", "config"):
        for node in trees[f"tensorflow.python.ipu.{place}"].body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                assert ast.get_docstring(node), f"{place}.{node.name}"


def test_options_are_the_table_s(trees):
    from tremula.tf.ipu import config_options
    config, = definitions(trees["tensorflow.python.ipu.config"], "IPUConfig")
    for option in config_options.OPTIONS:
        *path, name = option.path.split(".")
        if any(one.startswith("_") for one in (*path, name)):
            continue
        node = config
        for one in path:
            cls = "".join(word.capitalize() for word in one.split("_"))
            node = next(two for two in node.body if getattr(two, "name", None) == cls)
        if option.type is not None:
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            kind = next(one.annotation for one in fields if one.target.id == name)
            assert ast.unparse(kind) != "Any", option.path
