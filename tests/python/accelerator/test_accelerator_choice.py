"""An engine's own accelerator, its precision, and what is said about what runs where."""

from test_accelerator import plugin, run

START = """
    import numpy as np
    from tremula import core
    text = '''HloModule m
    ENTRY e { x = f32[128,128] parameter(0)
      d = f32[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      s = f32[1,1] slice(d), slice={[2:3], [2:3]}  n = f32[] reshape(s)
      c = f32[128,128] rng(n, n), distribution=rng_uniform
      t = f32[128,128] tanh(c)  ROOT r = f32[128,128] multiply(t, d) }'''
    executable = core.compile(core.Module.read(text))
    x = np.diag(np.arange(1, 129)).astype(np.float32)
"""
ENGINES = START + """
    print(executable.accelerator)
    for accelerator in (None, PLUGIN, "", PLUGIN + ":7", PLUGIN):
        try:
            engine = core.Engine(executable, accelerator=accelerator)
            print(engine.accelerated.splitlines(), float(engine.run([x])[0][2, 2]))
        except core.TremulaError as error:
            print(type(error).__name__)
"""
ON_CPU = "on the CPU: 1 step, such as c: the CPU draws its random numbers"


def test_engines_of_one_executable():
    """One is on the accelerator, others are not; one that fails is in nobody's way."""
    done = run(f"PLUGIN = {plugin()!r}\n" + ENGINES.replace("\n    ", "\n"))
    assert done.returncode == 0, done.stderr
    alone, there = "['on an accelerator: 0 regions']", str(["on cpu:0: 2 regions", ON_CPU])
    value = " 9.000"
    assert [line[:-len(line.split()[-1]) - 1] + f" {float(line.split()[-1]):.3f}"
            if "[" in line else line for line in done.stdout.splitlines()] == [
        "None", alone + value, there + value, alone + value, "NotFoundError", there + value]


def test_the_environment_chooses_for_executables():
    """An engine of the CPU's can be made of such an executable too."""
    done = run(f"PLUGIN = {plugin()!r}\n" + ENGINES.replace("\n    ", "\n"), plugin())
    lines = done.stdout.splitlines()
    assert lines[0] == "cpu:0" and lines[1] == lines[2] != lines[3], done.stderr
    assert "0 regions" in lines[3]


PRECISION = """
    import numpy as np
    from tremula import core
    text = '''HloModule m
    ENTRY e { x = f16[20000] parameter(0)  a = f16[20000] add(x, x)
      b = f16[20000] multiply(a, x)  c = f16[20000] subtract(b, a)
      ROOT d = f16[20000] divide(c, x) }'''
    executable = core.compile(core.Module.read(text))
    x = np.linspace(1, 5, 20000).astype(np.float16)
    for fastest in (False, True):
        engine = core.Engine(executable, fastest=fastest)
        print(hash(engine.run([x])[0].tobytes()), "0 regions" in engine.accelerated)
"""


def test_the_log_says_what_precision():
    done = run(PRECISION, plugin(), POPLAR_LOG_LEVEL="INFO")
    assert done.stderr.count("cpu:0 computes with its fastest precision") == 1
    done = run(PRECISION, plugin(), TREMULA_ACCELERATOR_PRECISION="quick")
    assert "TREMULA_ACCELERATOR_PRECISION is 'quick'; it must be exact or fastest" in done.stderr


