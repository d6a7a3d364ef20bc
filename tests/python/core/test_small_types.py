"""Elements of 8 bits and fewer: what they are worth, how they are rounded, computed and written.

The package ml_dtypes is the oracle; XLA's conversions are its.
"""

import ml_dtypes
import numpy as np
import pytest

from tremula import core

pytestmark = pytest.mark.smoke

# HLO's names; older ml_dtypes know fewer of the types.
FLOATS = {name: getattr(ml_dtypes, numpy_name) for name, numpy_name in (
    ("f8e5m2", "float8_e5m2"), ("f8e4m3fn", "float8_e4m3fn"),
    ("f8e4m3b11fnuz", "float8_e4m3b11fnuz"), ("f8e5m2fnuz", "float8_e5m2fnuz"),
    ("f8e4m3fnuz", "float8_e4m3fnuz"), ("f8e4m3", "float8_e4m3"), ("f8e3m4", "float8_e3m4"),
    ("f4e2m1fn", "float4_e2m1fn"), ("f8e8m0fnu", "float8_e8m0fnu"))
    if hasattr(ml_dtypes, numpy_name)}
INTEGERS = {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4}


def run(text, *inputs, reference=False):
    """The outputs of a module's text."""
    return core.Engine(core.compile(core.Module.read(text), reference=reference)).run(list(inputs))


def test_all_of_them_are_known():
    assert {"f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz"} <= set(FLOATS)


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_every_code(name):
    dtype = np.dtype(FLOATS[name])
    codes = np.arange(16 if name == "f4e2m1fn" else 256, dtype=np.uint8).view(dtype)
    wide, = run(f"HloModule m\nENTRY e {{ x = {name}[{len(codes)}] parameter(0)\n"
                f" ROOT y = f32[{len(codes)}] convert(x) }}", codes)
    np.testing.assert_array_equal(wide, codes.astype(np.float32))
    assert (np.signbit(wide) == np.signbit(codes.astype(np.float32)))[~np.isnan(wide)].all()


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_rounding(name):
    dtype = np.dtype(FLOATS[name])
    random = np.random.default_rng(7)
    values = np.concatenate([
        random.normal(size=500) * 2.0 ** random.integers(-20, 20, 500),
        np.arange(-64, 65) / 16, [0.0, -0.0, np.inf, -np.inf, 1e30, -1e30, 1e-30],
        # Just at, below and above the middle of two neighbours.
        *(np.float32(2) ** random.integers(-8, 8, 50) * np.float32(middle)
          for middle in (1.0625, 1.06250012, 1.03125, 1.375, 1.875, 1.99))]).astype(np.float32)
    if name == "f8e8m0fnu":
        values = values[values > 0]
    narrow, = run(f"HloModule m\nENTRY e {{ x = f32[{len(values)}] parameter(0)\n"
                  f" ROOT y = {name}[{len(values)}] convert(x) }}", values)
    assert narrow.dtype == dtype
    np.testing.assert_array_equal(narrow.astype(np.float32),
                                  values.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("name", ["f8e5m2", "f8e4m3fn", "f8e4m3fnuz"])
def test_arithmetic_is_rounded_after_each_instruction(name, reference):
    dtype = np.dtype(FLOATS[name])
    random = np.random.default_rng(3)
    a, b = random.normal(size=(2, 6, 5)).astype(np.float32).astype(dtype)
    total, product = run(
        f"HloModule m\nENTRY e {{ a = {name}[6,5] parameter(0)\n b = {name}[6,5] parameter(1)\n"
        f" s = {name}[6,5] add(a, b)\n t = {name}[6,5] multiply(s, b)\n"
        f" p = f32[6,6] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n"
        f" ROOT r = ({name}[6,5], f32[6,6]) tuple(t, p) }}", a, b, reference=reference)
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    rounded = (wide_a + wide_b).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(total.astype(np.float32),
                                  (rounded * wide_b).astype(dtype).astype(np.float32))
    np.testing.assert_allclose(product, wide_a @ wide_b.T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("name", ["s4", "u4"])
def test_integers_of_four_bits_wrap(name, reference):
    low, high = (-8, 8) if name == "s4" else (0, 16)
    a, b = (x.ravel() for x in np.meshgrid(np.arange(low, high), np.arange(low, high)))
    n = len(a)
    outputs = run(
        f"HloModule m\nENTRY e {{ a = {name}[{n}] parameter(0)\n b = {name}[{n}] parameter(1)\n"
        f" s = {name}[{n}] add(a, b)\n t = {name}[{n}] multiply(a, b)\n"
        f" l = pred[{n}] compare(a, b), direction=LT\n m = {name}[{n}] maximum(a, b)\n"
        f" w = s32[{n}] convert(a)\n f = f32[{n}] convert(a)\n k = f32[] constant(1.7)\n"
        f" b2 = f32[{n}] broadcast(k), dimensions={{}}\n"
        f" c = {name}[{n}] convert(f32[{n}] multiply(f, b2))\n"
        f" ROOT r = ({name}[{n}], {name}[{n}], pred[{n}], {name}[{n}], s32[{n}], {name}[{n}])"
        f" tuple(s, t, l, m, w, c) }}", a.astype(INTEGERS[name]), b.astype(INTEGERS[name]),
        reference=reference)
    total, product, less, most, wide, converted = (x.astype(np.int32) for x in outputs)
    np.testing.assert_array_equal(total, (a + b - low) % 16 + low)
    np.testing.assert_array_equal(product, (a * b - low) % 16 + low)
    np.testing.assert_array_equal(less, a < b)
    np.testing.assert_array_equal(most, np.maximum(a, b))
    np.testing.assert_array_equal(wide, a)
    # A cast saturates in plain HLO, as XLA's.
    np.testing.assert_array_equal(converted, np.clip(np.trunc(a * 1.7), low, high - 1))


def test_bits_of_a_byte():
    values = np.array([0x21, -1, 0x7f, -128], np.int8)
    nibbles, back = run(
        "HloModule m\nENTRY e { x = s8[4] parameter(0)\n n = s4[4,2] bitcast-convert(x)\n"
        " b = s8[4] bitcast-convert(n)\n ROOT r = (s4[4,2], s8[4]) tuple(n, b) }", values)
    np.testing.assert_array_equal(back, values)
    np.testing.assert_array_equal(nibbles.astype(np.int32), [[1, 2], [-1, -1], [-1, 7], [0, -8]])


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_text_and_proto_keep_constants(name):
    codes = np.arange(16 if name == "f4e2m1fn" else 256, dtype=np.uint8).view(FLOATS[name])
    written = ", ".join(str(float(x)) for x in codes)
    text = f"HloModule m\nENTRY e {{ ROOT c = {name}[{len(codes)}] constant({{{written}}}) }}"
    module = core.Module.read(text)
    for again in (core.Module.read(module.print()), core.Module.read(module.serialize())):
        assert again.print() == module.print()
        value, = core.Engine(core.compile(again)).run([])
        np.testing.assert_array_equal(value.astype(np.float32), codes.astype(np.float32))


@pytest.mark.parametrize("text, what", [("s4[] constant(8)", "8 does not fit s4"),
                                        ("u2[] constant(-1)", "-1 does not fit u2"),
                                        ("f8e4m3fn[] constant(480)", "480 does not fit f8e4m3fn"),
                                        ("f8e4m3fn[] constant(nan(0x1))",
                                         "a NaN of f8e4m3fn has no payload 0x1")])
def test_values_that_do_not_fit(text, what):
    with pytest.raises(core.TremulaError, match=what):
        core.Module.read(f"HloModule m\nENTRY e {{ ROOT c = {text} }}")
