"""What cannot be meant is refused where it is said, by TypeError or ValueError, with its name."""

import functools

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

pipelining_ops = ipu.pipelining_ops
KINDS = [-1, "x", 1.5, [], object()]


def refused(error, words, function, *arguments, **keywords):
    with pytest.raises(error, match=words):
        function(*arguments, **keywords)


@pytest.mark.parametrize("wrong", ["2", 1.5, None, True, [], [2], object()])
def test_numbers_of_iterations(on_ipu, wrong):
    refused(TypeError, "number of iterations must be an int or an integer tensor, not ", on_ipu,
            lambda: ipu.loops.repeat(wrong, lambda x: x, [1.0]))


def test_loops(on_ipu):
    refused(TypeError, "infeed_queue must be an .*IPUInfeedQueue, not 3", on_ipu,
            lambda: ipu.loops.repeat(2, lambda x: x, [1.0], 3))
    refused(TypeError, "body of a loop must be a function, not 3", on_ipu,
            lambda: ipu.loops.while_loop(lambda x: x < 3., 3, [1.0]))
    refused(TypeError, "condition of a loop must be a function, not 3", on_ipu,
            lambda: ipu.loops.while_loop(3, lambda x: x, [1.0]))
    refused(TypeError, "inputs of a loop must be tensors", on_ipu,
            lambda: ipu.loops.repeat(3, lambda x: x, [object()]))
    refused(TypeError, "maximum_iterations must be an int or an integer tensor, not 1.5", on_ipu,
            lambda: ipu.loops.while_loop(lambda x: x < 3., lambda x: x, [1.0],
                                         maximum_iterations=1.5))


def test_what_counts_as_a_number(on_ipu, session):
    import numpy as np
    program = on_ipu(lambda: [ipu.loops.repeat(count, lambda x: x + 1., [0.]) for count in (
        3, 3.0, np.int64(3), np.array(3), tf.constant(3), tf.constant(3, tf.int64))])
    with session() as run:
        assert run.run(program) == [3.] * 6


def test_whole_numbers():
    import numpy as np
    from tremula.tf.runtime.base import checks
    for value in (64, 64.0, np.int64(64), np.float64(64)):
        found = checks.whole("n", value)
        assert found == 64 and type(found) is int
    assert checks.whole("n", None, optional=True) is None
    refused(TypeError, "n must be an int, but it is 1.5", checks.whole, "n", 1.5)
    refused(ValueError, "n must be at least 1, but it is 0", checks.whole, "n", 0.0, least=1)


@pytest.mark.parametrize("wrong, error", [("3", TypeError), (1.5, TypeError), (True, TypeError),
                                          (0, ValueError), (256, ValueError)])
def test_prefetch_depth(wrong, error):
    refused(error, "prefetch_depth must be", ipu.ipu_infeed_queue.IPUInfeedQueue,
            tf.data.Dataset.from_tensors(1.0), prefetch_depth=wrong)


_NUMBERS = {"device_ordinal": 0, "replication_factor": 1}


@pytest.mark.parametrize("make, numbers", [
    (lambda **options: ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensors(1.0), **options), {**_NUMBERS, "data_to_prefetch": 1}),
    (lambda **options: ipu.ipu_outfeed_queue.IPUOutfeedQueue(**options),
     {**_NUMBERS, "buffer_depth": 1, "io_batch_size": 1})], ids=["infeed", "outfeed"])
def test_queues(make, numbers):
    for name, least in numbers.items():
        make(**{name: least})
        refused(ValueError, f"{name} must be at least {least}, but", make, **{name: least - 1})
        for wrong in KINDS[1:]:
            refused(TypeError, f"{name} must be an int, but it is", make, **{name: wrong})
    for wrong in (-1, 1.5, []):
        refused(TypeError, "feed_name must be a str, but it is", make, feed_name=wrong)
        refused(TypeError, "optimise_latency must be a bool", make, optimise_latency=wrong)


def test_scopes_and_utilities():
    def scope(function, *arguments):
        with function(*arguments):
            pass

    scopes = ipu.scopes
    refused(TypeError, "name of a device, such as .*, not 3", scope, scopes.ipu_scope, 3)
    refused(ValueError, "an empty list", scope, scopes.ipu_shard, [])
    refused(TypeError, "attribute_name must be a str", scope, scopes.frontend_attribute, 1, "x")
    refused(TypeError, "attribute_value must be a str", scope, scopes.frontend_attribute, "x", 1)
    refused(TypeError, "override must be a bool, but it is 'x'", scope,
            scopes.stochastic_rounding, "x")
    for wrong in (None, "x", 1.5, tf.int32):
        refused(ValueError, "Only support float16, float32", scope, scopes.partials_type, wrong)
    refused(TypeError, "takes a tf.Graph, not 3", ipu.utils.move_variable_initialization_to_cpu, 3)
    for wrong in (None, "x", 1.5):
        refused(TypeError, "seed must be an int", ipu.utils.reset_ipu_seed, wrong)
        refused(ValueError, "is not the name of an IPU device", ipu.utils.get_num_of_ipus_in_device,
                wrong)


def test_compile():
    refused(TypeError, "computation must be a function, not 3", ipu.ipu_compiler.compile, 3)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        refused(TypeError, "inputs must be tensors", ipu.ipu_compiler.compile, lambda x: x,
                [object()])


# ---- Operations ----

@pytest.mark.parametrize("error, words, build", [
    (TypeError, "groups must be an int", lambda x: ipu.normalization_ops.group_norm(x, 1.5)),
    (TypeError, "channels_axis must be an int",
     lambda x: ipu.normalization_ops.layer_norm(x, channels_axis="x")),
    (TypeError, "epsilon must be a number",
     lambda x: ipu.normalization_ops.instance_norm(x, epsilon="x")),
    (ValueError, "epsilon must be at least 0",
     lambda x: ipu.normalization_ops.group_norm(x, epsilon=-1.)),
    (TypeError, "param_initializers must be a dict",
     lambda x: ipu.normalization_ops.group_norm(x, param_initializers=3)),
    (TypeError, "center must be a bool", lambda x: ipu.normalization_ops.group_norm(x, center="x")),
    (TypeError, "noise_shape must be a list of ints",
     lambda x: ipu.rand_ops.dropout(x, noise_shape=3)),
    (TypeError, "serialization_factor must be an int",
     lambda x: ipu.embedding_ops.embedding_lookup(x, [0], serialization_factor=1.5)),
    (ValueError, "params must have a dimension",
     lambda x: ipu.embedding_ops.embedding_lookup(3., [0])),
    (ValueError, "There is no reduction",
     lambda x: ipu.reduce_scatter_op.reduce_scatter(x, 2, op=[])),
    (ValueError, "the list is empty", lambda x: ipu.reduce_scatter_op.reduce_scatter([], 2)),
    (TypeError, "num_units must be an int", lambda x: ipu.rnn_ops.PopnnLSTM("x")),
    (ValueError, "num_units must be at least 1", lambda x: ipu.rnn_ops.PopnnGRU(0)),
    (ValueError, "available_memory_proportion_fwd must be at most 1",
     lambda x: ipu.rnn_ops.PopnnLSTM(3, available_memory_proportion_fwd=1.5)),
    (TypeError, "options must be a dict", lambda x: ipu.rnn_ops.PopnnLSTM(3, options="x")),
    (TypeError, "inputs must be a list", lambda x: ipu.custom_ops.precompiled_user_op(x, "x.so")),
])
def test_operations(on_ipu, error, words, build):
    refused(error, words, on_ipu, lambda: build(tf.ones([2, 4])))


# ---- Training ----

@pytest.mark.parametrize("name, error, words", [
    *[(name, TypeError, "must be a bool") for name in (
        "offload_activations", "offload_gradient_accumulation_buffers", "offload_weights",
        "offload_weight_update_variables", "replicated_optimizer_state_sharding",
        "replicated_weight_sharding", "accumulate_outfeed", "outfeed_loss",
        "continuous_weight_updates", "gradient_accumulation_for_captured_grads")],
    *[(name, TypeError, "must be a type, such as tf.float32") for name in (
        "gradient_accumulation_dtype", "accumulate_outfeed_dtype")],
    ("name", TypeError, "must be a str"), ("outfeed_mask", TypeError, "must be a list of bools"),
    ("optimizer_function", TypeError, "must be a function")])
def test_pipeline(on_ipu, name, error, words):
    """(KINDS has an empty list, which is a mask, and a text, which is a name.)"""
    for wrong in KINDS:
        if wrong in ({"outfeed_mask": [[]], "name": ["x", []]}.get(name) or ()):
            continue
        options = {"optimizer_function": lambda loss: None, name: wrong}
        refused(error, f"{name} {words}", on_ipu, functools.partial(
            pipelining_ops.pipeline, [lambda: 1., lambda x: x], 4,
            outfeed_queue=ipu.ipu_outfeed_queue.IPUOutfeedQueue(), **options))


def test_arguments_of_pipelines_that_do_not_go_together(on_ipu):
    stages = [lambda: 1., lambda x: x]
    refused(ValueError, "older name of gradient_accumulation_count: give one", on_ipu,
            lambda: pipelining_ops.pipeline(stages, 4, pipeline_depth=4))
    refused(TypeError, "gradient_accumulation_count must be an int or", on_ipu,
            lambda: pipelining_ops.pipeline(stages, [4, 4]))
    refused(TypeError, "Every one of computational_stages must be a function, not 3", on_ipu,
            lambda: pipelining_ops.pipeline([stages[0], 3], 4))
    refused(TypeError, "Every one of outfeed_mask must be a bool", on_ipu,
            lambda: pipelining_ops.pipeline(stages, 4, outfeed_mask=["x"]))
    refused(TypeError, "opt must be an optimizer of TensorFlow or Keras, not str",
            pipelining_ops.OptimizerFunctionOutput, "sgd", tf.constant(1.))


def test_optimizers():
    kind = ipu.gradient_accumulation_optimizer.GradientAccumulationOptimizerV2
    inner = tf.train.GradientDescentOptimizer(0.1)
    for wrong in (None, "x", 1.5, []):
        refused(TypeError, "num_mini_batches must be an int", kind, inner, wrong)
    refused(TypeError, "offload_weight_update_variables must be a bool", kind, inner, 2, "x")
    refused(TypeError, "dtype must be a type", kind, inner, 2, dtype="x")
    refused(TypeError, "name must be a str", kind, inner, 2, name=3)
    refused(TypeError, "gradient_mapping_function must be a function",
            ipu.optimizers.MapGradientOptimizer, inner, 3)


def test_run_configs():
    try:
        from tensorflow.python.ipu import ipu_run_config as module
    except ImportError as error:  # no estimators in TensorFlow
        pytest.skip(str(error))
    for name in ("iterations_per_loop", "num_replicas", "num_shards"):
        refused(ValueError, f"{name} must be 1 or more, but", module.IPURunConfig, **{name: 0})
        refused(TypeError, f"{name} must be an int", module.IPURunConfig, **{name: "x"})
    refused(ValueError, "ordinal must be at least 0", module.IPURunConfig, ordinal=-1)
    refused(TypeError, "prefetch_depth must be", module.IPURunConfig, prefetch_depth="x")
    refused(TypeError, "autosharding must be a bool", module.IPURunConfig, autosharding="x")
    refused(TypeError, "ipu_run_config must be an IPURunConfig", module.RunConfig, {})
