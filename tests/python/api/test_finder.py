"""The names that Tremula's modules are imported by."""

import os
import pathlib
import subprocess
import sys

import interpreter
import pytest

PYTHON = pathlib.Path(__file__).resolve().parents[3] / "python"


def run(code, path):
    """What `code` prints, run by an interpreter that has Tremula installed through its .pth file,
    without the plugin."""
    site = path / "site"
    site.mkdir()
    (site / "tremula.pth").write_text(f"{PYTHON}\n" + (PYTHON / "tremula.pth").read_text())
    code = f"import site; site.addsitedir({str(site)!r})\n" + code
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", TREMULA_LIBRARY_DIR=str(path))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_pth_file_loads_no_tensorflow(tmp_path):
    out = run("import sys\n"
              "print('tremula._finder' in sys.modules, 'tensorflow' in sys.modules,\n"
              "      'tremula.tf' in sys.modules)", tmp_path)
    assert out.split() == ["True", "False", "False"]


def test_first_import_through_tensorflows_name(tmp_path):
    out = run("from tensorflow.python import ipu\n"
              "import tensorflow as tf\n"
              "import tensorflow.python as python\n"
              "print(python.ipu is ipu, tf.constant(1).numpy(), ipu.__name__)", tmp_path)
    assert out.split() == ["True", "1", "tremula.tf.ipu"]


def test_without_the_plugin_configuring_says_so(tmp_path):
    done = interpreter.run(
        ["-c", "from tensorflow.python import ipu\n"
               "try: ipu.config.IPUConfig().configure_ipu_system()\n"
               "except FileNotFoundError as error: print(error)"],
        env=dict(os.environ, PYTHONPATH=str(PYTHON), TREMULA_LIBRARY_DIR=str(tmp_path)))
    assert "libtremula" in done.stdout and "TREMULA_LIBRARY_DIR" in done.stdout, done.stderr


def test_the_pth_file_survives_a_missing_package(tmp_path):
    (tmp_path / "tremula.pth").write_text((PYTHON / "tremula.pth").read_text())
    result = subprocess.run([sys.executable, "-I", "-S", "-c",
                             f"import site; site.addsitedir({str(tmp_path)!r})"],
                            capture_output=True, text=True)
    assert result.returncode == 0 and not result.stderr


def test_one_object_for_all_names():
    from tensorflow.python import ipu
    from tensorflow.python.ipu import config, scopes, utils
    from tensorflow.python.ipu.config import IPUConfig
    import tensorflow.python.ipu.scopes as dotted
    import tremula.tf.ipu.scopes as own
    assert scopes is dotted is own is ipu.scopes
    assert utils.IPUConfig is IPUConfig is config.IPUConfig
    assert own.__spec__.name == own.__name__ == "tremula.tf.ipu.scopes"


def test_flattened_names(monkeypatch, tmp_path):
    """`ipu.ops.X` is `ipu.X`, wherever the file is, and runs once."""
    import tremula.tf.ipu
    from tensorflow.python import ipu
    import tensorflow.python.ipu.ops as ops
    (tmp_path / "trial_a.py").write_text("runs = []\n")
    (tmp_path / "trial_b.py").write_text("runs = []\n")
    monkeypatch.setattr(ops, "__path__", [*ops.__path__, str(tmp_path)])
    from tensorflow.python.ipu import trial_a
    from tensorflow.python.ipu.ops import trial_a as inner
    assert trial_a is inner is ipu.trial_a is ipu.ops.trial_a
    import tensorflow.python.ipu.ops.trial_b as first
    import tremula.tf.ipu.trial_b as second
    assert first is second is ipu.trial_b
    for name in ("trial_a", "trial_b"):
        monkeypatch.delattr(tremula.tf.ipu, name)


def test_modules_of_packages_need_no_import(monkeypatch):
    """`ipu.optimizers.X` is there before anybody has imported it."""
    from tensorflow.python import ipu
    import tremula.tf.ipu.optimizers as package
    for name in ("cross_replica_optimizer", "gradient_accumulation_optimizer", "ipu_optimizer",
                 "map_gradient_optimizer", "sharded_optimizer"):
        monkeypatch.delattr(package, name, raising=False)
        module = getattr(ipu.optimizers, name)
        assert module.__name__ == f"tremula.tf.ipu.optimizers.{name}"
        assert module is getattr(ipu, name)


def test_generated_operations_and_protos():
    from tensorflow.compiler.plugin.poplar.driver import config_pb2, trace_pb2
    from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
    assert config_pb2.IpuOptions and trace_pb2.IpuTraceEvent and gen_ipu_ops.ipu_event_trace


def _planned():
    from tremula import _finder
    from tremula.tf.ipu import _planned
    return [name for name in _planned.names()
            if _finder.resolve("tremula.tf.ipu", name) is None]


def test_what_is_not_there_yet_says_so():
    from tensorflow.python import ipu
    for name in _planned():
        with pytest.raises(ImportError, match="does not have yet"):
            __import__(f"tensorflow.python.ipu.{name}")
        with pytest.raises(ImportError, match="does not have yet"):
            exec(f"from tensorflow.python.ipu import {name}")
        with pytest.raises(AttributeError, match="does not have yet"):
            getattr(ipu, name)


def test_planned_generated_modules_say_so():
    for statement in ("from tensorflow.compiler.plugin.poplar.driver import poplar_executable_pb2",
                      "import tensorflow.compiler.plugin.poplar.driver.poplar_executable_pb2"):
        with pytest.raises(ImportError, match="does not have yet"):
            exec(statement)


def test_what_the_original_has_not():
    from tensorflow.python import ipu
    with pytest.raises(ModuleNotFoundError, match="No module named 'tensorflow.python.ipu.foo'"):
        import tensorflow.python.ipu.foo  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'foo'"):
        ipu.foo
    with pytest.raises(ModuleNotFoundError):
        import tensorflow.foo  # noqa: F401


def test_keras_names_that_tensorflow_has_lost():
    from tensorflow.python.keras.datasets import mnist
    assert mnist.load_data


def test_tests_import_their_helpers_from_beside_them(tmp_path):
    (tmp_path / "some_helper.py").write_text("NAME = __name__")
    (tmp_path / "some_test.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(PYTHON)!r})\n"
        "import tremula._finder\n"
        "from tensorflow.python.ipu.tests import some_helper\n"
        "import tensorflow.python.ipu.tests.some_helper as again\n"
        "print(some_helper.NAME, again is some_helper)\n")
    result = interpreter.run([tmp_path / "some_test.py"],
                             env=dict(os.environ, PYTHONPATH=str(PYTHON)))
    assert result.stdout.split() == ["tremula.tf.ipu.tests.some_helper", "True"], \
        result.stderr


@pytest.mark.parametrize("line", ["from keras import ipu", "import keras.ipu as ipu"])
def test_tf_keras_shows_the_ipu_that_keras_has(line):
    done = interpreter.run(["-c", f"import tensorflow as tf\n{line}\nprint(tf.keras.ipu is ipu)"],
                           env=dict(os.environ, PYTHONPATH=str(PYTHON)))
    assert done.stdout.split() == ["True"], done.stderr


@pytest.mark.parametrize("package, names", [
    ("tensorflow.python.ipu.optimizers",
     "CrossReplicaOptimizer GradientAccumulationOptimizerV2 ShardedOptimizer sharded_optimizer"),
    ("tensorflow.python.ipu.keras", "Model PipelineSequential PipelineStage layers optimizers"),
    ("keras.ipu", "PipelineStage ReplicatedMetricReductionMethod layers optimizers"),
    ("keras.ipu.extensions", "FunctionalExtension PipelineStage"),
    ("ipu_tensorflow_addons.keras.layers", "LayerNormalization PopnnLSTM"),
    ("ipu_tensorflow_addons.keras.optimizers", "AdamIpuOptimizer LAMBIpuOptimizer")])
def test_a_star_imports_what_a_package_shows(package, names):
    from tensorflow.python import ipu  # noqa: F401
    found = {}
    exec(f"from {package} import *", found)
    assert set(names.split()) <= set(found)
