"""Pipelines: the numbers of each schedule and form, and what is refused."""

import json
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import plain_training as plain
from tensorflow.python import ipu
from tensorflow.python.ipu import pipelining_ops
from tremula.tf.inner import graphs
from tremula.tf.ipu.ops import _pipeline_arguments

Schedule = pipelining_ops.PipelineSchedule
COUNT, UPDATES = 12, 3


def momentum():
    return tf.train.MomentumOptimizer(0.1, 0.9)


def stages():
    return [lambda x, y: (plain.layer(x, "first", tf.nn.tanh), y),
            lambda x, y: (plain.layer(x, "second", tf.nn.relu), y),
            lambda x, y: plain.loss_of(plain.layer(x, "third"), y)]


def train(optimizer=momentum, **options):
    """Runs a pipeline of three stages for UPDATES updates in all, on one replica. Returns what
    the outfeed gave and the variables."""
    ipus = options.pop("ipus", 4)
    options.setdefault("gradient_accumulation_count", COUNT)
    repeat = options.setdefault("repeat_count", UPDATES)
    with tf.Graph().as_default():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(plain.dataset())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def network():
            return pipelining_ops.pipeline(
                stages(), infeed_queue=infeed, outfeed_queue=outfeed,
                optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(
                    optimizer(), loss), **options)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(network)
        dequeued = outfeed.dequeue()
        configure(ipus)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            values = []
            for _ in range(UPDATES // repeat):
                session.run(step)
                values.append(session.run(dequeued))
            return (np.concatenate([np.ravel(one) for one in values]),
                    {one.name: session.run(one) for one in tf.global_variables()})


def configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def assert_same(result, expected):
    losses, variables = result
    np.testing.assert_allclose(losses, expected[0], rtol=2e-5, atol=1e-6)
    assert sorted(variables) == sorted(expected[1])
    for name, value in variables.items():
        np.testing.assert_allclose(value, expected[1][name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize("repeat_count", [1, UPDATES])
def test_schedules_agree_with_tensorflow(schedule, repeat_count):
    expected = plain.train(momentum, COUNT, UPDATES, mean=False)
    assert_same(train(pipeline_schedule=schedule, repeat_count=repeat_count), expected)


@pytest.mark.parametrize("method", ["SUM", "MEAN"])
def test_types_of_operations(on_ipu, method):
    """Programs look for them by the original's names: a pipeline calls its stages, their gradients
    and the update, each of which has a graph of its own. A weight that two stages share has one
    sum, of both stages' gradients, each of which is scaled."""
    built = []

    def scaled(x):
        with tf.variable_scope("shared", reuse=tf.AUTO_REUSE, use_resource=True):
            return x * tf.get_variable("w", [2], initializer=tf.ones_initializer())

    def network():
        built.append(pipelining_ops.pipeline(
            [lambda x: ipu.rand_ops.dropout(scaled(x), seed=[1, 2]), lambda x: x + 1.,
             lambda x: tf.reduce_sum(scaled(x))], 6, inputs=[tf.ones([2])], repeat_count=2,
            outfeed_queue=ipu.ipu_outfeed_queue.IPUOutfeedQueue(),
            optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(
                tf.train.GradientDescentOptimizer(1.), loss), device_mapping=[0, 1, 0],
            pipeline_schedule=Schedule.Sequential, offload_weight_update_variables=True,
            reduction_method=method, offload_activations=True,
            forward_propagation_stages_poplar_options=[
                pipelining_ops.PipelineStageOptions(matmul_options={"partialsType": "half"})] * 3))
        return built

    on_ipu(network)
    pipeline, = built
    assert pipeline.type == "Pipeline"
    assert [pipeline.get_attr(name) for name in (
        "repeat_count", "batch_serialization_iterations", "schedule", "recomputation_mode",
        "offload_activations", "offload_weights")] == [
            2, 1, 2, b"Auto", b"THREESTATE_ON", b"THREESTATE_UNDEFINED"]
    options = json.loads(pipeline.get_attr("pipeline_poplar_config"))
    assert options["forwardStages"][2]["matmulOptions"] == [
        {"option": "partialsType", "value": "half"}]
    functions = graphs.function_graphs(pipeline.graph)

    def inside(call):
        return functions[call.get_attr("to_apply").name].get_operations()

    def of_type(name, operations):
        return [one for one in operations if one.type == name]

    mini_batch = inside(pipeline)
    stages = of_type("PipelineStage", mini_batch)
    assert [one.get_attr("stage_id") for one in stages] == [0, 1, 2]
    assert len(of_type("IpuDropoutWithSeedAndReference", inside(stages[0]))) == 1
    backward = of_type("PipelineStageBackward", mini_batch)
    assert [one.get_attr("stage_id") for one in backward] == [2, 1, 0]
    assert len(of_type("IpuDropoutWithSeedAndReference", inside(backward[2]))) == 1
    added, = of_type("GradientAccumulatorAddWithScale", mini_batch)
    assert added.inputs[1].op.type == "AddN"
    parts = [one.op for one in added.inputs[1].op.inputs]
    assert [one.type for one in parts] == ["Mul", "Mul"]
    parts = [one.inputs[0].op for one in parts]
    gradients = {one.inputs[0].op if one.type == "Identity" else one  # TensorFlow's gates
                 for one in parts}
    assert gradients == {backward[0], backward[2]}
    update, = (one for graph in functions.values()
               for one in of_type("ResourceUpdate", graph.get_operations()))
    assert update.get_attr("offload_weight_update_variables") == b"THREESTATE_ON"
    assert of_type("ResourceApplyGradientDescent", inside(update))


@pytest.mark.parametrize("method", ["MEAN", "running_mean"])
def test_means(method):
    assert_same(train(reduction_method=method), plain.train(momentum, COUNT, UPDATES, mean=True))


def test_adam():
    def adam():
        return tf.train.AdamOptimizer(0.01)
    assert_same(train(adam, reduction_method="mean"), plain.train(adam, COUNT, UPDATES, mean=True))


def test_recomputation_and_memory_options_change_no_numbers():
    expected = plain.train(momentum, COUNT, UPDATES, mean=False)
    assert_same(train(
        recomputation_mode=pipelining_ops.RecomputationMode.RecomputeThenBackpropagate,
        offload_activations=True, offload_weight_update_variables=True,
        replicated_optimizer_state_sharding=True, device_mapping=[0, 1, 0], ipus=2,
        forward_propagation_stages_poplar_options=[
            pipelining_ops.PipelineStageOptions({"availableMemoryProportion": "0.3"})] * 3),
        expected)


def test_a_stage_on_all_ipus():
    expected = plain.train(momentum, COUNT, UPDATES, mean=False)
    assert_same(train(device_mapping=[pipelining_ops._ALL_DEVICES, 0, 1], ipus=2), expected)


def test_serialised_batches():
    expected = plain.train(momentum, COUNT, UPDATES, mean=False)
    assert_same(train(gradient_accumulation_count=COUNT // 3, batch_serialization_iterations=3,
                      ipus=1),
                expected)


def test_accumulated_loss():
    losses, _ = plain.train(momentum, COUNT, UPDATES, mean=False)
    values, _ = train(outfeed_loss=True, accumulate_outfeed=True)
    np.testing.assert_allclose(values, losses.reshape(UPDATES, COUNT).sum(1), rtol=1e-4)


def test_accumulators_are_not_variables():
    _, variables = train()
    assert sorted(variables) == sorted(plain.train(momentum, 1, 1, False)[1])


def run_inference(network_stages, inputs=(), infeed=None, ipus=2, **options):
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def network(*values):
        return pipelining_ops.pipeline(network_stages, inputs=list(values), infeed_queue=infeed,
                                       outfeed_queue=outfeed, **options)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        step = ipu.ipu_compiler.compile(network, list(inputs))
    dequeued = outfeed.dequeue()
    configure(ipus)
    with tf.Session() as session:
        if infeed is not None:
            session.run(infeed.initializer)
        session.run(step)
        return session.run(dequeued)


def test_inference_with_inputs_and_named_elements():
    with tf.Graph().as_default():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
            tf.data.Dataset.range(8).map(lambda i: {"b": tf.cast(i, tf.float32), "a": 1.0}))

        def first(scale, a, b):
            return {"y": scale * b, "a": a}

        result = run_inference(
            [first, lambda values: (values["y"], values["a"] + values["y"])],
            [tf.constant(2.0)], infeed, gradient_accumulation_count=8)
        np.testing.assert_array_equal(result[0], 2.0 * np.arange(8))
        np.testing.assert_array_equal(result[1], 1.0 + 2.0 * np.arange(8))


def test_a_dict_of_outputs_keeps_its_names():
    with tf.Graph().as_default():
        result = run_inference([lambda x: x + 1.0, lambda x: {"x": x, "double": 2.0 * x}],
                               [tf.constant(1.0)], gradient_accumulation_count=4)
        np.testing.assert_array_equal(result["double"], [4.0] * 4)


@pytest.mark.parametrize("options", [{}, {"accumulate_outfeed": True}])
@pytest.mark.parametrize("last", [lambda x: x + 1., lambda x: [x + 1.], lambda x: (x + 1.,)])
def test_one_tensor_of_the_last_stage_is_dequeued_as_a_list_of_one(last, options):
    with tf.Graph().as_default():
        result = run_inference([lambda x: x * 2., last], [tf.constant(3.0)],
                               gradient_accumulation_count=2, **options)
        assert isinstance(result, list) and len(result) == 1
        np.testing.assert_array_equal(result[0], [14.] if options else [7., 7.])


def test_stages_side_by_side():
    with tf.Graph().as_default():
        result, = run_inference(
            [lambda x: (x, x), [lambda x, y: x + y, lambda x, y: x - y], lambda x, y: x * 10 + y],
            [tf.constant(3.0)], gradient_accumulation_count=6,
            device_mapping=[0, [1, 2], 3], ipus=4)
        np.testing.assert_array_equal(result, [60.0] * 6)


def test_masked_outputs():
    with tf.Graph().as_default():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(plain.dataset())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def last(x, y):
            loss = plain.loss_of(plain.layer(x, "third"), y)
            return loss, loss + 1.0, y

        def network():
            return pipelining_ops.pipeline(
                [*stages()[:2], last], 6, infeed_queue=infeed, outfeed_queue=outfeed,
                outfeed_mask=[True, False, True],
                optimizer_function=lambda loss, *_: pipelining_ops.OptimizerFunctionOutput(
                    momentum(), loss))

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            step = ipu.ipu_compiler.compile(network)
        dequeued = outfeed.dequeue()
        configure(4)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            session.run(step)
            values = session.run(dequeued)
        assert len(values) == 1
        np.testing.assert_allclose(values[0], plain.train(momentum, 6, 1, False)[0] + 1.0,
                                   rtol=1e-5)


@pytest.mark.parametrize("devices, schedule, training, length", [
    ([0, 1, 2], Schedule.Grouped, False, 3), ([0, 1, 2], Schedule.Grouped, True, 6),
    ([0, 1, 2], Schedule.Interleaved, False, 3), ([0, 1, 2], Schedule.Sequential, True, 1)])
def test_overlap(devices, schedule, training, length):
    assert _pipeline_arguments.overlap_length(devices, schedule, training) == length


def identity(x):
    return x


def optimizer_function(loss):
    return pipelining_ops.OptimizerFunctionOutput(momentum(), loss)


@pytest.mark.parametrize("arguments, error, words", [
    ({"computational_stages": [identity]}, ValueError,
     "Pipeline requires at least two computational stages."),
    ({"computational_stages": identity}, TypeError, "needs to be a list or a tuple"),
    ({"gradient_accumulation_count": None}, ValueError,
     "gradient_accumulation_count must be specified"),
    ({"device_mapping": [0]}, ValueError,
     "Each stage must be mapped to an IPU: 1 mappings != 2 stages"),
    ({"device_mapping": 1}, TypeError, "device_mapping argument needs to be a list or a tuple"),
    ({"continuous_weight_updates": True}, NotImplementedError,
     "Continuous weight updates are currently not supported."),
    ({"batch_serialization_iterations": 4, "pipeline_schedule": Schedule.Grouped},
     NotImplementedError, "Batch serialization is only supported with the `Sequential` schedule."),
    ({"pipeline_schedule": 1}, TypeError, "not a member of the PipelineSchedule enumeration"),
    ({"outfeed_loss": True}, ValueError,
     "An optimizer_function must be provided when outfeed_loss is True"),
    ({"outfeed_mask": [False]}, ValueError, "An optimizer_function must be provided"),
    ({"outfeed_mask": [False], "outfeed_loss": True, "optimizer_function": optimizer_function},
     ValueError, "Only one of `outfeed_loss` and `outfeed_mask` can be set."),
    ({"accumulate_outfeed": True}, ValueError,
     "An outfeed_queue must be provided when accumulate_outfeed is True"),
    ({"forward_propagation_stages_poplar_options": [1, 2]}, TypeError,
     "Expected all elements of forward_propagation_stages_poplar_options"),
    ({"pipeline_schedule": Schedule.Interleaved, "device_mapping": [0, 0],
      "optimizer_function": optimizer_function}, NotImplementedError, "'Interleaved'"),
    ({"gradient_accumulation_count": 1.5}, TypeError, "must be an int or a tensor, not 1.5"),
    ({"gradient_accumulation_count": -1}, ValueError, "must be >= 0"),
    ({"repeat_count": 0}, ValueError, "repeat_count must be at least 1, but it is 0"),
    ({"repeat_count": 1.5}, TypeError, "repeat_count must be an int, but it is 1.5"),
    ({"batch_serialization_iterations": 0}, ValueError,
     "batch_serialization_iterations must be at least 1"),
    ({"device_mapping": [-2, 0]}, ValueError, "device_mapping must be at least -1"),
    ({"device_mapping": ["a", "b"]}, TypeError, "device_mapping must be an int, but it is 'a'"),
    ({"infeed_queue": 3}, TypeError,
     "infeed_queue is not an instance of ipu_infeed_queue.IPUInfeedQueue"),
])
def test_refused_arguments(arguments, error, words):
    with tf.Graph().as_default(), pytest.raises(error, match=words):
        pipelining_ops.pipeline(**{"computational_stages": [identity, identity],
                                   "gradient_accumulation_count": 4, "inputs": [1.0],
                                   **arguments})


def compiled(**arguments):
    with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
        ipu.ipu_compiler.compile(lambda: pipelining_ops.pipeline(**arguments))


def test_outputs_need_a_queue():
    with pytest.raises(ValueError, match="no outfeed_queue has been provided"):
        compiled(computational_stages=[identity, identity], gradient_accumulation_count=4,
                 inputs=[1.0])


def test_captured_tensors_are_refused():
    with pytest.raises(ValueError, match="Trying to capture the tensor .*outside.* which is not"):
        def build():
            outside = tf.identity(tf.constant(1.0), name="outside")
            return pipelining_ops.pipeline(
                [identity, lambda x: x + outside], 4, inputs=[1.0],
                outfeed_queue=ipu.ipu_outfeed_queue.IPUOutfeedQueue())

        with tf.Graph().as_default(), ipu.scopes.ipu_scope("/device:IPU:0"):
            ipu.ipu_compiler.compile(build)


def train_with_rate(rate_of):
    """The weights after a pipeline whose optimizer_function makes the learning rate by
    rate_of(step, element), from its input, 3.0, and what the last stage returned of an element."""
    with tf.Graph().as_default():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(plain.dataset())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        with tf.device("cpu"):
            step = tf.placeholder(tf.float32, [])

        def first(step, x, y):
            return step, plain.layer(x, "first", tf.nn.tanh), y

        def second(step, x, y):
            return step, plain.loss_of(plain.layer(x, "third"), y)

        def optimizer(step, loss):
            return pipelining_ops.OptimizerFunctionOutput(
                tf.train.MomentumOptimizer(rate_of(step, loss), 0.9), loss)

        def network(step):
            return pipelining_ops.pipeline(
                [first, second], gradient_accumulation_count=4, inputs=[step],
                infeed_queue=infeed, outfeed_queue=outfeed, optimizer_function=optimizer,
                outfeed_loss=True)

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            run = ipu.ipu_compiler.compile(network, [step])
        configure(2)
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), infeed.initializer])
            session.run(run, {step: 3.0})
            return session.run(tf.trainable_variables())


@pytest.mark.parametrize("rate_of", [
    lambda step, _: tf.train.exponential_decay(0.4, step, 1, 0.5),
    lambda step, _: tf.train.polynomial_decay(0.06, step, 9, 0.03),
    lambda step, _: tf.cond(step > 2.0, lambda: step / 60, lambda: step),
], ids=["exponential", "polynomial", "cond"])
def test_a_learning_rate_that_the_optimizer_function_computes(rate_of):
    for value, wanted in zip(train_with_rate(rate_of),
                             train_with_rate(lambda step, _: tf.constant(0.05))):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


def test_a_learning_rate_of_the_data_is_refused():
    with pytest.raises(ValueError, match="depends on the mini-batch"):
        train_with_rate(lambda step, loss: 0.1 * loss)


def test_the_error_of_a_variable_on_two_ipus_comes_first():
    def stage(x):
        with tf.variable_scope("shared", reuse=tf.AUTO_REUSE, use_resource=True):
            return x * tf.get_variable("w", [], initializer=tf.ones_initializer())

    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(lambda: pipelining_ops.pipeline(
            [stage, stage], 3, inputs=[1.0], outfeed_queue=outfeed))
    refusals = [one for one in tf.get_default_graph().get_operations() if one.type == "IpuRefuse"]
    assert [b"same IPU" in one.get_attr("message") for one in refusals] == [True, False]
    assert refusals[1].control_inputs == [refusals[0]]  # or they would race
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.FailedPreconditionError, match="can only be used by pipeline"):
            session.run(program)


def test_a_count_that_does_not_fill_the_pipeline():
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(lambda: pipelining_ops.pipeline(
            [identity, identity], 3, inputs=[1.0], outfeed_queue=outfeed))
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError,
                                                match="must be a multiple of 2, but it is 3"):
        session.run(program)


def test_offloaded_state_only_can_be_shared_out():
    with pytest.raises(ValueError, match="optimizer state must be offloaded"):
        compiled(computational_stages=[identity, identity], gradient_accumulation_count=4,
                 inputs=[1.0], outfeed_queue=ipu.ipu_outfeed_queue.IPUOutfeedQueue(),
                 replicated_optimizer_state_sharding=True, offload_weight_update_variables=False)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_stages_that_compute_nothing_have_an_ipu_too(stages, devices):
    devices(4)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(lambda: pipelining_ops.pipeline(
            [identity] * stages, 12, inputs=[7.0], outfeed_queue=outfeed))
    results, = outfeed.dequeue()
    replicas = [2] if stages == 2 else []
    assert results.shape.as_list() == [None, *replicas]
    with tf.Session() as session:
        session.run(program)
        np.testing.assert_array_equal(session.run(results), np.full([12, *replicas], 7.0))


def test_a_variable_of_a_stage_that_the_loss_does_not_need_has_zeros(devices):
    devices(2)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    seen = []

    class Optimizer(tf.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, *arguments, **named):
            seen.extend(gradient for gradient, _ in grads_and_vars)
            return super().apply_gradients(grads_and_vars, *arguments, **named)

    def first(x):
        return x, x * tf.get_variable("w", initializer=3.0)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(lambda: pipelining_ops.pipeline(
            [first, lambda x, y: (x, y)], 4, inputs=[1.0], outfeed_queue=outfeed,
            optimizer_function=lambda x, y: pipelining_ops.OptimizerFunctionOutput(
                Optimizer(0.1), x)))
    assert len(seen) == 1 and seen[0] is not None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(program)
        assert session.run(tf.global_variables()) == [3.0]


def keras_optimizer():
    from tensorflow.python.keras.optimizer_v2 import gradient_descent
    return gradient_descent.SGD(0.1)


@pytest.mark.parametrize("optimizer, arguments, error, words", [
    (keras_optimizer, {"compute_gradients_args": (1,)}, ValueError,
     "compute_gradients_args may not be used with OptimizerV2 instances"),
    (keras_optimizer, {"compute_gradients_kwargs": {"a": 1}}, ValueError,
     "compute_gradients_kwargs may not be used with OptimizerV2 instances"),
    (keras_optimizer, {"tape": ["a"]}, TypeError, "tape must be a GradientTape"),
    (momentum, {"variables": [1]}, ValueError, "variables may only be used with OptimizerV2"),
    (momentum, {"tape": tf.GradientTape()}, ValueError, "tape may only be used with OptimizerV2"),
    (keras_optimizer, {"tape": tf.GradientTape(), "variables": [1]}, ValueError,
     "OptimizerFunctionOutput.tape may not be used when OptimizerFunctionOutput.variables is"),
])
def test_refused_outputs_of_an_optimizer_function(optimizer, arguments, error, words):
    with pytest.raises(error, match=words):
        pipelining_ops.OptimizerFunctionOutput(optimizer(), tf.constant(1.0), **arguments)


def test_variables_beside_a_tape():
    made = pipelining_ops.OptimizerFunctionOutput(keras_optimizer(), tf.constant(1.0),
                                                  tape=tf.GradientTape())
    with pytest.raises(ValueError, match="variables must be empty when"):
        made.variables = [1]
