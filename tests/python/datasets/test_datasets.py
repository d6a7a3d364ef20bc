"""What there is for datasets: benchmarks, extractors, buffers."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu
from tensorflow.python.eager import context


def dataset(shape=(4, 4)):
    return tf.data.Dataset.range(10).map(lambda i: tf.cast(i, tf.float32) + tf.zeros(shape))


@pytest.mark.parametrize("of_infeed", [False, True])
def test_benchmark(of_infeed, capsys):
    if of_infeed:
        queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset())
        operation = ipu.dataset_benchmark.infeed_benchmark(queue, 3, 25)
    else:
        operation = ipu.dataset_benchmark.dataset_benchmark(dataset(), 3, 25)
    with tf.Session() as session:
        text = session.run(operation)[0]
    epochs = json.loads(text)["epochs"]
    assert len(epochs) == 3
    for one in epochs:
        assert one["elements_processed"] == 25 and one["total_bytes_processed"] == 25 * 64
        assert one["elements_per_second"] == pytest.approx(25 / one["time_elapsed"])
        assert one["bandwidth"] > 0
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["epochs"] == epochs


def test_benchmark_of_a_dataset_that_is_fed():
    values = tf.placeholder(tf.float32, [6, 2])
    operation = ipu.dataset_benchmark.dataset_benchmark(
        tf.data.Dataset.from_tensor_slices(values), 1, 6, print_stats=False)
    with tf.Session() as session:
        text = session.run(operation, {values: np.ones([6, 2])})[0]
    assert json.loads(text)["epochs"][0]["total_bytes_processed"] == 48


@pytest.mark.smoke
@pytest.mark.parametrize("traced", [False, True])
def test_benchmark_in_eager_mode(traced, capsys):
    def benchmark():
        queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset())
        return [ipu.dataset_benchmark.infeed_benchmark(queue, 2, 5, do_memcpy=False),
                ipu.dataset_benchmark.dataset_benchmark(dataset(), 3, 25, print_stats=False)]

    with context.eager_mode():
        texts = tf.function(benchmark, autograph=False)() if traced else benchmark()
        of_queue, of_dataset = (json.loads(text.numpy()[0])["epochs"] for text in texts)
        assert [one["total_bytes_processed"] for one in of_queue] == [5 * 64] * 2
        assert [one["elements_processed"] for one in of_dataset] == [25] * 3
        assert json.loads(capsys.readouterr().err.splitlines()[-1])["epochs"] == of_queue
        with pytest.raises(tf.errors.InvalidArgumentError, match="a dimension of size 0"):
            ipu.dataset_benchmark.dataset_benchmark(dataset((4, 0)), 1, 1)


def test_benchmark_refuses():
    with pytest.raises(ValueError, match="Expected `number_of_epochs` to be at least 1"):
        ipu.dataset_benchmark.dataset_benchmark(dataset(), 0, 1)
    with pytest.raises(TypeError, match="of type `tf.data.Dataset`"):
        ipu.dataset_benchmark.dataset_benchmark([1], 1, 1)
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset((4, 0)))
    operation = ipu.dataset_benchmark.infeed_benchmark(queue, 1, 1)
    with tf.Session() as session, pytest.raises(
            tf.errors.InvalidArgumentError,
            match="Detected a tensor in the dataset with a dimension of size 0"):
        session.run(operation)


def test_extractor_and_variables(tmp_path):
    path = str(tmp_path / "data.bin")
    pairs = tf.data.Dataset.range(5).map(lambda i: {"a": i, "b": [i, i + 1]})
    ipu.utils.export_dataset_to_file(pairs, path, 3, "feed")
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["feed.0"], [0, 1, 2])
        np.testing.assert_array_equal(archive["feed.1"], [[0, 1], [1, 2], [2, 3]])

    variable = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    export = ipu.dataset_extractor.export_variables(
        [variable], ipu.dataset_extractor.get_variable_handles([variable]),
        str(tmp_path / "variables"))
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(export)
        session.run(variable.assign([0.0, 0.0]))
        session.run(ipu.dataset_extractor.import_variables([variable],
                                                           str(tmp_path / "variables")))
        np.testing.assert_array_equal(session.run(variable), [1.0, 2.0])
    other = tf.get_variable("other", initializer=0.0, use_resource=True)
    with pytest.raises(ValueError, match="have no values for other:0"):
        ipu.dataset_extractor.import_variables([other], str(tmp_path / "variables"))


@pytest.mark.smoke
def test_files_in_eager_mode(tmp_path):
    from_dataset, from_queue, inputs = (str(tmp_path / name) for name in ("a", "b", "c"))
    with context.eager_mode():
        ipu.dataset_extractor.dataset_extractor(dataset(), 3, from_dataset, "feed")
        ipu.utils.export_dataset_to_file(ipu.ipu_infeed_queue.IPUInfeedQueue(dataset()),
                                         from_queue, 2, "feed")
        variable = tf.Variable([1., 2.], name="v", use_resource=True)
        ipu.utils.export_inputs_to_file([variable], inputs, {})
        variable.assign([0., 0.])
        ipu.dataset_extractor.import_variables([variable], inputs)
        np.testing.assert_array_equal(variable, [1, 2])
    for path, count in (from_dataset, 3), (from_queue, 2):
        with np.load(path) as archive:
            np.testing.assert_array_equal(archive["feed.0"][:, 0, 0], range(count))


def test_arguments_of_other_kinds(tmp_path):
    extract = ipu.dataset_extractor.dataset_extractor
    export = ipu.dataset_extractor.export_variables
    one, path = tf.zeros([2]), tmp_path / "file"
    for error, message, function, arguments in [
            (TypeError, "number_of_epochs must be an int", ipu.dataset_benchmark.dataset_benchmark,
             (dataset(), "2", 1)),
            (TypeError, "num_elements must be an int", extract, (dataset(), "2", path, "feed")),
            (TypeError, "filename must be a path", extract, (dataset(), 2, 3, "feed")),
            (TypeError, "feed_name must be a str", extract, (dataset(), 2, path, 3)),
            (ValueError, "There are 1 variables, but 2 names", export, ([one], ["a", "b"], path)),
            (ValueError, "in a file must differ", export, ([one, one], ["a", "a"], path)),
            (TypeError, "variables must be a list, but it is 3", export, (3, ["a"], path)),
            (TypeError, "Every one of names must be a str", export, ([one], [3], path)),
            (TypeError, "filename must be a path", export, ([one], ["a"], 3))]:
        with pytest.raises(error, match=message):
            function(*arguments)
    with tf.Session() as session:
        session.run(export(one, "a", path))
        session.run(export([tf.identity(one, "b")], tmp_path / "old", True))  # is_input, till 2.4
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["a"], [0, 0])
    with np.load(tmp_path / "old") as archive:
        np.testing.assert_array_equal(archive["b:0"], [0, 0])


@pytest.mark.parametrize("structure", [
    lambda x: x, lambda x: (x,), lambda x: (x, {"a": x}), lambda x: {"a": x, "b": (x, x)}])
@pytest.mark.parametrize("make, ends", [
    (lambda: tf.data.Dataset.range(5), True),
    (lambda: tf.data.Dataset.range(9).filter(lambda x: x < 5), True),
    (lambda: tf.data.Dataset.range(5).repeat(), False)])
def test_buffer_dataset(make, ends, structure):
    """Two elements are a buffer; one that is left over is dropped."""
    from tensorflow.python.ipu.data.ops import dataset_ops
    with tf.Graph().as_default(), tf.Session() as session:
        buffered = dataset_ops.BufferDataset(make().map(structure), 2)
        value = tf.data.make_one_shot_iterator(buffered).get_next()
        for i in range(4):
            found = session.run(value)
            tf.nest.assert_same_structure(found, structure(i))
            assert tf.nest.flatten(found) == tf.nest.flatten(structure(i))
        if ends:
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(value)
        with pytest.raises(ValueError, match="buffer_size must be 1 or more, but it is 0."):
            dataset_ops.BufferDataset(make(), 0)
