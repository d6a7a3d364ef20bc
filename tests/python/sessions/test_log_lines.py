"""What a program that asks for nothing finds on standard error."""

import re

import pytest
import tensorflow as tf

PROGRAM = """
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = tf.placeholder(tf.float32, [None])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        doubled = x + x
        squared, = ipu.ipu_compiler.compile(lambda y: y * y, [x])
    for _ in range(2):
        with tf.Session() as session:
            print(session.run([doubled, squared], {x: [1.0]}))
    with tf.Session() as session:
        print(session.run(squared, {x: [1.0, 2.0]}))
"""
OF_DEVICES = ("NUMA", "Created TensorFlow device", "Plugin optimizer", "IPU:1", "XLA service",
              "StreamExecutor", "crash reproducer")
KERAS = """
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=2)
        model.fit(np.ones([8, 2], "float32"), np.ones([8, 1], "float32"), 4, verbose=0)
"""


def lines_of(script, folder, program=PROGRAM, **environment):
    done = script(program, TF_CPP_MIN_LOG_LEVEL="0", TREMULA_RUNTIME_DIR=str(folder),
                  **environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr.splitlines()


def test_sessions_tell_nothing_of_devices_but_what_is_attached(script, tmp_path):
    lines = lines_of(script, tmp_path)
    # What TensorFlow 2.15 says in every session of any plugin's device is kept back.
    assert not tf.__version__.startswith("2.15.") or not [
        line for line in lines if any(words in line for words in OF_DEVICES)], lines
    places = r": I ((?:tensorflow/compiler/(?:plugin|jit)|tremula)/.*)"
    own = [found[1] for found in (re.search(places, line) for line in lines) if found]
    # Where the original has its best known lines; others name the place in Tremula.
    assert own[0] == ("tensorflow/compiler/plugin/poplar/driver/executor.cc:660] "
                      "Device /device:IPU:0 attached to IPU: 0")
    assert own[1] == ("tensorflow/compiler/jit/xla_compilation_cache.cc:251] Compiled cluster "
                      "using XLA!  This line is logged at most once for the lifetime of the "
                      "process.")
    assert len(own) == 3 and re.fullmatch(  # what costs is said: other shapes
        r"tremula/tf/runtime/lowering/late\.py:\d+\] Compiling \S+ again, for inputs of the shapes "
        r"\(2,\)", own[2]), own


@pytest.mark.skipif(not tf.__version__.startswith("2.15."), reason="TensorFlow's own lines")
def test_they_do_where_detail_is_asked_for(script, tmp_path):
    lines = lines_of(script, tmp_path, TF_CPP_VMODULE="quiet=1")
    assert any("Created TensorFlow device" in line for line in lines), lines


@pytest.mark.skipif(not tf.__version__.startswith("2.15."), reason="TensorFlow's own lines")
def test_keras_says_what_stock_keras_says_and_what_the_original_did(script, tmp_path):
    lines = lines_of(script, tmp_path, KERAS)
    places = [re.search(r": [IWE] (\S+?):\d+\] ", line) for line in lines]
    assert {place.group(1) for place in places if place} <= {
        "tensorflow/core/util/port.cc", "tensorflow/core/platform/cpu_feature_guard.cc",
        "tensorflow/compiler/plugin/poplar/driver/executor.cc",
        "tensorflow/compiler/jit/xla_compilation_cache.cc"}, lines
