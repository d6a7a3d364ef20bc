"""serving: what is exported computes what was exported, without our Python."""

import os
import textwrap

import interpreter
import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

LOAD = """
    import os, sys, json
    import tensorflow as tf
    from tensorflow.python.framework import load_library
    load_library.load_pluggable_device_library(
        os.path.join(os.environ["TREMULA_LIBRARY_DIR"], "libtremula_tf.so"))
    function = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
    feeds = {name: tf.constant(value, tf.float32)
             for name, value in json.loads(sys.argv[2]).items()}
    for _ in range(2):
        print("ran:", json.dumps({name: one.numpy().tolist()
                                  for name, one in sorted(function(**feeds).items())}))
    print("ours:", any(name.startswith("tremula.tf") for name in sys.modules))
"""


def serve(folder, feeds, tmp_path):
    import json
    done = interpreter.run(["-c", textwrap.dedent(LOAD), folder, json.dumps(feeds)],
                           env={**os.environ, "TREMULA_RUNTIME_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ours: False" in done.stdout
    lines = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("ran:")]
    assert len(lines) == 2 and lines[0] == lines[1]
    return lines[0]


SPEC = [tf2.TensorSpec([2], tf2.float32)]


def step(x):
    w = tf.get_variable("w", [2], tf.float32, tf.constant_initializer([2., 3.]))
    return x * w + 1


def test_single_step(tmp_path):
    folder = str(tmp_path / "model")
    run = ipu.serving.export_single_step(step, folder, 10, SPEC)
    assert serve(folder, {"x": [1, 2]}, tmp_path) == {"output_0": [3, 7]}
    y = run(tf.constant([4., 5.]))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(y), [[9, 16]])


def test_steps_around_and_names(tmp_path):
    folder = str(tmp_path / "model")
    ipu.serving.export_single_step(
        lambda a, b: (a + b, a - b), folder, 1,
        predict_step_signature=[tf2.TensorSpec([2], tf2.float32)] * 2,
        preprocessing_step=lambda text: (tf.strings.to_number(text[0]) * tf.ones([2]),
                                         tf.strings.to_number(text[1]) * tf.ones([2])),
        preprocessing_step_signature=[tf2.TensorSpec([2], tf2.string)],
        postprocessing_step=lambda total, difference: {"product": total * difference})
    with tf.Session() as session:
        model = tf.saved_model.load(session, ["serve"], folder)
        signature = model.signature_def["serving_default"]
        found = session.run(signature.outputs["product"].name,
                            {signature.inputs["text"].name: ["5", "3"]})
    np.testing.assert_array_equal(found, [16, 16])


def _to_numbers(texts):
    return tf.strings.to_number(texts)


def _total(y):
    return tf.reduce_sum(y)


TEXTS = [tf2.TensorSpec([2], tf2.string)]


@pytest.mark.parametrize("arguments", [
    dict(preprocessing_step_signature=TEXTS),
    dict(input_dataset=True),
    dict(preprocessing_step=tf2.function(_to_numbers, input_signature=TEXTS))])
def test_signatures_of_steps(tmp_path, arguments):
    """The dataset's elements are those of the step that comes first."""
    if "input_dataset" in arguments:
        arguments = {"input_dataset": tf.data.Dataset.from_tensors(["1", "2"])}
    run = ipu.serving.export_pipeline(
        [lambda k, x: x * k, lambda x: x + 1.], str(tmp_path / "model"), 4, inputs=[3.],
        device_mapping=[0, 0], **{
            "predict_step_signature": SPEC, "preprocessing_step": _to_numbers,
            "postprocessing_step": _total, "postprocessing_step_signature": SPEC, **arguments})
    y = run(tf.constant(["5", "7"]))
    with tf.Session() as session:
        assert session.run(y) == [38]


def test_steps_that_do_not_fit(tmp_path):
    wrong = [tf2.TensorSpec([3], tf2.float32)]
    for message, arguments in [
            ("output 0 of preprocessing_step .* shape .2,., but the signature of predict_step says "
             r"float32 and \(3,\)", dict(predict_step_signature=wrong)),
            ("number of the preprocessing_step outputs, 2, does not match .* predict_step, .* 1",
             dict(preprocessing_step=lambda text: (_to_numbers(text),) * 2)),
            (r"predict_step .* float32 .* of postprocessing_step says int32 and \(2,\)", dict(
                postprocessing_step_signature=[tf2.TensorSpec([2], tf2.int32)])),
            ("predict_step has no output y, which postprocessing_step takes", dict(
                predict_step=lambda x: {"z": x})),
            ("Both preprocessing_step_signature and input_dataset", dict(
                input_dataset=tf.data.Dataset.from_tensors(["1", "2"])))]:
        given = dict(predict_step=lambda x: x, export_dir=str(tmp_path / "new"), iterations=1,
                     predict_step_signature=SPEC, preprocessing_step=_to_numbers,
                     preprocessing_step_signature=TEXTS, postprocessing_step=_total,
                     postprocessing_step_signature=SPEC)
        with pytest.raises(ValueError, match=message):
            ipu.serving.export_single_step(**{**given, **arguments})


def test_values_of_variables(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", [2], use_resource=True, initializer=tf.zeros_initializer())
        session.run(w.assign([10., 20.]))
        tf.train.Saver().save(session, str(tmp_path / "checkpoint" / "model"))
    restored, given = str(tmp_path / "restored"), str(tmp_path / "given")
    ipu.serving.export_single_step(step, restored, 1, SPEC,
                                   checkpoint_restore_dir=str(tmp_path / "checkpoint"))
    assert serve(restored, {"x": [1, 1]}, tmp_path) == {"output_0": [11, 21]}

    def initialize(session):
        with session.graph.as_default():
            session.run(tf.global_variables()[0].assign([7., 8.]))

    y = ipu.serving.export_single_step(step, given, 1, SPEC, variable_initializer=initialize)(
        tf.constant([1., 1.]))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(y), [[8, 9]])
    called = []
    ipu.serving.export_single_step(step, given, 1, SPEC, purge_export_dir=True,
                                   checkpoint_restore_dir=str(tmp_path / "checkpoint"),
                                   variable_initializer=called.append)
    assert called and serve(given, {"x": [1, 1]}, tmp_path) == {"output_0": [11, 21]}


def test_pipeline(tmp_path, devices):
    devices(2)
    folder = str(tmp_path / "model")
    dataset = tf.data.Dataset.from_tensors(np.zeros(2, np.float32))
    run = ipu.serving.export_pipeline([lambda k, x: x * k, lambda x: x + 5.], folder, 4,
                                      inputs=[3.], device_mapping=[0, 1], input_dataset=dataset,
                                      output_names="y")
    y = run(tf.constant([1., 2.]))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(y)["y"], [8, 11])
    with pytest.raises(ValueError, match="1 mappings != 2 stages"):
        ipu.serving.export_pipeline([step, step], str(tmp_path / "b"), 1, device_mapping=[0])


def test_eager(tmp_path):
    from tensorflow.python.eager import context
    with context.eager_mode():
        w = tf2.Variable([2., 3.])

        @tf2.function(input_signature=SPEC, autograph=False)
        def predict(x):
            return x * w

        folder = str(tmp_path / "model")
        run = ipu.serving.export_single_step(predict, folder, 2, output_names=["y"])
        np.testing.assert_array_equal(run(tf.constant([1., 2.]))["y"], [2, 6])
        w.assign([0., 0.])  # what is exported has values of its own
        np.testing.assert_array_equal(run(np.float32([1, 2]))["y"], [2, 6])
        with pytest.raises(TypeError, match=r"takes 1 tensors \(x\), but got 2"):
            run(1., 2.)
    assert serve(folder, {"x": [2, 2]}, tmp_path) == {"y": [4, 6]}


def test_refusals(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("")
    for error, message, arguments in [
            (ValueError, "Directory is not empty", dict(export_dir=str(full))),
            (ValueError, "Directory is not empty", dict(
                export_dir=str(full), predict_step_signature=SPEC[0])),
            (ValueError, "Both predict_step_signature and input_dataset", dict(
                input_dataset=tf.data.Dataset.range(1))),
            (ValueError, "Missing input_signature", dict(predict_step_signature=None)),
            (TypeError, "must be either a tuple or a list", dict(predict_step_signature=3)),
            (ValueError, "does not match the number of step", dict(
                predict_step_signature=SPEC * 2)),
            (TypeError, "instance of tf.Dataset", dict(
                input_dataset=[1], predict_step_signature=None)),
            (ValueError, "number of output_names", dict(output_names=["a", "b"])),
            (ValueError, "iterations must be", dict(iterations=0)),
            (TypeError, "iterations must be an int, but it is '1'", dict(iterations="1")),
            (TypeError, "export_dir must be a path.* but it is None", dict(export_dir=None)),
            (ValueError, "export_dir must be a directory", dict(export_dir=str(full / "file"))),
            (TypeError, "purge_export_dir must be a bool", dict(purge_export_dir="no")),
            (TypeError, "predict_step must be a function, not 3", dict(predict_step=3)),
            (TypeError, "preprocessing_step must be a function", dict(preprocessing_step=3)),
            (TypeError, "postprocessing_step must be a function", dict(postprocessing_step=3)),
            (TypeError, "variable_initializer must be a function", dict(variable_initializer=3)),
            (TypeError, "checkpoint_restore_dir must be a path", dict(checkpoint_restore_dir=3)),
            (TypeError, "consist of tf.TensorSpec, but it has 3", dict(
                predict_step_signature=[3])),
            (TypeError, "elements of input_dataset must be tensors or tuples of them", dict(
                input_dataset=tf.data.Dataset.from_tensors({"x": 1.}),
                predict_step_signature=None)),
            (TypeError, "output_names must be a list, but it is 3", dict(output_names=3)),
            (TypeError, "Every one of output_names must be a str", dict(output_names=[3])),
            (ValueError, "output_names must differ", dict(
                predict_step=lambda x: (x, x), output_names=["a", "a"])),
            (ValueError, "output_names are .'a'., but .* a dict with the names .'y'.", dict(
                predict_step=lambda x: {"y": x}, output_names="a")),
            (ValueError, "returned nothing", dict(predict_step=lambda x: None))]:
        given = {"predict_step": step, "export_dir": str(tmp_path / "new"), "iterations": 1,
                 "predict_step_signature": SPEC, **arguments}
        with pytest.raises(error, match=message):
            ipu.serving.export_single_step(**given)
    for error, message, arguments in [
            (TypeError, "computational_stages must be a list, but it is None", dict(
                computational_stages=None)),
            (TypeError, "Every one of computational_stages must be a function, not 3", dict(
                computational_stages=[step, 3])),
            (TypeError, "device_mapping must be a list, but it is 3", dict(device_mapping=3)),
            (TypeError, "inputs must be a list, but it is 3", dict(inputs=3))]:
        given = {"computational_stages": [step, step], "export_dir": str(tmp_path / "new"),
                 "iterations": 1, "predict_step_signature": SPEC, **arguments}
        with pytest.raises(error, match=message):
            ipu.serving.export_pipeline(**given)
    with pytest.raises(ValueError, match="Provided model was not created inside an IPU strategy"):
        ipu.serving.export_keras(3, str(tmp_path / "new"))
    ipu.serving.export_single_step(step, full, np.int64(1), SPEC, purge_export_dir=True)
    assert not (full / "file").exists()
