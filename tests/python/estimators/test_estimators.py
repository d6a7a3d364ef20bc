"""IPUEstimator and IPUPipelineEstimator, next to training by TensorFlow alone."""

import logging
import pathlib
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu

if not hasattr(tf, "estimator") or not hasattr(tf.estimator, "Estimator"):
    pytest.skip("this TensorFlow has no estimators", allow_module_level=True)

FEATURES, CLASSES, BATCH = 6, 3, 4
_random = np.random.RandomState(0)
INPUTS = _random.randn(64, FEATURES).astype(np.float32)
LABELS = INPUTS[:, :CLASSES].argmax(1).astype(np.int32)
WEIGHTS = 0.2 * _random.randn(FEATURES, CLASSES).astype(np.float32)
ModeKeys = tf.estimator.ModeKeys


def dataset(repeats=None):
    return tf.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(
        BATCH, drop_remainder=True).repeat(repeats)


def logits_of(features):
    with tf.variable_scope("model", use_resource=True):
        return tf.layers.dense(features, CLASSES,
                               kernel_initializer=tf.constant_initializer(WEIGHTS))


def kernel_of_model():
    return next(one for one in tf.global_variables() if one.op.name == "model/dense/kernel")


def loss_of(logits, labels):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def model_fn(features, labels, mode, params):
    logits = logits_of(features)
    predictions = tf.argmax(logits, -1, output_type=tf.int32)
    if mode == ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"class": predictions, "logits": logits})
    loss = loss_of(logits, labels)
    if mode == ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={
            "accuracy": tf.metrics.accuracy(labels, predictions)})
    optimizer = tf.train.MomentumOptimizer((params or {}).get("rate", 0.1), 0.9)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


def run_config(directory, iterations=4, ipus=1, legacy=False, **options):
    if legacy:  # as programs of SDK 2.0 and before
        config = ipu.utils.auto_select_ipus(ipu.utils.create_ipu_config(), ipus)
    else:
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = ipus
    return ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(
            iterations_per_loop=iterations, ipu_options=config, **options),
        model_dir=str(directory), log_step_count_steps=iterations, save_summary_steps=iterations,
        tf_random_seed=1)


def estimator(directory, function=model_fn, params=None, **options):
    return ipu.ipu_estimator.IPUEstimator(function, config=run_config(directory, **options),
                                          params={} if params is None else params)


def expected_training(steps, rate=0.1):
    """(losses, kernel) of that many steps by TensorFlow alone."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [BATCH, FEATURES])
        labels = tf.placeholder(tf.int32, [BATCH])
        loss = loss_of(logits_of(x), labels)
        step = tf.train.MomentumOptimizer(rate, 0.9).minimize(loss)
        session.run(tf.global_variables_initializer())
        losses = []
        for i in range(steps):
            taken = slice(i * BATCH % 64, i * BATCH % 64 + BATCH)
            losses.append(session.run([loss, step], {x: INPUTS[taken],
                                                     labels: LABELS[taken]})[0])
        return losses, session.run(kernel_of_model())


class Losses(tf.train.SessionRunHook):
    """What a session gives as the loss, run by run."""

    def __init__(self):
        self.seen = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.get_collection(tf.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        self.seen.append(run_values.results)


def test_training_evaluation_and_prediction(tmp_path):
    one = estimator(tmp_path)
    hook = Losses()
    one.train(dataset, hooks=[hook], steps=12)
    losses, kernel = expected_training(12)
    np.testing.assert_allclose(hook.seen, np.reshape(losses, [3, 4]).mean(1), rtol=1e-5)
    np.testing.assert_allclose(one.get_variable_value("model/dense/kernel"), kernel, rtol=1e-5)
    assert one.get_variable_value("global_step") == 12
    assert one.latest_checkpoint().endswith("model.ckpt-12")
    assert list(pathlib.Path(tmp_path).glob("events.out.*"))

    right = (INPUTS @ kernel + one.get_variable_value("model/dense/bias")).argmax(1) == LABELS
    result = one.evaluate(dataset, steps=16, checkpoint_path=one.latest_checkpoint())
    assert result["accuracy"] == pytest.approx(right.mean())
    assert result["global_step"] == 12

    logits = INPUTS @ kernel + one.get_variable_value("model/dense/bias")
    each = np.log(np.exp(logits).sum(1)) - logits[np.arange(64), LABELS]
    assert result["loss"] == pytest.approx(each.mean(), rel=1e-5)
    partly = one.evaluate(lambda: dataset(1).take(6), steps=16)
    assert partly["accuracy"] == pytest.approx(right[:24].mean())
    assert partly["loss"] == pytest.approx(each[:24].mean(), rel=1e-5)

    found = list(one.predict(lambda: dataset(1)))
    assert len(found) == 64 and found[0]["logits"].shape == (CLASSES,)
    np.testing.assert_array_equal(np.array([p["class"] for p in found]) == LABELS, right)
    assert len(list(one.predict(dataset, num_predictions=5))) == 5
    whole = next(one.predict(dataset, yield_single_examples=False))
    assert whole["logits"].shape == (BATCH, CLASSES)


def test_training_goes_on_from_a_checkpoint_that_tensorflow_reads(tmp_path):
    one = estimator(tmp_path)
    one.train(dataset, steps=8)
    one.train(dataset, max_steps=12)
    one.train(dataset, max_steps=12)
    assert one.get_variable_value("global_step") == 12
    with tf.Graph().as_default(), tf.Session() as session:
        logits_of(tf.zeros([1, FEATURES]))
        tf.train.Saver().restore(session, one.latest_checkpoint())
        np.testing.assert_array_equal(session.run(kernel_of_model()),
                                      one.get_variable_value("model/dense/kernel"))


def test_programs_are_compiled_once_for_all_epochs(tmp_path):
    from tremula.tf.runtime.device import plugin
    one = estimator(tmp_path)

    def epoch():
        one.train(dataset, steps=4)
        one.evaluate(dataset, steps=4)

    epoch()
    before = plugin.library().trm_tf_units_built()
    epoch()
    epoch()
    assert plugin.library().trm_tf_units_built() == before


def test_training_until_the_data_ends(tmp_path):
    one = estimator(tmp_path)
    one.train(lambda: dataset(1))
    assert one.get_variable_value("global_step") == 16


def test_warm_start(tmp_path):
    first = estimator(tmp_path / "first")
    first.train(dataset, steps=4)
    second = ipu.ipu_estimator.IPUEstimator(
        model_fn, config=run_config(tmp_path / "second"), params={"rate": 0.0},
        warm_start_from=str(tmp_path / "first"))
    second.train(dataset, steps=4)
    np.testing.assert_array_equal(second.get_variable_value("model/dense/kernel"),
                                  first.get_variable_value("model/dense/kernel"))


def test_batch_sizes_and_arguments(tmp_path):
    seen = {}

    def input_fn(params, mode):
        seen[mode] = params["batch_size"]
        return tf.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(
            params["batch_size"], drop_remainder=True).repeat()

    one = ipu.ipu_estimator.IPUEstimator(model_fn, config=run_config(tmp_path), params={},
                                         train_batch_size=8, eval_batch_size=2)
    one.train(input_fn, steps=4)
    one.evaluate(input_fn, steps=4)
    assert seen == {ModeKeys.TRAIN: 8, ModeKeys.EVAL: 2}


def test_batch_sizes_are_shared_out(tmp_path):
    seen = {}

    def input_fn(params):
        return dataset().unbatch().batch(params["batch_size"], drop_remainder=True)

    def with_sizes(features, labels, mode, params):
        seen[mode] = params["batch_size"]
        loss = ipu.cross_replica_ops.cross_replica_sum(loss_of(logits_of(features), labels))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.no_op())

    config = run_config(tmp_path, ipus=2, num_replicas=2)
    ipu.ipu_estimator.IPUEstimator(with_sizes, config=config, train_batch_size=16).train(
        input_fn, steps=4)
    assert seen == {ModeKeys.TRAIN: 8}

    def make(size, params=None):
        return ipu.ipu_estimator.IPUEstimator(with_sizes, config=config, params=params,
                                              eval_batch_size=size)

    with pytest.raises(ValueError, match=r"eval_batch_size \(got 0\) must be positive"):
        make(0)
    with pytest.raises(ValueError, match=r"got 3\) must be divisible by num_workers \* num_replicas"
                                         r" \(1 \* 2\)"):
        make(3)
    with pytest.raises(ValueError, match="batch_size cannot be passed in params when"):
        make(2, {"batch_size": 2})
    config._train_distribute, config._eval_distribute = _workers(2), _workers(3)
    with pytest.raises(ValueError, match=r"got 1\) must be divisible by num_workers \* num_replicas"
                                         r" \(3 \* 2\)"):
        make(1)
    config._train_distribute = config._eval_distribute = None
    with pytest.raises(ValueError, match=r"input_fn must have params argument to receive params"):
        make(2).evaluate(dataset, steps=4)


def _workers(count):
    """A strategy of so many workers, as far as a constructor looks at it."""
    made = object.__new__(ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategy)
    made._extended = types.SimpleNamespace(_num_replicas_in_sync=count)
    return made


def test_metrics_on_the_host_see_the_iterations(tmp_path):
    shapes = []

    def metrics(labels):
        shapes.append(labels.shape.as_list())
        return {"recall": tf.metrics.recall_at_k(tf.cast(labels, tf.int64),
                                                 tf.cast(labels, tf.float32), 1)}

    def with_metrics(features, labels, mode):
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss_of(logits_of(features), labels), eval_metrics=(metrics, [labels]))

    ipu.ipu_estimator.IPUEstimator(with_metrics, config=run_config(tmp_path)).evaluate(
        dataset, steps=4)
    assert shapes == [[None, BATCH]]


def test_predictions_one_iteration_or_one_example_at_a_time(tmp_path):
    def twice(features, mode):
        return tf.estimator.EstimatorSpec(mode, predictions={"twice": 2 * features})

    one = ipu.ipu_estimator.IPUEstimator(twice, config=run_config(tmp_path, iterations=3))

    def batches():
        return tf.data.Dataset.range(12).map(lambda x: tf.cast(x, tf.int32)).batch(
            2, drop_remainder=True)

    examples = one.predict(batches, num_predictions=5)
    assert [found["twice"] for found in examples] == [0, 2, 4, 6, 8]
    iterations = one.predict(batches, yield_single_examples=False)
    assert [found["twice"].tolist() for found in iterations] == [
        [4 * i, 4 * i + 2] for i in range(6)]


@pytest.mark.parametrize("iterations", [1, 2])
def test_the_global_step_goes_on_in_an_evaluation(tmp_path, iterations):
    def with_step(features, mode):
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features), eval_metric_ops={
            "step": tf.metrics.mean(tf.train.get_global_step())})

    one = ipu.ipu_estimator.IPUEstimator(with_step, config=run_config(tmp_path, iterations))
    found = one.evaluate(lambda: tf.data.Dataset.from_tensor_slices([0., 0., 0., 0.]), steps=4)
    assert found["step"] == {1: (0 + 1 + 2 + 3) / 4, 2: (0 + 0 + 2 + 2) / 4}[iterations]
    assert found["global_step"] == 0


def test_host_call_without_arguments(tmp_path):
    def count():
        return tf.get_variable("calls", initializer=0.0).assign_add(1.0)

    def with_host_call(features, labels, mode):
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss_of(logits_of(features), labels), train_op=tf.no_op(),
            host_call=(count, []))

    one = ipu.ipu_estimator.IPUEstimator(with_host_call, config=run_config(tmp_path, 1))
    one.train(dataset, steps=3)
    assert one.get_variable_value("calls") == 3.0


@pytest.mark.parametrize("elements", [1, 3])
def test_elements_are_features_and_labels(tmp_path, elements):
    with pytest.raises(ValueError, match=r"should return .features, labels. as a len 2 tuple"):
        estimator(tmp_path).train(
            lambda: tf.data.Dataset.from_tensor_slices((INPUTS,) * elements), steps=4)


def test_the_devices_of_the_ordinal_count():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = [2, 4]
    ipu.ipu_run_config.IPURunConfig(ipu_options=config, num_replicas=4, ordinal=1)
    with pytest.raises(ValueError, match="but `ipu_options` configured with 2 devices"):
        ipu.ipu_run_config.IPURunConfig(ipu_options=config, num_replicas=4)
    with pytest.raises(ValueError, match="ordinal is 2"):
        ipu.ipu_run_config.IPURunConfig(ipu_options=config, ordinal=2)


def test_metrics_on_the_host(tmp_path):
    def with_metrics(features, labels, mode):
        logits = logits_of(features)
        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss_of(logits, labels), eval_metrics=(
                lambda labels, logits: {"accuracy": tf.metrics.accuracy(
                    labels, tf.argmax(logits, -1))},
                {"labels": labels, "logits": logits}))

    one = ipu.ipu_estimator.IPUEstimator(with_metrics, config=run_config(tmp_path))
    right = (INPUTS @ WEIGHTS).argmax(1) == LABELS
    assert one.evaluate(dataset, steps=16)["accuracy"] == pytest.approx(right.mean())


def test_host_call(tmp_path):
    seen = []

    def with_host_call(features, labels, mode):
        loss = loss_of(logits_of(features), labels)

        def on_host(value):
            return tf.py_func(lambda one: seen.append(one) or one, [value], tf.float32)

        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode, loss=loss, train_op=tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss),
            host_call=(on_host, [loss]))

    one = ipu.ipu_estimator.IPUEstimator(with_host_call,
                                         config=run_config(tmp_path, iterations=1))
    one.train(dataset, steps=3)
    np.testing.assert_allclose(seen, expected_training(3)[0], rtol=1e-5)
    with pytest.raises(ValueError, match="host_call is not allowed for iterations_per_loop > 1"):
        ipu.ipu_estimator.IPUEstimator(
            with_host_call, config=run_config(tmp_path / "two")).train(dataset, steps=4)


def test_logging_hook(tmp_path, caplog):
    def with_log(features, labels, mode):
        loss = loss_of(logits_of(features), labels)
        hook = ipu.ipu_session_run_hooks.IPULoggingTensorHook(every_n_iter=1)
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=tf.group(train, hook.log({"the loss": loss})),
            training_hooks=[hook])

    tf.get_logger().propagate = True
    with caplog.at_level(logging.INFO, "tensorflow"):
        ipu.ipu_estimator.IPUEstimator(with_log, config=run_config(tmp_path)).train(
            dataset, steps=8)
    lines = [one.getMessage() for one in caplog.records if "the loss = " in one.getMessage()]
    assert len(lines) == 2
    assert float(lines[1].split(" = ")[1].split(" ")[0]) == pytest.approx(
        expected_training(8)[0][-1], rel=1e-4)


def test_replicas(tmp_path):
    def replicated(features, labels, mode):
        loss = loss_of(logits_of(features), labels)
        optimizer = ipu.cross_replica_optimizer.CrossReplicaOptimizer(
            tf.train.GradientDescentOptimizer(0.1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    one = ipu.ipu_estimator.IPUEstimator(
        replicated, config=run_config(tmp_path, ipus=2, num_replicas=2))
    one.train(dataset, steps=4)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2 * BATCH, FEATURES])
        labels = tf.placeholder(tf.int32, [2 * BATCH])
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss_of(logits_of(x), labels))
        session.run(tf.global_variables_initializer())
        for i in range(4):
            taken = slice(2 * i * BATCH, 2 * (i + 1) * BATCH)
            session.run(step, {x: INPUTS[taken], labels: LABELS[taken]})
        np.testing.assert_allclose(one.get_variable_value("model/dense/kernel"),
                                   session.run(kernel_of_model()), rtol=1e-5)


def test_a_replicated_model_that_exchanges_nothing_is_refused(tmp_path):
    one = estimator(tmp_path, ipus=2, num_replicas=2)
    with pytest.raises(ValueError, match="not a valid replicated training graph"):
        one.train(dataset, steps=4)


def bad_model(**members):
    def function(features, labels, mode):
        loss = loss_of(logits_of(features), labels)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(
            loss, global_step=tf.train.get_global_step() if members.get("counts") else None)
        return ipu.ipu_estimator.IPUEstimatorSpec(mode, loss=loss, train_op=train)
    return function


def batch_size(value):
    return ipu.ipu_estimator.IPUEstimator(
        model_fn, config=ipu.ipu_run_config.RunConfig(), params={}, train_batch_size=value)


@pytest.mark.parametrize("run, error, words", [
    (lambda at: estimator(at).train(dataset(), steps=4), TypeError,
     "input_fn must be a function that makes a tf.data.Dataset and returns it, but it is <_Repeat"),
    (lambda at: estimator(at).train(None, steps=4), TypeError, "but it is None"),
    (lambda at: estimator(at).evaluate(3), TypeError, "input_fn .* but it is 3"),
    (lambda at: next(estimator(at).predict([])), TypeError, r"input_fn .* but it is \[\]"),
    (lambda at: estimator(at).train(dataset, steps="4"), TypeError,
     "steps must be an int, but it is '4'"),
    (lambda at: estimator(at).train(dataset, steps=True), TypeError, "steps must be an int"),
    (lambda at: estimator(at).train(dataset, steps=-4), ValueError, "Must specify steps > 0"),
    (lambda at: estimator(at).train(dataset, max_steps="8"), TypeError,
     "max_steps must be an int, but it is '8'"),
    (lambda at: estimator(at).train(dataset, hooks=Losses(), steps=4), TypeError,
     "hooks must be a list, but it is <.*Losses"),
    (lambda at: estimator(at).train(dataset, steps=4, saving_listeners=3), TypeError,
     "saving_listeners must be a list, but it is 3"),
    (lambda at: estimator(at).evaluate(dataset, steps=0), ValueError,
     "Must specify steps > 0, given: 0"),
    (lambda at: estimator(at).evaluate(dataset, steps=4, name=3), TypeError,
     "name must be a str, but it is 3"),
    (lambda at: next(estimator(at).predict(dataset, num_predictions="2")), TypeError,
     "num_predictions must be an int, but it is '2'"),
    (lambda at: next(estimator(at).predict(dataset, num_predictions=-1)), ValueError,
     "num_predictions must be at least 0"),
    (lambda at: ipu.ipu_estimator.IPUEstimator(model_fn, 3, ipu.ipu_run_config.RunConfig()),
     TypeError, "model_dir must be a path, a str or an os.PathLike, but it is 3"),
    (lambda at: batch_size("8"), TypeError, "train_batch_size must be an int, but it is '8'"),
    (lambda at: batch_size(8.5), TypeError, "train_batch_size must be an int, but it is 8.5"),
    (lambda at: estimator(at).export_saved_model(str(at), None), NotImplementedError,
     "Export what it computes with ipu.serving.export_single_step"),
    (lambda at: ipu.ipu_estimator.IPUEstimatorSpec("train", tf.zeros([]), tf.zeros([]), tf.no_op(),
                                                   host_call=(3, [])), TypeError,
     "first element in `host_call` must be a function, not 3"),
    (lambda at: ipu.ipu_estimator.IPUEstimatorSpec("banana"), ValueError,
     "mode must be one of 'train', 'eval', 'infer'.* but it is 'banana'"),
    (lambda at: ipu.ipu_session_run_hooks.IPULoggingTensorHook(every_n_iter=0), ValueError,
     "every_n_iter must be at least 1"),
    (lambda at: ipu.ipu_session_run_hooks.IPULoggingTensorHook(every_n_secs="x"), TypeError,
     "every_n_secs must be a number"),
    (lambda at: ipu.ipu_session_run_hooks.IPULoggingTensorHook(at_end=True, formatter=3),
     TypeError, "formatter must be a function"),
])
def test_arguments_of_other_kinds(run, error, words, tmp_path):
    with pytest.raises(error, match=words):
        run(tmp_path)


def test_numbers_as_other_libraries_have_them(tmp_path):
    one = ipu.ipu_estimator.IPUEstimator(
        model_fn, tmp_path, ipu.ipu_run_config.RunConfig(
            ipu.ipu_run_config.IPURunConfig(iterations_per_loop=4.0)), params={})
    one.train(lambda mode, params, config: dataset(), hooks=(), steps=8 / 2)
    one.train(dataset, max_steps=np.int64(8))
    assert one.get_variable_value("global_step") == 8
    found = list(one.predict(dataset, predict_keys="class", num_predictions=np.int32(3)))
    assert len(found) == 3 and set(found[0]) == {"class"}


@pytest.mark.parametrize("run, words", [
    (lambda at: estimator(at).train(dataset, steps=3),
     r"steps \(3\) must be a multiple of iterations_per_loop \(4\)"),
    (lambda at: estimator(at).train(lambda: INPUTS, steps=4), "input_fn must return Dataset"),
    (lambda at: ipu.ipu_estimator.IPUEstimator(model_fn, config=tf.estimator.RunConfig()),
     "`config` must be provided with type"),
    (lambda at: ipu.ipu_estimator.IPUEstimator(
        bad_model(counts=True), config=run_config(at)).train(dataset, steps=4),
     "Illegal increment of the `global_step` variable"),
    (lambda at: ipu.ipu_run_config.IPURunConfig(num_replicas=2),
     "requires more than one device, but `ipu_options` is None"),
    (lambda at: run_config(at, ipus=4, num_replicas=2),
     "configured with 2 devices .2 replicas times 1 shards., but `ipu_options` configured with 4"),
    (lambda at: ipu.ipu_estimator.IPUEstimatorSpec(ModeKeys.PREDICT, predictions=tf.zeros([]),
                                                   host_call=3), "`host_call` must be a tuple"),
])
def test_refused(run, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        run(tmp_path)


# ---- Pipelines ----

def pipeline_fn(mode, params):
    def first(features, labels=None):
        return (features,) if labels is None else (features, labels)

    def last(features, labels=None):
        logits = logits_of(features)
        if mode == ModeKeys.PREDICT:
            return logits
        return loss_of(logits, labels) if mode == ModeKeys.TRAIN else (logits, labels)

    def optimizer_function(loss):
        return ipu.pipelining_ops.OptimizerFunctionOutput(
            tf.train.GradientDescentOptimizer(0.1), loss)

    def eval_metrics_fn(logits, labels):
        return {"loss": loss_of(logits, labels),
                "accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, -1))}

    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
        mode, computational_stages=[first, last], gradient_accumulation_count=4,
        optimizer_function=optimizer_function, eval_metrics_fn=eval_metrics_fn,
        **(params or {}))


def pipelined(directory, params=None, **options):
    return ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        pipeline_fn, config=run_config(directory, ipus=2, num_shards=2, **options), params=params)


def test_a_pipeline_is_trained_evaluated_and_used(tmp_path):
    one = pipelined(tmp_path, iterations=8)
    hook = Losses()
    one.train(dataset, hooks=[hook], steps=16)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [4, BATCH, FEATURES])
        labels = tf.placeholder(tf.int32, [4, BATCH])
        losses = [loss_of(logits_of(x[0]), labels[0])]
        with tf.variable_scope("", reuse=True):
            losses += [loss_of(logits_of(x[i]), labels[i]) for i in range(1, 4)]
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.add_n(losses))
        session.run(tf.global_variables_initializer())
        seen = [session.run([losses, step],
                            {x: INPUTS[i:i + 16].reshape(4, BATCH, FEATURES),
                             labels: LABELS[i:i + 16].reshape(4, BATCH)})[0]
                for i in range(0, 64, 16)]
        kernel = session.run(kernel_of_model())
    np.testing.assert_allclose(hook.seen, np.reshape(seen, [2, 8]).mean(1), rtol=1e-5)
    np.testing.assert_allclose(one.get_variable_value("model/dense/kernel"), kernel, rtol=1e-4,
                               atol=1e-6)
    right = (INPUTS @ kernel + one.get_variable_value("model/dense/bias")).argmax(1) == LABELS
    assert one.evaluate(dataset, steps=16)["accuracy"] == pytest.approx(right.mean())
    found = list(one.predict(lambda: tf.data.Dataset.from_tensor_slices(INPUTS).batch(
        BATCH, drop_remainder=True)))
    np.testing.assert_array_equal(np.argmax(found, -1) == LABELS, right)


@pytest.mark.parametrize("params, legacy", [
    ({}, True), ({"count_gradient_accumulation_as_iterations": False}, False),
    ({"pipeline_depth": 4}, False)])
def test_iterations_of_an_older_pipeline_are_updates(params, legacy, tmp_path):
    weights = []
    for directory, count, one in (
            ("new", 4, pipelined(tmp_path / "new", iterations=8)),
            ("old", 1, pipelined(tmp_path / "old", params, iterations=2, legacy=legacy))):
        one.train(dataset, steps=4 * count)
        assert one.get_variable_value("global_step") == 4 * count, directory
        weights.append(one.get_variable_value("model/dense/kernel"))
    np.testing.assert_array_equal(*weights)
    mini_batches = {"count_gradient_accumulation_as_iterations": True}
    with pytest.raises(ValueError, match="cannot be less than `gradient_accumulation_count`"):
        pipelined(tmp_path / "no", mini_batches, iterations=2, legacy=True).train(dataset, steps=4)


@pytest.mark.parametrize("run, error, words", [
    (lambda at: pipelined(at, iterations=6).train(dataset, steps=6), ValueError,
     "must be divisible by `gradient_accumulation_count`"),
    (lambda at: pipelined(at, {"device_mapping": [0, 0]}).train(dataset, steps=4), ValueError,
     "This pipeline requires 1 devices, but `IPURunConfig.num_shards` was set to 2"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        model_fn, config=run_config(at, ipus=2, num_shards=2), params={}).train(dataset, steps=4),
     ValueError, "must not have `features` or `labels` arguments"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(ModeKeys.TRAIN, [], 1),
     ValueError, "must contain `optimizer_function` when training"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(ModeKeys.PREDICT, []),
     ValueError, "gradient_accumulation_count must be specified"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(ModeKeys.PREDICT, [], 0),
     ValueError, "gradient_accumulation_count must be at least 1"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(ModeKeys.PREDICT, None, 1),
     TypeError, "computational_stages must be a list of functions, but it is None"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(ModeKeys.EVAL, [], 1, 3),
     TypeError, "eval_metrics_fn must be a function, not 3"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec("banana", [], 1),
     ValueError, "mode must be one of 'train', 'eval', 'infer'"),
    (lambda at: ipu.ipu_pipeline_estimator.IPUPipelineEstimator(None, config=run_config(at)),
     TypeError, "model_fn must be a function, not None"),
])
def test_refused_pipelines(run, error, words, tmp_path):
    with pytest.raises(error, match=words):
        run(tmp_path)
