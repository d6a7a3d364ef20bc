"""What programs of 2019 to 2022 ask of NumPy, Python and other packages, under both runners."""

import importlib
import inspect
import subprocess
import sys
import unittest

import numpy
import pytest

from tremula.old_programs import imghdr, imp, names, pkg_resources, replacements

RUNNERS = pytest.mark.parametrize("runner", [
    "tremula.tf1", pytest.param("tremula.tf2", marks=pytest.mark.smoke)])


def put_back(result):
    """What a run of a runner says that it put back."""
    lines = [line for line in result.stderr.splitlines() if "put back" in line]
    return lines[0].partition("dropped: ")[2].rstrip(".").split(", ") if lines else None


@RUNNERS
def test_lost_names_come_back_and_are_listed_once(prints, run, runner):
    text = """
        import collections, fractions, inspect, threading, time, unittest
        import numpy as np

        def function(a, b=1, *c, **d):
            pass

        class Case(unittest.TestCase):
            def runTest(self):
                self.assertItemsEqual([1, 2], [2, 1])

        Case().runTest()
        with open("text", "w") as out:
            out.write("one\\r\\ntwo\\n")
        with open("text", "rU") as lines:
            print([line for line in lines], lines.mode)
        print(tuple(inspect.getargspec(function)), isinstance([], collections.Iterable),
              isinstance({}, collections.Mapping), fractions.gcd(12, 18))
        print(time.clock() <= time.clock(), threading.Thread().isAlive())
        print(np.float(2), np.zeros(1, np.object).dtype, np.asscalar(np.ones(1)), np.math.pi > 3)
        np.warnings.filterwarnings("ignore", category=np.VisibleDeprecationWarning)
        print(np.product([2, 3]), np.Inf, np.float_(1).dtype, np.alen([1, 2]), np.cast["int8"](3.5))
        try:
            np.nothing
        except AttributeError as error:
            print(error)
    """
    result = run(text, runner=runner)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.splitlines() == [
        "['one\\n', 'two\\n'] r", "(['a', 'b'], 'c', 'd', (1,)) True True 6", "True False",
        "2.0 object 1.0 True", "6 inf float64 2 3", "module 'numpy' has no attribute 'nothing'"]
    listed = put_back(result)
    assert len(listed) == len(set(listed)) and "put back" not in result.stdout
    assert {"collections.Iterable", "collections.Mapping", "fractions.gcd", "numpy.float",
            "numpy.object", "Thread.isAlive", "TestCase.assertItemsEqual",
            'the mode "U" of open()'} <= set(listed)
    assert not any("unicode" in name or "Callable" in name for name in listed)


@RUNNERS
def test_a_program_that_needs_nothing_is_told_nothing(run, runner):
    result = run("import numpy\nimport tensorflow as tf\nprint(numpy.float32(1))", runner=runner)
    assert result.stdout.split() == ["1.0"] and put_back(result) is None


@RUNNERS
def test_packages_of_others(run, runner, tmp_path):
    (tmp_path / "yaml.py").write_text(
        "class FullLoader: pass\n"
        "def load(stream, Loader): return stream, Loader.__name__\n"
        "def load_all(stream, Loader): return stream, Loader.__name__\n")
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL/__init__.py").touch()
    (tmp_path / "PIL/Image.py").write_text("LANCZOS = 1\nBICUBIC = 3\n")
    result = run("""
        import yaml
        from PIL import Image
        print(yaml.load("a"), yaml.load("a", Loader=str), Image.ANTIALIAS, Image.CUBIC)
    """, runner=runner)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout == "('a', 'FullLoader') ('a', 'str') 1 3\n"
    assert put_back(result) == ["yaml.load() without a Loader", "PIL.Image.ANTIALIAS",
                                "PIL.Image.CUBIC"]


@pytest.mark.smoke
def test_keras_of_a_tensorflow_2_program_is_keras_2(run):
    result = run("""
        import tensorflow as tf
        assert tf.constant(1.0) + 1 == 2                   # before the IPU's import
        import keras
        from keras.layers import LSTM
        from keras.optimizer_v2.gradient_descent import SGD
        from tensorflow.python.keras.layers import Dense
        from tensorflow.python import ipu
        assert LSTM is tf.keras.layers.LSTM and Dense is keras.layers.Dense
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with ipu.ipu_strategy.IPUStrategy().scope():
            model = keras.Sequential([Dense(1, kernel_initializer="ones", use_bias=False)])
            model.compile(SGD(0.25), "mse")
            model.fit(tf.ones([4, 1]), tf.zeros([4, 1]), batch_size=4, verbose=0)
            print(*model.get_weights()[0][0])
    """, runner="tremula.tf2", fresh=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.split() == ["0.5"]


@pytest.mark.parametrize("runner", ["tremula.tf1", "tremula.tf2"])
def test_what_the_command_says(runner, capfd):
    from tremula.old_programs import runner as command
    for arguments, code, said in (([], 2, f"usage: python -m {runner} SCRIPT"),
                                  (["--what"], 2, f"python -m {runner}: unknown option --what"),
                                  (["no.py"], 2, f"python -m {runner}: can't open file 'no.py'")):
        with pytest.raises(SystemExit) as end:
            command.main(runner, arguments)
        assert end.value.code == code and capfd.readouterr().err.startswith(said)


def test_the_library_leaves_numpy_and_python_alone(tmp_path):
    import collections

    from tensorflow.python import ipu  # noqa: F401
    assert "float" not in vars(numpy) and not hasattr(collections, "Mapping")
    assert not hasattr(numpy, "asscalar")


def test_every_name_is_there_or_is_replaced():
    for place, lost in names.NAMES.items():
        module, _, owner = place.partition(":")
        if owner or module == "PIL.Image":
            continue
        for name, today in lost.items():
            if name not in vars(pytest.importorskip(module)):
                assert names._value(today) is not None


def test_lost_modules():
    import setuptools._distutils.version as version  # setuptools wants to be first
    finder = names._LostFinder()
    assert {name: finder.find_spec(name).loader._target for name in names.MODULES} == names.MODULES
    assert finder.find_spec("imp_of_mine") is None
    assert version.LooseVersion("1.10") > version.LooseVersion("1.9")


def test_imp(tmp_path):
    (tmp_path / "one.py").write_text("value = 1")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").write_text("value = 2")
    try:
        assert imp.load_source("one_of_imp", str(tmp_path / "one.py")).value == 1
        found = [imp.find_module(name, [str(tmp_path)]) for name in ("one", "package")]
        modules = [imp.load_module(f"{name}_of_imp", *one)
                   for name, one in zip(("one", "package"), found)]
        found[0][0].close()
        assert [one.value for one in modules] == [1, 2] and found[1][2][2] == imp.PKG_DIRECTORY
        with pytest.raises(ImportError, match="No module named 'two'"):
            imp.find_module("two", [str(tmp_path)])
    finally:
        for name in ("one_of_imp", "package_of_imp"):
            sys.modules.pop(name, None)


def test_imghdr(tmp_path):
    for kind, data in (("png", b"\x89PNG\r\n\x1a\n..."), ("jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF"),
                       ("gif", b"GIF89a"), ("bmp", b"BM"), ("webp", b"RIFF....WEBPVP8 "),
                       ("ppm", b"P6\n2 2\n255\n"), (None, b"P6?"), (None, b"")):
        (tmp_path / "image").write_bytes(data)
        with open(tmp_path / "image", "rb") as file:
            assert imghdr.what(str(tmp_path / "image")) == imghdr.what(file) == kind
            assert file.read() == data and imghdr.what(None, data) == kind


def test_what_python_3_12_and_3_13_dropped():
    class Case(unittest.TestCase):
        def test_one(self):
            self.assertTrue(True)

        def other_test(self):
            self.assertTrue(True)

    assert replacements.make_suite(Case).countTestCases() == 1
    assert replacements.make_suite(Case, "other").countTestCases() == 1
    assert replacements.find_loader("json").name == "json"
    assert replacements.find_loader("no_module_of_this_name") is None
    assert importlib.import_module(names.MODULES["cgi"]).escape("<") == "&lt;"


def test_what_python_3_8_and_3_11_dropped():
    def function(a, b=1, *c, d: int, e=2, **f) -> None:
        pass

    assert replacements.formatargspec(*inspect.getfullargspec(function)) == str(
        inspect.signature(function)) == "(a, b=1, *c, d: int, e=2, **f) -> None"
    assert replacements.formatargspec(["a", "b"], None, "c", (3,)) == "(a, b=3, **c)"
    name, version, _ = replacements.linux_distribution()
    assert name and replacements.dist()[1] == version


def test_random_sample_of_a_set():
    source = ("import random\nrandom.seed(1)\nfound = random.sample({3, 4, 5}, 2)\n"
              "random.seed(1)\nassert found == random.sample((3, 4, 5), 2), found\n"
              "import typing.io\nprint(typing.io.TextIO)\n")
    start = "from tremula.old_programs import names\nnames.restore('it')\n"
    end = subprocess.run([sys.executable, "-c", start + source], capture_output=True, text=True)
    assert end.returncode == 0 and "TextIO" in end.stdout, end.stderr
    assert "dropped: random.sample of a set" in end.stderr


def test_pkg_resources():
    found = pkg_resources.get_distribution("numpy")
    assert found.version == numpy.__version__ and found.key == "numpy"
    assert found.parsed_version >= pkg_resources.parse_version("1.9")
    assert pkg_resources.require("numpy>=1.9")[0].project_name == "numpy"
    with pytest.raises(pkg_resources.DistributionNotFound, match="'nothing-of-it'"):
        pkg_resources.get_distribution("nothing-of-it")
    with pytest.raises(pkg_resources.VersionConflict, match="numpy<1 is required"):
        pkg_resources.get_distribution("numpy<1")
    assert pkg_resources.resource_exists("numpy", "__init__.py")
    assert b"import" in pkg_resources.resource_string(numpy, "__init__.py")
    assert "numpy" in pkg_resources.working_set.by_key
    assert [one.name for one in pkg_resources.parse_requirements("# no\nnumpy>1 # one\n")] == [
        "numpy"]


def test_replacements_of_numpy():
    assert replacements.asfarray([1]).dtype == float
    assert replacements.asfarray([1], "int8").dtype == float
    assert replacements.asfarray([1], "float16").dtype == numpy.float16
    assert replacements.find_common_type(["float32"], ["float64"]) == numpy.float32
    assert replacements.find_common_type(["int8"], ["float32"]) == numpy.float32
    assert replacements.msort([[2, 1], [1, 3]]).tolist() == [[1, 1], [2, 3]]
    assert replacements.sctypes["float"][0] is numpy.float16
    assert replacements.issubsctype("int8", numpy.integer)
