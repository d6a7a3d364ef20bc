"""Quarter floats and formats of one's own: every code against ml_dtypes, rounding modes."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import f8_ops
from tensorflow.python.ipu.ops.experimental import popfloat_cast_to_gfloat as popfloat

FORMATS = {f8_ops.Format.F143: ml_dtypes.float8_e4m3fnuz,
           f8_ops.Format.F152: ml_dtypes.float8_e5m2fnuz}
CODES = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("scale", [0, 3, -5])
def test_every_code(run, where, fmt, scale):
    metadata = f8_ops.create_metadata(fmt, scale)

    def mine(codes):
        values = f8_ops.convert_from_f8((codes, metadata), tf.float32)
        back = f8_ops.convert_to_f8(values, metadata)
        return values, back.data

    values, back = run(mine, CODES, where=where)
    with np.errstate(over="ignore"):
        want = (CODES.view(FORMATS[fmt]).astype(np.float32) * 2.0 ** scale).astype(np.float16)
    held = np.isfinite(want) & (np.abs(want) >= 2.0 ** -14) | (want == 0) | np.isnan(want)
    if where == "ipu":
        want = np.clip(want, -65504, 65504)
    np.testing.assert_array_equal(values, want.astype(np.float32))
    np.testing.assert_array_equal(back[held], CODES[held])


@pytest.mark.parametrize("fmt", FORMATS)
def test_rounding_and_clipping(run, random, fmt):
    largest = {f8_ops.Format.F143: 240, f8_ops.Format.F152: 57344}[fmt]
    values = np.concatenate([random(2000) * 20, random(200) * .01]).astype(np.float16)
    values = np.append(values, np.array([np.nan, np.inf, -np.inf, 60000], np.float16))
    data, numbers = run(lambda x: (lambda q: [q.data, f8_ops.convert_from_f8(q)])(
        f8_ops.convert_to_f8(x, f8_ops.create_metadata(fmt))), values)
    want = np.clip(values, -largest, largest).astype(FORMATS[fmt])
    np.testing.assert_array_equal(data, want.view(np.uint8))
    np.testing.assert_array_equal(numbers, want.astype(np.float16))


def test_f8_products(run, random):
    metadata = f8_ops.create_metadata(f8_ops.Format.F143, 1)

    def mine(a, b, image, filters):
        def quarter(x):
            return f8_ops.convert_to_f8(x, metadata)

        def number(x):
            return tf.cast(f8_ops.convert_from_f8(quarter(x)), tf.float32)
        return [f8_ops.f8_matmul(quarter(a), quarter(b)), tf.matmul(number(a), number(b)),
                f8_ops.f8_matmul(quarter(a), tf.cast(b, tf.float16)),
                f8_ops.f8_conv_2d(quarter(image), quarter(filters), [1, 1, 1, 1], "SAME"),
                tf.nn.conv2d(number(image), number(filters), 1, "SAME"),
                f8_ops.f8_conv_1d(quarter(image[:, 0]), quarter(filters[0]), 2, "VALID"),
                tf.nn.conv1d(number(image[:, 0]), number(filters[0]), 2, "VALID"),
                f8_ops.f8_conv_3d(quarter(image[:, tf.newaxis]), quarter(filters[tf.newaxis]), 1,
                                  "SAME")]

    arrays = random(4, 6), random(6, 5), random(2, 5, 5, 3), random(3, 3, 3, 4)
    mine = run(mine, *arrays)
    for i, j in ((0, 1), (3, 4), (5, 6)):
        assert mine[i].dtype == np.float16
        np.testing.assert_allclose(mine[i], mine[j], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(mine[7][:, 0], mine[4], rtol=2e-3, atol=2e-3)
    assert mine[2].shape == (4, 5)


def test_quarter_tensors():
    one = f8_ops.QuarterTensor(tf.zeros([2, 3], tf.uint8), 128)
    assert one.shape == [2, 3] and one.dtype == tf.uint8 and list(one)[1] == 128
    assert one[0].shape == [3]
    with pytest.raises(TypeError, match="only uint8 are supported"):
        f8_ops.QuarterTensor(tf.zeros([2]), 0)
    with pytest.raises(TypeError, match="is a variable"):
        one.assign(one)
    kept = f8_ops.QuarterTensor(np.zeros([2], np.uint8), 0)
    update = kept.assign(f8_ops.QuarterTensor(tf.constant([1, 2], tf.uint8), 5))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(update)
        assert session.run(kept.data).tolist() == [1, 2] and kept.metadata == 5
    with pytest.raises(Exception, match="Input shape must be fully defined"):
        f8_ops.canonicalise_input(tf.placeholder(tf.float16, [None, 2]))
    with pytest.raises(ValueError, match="must be 'NWC' or 'NCW'"):
        f8_ops.f8_conv_1d(tf.zeros([1, 2, 3]), tf.zeros([1, 3, 3]), 1, "SAME", "NHWC")
    assert f8_ops.create_metadata(f8_ops.Format.F143, -1) == 191
    with pytest.raises(ValueError, match="There is no format 'F143'; there are Format.F143 and"):
        f8_ops.create_metadata("F143")
    with pytest.raises(ValueError, match="scale must be at most 31, but it is 32."):
        f8_ops.create_metadata(f8_ops.Format.F143, 32)


# ---- Formats of one's own ----

@pytest.mark.parametrize("where", ["ipu", "cpu"])
@pytest.mark.parametrize("man, exp, bias, dtype", [
    (7, 8, 127, ml_dtypes.bfloat16), (10, 5, 15, np.float16), (2, 5, 15, ml_dtypes.float8_e5m2)])
def test_known_formats(run, random, where, man, exp, bias, dtype):
    values = np.concatenate([random(500), random(500) * 1e-5, random(500) * 1e3])
    if exp == 5 and man == 2:
        values = values.astype(np.float16).astype(np.float32)  # what it calculates with
    gfloat = popfloat.GenericFloat(man, exp, bias)

    def mine(x):
        cast = gfloat.cast_native_to_gfloat(x, en_nanoo=False)
        return cast, tf.cast(gfloat.cast_gfloat_to_native(cast), tf.float32), tf.gradients(
            gfloat.cast_native_to_gfloat(x, storage_type="fp32"), x)[0]

    cast, back, slope = run(mine, values.astype(np.float32), where=where)
    want = values.astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(back, want.astype(np.float32))
    assert tf.as_dtype(cast.dtype) == gfloat.get_gfloat_storage_dtype()
    if gfloat.is_packed_float():
        np.testing.assert_array_equal(cast.view(np.uint8), want.view(np.uint8))
    np.testing.assert_array_equal(slope, 1)


@pytest.mark.parametrize("mode, want", [
    ("RN", [1, 1, 1.5, -1, 2]), ("RZ", [1, 1, 1, -1, 1.5]), ("RA", [1, 1.5, 1.5, -1.5, 2]),
    ("RU", [1, 1.5, 1.5, -1, 2]), ("RD", [1, 1, 1, -1.5, 1.5])])
def test_rounding_modes(run, mode, want):
    values = np.array([1, 1.25, 1.3, -1.25, 1.8], np.float32)
    got, = run(lambda x: popfloat.GenericFloat(1, 4, 7).cast_native_to_gfloat(
        x, round_mode=mode, storage_type="fp32"), values)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("density", ["Invalid", "Uniform", "Bernoulli", "Normal",
                                     "TruncatedNormal"])
def test_stochastic_rounding(run, density):
    got, = run(lambda x: popfloat.GenericFloat(1, 4, 7).cast_native_to_gfloat(
        x, round_mode="SR", sr_density=density, sr_prob=0.25, storage_type="fp32"),
        np.full([4000], 1.125, np.float32))
    assert set(np.unique(got)) <= {1, 1.5}
    mean = {"Bernoulli": 1.375}.get(density, 1.125)
    if density in ("Invalid", "Uniform", "Bernoulli"):
        assert abs(got.mean() - mean) < .02
    assert 0 < (got == 1.5).mean() < 1


def test_what_is_too_large_and_too_small(run):
    values = np.array([1e6, -1e6, np.inf, np.nan, 1e-9, 2 ** -6.9, 2 ** -7.1], np.float32)
    nan, clipped, plain, flushed = run(lambda x: [
        popfloat.GenericFloat(3, 4, 7).cast_native_to_gfloat(x, storage_type="fp32"),
        popfloat.GenericFloat(3, 4, 7, calc_type="fp32").cast_native_to_gfloat(
            x, en_nanoo=False, storage_type="fp32"),
        popfloat.GenericFloat(3, 4, 7, en_inf=False, calc_type="fp32").cast_native_to_gfloat(
            x, en_nanoo=False, storage_type="fp32"),
        popfloat.GenericFloat(3, 4, 7, en_denorm=False).cast_native_to_gfloat(
            x, storage_type="fp32")], values)
    np.testing.assert_array_equal(np.isnan(nan), [True, True, True, True, False, False, False])
    np.testing.assert_array_equal(clipped[:2], [240, -240])
    np.testing.assert_array_equal(plain[:5], [480, -480, 0, 0, 0])
    np.testing.assert_array_equal(flushed[4:], [0, 2 ** -6, 0])


def test_functions_and_refusals(run, random):
    x = random(20)
    one, other = run(lambda x: [
        popfloat.cast_native_to_gfloat(x, popfloat.calc_gfloat_params(7, 8, 127),
                                       out_type=tf.float32),
        popfloat.GenericFloat(7, 8, 127).get_cast_native_to_gfloat_fun(storage_type="fp32")(x)], x)
    np.testing.assert_array_equal(one, other)
    gfloat = popfloat.GenericFloat(3, 4, 7)
    assert gfloat.get_gfloat_packed_params() == 3 | 4 << 8 | 7 << 16 | 3 << 24
    assert gfloat.get_gfloat_cast_param_size() == 29 == len(gfloat.get_cast_to_gfloat_params())
    assert (gfloat.get_mantissa_size(), gfloat.get_exponent_size(), gfloat.get_exponent_bias(),
            gfloat.get_en_denorms(), gfloat.get_en_inf()) == (3, 4, 7, True, True)
    gfloat.reset()
    with pytest.raises(RuntimeError, match="cannot be generated using IEEE FP16"):
        popfloat.GenericFloat(7, 8, 127, calc_type="fp16")
    with pytest.raises(RuntimeError, match="Gfloat calculation type not supported"):
        popfloat.GenericFloat(3, 4, 7, calc_type="banana")
    with pytest.raises(RuntimeWarning, match="Infs and Nans are not enabled"):
        popfloat.GenericFloat(3, 4, 7, en_inf=False).cast_native_to_gfloat(tf.zeros([1]))
    with pytest.raises(RuntimeError, match="Gfloat storage format not supported"):
        gfloat.cast_native_to_gfloat(tf.zeros([1]), storage_type="banana")
    with pytest.raises(ValueError, match="round_mode must be one of"):
        gfloat.cast_native_to_gfloat(tf.zeros([1]), round_mode="banana")
    with pytest.raises(ValueError, match="sr_density must be one of"):
        gfloat.cast_native_to_gfloat(tf.zeros([1]), round_mode="SR", sr_density="banana")
    assert ipu.popfloat_cast_to_gfloat is popfloat
