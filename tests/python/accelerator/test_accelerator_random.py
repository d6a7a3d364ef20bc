"""Random numbers and stochastic rounding on an accelerator have the CPU's bits."""

from test_accelerator import plugin, run

# Prints for each program how many numbers differ, the largest difference, and whether two runs gave
# different numbers.
COMPARE = """
    import json
    import numpy as np
    from tremula import core

    def drawn(shape, **config):
        text = json.dumps(json.dumps(config))
        return ('HloModule m\\nENTRY e { ROOT r = ' + shape + ' custom-call(), '
                'custom_call_target="tremula.random", custom_call_has_side_effect=true, '
                'backend_config=' + text + ' }')

    def as_numbers(array):
        return array if array.dtype.kind in "iu" else array.astype(np.float64)

    def compare(name, text, inputs=(), **options):
        executable = core.compile(core.Module.read(text), **options)
        runs = []
        for accelerator in ("", PLUGIN):
            engine = core.Engine(executable, accelerator=accelerator)
            assert ("1 region" in engine.accelerated) == bool(accelerator), engine.accelerated
            assert "kernel of the CPU" not in engine.accelerated, engine.accelerated
            runs.append([as_numbers(engine.run(list(inputs))[0]) for _ in range(2)])
        cpu, there = np.array(runs)
        differ = ~((cpu == there) | (np.isnan(cpu) & np.isnan(there)))
        most = np.abs(cpu[differ] - there[differ]).max() if differ.any() else 0
        print(name, differ.sum(), most, bool((there[0] != there[1]).any()))
"""
FLOATS = COMPARE + """
    for dtype in ("f32", "f16", "bf16"):
        for distribution in ("uniform", "normal", "truncated_normal"):
            compare(f"{distribution}-{dtype}", drawn(
                f"{dtype}[317,91]", distribution=distribution, seed=3, seed2=4, id=1))
"""
EXACT = COMPARE + """
    for dtype, bounds in (("s32", (-7, 1000)), ("s32", (-2 ** 31, 2 ** 31 - 1)), ("u8", (3, 200)),
                          ("s64", (-10 ** 12, 10 ** 12)), ("s8", (-100, 100)), ("u64", ())):
        config = dict(zip(("minval", "maxval"), bounds))
        compare(f"{dtype}{bounds}".replace(" ", ""), drawn(
            f"{dtype}[20001]", distribution="uniform_int", seed=3, id=1, **config))
    for dtype, kind, *bounds in (("s32", np.int32, -7, 1000), ("s64", np.int64, -2 ** 60, 2 ** 61),
                                 ("u8", np.uint8, 3, 200)):
        text = drawn(f"{dtype}[20001]", distribution="uniform_int", seed=3, id=1)
        text = text.replace("custom-call()", "custom-call(a, b)").replace(
            "ENTRY e {", f"ENTRY e {{ a = {dtype}[] parameter(0)  b = {dtype}[] parameter(1) ")
        compare(f"given-{dtype}", text, [np.array(one, kind) for one in bounds])
    for algorithm in ("rng_default", "rng_philox", "rng_three_fry"):
        for dtype in ("u8", "u32", "u64"):
            compare(f"{algorithm}-{dtype}", 'HloModule m\\nENTRY e { '
                    'c = u64[2] constant({77, 12345678901234567}) '
                    f'g = (u64[2], {dtype}[131,64]) rng-bit-generator(c), algorithm={algorithm} '
                    f'ROOT r = {dtype}[131,64] get-tuple-element(g), index=1 }}')
"""
# All kinds of numbers, and sums, products and casts that are rounded one by one.
ROUNDING = COMPARE + """
    random = np.random.default_rng(1)
    x = (random.normal(size=30000) * 10.0 ** random.integers(-12, 6, 30000)).astype(np.float32)
    x[:9] = [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.9, 65520, -1e-45]
    for overflow in ("infinity", "largest", "nan"):
        compare(overflow, '''HloModule m
            ENTRY e { x = f32[30000] parameter(0)  h = f16[30000] convert(x)
              t = f16[] constant(0.333)  b = f16[30000] broadcast(t), dimensions={}
              p = f16[30000] multiply(h, b)  ROOT s = f16[30000] add(p, h) }''', [x],
                half_overflow=overflow, stochastic_rounding="on")
"""
LOOP = COMPARE + """
    compare("dropout", '''HloModule m
        step { s = (s32[], f32[128,128], s32[2]) parameter(0)
          i = s32[] get-tuple-element(s), index=0  x = f32[128,128] get-tuple-element(s), index=1
          k = s32[2] get-tuple-element(s), index=2  one = s32[] constant(1)
          n = s32[] add(i, one)  b = s32[2] broadcast(n), dimensions={}  m = s32[2] add(k, b)
          d = f32[128,128] custom-call(x, m), custom_call_target="tremula.dropout",
            backend_config="{\\\\"rate\\\\":0.25,\\\\"scale\\\\":1.25}"
          ROOT t = (s32[], f32[128,128], s32[2]) tuple(n, d, k) }
        until4 { s = (s32[], f32[128,128], s32[2]) parameter(0)
          i = s32[] get-tuple-element(s), index=0  four = s32[] constant(4)
          ROOT c = pred[] compare(i, four), direction=LT }
        ENTRY e { x = f32[128,128] parameter(0)  k = s32[2] constant({7, 8})
          z = s32[] constant(0)  t = (s32[], f32[128,128], s32[2]) tuple(z, x, k)
          l = (s32[], f32[128,128], s32[2]) while(t), condition=until4, body=step
          ROOT r = f32[128,128] get-tuple-element(l), index=1 }''',
            [np.random.default_rng(1).normal(size=(128, 128)).astype(np.float32)])
"""


def compared(text):
    done = run(f"PLUGIN = {plugin()!r}\n" + text.replace("\n    ", "\n"),
               TREMULA_ACCELERATOR_LEAST="0")
    assert done.returncode == 0, done.stderr[-3000:]
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}


def test_floats():
    """Uniform numbers exactly; normal ones to some units of the seventh digit, of which float16
    keeps three."""
    found = compared(FLOATS)
    assert len(found) == 9
    for name, (differ, most, changes) in found.items():
        assert changes == "True", name
        if name.startswith("uniform"):
            assert differ == "0", name
        elif name.endswith("-f32"):
            assert float(most) < 1e-6, name
        else:
            assert int(differ) < 10, name


def test_integers_and_generators():
    found = compared(EXACT)
    assert len(found) == 18
    for name, (differ, _, changes) in found.items():
        assert differ == "0" and changes == str(not name.startswith("rng")), name


def test_stochastic_rounding():
    found = compared(ROUNDING)
    assert found == {name: ["0", "0", "True"] for name in ("infinity", "largest", "nan")}


def test_dropout_in_a_loop():
    """The whole loop is one region."""
    assert compared(LOOP) == {"dropout": ["0", "0", "False"]}


NO_RANGE = """
    import numpy as np
    from tremula import core
    engine = core.Engine(core.compile(core.Module.read('''HloModule m
        ENTRY e { a = s32[] parameter(0)  b = s32[] parameter(1)
          ROOT r = s32[20001] custom-call(a, b), custom_call_target="tremula.random",
            custom_call_has_side_effect=true,
          backend_config="{\\\\"distribution\\\\":\\\\"uniform_int\\\\"}"
        }''')))
    for bounds in ((5, 5), (5, 6)):
        try:
            print(engine.run([np.int32(one) for one in bounds])[0].max())
        except core.TremulaError as error:
            print(error)
"""


def test_bounds_without_numbers_between_them():
    """They are an error on an accelerator too, and the engine goes on."""
    done = run(NO_RANGE, plugin())
    first, second = done.stdout.splitlines()
    assert "minval < maxval, but minval is 5 and maxval 5" in first, done.stderr
    assert second == "5"
