"""Opcodes for which a compiler chooses a library: as whole regions, with the CPU's numbers."""

import pytest

from test_accelerator import plugin, run

COMPARE = """
    import numpy as np
    from tremula import core

    def results(text, inputs):
        executable = core.compile(core.Module.read(text))
        for accelerator in ("", PLUGIN):
            engine = core.Engine(executable, accelerator=accelerator)
            assert ("1 region" in engine.accelerated) == bool(accelerator), engine.accelerated
            assert "on the CPU:" not in engine.accelerated, engine.accelerated
            yield engine.run(list(inputs))

    def show(text, *inputs):
        \"\"\"The largest difference of each result, by its largest number.\"\"\"
        cpu, there = results(text, inputs)
        for one, other in zip(cpu, there, strict=True):
            one, other = np.asarray(one), np.asarray(other)
            assert one.dtype == other.dtype and np.isfinite(one).all()
            print(one.dtype, np.abs(one - other).max() / np.abs(one).max())

    random = np.random.default_rng(1)
    a = random.normal(size=(3, 40, 40)).astype(np.float32)
    x = random.normal(size=(3, 40, 17)).astype(np.float32)
    c = (random.normal(size=(6, 48)) + 1j * random.normal(size=(6, 48))).astype(np.complex64)
"""
PROGRAMS = {
    "fft": """
        show('''HloModule m
            ENTRY e { c = c64[6,48] parameter(0)
              f = c64[6,48] fft(c), fft_type=FFT, fft_length={48}
              g = c64[6,48] multiply(f, c)  r = f32[6,48] real(g)
              h = c64[6,25] fft(r), fft_type=RFFT, fft_length={48}
              i = f32[6,48] fft(h), fft_type=IRFFT, fft_length={48}
              ROOT t = (c64[6,48], c64[6,25], f32[6,48]) tuple(f, h, i) }''', c)""",
    "complex": """
        show('''HloModule m
            ENTRY e { c = c64[6,48] parameter(0)  s = c64[6,48] exponential(c)
              d = c64[6,6] dot(s, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}
              n = f32[6,6] abs(d)  i = f32[6,6] imag(d)  q = c64[6,6] complex(i, n)
              ROOT t = (c64[6,6], f32[6,6], c64[6,6]) tuple(d, n, q) }''', c)""",
    "factorisations": """
        show('''HloModule m
            ENTRY e { a = f32[3,40,40] parameter(0)  x = f32[3,40,17] parameter(1)
              d = f32[3,40,40] dot(a, a), lhs_batch_dims={0}, rhs_batch_dims={0},
                lhs_contracting_dims={2}, rhs_contracting_dims={2}
              l = f32[3,40,40] cholesky(d), lower=true
              s = f32[3,40,17] triangular-solve(l, x), left_side=true, lower=true,
                transpose_a=NO_TRANSPOSE
              ROOT t = (f32[3,40,40], f32[3,40,17]) tuple(l, s) }''',
             a + 9 * np.eye(40, dtype=np.float32), x)""",
    "QR": """
        show('''HloModule m
            ENTRY e { a = f32[3,40,40] parameter(0)
              q = (f32[3,40,40], f32[3,40]) custom-call(a), custom_call_target="Qr"
              r = f32[3,40,40] get-tuple-element(q), index=0
              t = f32[3,40] get-tuple-element(q), index=1
              h = f32[3,40,40] custom-call(r, t),
                custom_call_target="ProductOfElementaryHouseholderReflectors"
              ROOT o = (f32[3,40,40], f32[3,40,40]) tuple(r, h) }''', a)""",
    "topk": """
        show('''HloModule m
            ENTRY e { x = f32[30,500] parameter(0)
              k = (f32[30,7], s32[30,7]) topk(x), k=7, largest=true
              v = f32[30,7] get-tuple-element(k), index=0
              i = s32[30,7] get-tuple-element(k), index=1
              ROOT t = (f32[30,7], s32[30,7]) tuple(v, i) }''',
             random.integers(0, 40, size=(30, 500)).astype(np.float32))""",
    "float64": """
        show('''HloModule m
            ENTRY e { x = f64[40,40] parameter(0)
              d = f64[40,40] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
              ROOT t = f64[40,40] tanh(d) }''', a[0].astype(np.float64))""",
    "batch norms": """
        x = (random.normal(size=(8, 5, 5, 12)) * 3 + 50).astype(np.float32)
        scale, offset = random.normal(size=(2, 12)).astype(np.float32)
        show('''HloModule m
            ENTRY e { x = f32[8,5,5,12] parameter(0)  s = f32[12] parameter(1)
              o = f32[12] parameter(2)  dy = f32[8,5,5,12] parameter(3)
              n = (f32[8,5,5,12], f32[12], f32[12]) batch-norm-training(x, s, o), epsilon=0.001,
                feature_index=3
              y = f32[8,5,5,12] get-tuple-element(n), index=0
              m = f32[12] get-tuple-element(n), index=1  v = f32[12] get-tuple-element(n), index=2
              g = (f32[12], f32[12]) custom-call(x, s, m, v, dy),
                custom_call_target="tremula.batch-norm-gradient-statistics",
                backend_config="{\\\\"feature_index\\\\":3,\\\\"epsilon\\\\":0.001}"
              ds = f32[12] get-tuple-element(g), index=0  do = f32[12] get-tuple-element(g), index=1
              ROOT t = (f32[8,5,5,12], f32[12], f32[12], f32[12], f32[12])
                tuple(y, m, v, ds, do) }''',
             x, scale, offset, random.normal(size=x.shape).astype(np.float32))"""}
BOUNDS = {"float32": 3e-5, "complex64": 3e-5, "float64": 1e-14, "int32": 0}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_on_the_cpu(name):
    text = COMPARE.replace("\n    ", "\n") + PROGRAMS[name].replace("\n        ", "\n")
    done = run(f"PLUGIN = {plugin()!r}\n" + text, TREMULA_ACCELERATOR_LEAST="0")
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines
    for dtype, difference in lines:
        assert float(difference) <= BOUNDS[dtype], done.stdout


CASTS = """
    big = np.array([0., -0., .9, -.9, 127.5, -1, 200, 300, -300, 70000, 3e9, -3e9, 5e9, 1e18, 1e19,
                    2. ** 31, -2. ** 31, 2. ** 63, 1.5 * 2. ** 63, -2. ** 63, 2. ** 64, 1e30,
                    np.nan, np.inf, -np.inf])
    for source in "f16 bf16 f32 f64".split():
        rows = core.Module.read(f"HloModule m\\nENTRY e {{ x = f64[{big.size}] parameter(0) "
                                f"ROOT c = {source}[{big.size}] convert(x) }}")
        x, = core.Engine(core.compile(rows)).run([big])
        for rule in "wrap", "saturate":
            for to in "s8 s16 s32 s64 u8 u16 u32 u64".split():
                module = core.Module.read(f"HloModule m\\nENTRY e {{ x = {source}[{big.size}] "
                                          f"parameter(0) ROOT c = {to}[{big.size}] convert(x) }}")
                executable = core.compile(module, casts=rule)
                one, other = (core.Engine(executable, accelerator=name).run([x])[0]
                              for name in ("", PLUGIN))
                if not np.array_equal(one, other):
                    print(rule, source, to, x[one != other], one[one != other], other[one != other])
"""


def test_casts_of_what_an_integer_cannot_hold():
    """By the program's rule: XLA's or TensorFlow's."""
    text = COMPARE.replace("\n    ", "\n") + CASTS.replace("\n    ", "\n")
    done = run(f"PLUGIN = {plugin()!r}\n" + text, TREMULA_ACCELERATOR_LEAST="0")
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr[-3000:]
