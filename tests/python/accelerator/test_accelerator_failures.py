"""Plugins that fail, and the cache of what they have compiled. failing_plugin.c stands for them."""

import concurrent.futures
import pathlib
import shutil
import subprocess
import textwrap

import pytest

from test_accelerator import FIT, plugin, run

# A loop that multiplies its state w by elements of the infeed x.
FEEDING = """
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
    step { s = (s32[], f32[128,128]) parameter(0)
      i = s32[] get-tuple-element(s), index=0  w = f32[128,128] get-tuple-element(s), index=1
      one = s32[] constant(1)  n = s32[] add(i, one)
      t = token[] after-all()  in = (f32[128,128], token[]) infeed(t), infeed_config="x"
      x = f32[128,128] get-tuple-element(in), index=0
      d = f32[128,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      h = f32[128,128] tanh(d)  OUTFEED
      ROOT r = (s32[], f32[128,128]) tuple(n, h) }
    more { s = (s32[], f32[128,128]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      turns = s32[] constant(TURNS)  ROOT c = pred[] compare(i, turns), direction=LT }
    ENTRY e { w = f32[128,128] parameter(0)  z = s32[] constant(0)
      t = (s32[], f32[128,128]) tuple(z, w)
      l = (s32[], f32[128,128]) while(t), condition=more, body=step
      ROOT n = f32[128,128] get-tuple-element(l), index=1 }''')
    engine = core.Engine(core.compile(module))
    infeed = core.Infeed([(np.float32, (128, 128))], 8)
    engine.bind("x", infeed)
"""


def feeding(turns, outfeed=""):
    """The script's begin, with a loop of so many turns; `outfeed`: instructions of its body."""
    return FEEDING.replace("TURNS", str(turns)).replace("OUTFEED", outfeed)


TRAIN = feeding(3) + """
    w = np.random.default_rng(1).normal(size=(128, 128)).astype(np.float32)
    x = np.random.default_rng(2).normal(size=(128, 128)).astype(np.float32)
    for turn in range(3):
        infeed.reset()
        for step in range(3):
            infeed.push(x)
        try:
            print("SUM", float(np.abs(engine.run([w])[0]).sum()))
        except core.TremulaError as error:
            print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """The failing plugin's path, and the variables that it reads."""
    real = plugin()
    tensorflow = pytest.importorskip("tensorflow")
    path = tmp_path_factory.mktemp("failing") / "failing_plugin.so"
    source = pathlib.Path(__file__).with_name("failing_plugin.c")
    subprocess.run([shutil.which("cc") or "gcc", "-shared", "-fPIC", "-isystem",
                    tensorflow.sysconfig.get_include(), source, "-o", path, "-ldl"], check=True)
    return str(path), {"FAILING_REAL": real}


def lines_of(failing, how, text=TRAIN, **environment):
    done = run(text, failing[0], **failing[1], FAILING_HOW=how, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("how, words", [
    ("old", "has version 0.3 of the PJRT API; Tremula needs 0.46 or a later one"),
    ("early", "has version 0.38 of the PJRT API; Tremula needs 0.46"), ("other", "has version 1."),
    ("other", "Install another version of the plugin"),
    ("start", "opening the accelerator: no device is there. Look whether its driver is installed"),
    ("start", "(the plugin is ")])
def test_plugins_that_cannot_be_used(failing, how, words):
    done = run(TRAIN, failing[0], **failing[1], FAILING_HOW=how)
    assert words in done.stderr.splitlines()[-1], done.stderr


def test_a_newer_plugin(failing):
    """A later minor version only adds to what this one knows."""
    lines, log = lines_of(failing, "newer", POPLAR_LOG_LEVEL="INFO")
    assert lines == lines_of(failing, "never")[0] and " run on cpu:0" in log


@pytest.mark.parametrize("how, words", [
    ("execute:5", "InternalError running on the accelerator: the accelerator fell off. Variables "
                  "are as before the run: run again, or without TREMULA_ACCELERATOR."),
    ("later:5", "InternalError running on the accelerator: the accelerator fell off. Variables "
                "are as before the run: run again, or without TREMULA_ACCELERATOR."),
    ("full:5", "ResourceExhaustedError running on the accelerator: no memory is left. The "
               "accelerator's memory has run out: make batches smaller"),
    ("memory:6", "ResourceExhaustedError copying to the accelerator: no memory is left. The "
                 "accelerator's memory has run out: make batches smaller"),
    ("home:2", "InternalError copying from the accelerator: the accelerator fell off. Try again, "
               "or without TREMULA_ACCELERATOR."),
])
def test_a_run_fails(failing, how, words):
    """In the middle of the second run's loop. The others give what they give without a failure."""
    (first, second, third), _ = lines_of(failing, how)
    assert second.startswith(words), second
    assert first == third and first.startswith("SUM ")
    assert lines_of(failing, "never")[0] == [first] * 3


def test_what_cannot_be_compiled_runs_on_the_cpu(failing):
    lines, log = lines_of(failing, "compile")
    assert " run on the CPU, not on cpu:0: compiling for the accelerator: this is not made" in log
    assert lines == run(TRAIN).stdout.splitlines()


MORE = """
    def weights():
        values = model.get_weights()
        assert all(np.isfinite(one).all() for one in values)
        return sum(float(np.abs(one).sum()) for one in values)
    print("BEFORE", weights())
    try:
        model.fit(x, y, batch_size=32, epochs=1, shuffle=False, verbose=0)
    except tf.errors.InternalError as error:
        print("FAILED", "fell off" in str(error))
    print("AFTER", weights())
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, verbose=0)
    print("WENT ON", weights())
"""


def test_variables_outlive_a_failure(failing):
    """They are on the accelerator when a run fails, have the last run's values, and go on."""
    text = "import tremula._finder\n" + textwrap.dedent(FIT) + textwrap.dedent(MORE)
    runs = 3 * 8 * 2  # of regions, in three epochs
    lines, _ = lines_of(failing, f"execute:{runs + 9}", text)
    whole, _ = lines_of(failing, "never", text)
    assert "FAILED True" in lines and lines[-1].startswith("WENT ON"), lines
    sums = [[line for line in one if line.startswith(("BEFORE", "AFTER"))]
            for one in (lines, whole)]
    assert sums[0][0] == sums[1][0]  # before the run that failed
    assert sums[0][0].split()[1] == sums[0][1].split()[1] != sums[1][1].split()[1]


def test_compiled_once(failing, tmp_path):
    """A second process loads what the first has compiled; a damaged file is made again."""
    def compiled(how="never", **environment):
        lines, log = lines_of(failing, how, TREMULA_ACCELERATOR_CACHE=str(tmp_path), **environment)
        assert lines == expected
        return log.count("COMPILED"), log
    expected, log = lines_of(failing, "never")
    regions = log.count("COMPILED")
    assert regions >= 1
    assert compiled("serialise")[0] == regions
    assert not list(tmp_path.rglob("*.pjrt"))
    assert compiled()[0] == regions
    files = list(tmp_path.rglob("*.pjrt"))
    assert len(files) == regions
    assert compiled()[0] == 0
    assert compiled(XLA_FLAGS="--xla_force_host_platform_device_count=1")[0] == regions
    for path, cut in ((files[0], 0), (files[0], 100)):
        data = bytearray(path.read_bytes())
        path.write_bytes(data[:cut] if cut else bytes(data[:40]) + b"x" + bytes(data[41:]))
        count, log = compiled()
        assert count == 1 and "cannot be used and is made again" in log
        assert compiled()[0] == 0


def test_folders_of_a_cache(failing, tmp_path):
    """Each program has its own folder (region_cache), also in one process; its file says nothing
    of it. TensorFlow's is that of the executable cache, also for an executable from there."""
    both = "\n".join(f"""
    text = "HloModule m ENTRY e {{ x = f32[{n},{n}] parameter(0) ROOT d = f32[{n},{n}] dot(x, x), "
    text += "lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
    program = core.compile(core.Module.read(text), region_cache={str(tmp_path / str(n))!r})
    print(b"region_cache" in program.serialize(), {str(tmp_path)!r}.encode() in program.serialize())
    """ for n in (256, 512))
    lines, log = lines_of(failing, "never", "    from tremula import core\n" + both)
    assert lines == ["True False"] * 2 and log.count("COMPILED") == 2
    assert [len(list((tmp_path / n / "accelerated").iterdir())) for n in ("256", "512")] == [1, 1]
    cache = tmp_path / "executables"
    for compiled in (True, False):
        _, log = lines_of(failing, "never", "import tremula._finder\n" + textwrap.dedent(FIT),
                          TF_POPLAR_FLAGS=f"--executable_cache_path={cache}")
        assert ("COMPILED" in log) == compiled, log
        assert list(cache.glob("*.poplar_exec")) and list(cache.glob("accelerated/*.pjrt"))


def test_two_processes_at_once(failing, tmp_path):
    """Both compile, and keep the same files; a third loads them."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(lines_of, failing, "never", TREMULA_ACCELERATOR_CACHE=str(tmp_path))
                for _ in range(2)]
        (first, log), (second, _) = (one.result() for one in both)
    assert first == second and "cannot be used" not in log
    third, log = lines_of(failing, "never", TREMULA_ACCELERATOR_CACHE=str(tmp_path))
    assert third == first and "COMPILED" not in log
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".pjrt"}


FORK = """
    import os
    if os.fork() == 0:
        for again in range(2):
            for step in range(3):
                infeed.push(x)
            try:
                engine.run([w])
            except core.TremulaError as error:
                print("CHILD", type(error).__name__, error, flush=True)
            infeed.reset()
        del engine
        os._exit(0)
    print("CHILD ended with", os.wait()[1])
    for step in range(3):
        infeed.push(x)
    print("SUM", float(np.abs(engine.run([w])[0]).sum()))
"""


def test_a_process_that_forks(failing):
    """The child is told what to do, and does not wait for threads that it does not have."""
    lines, _ = lines_of(failing, "never", TRAIN + FORK)
    assert len(lines) == 7 and lines[5] == "CHILD ended with 0" and lines[6] == lines[0], lines
    for line in lines[3:5]:
        assert line.startswith("CHILD FailedPreconditionError cpu:0 belongs to the process that")
        assert 'the method "spawn"' in line


STOP = """
    import os, signal, threading
    import numpy as np
    import tremula._finder
    import tensorflow.compat.v1 as tf
    from tensorflow.python import ipu
    from tremula.tf.runtime.device import plugin
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue(
        outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST)

    def step(x):
        x = tf.tanh(tf.matmul(x, x))
        return x, queue.enqueue(tf.reduce_sum(x))

    turns = tf.placeholder(tf.int32, [])
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result, = ipu.ipu_compiler.compile(
            lambda turns: ipu.loops.repeat(turns, step, [tf.ones([128, 128])]), [turns])

    def interrupt():
        while not plugin.library().trm_tf_interrupt_is_watched():
            threading.Event().wait(0.01)
        threading.Event().wait(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    with tf.Session() as session:
        print(session.run(result, {turns: 5}).sum())
        threading.Thread(target=interrupt).start()
        try:
            session.run(result, {turns: 2000000000})
        except KeyboardInterrupt:
            print("STOPPED")
        print(session.run(result, {turns: 5}).sum())
"""


def test_ctrl_c_ends_a_run(failing):
    lines, log = lines_of(failing, "never", STOP, POPLAR_LOG_LEVEL="INFO")
    assert lines == [lines[0], "STOPPED", lines[0]] and " run on cpu:0" in log
