"""Programs in processes of their own: attaching, flags, the cache; and what lowering keeps."""

import re
import types

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.tf.inner import protos
from tremula.tf.runtime.lowering import lowering, staging
from tremula.tf.runtime.nodes import node_table
from tremula.tf.runtime.tracing import tracing

ADD_ONE = """
    import os
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    tf.disable_v2_behavior()
    {before}
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = {count}
    config.configure_ipu_system()
    with ipu.scopes.ipu_scope("/device:IPU:{device}"):
        y = ipu.ipu_compiler.compile(lambda: tf.ones([2]) + 1.)
    with tf.Session() as s:
        print(s.run(y))
"""
LOG_LINE = (r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: I "
            r"tensorflow/compiler/plugin/poplar/driver/executor\.cc:660\] ")


def program(count=1, device=0, before=""):
    return ADD_ONE.format(count=count, device=device, before=before)


@pytest.mark.parametrize("count, words", [(1, "IPU: 0"), (4, "IPUs: 24")])
def test_attach_line(script, tmp_path, count, words):
    done = script(program(count), TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = re.findall(LOG_LINE + "Device /device:IPU:0 attached to " + words + "$", done.stderr,
                       re.MULTILINE)
    assert len(lines) == 1, done.stderr
    assert "array([2., 2.], dtype=float32)" in done.stdout


def test_two_devices(script, tmp_path):
    done = script(program([1, 1], device=1), TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Device /device:IPU:1 attached to IPU: 1" in done.stderr


def test_ipu_model_attaches_to_nothing(script, tmp_path):
    before = "os.environ['TF_POPLAR_FLAGS'] = '--use_ipu_model'"
    done = script(program(before=before), TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "IPU Model: /device:IPU:0 is attached to no IPU" in done.stderr
    assert "attached to IPU:" not in done.stderr


def test_unknown_flag(script, tmp_path):
    done = script(program(), TREMULA_RUNTIME_DIR=str(tmp_path),
                  TF_POPLAR_FLAGS="--use_ipu_modle")
    assert done.returncode != 0 and "--use_ipu_model" in done.stderr


def test_executable_cache(script, tmp_path):
    cache = tmp_path / "a" / "cache"
    flags = f"--executable_cache_path={cache}"
    for _ in range(2):
        done = script(program(), TREMULA_RUNTIME_DIR=str(tmp_path), TF_POPLAR_FLAGS=flags)
        assert done.returncode == 0, done.stderr
        [file] = cache.glob("*.poplar_exec")  # beside the folder of what lowering gave
    file.write_bytes(b"damaged")
    done = script(program(), TREMULA_RUNTIME_DIR=str(tmp_path), TF_POPLAR_FLAGS=flags)
    assert done.returncode == 0 and file.stat().st_size > 100


def test_eager_ops(script, tmp_path):
    done = script("""
        import tensorflow as tf
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.device("/device:IPU:0"):
            x = tf.constant([1., 2.]) * 3.
        print(x.numpy(), x.device)
    """, TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "[3. 6.]" in done.stdout and "IPU:0" in done.stdout


# ---- What lowering keeps ----

def lower(computation):
    """The HloModuleProto of computation()."""
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        trace = tracing.Trace("cluster", "/device:IPU:0")
        result = trace.run(computation, [])
        trace.finish([result])
        source = staging.stage(trace.graph, trace.placeholders, trace.variables, trace.outputs,
                               "/device:IPU:0")
    again = lowering.Source.parse(source.serialize())
    assert again == source
    return protos.HloModuleProto.FromString(lowering.lower(again).module)


def instructions(module, opcode):
    return [one for computation in module.computations for one in computation.instructions
            if one.opcode == opcode]


def test_names_lines_shards_and_attributes():
    x = tf.ones([2])

    def computation():
        with ipu.scopes.ipu_shard(2), ipu.scopes.partials_type("float16"):
            y = tf.tanh(x, name="squash")
        return y

    tanh, = instructions(lower(computation), "tanh")
    assert tanh.metadata.op_name == "squash"
    assert tanh.metadata.source_file.endswith("test_programs.py")
    assert list(tanh.sharding.tile_assignment_devices) == [2]
    assert dict(tanh.frontend_attributes.map) == {"PARTIALS_TYPE": "half"}


def test_tracebacks_with_one_hash_are_told_apart():
    class Traceback(list):
        def __hash__(self):
            return 1

    def operation(line):
        return types.SimpleNamespace(traceback=Traceback(
            [types.SimpleNamespace(filename="model.py", lineno=line)]))

    known = {}
    made = [operation(line) for line in (3, 4, 3)]
    assert [node_table.user_frame(one, known) for one in made] == [
        ("model.py", 3), ("model.py", 4), ("model.py", 3)]
    assert len(known) == 2


def test_gradients_are_on_their_forward_ops_ipu():
    x = tf.ones([2, 2])

    def computation():
        w = tf.get_variable("w", [2, 2])
        with ipu.scopes.ipu_shard(1):
            y = tf.matmul(x, w)
        return tf.gradients(y, w)[0]

    dots = instructions(lower(computation), "dot")
    assert dots and all(list(dot.sharding.tile_assignment_devices) == [1] for dot in dots)


def test_marks_reach_loop_bodies():
    def body(x):
        with ipu.scopes.ipu_shard(3):
            return tf.tanh(x)

    tanh, = instructions(lower(lambda: ipu.loops.repeat(2, body, [1.])), "tanh")
    assert list(tanh.sharding.tile_assignment_devices) == [3]


def test_random_ops_keep_their_seeds():
    def body(x):
        return x + tf.random_normal([], seed=5)

    def computation():
        tf.set_random_seed(7)
        return ipu.loops.repeat(2, body, [1.]) + tf.random_uniform([2], seed=6)

    calls = instructions(lower(computation), "custom-call")
    configs = sorted(one.backend_config.decode() for one in calls)
    assert [one.custom_call_target for one in calls] == ["tremula.random"] * 2
    assert '"distribution": "normal"' in configs[0] and '"seed2": 5' in configs[0]
    assert '"distribution": "uniform"' in configs[1] and '"seed2": 6' in configs[1]


def test_inside_a_tf_function(script, tmp_path):
    """There, side effects happen in the order of the lines, returned or not."""
    done = script("""
        import tensorflow as tf
        from tensorflow.python import ipu
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        with tf.device("/device:IPU:0"):
            w = tf.Variable([1., 2.])
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        dataset = tf.data.Dataset.range(100).map(lambda i: tf.cast(i, tf.float32))
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
        infeed.initializer

        def body(x):
            w.assign_add([x, x])
            outfeed.enqueue(w * 2.)

        @tf.function
        def step():
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(3, body, [], infeed))

        step()
        print(w.numpy(), outfeed.dequeue().numpy().tolist())
        step()
        print(w.numpy())
    """, TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "[4. 5.] [[2.0, 4.0], [4.0, 6.0], [8.0, 10.0]]" in done.stdout
    assert "[16. 17.]" in done.stdout
