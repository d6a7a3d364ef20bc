"""float16 on an accelerator: rounded after every instruction, sums in float32, and overflows that
are what the program says."""

import pytest

from test_accelerator import plugin, run

# Chains, which compilers like to compute in one; overflows, poles, infinities, small numbers.
PROGRAM = """
    import numpy as np
    from tremula import core

    EXACT = {
        "chain": "a=@ add(x,y) b=@ multiply(a,x) c=@ subtract(b,a) ROOT r=@ divide(c,y)",
        "square": "a=@ multiply(x,x) ROOT r=@ subtract(a,x)",
        "third": "c=f16[] constant(3) d=@ broadcast(c), dimensions={} ROOT r=@ divide(x,d)",
        "sum": "ROOT r=@ add(x,y)", "product": "ROOT r=@ multiply(x,y)",
        "quotient": "ROOT r=@ divide(x,y)", "log": "ROOT r=@ log(x)",
        "exp": "ROOT r=@ exponential(x)",
        "rsqrt": "ROOT r=@ rsqrt(x)",
        "cast": "v=f32[4096] convert(x) g=f32[4096] multiply(v,v) h=@ convert(g) "
                "ROOT r=@ negate(h)",
        "loop": "z=s32[] constant(0) t=(s32[],@) tuple(z,x) w=(s32[],@) while(t), condition=c, "
                "body=b ROOT r=@ get-tuple-element(w), index=1"}
    NEAR = {
        "power": "ROOT r=@ power(x,y)", "logistic": "ROOT r=@ logistic(x)",
        "tanh": "ROOT r=@ tanh(x)",
        "row sums": "z=f16[] constant(0) q=f16[64,64] reshape(f) e=f16[64] reduce(q,z), "
                    "dimensions={1}, to_apply=s k=f16[64,64] broadcast(e), dimensions={0} "
                    "ROOT r=@ reshape(k)",
        "matmul": "q=f16[64,64] reshape(f) e=f16[64,64] dot(q,q), lhs_contracting_dims={1}, "
                  "rhs_contracting_dims={0} ROOT r=@ reshape(e)"}
    HEAD = '''HloModule m
    s { a=f16[] parameter(0)  b=f16[] parameter(1)  ROOT r=f16[] add(a,b) }
    c { t=(s32[],@) parameter(0)  i=s32[] get-tuple-element(t), index=0  n=s32[] constant(3)
      ROOT r=pred[] compare(i,n), direction=LT }
    b { t=(s32[],@) parameter(0)  i=s32[] get-tuple-element(t), index=0  one=s32[] constant(1)
      j=s32[] add(i,one)  x=@ get-tuple-element(t), index=1  a=@ multiply(x,x)
      k=@ subtract(a,x)  ROOT r=(s32[],@) tuple(j,k) }
    ENTRY e { x=@ parameter(0)  y=@ parameter(1)  f=@ parameter(2) '''
    random = np.random.default_rng(1)
    numbers = [random.normal(size=4096) * 10.0 ** random.integers(-8, 6, 4096) for _ in range(2)]
    x, y = [np.clip(one, -65504, 65504).astype(np.float16) for one in numbers]
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, -65504, 1, 20, 6e-8], np.float16)
    x[:100], y[:100] = np.repeat(special, 10), np.tile(special, 10)
    f = (random.normal(size=4096) * 50).astype(np.float16)

    def compute(text, accelerator):
        module = core.Module.read((HEAD + text + "}").replace("@", "f16[4096]"))
        engine = core.Engine(core.compile(module, half_overflow=OVERFLOW), accelerator=accelerator)
        assert ("0 regions" in engine.accelerated) == (not accelerator), engine.accelerated
        assert "stays on" not in engine.accelerated
        return engine.run([x, y, f])[0]

    for name, text in {**EXACT, **NEAR}.items():
        cpu, there = (compute(text, one) for one in ("", PLUGIN))
        assert (np.isnan(cpu) == np.isnan(there)).all(), name
        same = np.isnan(cpu) | (cpu == there)
        if name in NEAR:
            bits = [one.view(np.int16).astype(int) for one in (cpu, there)]
            same |= abs(bits[0] - bits[1]) <= 1
        if name == "matmul":  # of 64 products of some thousands, which may cancel out
            same |= abs(cpu.astype(float) - there.astype(float)) < 0.5
        print(name, int((~same).sum()))
"""


@pytest.mark.parametrize("overflow", ["infinity", "largest", "nan"])
def test_as_on_the_cpu(overflow):
    text = PROGRAM.replace("OVERFLOW", repr(overflow)).replace("PLUGIN", repr(plugin()))
    done = run(text, TREMULA_ACCELERATOR_LEAST="0")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 16 and all(line.endswith(" 0") for line in lines), done.stdout


FASTEST = """
    import numpy as np
    from tremula import core
    text = '''HloModule m
    ENTRY e { x = f16[20000] parameter(0)  a = f16[20000] multiply(x, x)
      ROOT b = f16[20000] subtract(a, x) }'''
    executable = core.compile(core.Module.read(text))
    x = np.linspace(1, 5, 20000).astype(np.float16)
    for one in (False, True):
        engine = core.Engine(executable, accelerator=PLUGIN, fastest=one)
        print(engine.run([x])[0].view(np.int16).sum())
"""


def test_fastest_need_not_round(tmp_path):
    """Also by the environment: XLA is not asked to round; what it gives then depends on the CPU.
    Without either the CPU's numbers come out."""

    def roundings(name, text, accelerator="", **environment):
        folder = tmp_path / name
        done = run(text, accelerator, XLA_FLAGS=f"--xla_dump_to={folder}", **environment)
        texts = sorted(folder.glob("*before_optimizations.txt"))
        return done.stdout.split(), [one.read_text().count("reduce-precision(") for one in texts]

    text = FASTEST.replace("PLUGIN", repr(plugin()))
    (exact, _), asked = roundings("engine", text)
    assert len(asked) == 2 and asked[0] > 0 == asked[1]
    assert roundings("environment", text, TREMULA_ACCELERATOR_PRECISION="fastest")[1] == [0]
    (cpu, _), none = roundings("cpu", FASTEST.replace("PLUGIN", "''"))
    assert cpu == exact and not none
