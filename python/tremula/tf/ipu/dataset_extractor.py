"""Writing datasets and variables to files (`tensorflow.python.ipu.dataset_extractor`).

The files are numpy's .npz archives: an array for each tensor of an element, with one dimension
more, or for each variable. The original's format was its own and could be read by nothing else.
"""

import sys
import zipfile
import zlib

import numpy as np
import tensorflow.compat.v1 as tf

from tremula.tf.inner import datasets, functions
from tremula.tf.runtime.base import checks, regular


def dataset_extractor(dataset, num_elements, filename, feed_name, print_stats=True):
    """The operation that writes `num_elements` elements of a dataset to a file; in eager mode that
    is done at once.

    The arrays' names are "<feed_name>.<number of the tensor in an element>". Raises TypeError for
    what is no dataset, ValueError for a number below 1.
    """
    num_elements = checks.whole("num_elements", num_elements)
    if num_elements < 1:
        raise ValueError("Expected `num_elements` to be at least 1.")
    filename = checks.path("filename", filename)
    checks.text("feed_name", feed_name)
    if not isinstance(dataset, datasets.dataset_class()):
        raise TypeError("Expected `dataset` argument to be of type `tf.data.Dataset`, but got "
                        f"{dataset} instead.")

    def extract():
        iterator, made = datasets.iterator(dataset.take(num_elements))
        with tf.control_dependencies(made):
            first = tf.constant(0) + 0
        shapes = tf.nest.flatten(tf.data.get_output_shapes(dataset))
        types = tf.nest.flatten(tf.data.get_output_types(dataset))

        def element(number, *arrays):
            values = tf.nest.flatten(iterator.get_next())
            return [number + 1, *[array.write(number, value)
                                  for array, value in zip(arrays, values)]]

        _, *arrays = tf.while_loop(
            lambda number, *_: number < num_elements, element,
            [first, *[tf.TensorArray(dtype, num_elements, element_shape=shape)
                      for dtype, shape in zip(types, shapes)]], parallel_iterations=1)
        names = [f"{feed_name}.{i}" for i in range(len(arrays))]
        return _write([one.stack() for one in arrays], names, filename, print_stats)

    with tf.device("/device:CPU:0"):
        if not tf.executing_eagerly():
            return extract()
        return functions.without_retracing_warning(
            tf.function(lambda: [extract()] and None, autograph=False))()


def export_variables(variables, names, filename=None, metadata=None, print_stats=True,
                     is_input=True):
    """The operation that writes variables or tensors, of any shape and type, to a file under
    `names`; as before SDK 2.5 also export_variables(variables, filename, is_input).

    Raises TypeError for variables or names that are no list, ValueError for another number of
    names, and for names that are equal.
    """
    del metadata, is_input
    variables = _several("variables", variables)
    if filename is None or isinstance(filename, bool):
        names, filename = [one.name for one in variables], names
    names = [checks.text("Every one of names", one)
             for one in ([names] if isinstance(names, str) else _several("names", names))]
    if len(names) != len(variables):
        raise ValueError(f"There are {len(variables)} variables, but {len(names)} names.")
    if len(set(names)) != len(names):
        raise ValueError(f"The names of variables in a file must differ, but they are {names!r}.")
    with tf.device("/device:CPU:0"):
        return _write([tf.convert_to_tensor(one) for one in variables], names,
                      checks.path("filename", filename), print_stats)


def import_variables(variables, filenames, is_input=True, strict=True, print_stats=True):
    """The operation that gives variables, of any shape and type, the arrays that files hold under
    their names.

    `filenames` is one name or a list. With `strict` a variable that no file has is a ValueError;
    otherwise it stays as it is. Raises TypeError for variables that are no list, FileNotFoundError,
    and ValueError for a damaged file and for arrays of another shape.
    """
    del is_input
    found = {}
    variables = _several("variables", variables)
    if not isinstance(filenames, (list, tuple)):
        filenames = [filenames]
    for filename in filenames:
        found.update(read_arrays(checks.path("filenames", filename)))
    missing = [one.name for one in variables if one.name not in found]
    if missing and strict:
        raise ValueError(f"The files {filenames} have no values for {', '.join(missing)}.")
    if print_stats:
        print(f"{len(variables) - len(missing)} variables from {filenames}", file=sys.stderr)
    return tf.group(*[one.assign(found[one.name]) for one in variables if one.name in found])


def read_arrays(filename):
    """{name: array} of a file that was written here. Raises ValueError for any other, and for a
    damaged one."""
    try:
        with open(filename, "rb", opener=regular.opener) as file, np.load(file) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, KeyError, TypeError, AttributeError, NotImplementedError,
            zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{filename} is no file of variables, or is damaged: {error}") from None


def get_variable_handles(variables):
    """The names under which variables, of any shape and type, are in files: a list of texts. Raises
    TypeError for what is neither a variable nor a list."""
    return [one.name for one in _several("variables", variables)]


def _several(name, values):
    if checks.is_tensor(values):
        return [values]
    if isinstance(values, (list, tuple)):
        return list(values)
    raise TypeError(f"{name} must be a list, but it is {values!r}.")


def _write(tensors, names, filename, print_stats):
    def write(*arrays):
        with regular.replacing(filename) as file:
            np.savez(file, **dict(zip(names, arrays)))
        if print_stats:
            print(f"{sum(one.nbytes for one in arrays)} bytes of {', '.join(names)} written to "
                  f"{filename}", file=sys.stderr)
        return []

    return tf.group(tf.numpy_function(write, tensors, []))
