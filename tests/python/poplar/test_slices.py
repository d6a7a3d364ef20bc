"""a13: slices at indices and their updates, and extremes of rows, against TensorFlow's."""
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tremula.poplar import paths

SOURCE = pathlib.Path(__file__).parent / "sources/slices.cpp"


@pytest.fixture(scope="module")
def op(tmp_path_factory):
    """op(name, inputs, outputs (type, shape)...)."""
    library = tmp_path_factory.mktemp("slices") / "libslices.so"
    subprocess.run(["g++", "-std=c++11", "-shared", "-fPIC", f"-I{paths.INCLUDE}",
                    f"-I{paths.table_headers()}", str(SOURCE), "-o", str(library)], check=True)

    def call(name, inputs, *outputs, **arguments):
        return ipu.custom_ops.precompiled_user_op(
            inputs, str(library), op_name=name,
            outs={"output_types": [dtype for dtype, _ in outputs],
                  "output_shapes": [shape for _, shape in outputs]}, **arguments)
    return call


def run(fetches):
    with tf.Session() as session:
        return session.run(fetches)


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_grouped_gather_and_its_gradient(on_ipu, op, dtype):
    groups, entries, width, lookups = 3, 11, 5, 40
    table, weights = numbers(groups, entries, width, dtype=dtype), numbers(groups, lookups, width)
    rows = np.random.default_rng(1).integers(0, entries, [groups, lookups]).astype(np.int32)

    def program(table, rows):
        found, = op("Gather", [table, rows], (dtype, [groups, lookups, width]))
        return found, tf.gradients(tf.cast(found, tf.float32) * weights, table)[0]

    found, gradient = run(on_ipu(program, [tf.constant(table), tf.constant(rows)]))
    expected, sums = run([
        tf.gather(table, rows, batch_dims=1),
        tf.stack([tf.math.unsorted_segment_sum(weights[g], rows[g], entries)
                  for g in range(groups)])])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(gradient, sums, atol=1e-5 if dtype == np.float32 else 2e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("how", ["set", "add", "max"])
def test_updates(on_ipu, op, how, dtype):
    table, slices = numbers(9, 4, dtype=dtype), numbers(5, 4, dtype=dtype) * 3
    at = np.int32([8, 0, 3, 5, 99] if how == "set" else [8, 0, 3, 8, 99])  # 99: not written
    found, = run(on_ipu(lambda *given: op("Update", list(given), (dtype, [9, 4]), attributes=how),
                        [tf.constant(one) for one in (table, slices, at)]))
    expected = table.copy()
    for place, one in zip(at[:-1], slices):
        old = expected[place]
        expected[place] = {"set": one, "add": old + 2 * one, "max": np.maximum(old, one)}[how]
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == np.float32 else 2e-3)


def test_a_window_and_the_extremes_of_rows(on_ipu, op):
    table = numbers(6, 7)
    window, after, most, where, least = run(on_ipu(
        lambda *given: op("Window", list(given), (tf.float32, [2, 3]), (tf.float32, [6, 7]),
                          (tf.float32, [6]), (tf.uint32, [6]), (tf.uint32, [6])),
        [tf.constant(table), tf.constant([3, 2])]))
    np.testing.assert_array_equal(window, table[3:5, 2:5])
    table[3:5, 2:5] *= -1
    np.testing.assert_array_equal(after, table)
    np.testing.assert_array_equal(most, table.max(1))
    np.testing.assert_array_equal(where, table.argmax(1))
    np.testing.assert_array_equal(least, table.argmin(1))


@pytest.mark.parametrize("what, text", [
    ("dims", r"slices of 1 in dimension 7 of \[4,3\]"),
    ("size", r"slices of 99 in dimension 0 of \[4,3\]"),
    ("indices", r"indices \[4,3\] of the type f32 for slices of 1 dimensions"),
    ("slices", r"an update of \[4,3\] with slices \[2,1,9\]")])
def test_shapes_that_do_not_fit(on_ipu, op, what, text):
    result = on_ipu(lambda x: op("Wrong", [x], (tf.float32, [4, 3]), attributes=what),
                    [tf.zeros([4, 3])])
    with pytest.raises(tf.errors.UnknownError, match=text):
        run(result)
