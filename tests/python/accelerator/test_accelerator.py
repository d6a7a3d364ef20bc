"""Regions on an accelerator: a third party's CPU plugin stands for one (docs/accelerators.md)."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import textwrap

import interpreter
import pytest

PACKAGE = "lammps_jax_pjrt_cpu"


def plugin():
    """The plugin's path."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        pytest.skip(f"{PACKAGE} is not installed: no PJRT plugin to try")
    return str(pathlib.Path(spec.origin).parent / "pjrt_c_api_cpu_plugin.so")


@pytest.mark.smoke
def test_the_header_of_this_tensorflow():
    """Newer ones have other names for some members."""
    tree = pathlib.Path(__file__).resolve().parents[3]
    spec = importlib.util.find_spec("tensorflow")
    if spec is None:
        pytest.skip("TensorFlow, whose package has PJRT's header, is not installed")
    include = pathlib.Path(spec.origin).parent / "include"
    subprocess.run([shutil.which("cc") or "gcc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror",
                    f"-I{tree}/src", f"-I{tree}/include", "-isystem", include,
                    f"{tree}/src/host/accelerator/pjrt.c"], check=True)


def run(text, accelerator="", **environment):
    env = {**os.environ, "TREMULA_ACCELERATOR": accelerator, **environment}
    if not accelerator:
        del env["TREMULA_ACCELERATOR"]
    return interpreter.run(["-c", textwrap.dedent(text)], env=env)


# A loop with an infeed, in whose body a network is trained with momentum and dropout; a loop
# without one; integers; a conditional. Prints what must agree to some digits, and what exactly.
PROGRAM = """
    import numpy as np
    from tremula import core

    TEXT = '''
    HloModule m
    sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    pure { s = (s32[], f32[128,128]) parameter(0)
      i = s32[] get-tuple-element(s), index=0  x = f32[128,128] get-tuple-element(s), index=1
      one = s32[] constant(1)  n = s32[] add(i, one)
      y = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      z = f32[128,128] tanh(y)  ROOT t = (s32[], f32[128,128]) tuple(n, z) }
    until5 { s = (s32[], f32[128,128]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      five = s32[] constant(5)  ROOT c = pred[] compare(i, five), direction=LT }
    step { s = (s32[], f32[128,128], f32[128,128]) parameter(0)
      i = s32[] get-tuple-element(s), index=0  w = f32[128,128] get-tuple-element(s), index=1
      m = f32[128,128] get-tuple-element(s), index=2  one = s32[] constant(1)
      n = s32[] add(i, one)  t = token[] after-all()
      in = (f32[64,128], token[]) infeed(t), infeed_config="images"
      x = f32[64,128] get-tuple-element(in), index=0
      d = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      h = f32[64,128] tanh(d)
      zero = f32[] constant(0)  r = f32[128] reduce(h, zero), dimensions={0}, to_apply=sum
      g = f32[128,128] dot(x, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}
      b = f32[] constant(0.9)  bb = f32[128,128] broadcast(b), dimensions={}
      l = f32[] constant(0.001)  ll = f32[128,128] broadcast(l), dimensions={}
      k = f32[128,128] multiply(m, bb)  v = f32[128,128] add(k, g)
      u = f32[128,128] multiply(v, ll)  q = f32[128,128] subtract(w, u)
      o = token[] outfeed(r, t), outfeed_config="sums"
      ROOT tt = (s32[], f32[128,128], f32[128,128]) tuple(n, q, v) }
    until3 { s = (s32[], f32[128,128], f32[128,128]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      three = s32[] constant(3)  ROOT c = pred[] compare(i, three), direction=LT }
    ENTRY e { w = f32[128,128] parameter(0)  k = s32[200,200] parameter(1)
      z = s32[] constant(0)  f = f32[] constant(0)
      m = f32[128,128] broadcast(f), dimensions={}
      t = (s32[], f32[128,128], f32[128,128]) tuple(z, w, m)
      l = (s32[], f32[128,128], f32[128,128]) while(t), condition=until3, body=step
      n = f32[128,128] get-tuple-element(l), index=1
      t2 = (s32[], f32[128,128]) tuple(z, n)
      l2 = (s32[], f32[128,128]) while(t2), condition=until5, body=pure
      p = f32[128,128] get-tuple-element(l2), index=1
      kk = s32[200,200] multiply(k, k)  kq = s32[200,200] subtract(kk, k)
      ROOT out = (f32[128,128], f32[128,128], s32[200,200]) tuple(n, p, kq) }'''

    module = core.Module.read(TEXT)
    executable = core.compile(module)
    engine = core.Engine(executable)
    random = np.random.default_rng(1)
    images = random.normal(size=(12, 64, 128)).astype(np.float32) * 0.1
    infeed = core.Infeed([(np.float32, (64, 128))], 4)
    outfeed = core.Outfeed([(np.float32, (128,))])
    engine.bind("images", infeed)
    engine.bind("sums", outfeed)
    w = random.normal(size=(128, 128)).astype(np.float32) * 0.02
    k = random.integers(-1000, 1000, size=(200, 200)).astype(np.int32)
    for turn in range(3):
        for image in images[3 * turn:3 * turn + 3]:
            infeed.push(image)
        w, p, kq = engine.run([w, k])
    sums = outfeed.take()
    np.savez(OUT, w=w, p=p, kq=kq, sums=sums[0])

"""


def test_core(tmp_path):
    """Whole loops and cut ones give the CPU's numbers, integers exactly; some regions ran."""
    import numpy as np
    results = {}
    for name, accelerator in (("cpu", ""), ("accelerated", plugin())):
        out = tmp_path / f"{name}.npz"
        done = run(f"OUT = {str(out)!r}\n" + textwrap.dedent(PROGRAM), accelerator,
                   POPLAR_LOG_LEVEL="INFO")
        assert done.returncode == 0, done.stderr
        results[name] = np.load(out)
        regions = done.stderr.count(" run on cpu:0")
        assert regions == 0 if name == "cpu" else regions >= 2, done.stderr
        # What a run moves: 3 elements, 2 inputs; 3 sums, 3 outputs. Nothing between the steps.
        moved = " moved 5 arrays of 323840 bytes to cpu:0, 6 arrays of 292608 bytes from there"
        assert done.stderr.count(moved) == (0 if name == "cpu" else 3), done.stderr
    for key in ("w", "p", "sums"):
        np.testing.assert_allclose(results["accelerated"][key], results["cpu"][key], rtol=1e-5,
                                   atol=1e-6)
    assert (results["accelerated"]["kq"] == results["cpu"]["kq"]).all()


SMALL = """
    import numpy as np
    from tremula import core
    module = core.Module.read("HloModule m\\nENTRY e { x = f32[64,64] parameter(0)"
                              " ROOT d = f32[64,64] dot(x, x), lhs_contracting_dims={1},"
                              " rhs_contracting_dims={0} }")
    for turn in range(2):
        try:
            print(core.Engine(core.compile(module)).run([np.ones((64, 64), np.float32)])[0][0, 0])
        except core.TremulaError as error:
            print(type(error).__name__, error)
"""


@pytest.mark.parametrize("accelerator, words", [
    ("/nowhere/plugin.so", "NotFoundError The accelerator's plugin cannot be loaded"),
    ("nothing", "NotFoundError TREMULA_ACCELERATOR is 'nothing', but no PJRT plugin"),
    ("cuda:x", "InvalidArgumentError TREMULA_ACCELERATOR is 'cuda:x': after the colon"),
    (None, "InvalidArgumentError {} is no PJRT plugin: it has no function GetPjrtApi"),
])
def test_plugins_that_cannot_be_had(accelerator, words):
    """An error that says so, the same each time, and no crash."""
    from tremula import core
    if accelerator is None:
        accelerator = core.library_path()
        words = words.format(accelerator)
    done = run(SMALL, accelerator)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2 and lines[0] == lines[1], done.stderr
    assert lines[0].startswith(words)


def test_a_plugin_for_another_processor(tmp_path):
    """The loader says that there is no such file."""
    with open(plugin(), "rb") as file:
        head = bytearray(file.read(4096))
    head[18:20] = b"\xb7\x00"  # e_machine: AArch64
    path = tmp_path / "plugin.so"
    path.write_bytes(head)
    done = run(SMALL, str(path))
    assert "the file is there, but is for another processor" in done.stdout, done.stdout


def test_a_device_that_is_not_there():
    done = run(SMALL, plugin() + ":7")
    assert "NotFoundError TREMULA_ACCELERATOR names device 7 of" in done.stdout, done.stderr


def test_found_by_name():
    plugin()
    done = run(SMALL, "cpu")
    assert done.stdout.splitlines() == ["64.0", "64.0"], done.stderr


CLAMP = """
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
    ENTRY e { x = f32[1,1000] parameter(0)  a = f32[1000] reshape(x)  b = f32[1000] exponential(a)
      l = f32[] constant(-3)  h = f32[] constant(5)  c = f32[1000] clamp(l, b, h)
      ROOT r = f32[1,1000] reshape(c) }''')
    engine = core.Engine(core.compile(module))
    result, = engine.run([np.full((1, 1000), 2, np.float32)])
    print(engine.accelerated.splitlines()[0], result.sum())
"""


@pytest.mark.parametrize("header", ["HloModule m", "HloModule m, is_scheduled=true"])
def test_what_ends_the_process_in_xlas_compiler(header):
    """A clamp whose bounds are scalars, beside a reshape; a broadcast in a scheduled module."""
    done = run(CLAMP.replace("HloModule m", header), plugin(), TREMULA_ACCELERATOR_LEAST="0")
    assert done.stdout == "on cpu:0: 1 region 5000.0\n", done.stderr[-2000:]


TYPES = """
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
    ENTRY e { x = s32[128,128] parameter(0)  n = s4[128,128] convert(x)
      f = f32[128,128] convert(n)  y = f32[128,128] tanh(f)
      ROOT d = f32[128,128] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }''')
    engine = core.Engine(core.compile(module))
    result, = engine.run([np.full((128, 128), 7, np.int32)])
    print(*engine.accelerated.splitlines(), round(float(result[0, 0])))
"""


def test_types_that_pjrt_does_not_name():
    """What has such an operand stays on the CPU, too."""
    done = run(TYPES, plugin())
    assert done.stdout == ("on cpu:0: 1 region on the CPU: 2 steps, such as n: only the CPU has "
                           "its type 128\n"), done.stdout + done.stderr[-2000:]


FIT = """
    import numpy as np
    import tensorflow as tf
    from tensorflow.python import ipu
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    ipu.utils.reset_ipu_seed(7)
    random = np.random.default_rng(0)
    x = random.normal(size=(256, 32)).astype(np.float32)
    y = random.integers(0, 10, size=256).astype(np.int32)
    with ipu.ipu_strategy.IPUStrategy().scope():
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([tf.keras.layers.Dense(256, "relu", input_shape=(32,)),
                                     tf.keras.layers.Dropout(0.3, seed=3),
                                     tf.keras.layers.Dense(10)])
        model.compile(tf.keras.optimizers.SGD(0.01, 0.9),
                      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      steps_per_execution=8)
        history = model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0).history
    print("LOSSES", *(f"{one:.9f}" for one in history["loss"]))
"""


def test_keras_fit_with_dropout():
    """The random bits are the CPU's, so the losses agree; only feeds and losses move."""
    losses = []
    for accelerator in ("", plugin()):
        done = run("import tremula._finder\n" + textwrap.dedent(FIT), accelerator,
                   POPLAR_LOG_LEVEL="INFO")
        line, = [one for one in done.stdout.splitlines() if one.startswith("LOSSES")] or [""]
        assert line, done.stderr[-2000:]
        losses.append([float(one) for one in line.split()[1:]])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    # Up: 8 batches with their labels and the keys of the dropout, and 16 bytes of scalars, among
    # them the number of the step. Down: 8 losses and that number.
    up, down = 8 * (32 * 32 * 4 + 32 * 4 + 24) + 16, 8 * 4 + 8
    moved = f" moved 27 arrays of {up} bytes to cpu:0, 9 arrays of {down} bytes from there"
    assert done.stderr.count(moved) == 2, done.stderr  # the first epoch brings the variables
    assert losses[1][-1] < losses[1][0]
