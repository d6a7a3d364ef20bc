"""Host embeddings against a table of numpy's: lookups and training, step by step, in loops, with
replicas, shards, pipelines and gradient accumulation; what a program takes; and errors."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import embedding_ops

IDS = np.array([[3, 0], [3, 5], [1, 3]], np.int32)
RATE = 0.1
errors = tf.errors


def make(start, spec=None, name="table"):
    return embedding_ops.create_host_embedding(
        name, start.shape, start.dtype, optimizer_spec=spec,
        initializer=tf.constant_initializer(start))


def sgd(rate=RATE):
    return embedding_ops.HostEmbeddingOptimizerSpec(rate)


def step(table, ids):
    """One step towards a table that is 1 where it is looked up."""
    rows = table.lookup(ids)
    weight = tf.get_variable("weight", [], rows.dtype, initializer=tf.ones_initializer(),
                             use_resource=True)
    loss = tf.reduce_sum(tf.square(rows * weight - 1)) / 2
    return loss, tf.train.GradientDescentOptimizer(0.).minimize(loss)


def expected(start, steps, ids=IDS, every=1):
    table, total = start.astype(np.float64), np.zeros(start.shape)
    for n in range(steps):
        np.add.at(total, ids, table[ids] - 1)
        if (n + 1) % every == 0:
            table = table - RATE * total
            total[:] = 0
    return table


def close(found, wanted, tolerance=1e-5):
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def compiled(program, inputs=()):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        result = ipu.ipu_compiler.compile(program, list(inputs))
    ipu.utils.move_variable_initialization_to_cpu()
    return result


def placeholder(shape=IDS.shape):
    with tf.device("cpu"):
        return tf.placeholder(tf.int32, shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_training_step_by_step(random, session, dtype):
    """What the variable holds is right after each step, also before the scope ends."""
    start = random(6, 4, dtype=dtype)
    table, ids = make(start, sgd()), placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        seen = [s.run(table.get_embedding_tensor())]
        with table.register(s) as registered:
            assert registered is table
            for _ in range(3):
                s.run(result, {ids: IDS})
                seen.append(s.run(table.get_embedding_tensor()))
        seen.append(s.run(table.get_embedding_tensor()))
        # The initial value must not have been written to, nor what was read before.
        s.run(table.get_embedding_tensor().initializer)
        np.testing.assert_array_equal(s.run(table.get_embedding_tensor()), start)
    for n, one in enumerate(seen):
        close(one, expected(start, min(n, 3)), 1e-5 if dtype == np.float32 else 4e-3)


def test_in_a_loop(random, session):
    start = random(6, 4)
    table, ids = make(start, sgd()), placeholder()
    result = compiled(lambda ids: ipu.loops.repeat(5, lambda loss: step(table, ids),
                                                   [tf.constant(0.)]), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            s.run(result, {ids: IDS})
            s.run(result, {ids: IDS})
        close(s.run(table.get_embedding_tensor()), expected(start, 10))


def test_not_trained(random, session):
    start = random(6, 4)
    table, ids = make(start), placeholder()
    result = compiled(lambda ids: table.lookup(ids), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            np.testing.assert_array_equal(s.run(result, {ids: IDS})[0], start[IDS])
        np.testing.assert_array_equal(s.run(table.get_embedding_tensor()), start)
    # An optimizer must find nothing to train.
    assert [one.op.name for one in tf.global_variables()] == ["table"]


def test_a_program_does_not_take_the_table(random, session):
    """Neither as an input nor as an output, and each run finds it where it was."""
    start = random(500, 8)
    table, ids = make(start, sgd()), placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    graph = tf.get_default_graph()
    launch, = [one for one in graph.get_operations() if one.type == "IpuLaunch"]
    shapes = [one.shape.as_list() for one in [*launch.inputs, *launch.outputs]]
    assert [500, 8] not in shapes and list(IDS.shape) in shapes
    shared, = [one for one in graph.get_operations() if one.type == "IpuHostTableUse"]
    allocated = []
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            for _ in range(4):
                options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                metadata = tf.RunMetadata()
                s.run(result, {ids: IDS}, options=options, run_metadata=metadata)
                sizes = [memory.total_bytes for device in metadata.step_stats.dev_stats
                         for node in device.node_stats if node.node_name == shared.name
                         for memory in node.memory]
                allocated.append(sum(sizes))
    assert allocated == [start.nbytes, 0, 0, 0]


def test_written_while_registered(random, session):
    """What the host assigns is what programs see from the next run on."""
    first, second = random(6, 4), random(6, 4)
    table, ids = make(first, sgd()), placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            s.run(result, {ids: IDS})
            table.get_embedding_tensor().load(second, s)
            s.run(result, {ids: IDS})
            close(s.run(table.get_embedding_tensor()), expected(second, 1))


def test_rows_that_the_host_reads(random, session):
    """Once a variable was read row by row, TensorFlow copies whatever is read of it."""
    start = random(6, 4)
    table, ids = make(start, sgd()), placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    with tf.device("cpu"):
        row = tf.gather(table.get_embedding_tensor(), 3)
        doubled = tf.scatter_mul(table.get_embedding_tensor(), [0, 1, 2, 3, 4, 5], 2.)
    wanted = start
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            for _ in range(3):
                s.run(result, {ids: IDS})
                wanted = expected(wanted, 1)
                close(s.run(row), wanted[3])
            s.run(doubled)
            s.run(result, {ids: IDS})
            wanted = expected(2 * wanted, 1)
            close(s.run(table.get_embedding_tensor()), wanted)
        close(s.run(row), wanted[3])


def test_checkpoint(random, session, tmp_path):
    start = random(6, 4)
    table, ids = make(start, sgd()), placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    saver = tf.train.Saver()
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            s.run(result, {ids: IDS})
            path = saver.save(s, str(tmp_path / "model"))
            s.run(result, {ids: IDS})
    np.testing.assert_allclose(tf.train.load_variable(path, "table"), expected(start, 1), 1e-5)
    with session() as s:
        saver.restore(s, path)
        with table.register(s):
            s.run(result, {ids: IDS})
        close(s.run(table.get_embedding_tensor()), expected(start, 2))


def test_two_lookups_see_the_same_table(random, session):
    """All lookups of a step come before its updates."""
    start = random(6, 4)
    table, ids = make(start, sgd()), placeholder()

    def program(ids):
        one, two = table.lookup(ids), table.lookup(ids + 0)
        loss = tf.reduce_sum(tf.square(one - 1) + tf.square(two - 1)) / 4
        return one, two, tf.train.GradientDescentOptimizer(0.).minimize(loss)

    result = compiled(program, [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            one, two = s.run(result, {ids: IDS})
            np.testing.assert_array_equal(one, start[IDS])
            np.testing.assert_array_equal(two, start[IDS])
        close(s.run(table.get_embedding_tensor()), expected(start, 1))


def test_two_tables_and_a_second_program(random, session):
    left, right = random(6, 4), random(9, 4)
    tables = [make(left, sgd(), "left"), make(right, sgd(), "right")]
    ids = placeholder()
    trains = compiled(lambda ids: [step_of for table in tables
                                   for step_of in step_in(table, ids)], [ids])
    reads = compiled(lambda ids: [table.lookup(ids) for table in tables], [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with tables[0].register(s), tables[1].register(s):
            for n in range(2):
                s.run(trains, {ids: IDS})
                for found, start in zip(s.run(reads, {ids: IDS}), (left, right)):
                    close(found, expected(start, n + 1)[IDS])


def step_in(table, ids):
    with tf.variable_scope(table.get_embedding_tensor().op.name + "_step"):
        return step(table, ids)


# ---- Replicas, shards, pipelines, gradient accumulation ----

@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas(random, session, devices, replicas):
    """Each replica's rows are its own; the updates of all are applied, in their order."""
    devices(replicas)
    start = random(6, 4)
    table = make(start, sgd())
    parts = np.arange(replicas * 4 * 2, dtype=np.int32).reshape(4, replicas, 2) * 5 % 6
    dataset = tf.data.Dataset.from_tensor_slices(parts.reshape(-1, 2)).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset, feed_name="ids")
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="rows")

    def body(ids):
        rows = table.lookup(ids)
        loss = tf.reduce_sum(tf.square(rows - 1)) / 2
        optimizer = ipu.optimizers.CrossReplicaOptimizer(tf.train.GradientDescentOptimizer(0.))
        train = optimizer.minimize(loss)
        with tf.control_dependencies([train]):
            return outfeed.enqueue(rows)

    result = compiled(lambda: ipu.loops.repeat(4, body, [], infeed))
    taken, start_feed = outfeed.dequeue(), infeed.initializer
    tables = []
    with session() as s:
        for _ in range(2):  # the same bits each time
            s.run([tf.global_variables_initializer(), start_feed])
            with table.register(s):
                s.run(result)
                rows = s.run(taken)
            tables.append(s.run(table.get_embedding_tensor()))
    np.testing.assert_array_equal(*tables)
    wanted = start.copy()
    for n in range(4):
        np.testing.assert_allclose(rows[n], wanted[parts[n]], 1e-5, 1e-6)
        gradients = wanted[parts[n]] - 1
        for r in range(replicas):
            np.add.at(wanted, parts[n, r], gradients[r] * np.float32(-RATE))
    close(tables[0], wanted)


def test_shards(random, session, devices):
    devices(2)
    start = random(6, 4)
    table, ids = make(start, sgd()), placeholder()

    def program(ids):
        with ipu.scopes.ipu_shard(0):
            rows = table.lookup(ids)
        with ipu.scopes.ipu_shard(1):
            loss = tf.reduce_sum(tf.square(rows - 1)) / 2
        optimizer = ipu.optimizers.ShardedOptimizer(tf.train.GradientDescentOptimizer(0.))
        return loss, optimizer.minimize(loss)

    result = compiled(program, [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            s.run(result, {ids: IDS})
            s.run(result, {ids: IDS})
        close(s.run(table.get_embedding_tensor()), expected(start, 2))


@pytest.mark.parametrize("accumulates", [False, True])
def test_gradient_accumulation(random, session, accumulates):
    """SGD+GA updates when the weights are updated, SGD at once."""
    start = random(6, 4)
    table, ids = make(start, embedding_ops.HostEmbeddingSGDGAOptimizerSpec(RATE, 3)
                      if accumulates else sgd()), placeholder()

    def body(loss):
        rows = table.lookup(ids_inside[0])
        loss = tf.reduce_sum(tf.square(rows - 1)) / 2
        optimizer = ipu.optimizers.GradientAccumulationOptimizerV2(
            tf.train.GradientDescentOptimizer(0.), 3)
        return loss, optimizer.minimize(loss)

    ids_inside = []

    def program(ids):
        ids_inside.append(ids)
        return ipu.loops.repeat(6, body, [tf.constant(0.)])

    result = compiled(program, [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            s.run(result, {ids: IDS})
        close(s.run(table.get_embedding_tensor()),
              expected(start, 6, every=3 if accumulates else 1))


def test_accumulating_without_accumulation(random, session):
    """A program that adds no gradients up applies each update at once."""
    start = random(6, 4)
    table = make(start, embedding_ops.HostEmbeddingSGDGAOptimizerSpec(RATE, 3))
    ids = placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            s.run(result, {ids: IDS})
            close(s.run(table.get_embedding_tensor()), expected(start, 1))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("accumulates", [False, True])
def test_pipeline(random, session, devices, replicas, accumulates):
    devices(2 * replicas)
    start = random(6, 4)
    table = make(start, embedding_ops.HostEmbeddingSGDGAOptimizerSpec(RATE, 4)
                 if accumulates else sgd())
    dataset = tf.data.Dataset.from_tensors(IDS).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset, feed_name="ids")

    def stage1(ids):
        return table.lookup(ids)

    def stage2(rows):
        return tf.reduce_sum(tf.square(rows - 1)) / 2

    def optimizer_function(loss):
        return ipu.pipelining_ops.OptimizerFunctionOutput(
            tf.train.GradientDescentOptimizer(0.), loss)

    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(feed_name="loss")

    def program():
        return ipu.pipelining_ops.pipeline(
            [stage1, stage2], gradient_accumulation_count=4, repeat_count=2, infeed_queue=infeed,
            outfeed_queue=outfeed, optimizer_function=optimizer_function, outfeed_loss=True,
            inputs=[], device_mapping=[0, 1],
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Grouped)

    result = compiled(program)
    with session() as s:
        s.run([tf.global_variables_initializer(), infeed.initializer])
        with table.register(s):
            s.run(result)
        found = s.run(table.get_embedding_tensor())
    together = np.concatenate([IDS] * replicas)
    close(found, expected(start, 8, together, 4 if accumulates else 1), 1e-4)


# ---- Errors and other spellings ----

def test_in_a_monitored_session(random):
    """Whose graph takes no more operations."""
    start = random(6, 4)
    table, ids = make(start, sgd()), placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    value = table.get_embedding_tensor().read_value()
    with tf.train.MonitoredSession() as s:
        with table.register(s):
            s.run(result, {ids: IDS})
        close(s.run(value), expected(start, 1))


def test_not_registered(random, session):
    table, ids = make(random(6, 4), sgd()), placeholder()
    result = compiled(lambda ids: step(table, ids), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with pytest.raises(errors.FailedPreconditionError, match="Host embedding interface with id="
                           "'table' not registered. Did you run the associated host_embedding op"):
            s.run(result, {ids: IDS})
        with table.register(s):
            s.run(result, {ids: IDS})
        with pytest.raises(errors.FailedPreconditionError, match="not registered"):
            s.run(result, {ids: IDS})


@pytest.mark.parametrize("clip", [True, False])
def test_indices_outside(random, session, clip):
    start = random(6, 4)
    table, ids = make(start), placeholder([3])
    result = compiled(lambda ids: table.lookup(ids, clip_indices=clip), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            if clip:
                np.testing.assert_array_equal(s.run(result, {ids: [-1, 2, 6]})[0],
                                              start[[0, 2, 5]])
                return
            with pytest.raises(errors.InvalidArgumentError, match="Index 6 is outside of the host "
                               "embedding 'table', which has 6 rows. Look up with clip_indices"):
                s.run(result, {ids: [0, 6, 2]})
            np.testing.assert_array_equal(s.run(result, {ids: [5, 0, 2]})[0], start[[5, 0, 2]])


def test_a_failed_run_leaves_nothing_behind(random, session):
    """What SGD+GA has kept goes with the run."""
    start = random(6, 4)
    table = make(start, embedding_ops.HostEmbeddingSGDGAOptimizerSpec(RATE, 2))
    ids = placeholder([2, 2])

    def program(ids):
        def body(i, loss):
            rows = table.lookup(ids[i], clip_indices=False)
            loss = tf.reduce_sum(tf.square(rows - 1)) / 2
            optimizer = ipu.optimizers.GradientAccumulationOptimizerV2(
                tf.train.GradientDescentOptimizer(0.), 2)
            return i + 1, loss, optimizer.minimize(loss)
        return ipu.loops.repeat(2, body, [tf.constant(0), tf.constant(0.)])

    result = compiled(program, [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        with table.register(s):
            with pytest.raises(errors.InvalidArgumentError, match="Index 9"):
                s.run(result, {ids: [[1, 2], [0, 9]]})
            s.run(result, {ids: [[3, 4], [3, 4]]})
        close(s.run(table.get_embedding_tensor()),
              expected(start, 2, np.array([3, 4]), every=2))


def test_unknown_number_of_indices(random):
    table, ids = make(random(6, 4)), placeholder([None])
    with pytest.raises(errors.InvalidArgumentError, match="static: their number must be known"):
        compiled(lambda ids: table.lookup(ids), [ids])


def test_synthetic_data(random, session, devices, monkeypatch):
    """Lookups are made up, updates go nowhere, and nothing need be registered."""
    start = random(6, 4)
    table, ids = make(start, sgd()), placeholder()
    result = compiled(lambda ids: (table.lookup(ids), *step(table, ids)), [ids])
    with monkeypatch.context() as patch, session() as s:
        patch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=hostembedding "
                     "--synthetic_data_initializer=2")
        devices(1)
        s.run(tf.global_variables_initializer())
        rows = s.run(result, {ids: IDS})[0]
        np.testing.assert_array_equal(s.run(table.get_embedding_tensor()), start)
    np.testing.assert_array_equal(rows, np.full((3, 2, 4), 2, np.float32))


def test_on_the_cpu(run, random):
    values = random(6, 4)

    def mine(ids):
        return make(values, sgd(0.5), "t").lookup(ids)

    np.testing.assert_array_equal(run(mine, np.array([-1, 2, 6], np.int32), where="cpu")[0],
                                  values[[0, 2, 5]])


def test_older_spellings(random, session):
    """SDK 1.2: no partition strategy, a count, and an operation that is run beside the program."""
    values = random(6, 4)
    table = embedding_ops.create_host_embedding("t", [6, 4], tf.float32, sgd(0.5),
                                                tf.constant_initializer(values))
    ids = placeholder([3])
    result = compiled(lambda ids: (table.lookup(ids), table.lookup(ids, 1, True)), [ids])
    with session() as s:
        s.run(tf.global_variables_initializer())
        for training in (True, False):
            found, _ = s.run([result, table(3, replication_factor=2, training=training)],
                             {ids: [-1, 2, 6]})
            for rows in found:
                np.testing.assert_array_equal(rows, values[[0, 2, 5]])
    compiled(lambda ids: tf.train.GradientDescentOptimizer(1.).minimize(
        tf.reduce_sum(table.lookup(ids))), [ids])
    with pytest.raises(NotImplementedError, match="training=False"):
        table(iteration_count=3, training=False)


def test_refusals():
    table = embedding_ops.create_host_embedding("table", [6, 4], tf.float32)
    assert [one.op.name for one in tf.global_variables()] == ["table"]
    with pytest.raises(ValueError, match="HostEmbedding.register requires a session"):
        table.register()
    with pytest.raises(ValueError, match="HostEmbedding embedding_tensor is not a tensorflow "):
        embedding_ops.HostEmbedding("a", "banana")
    with pytest.raises(ValueError, match="optimizer_spec is not a HostEmbeddingOptimizerSpec or "
                       "None"):
        embedding_ops.HostEmbedding("a", tf.zeros([2, 2]), "TOKEN", 3)
    with pytest.raises(ValueError, match="Unknown partition strategy BANANA"):
        embedding_ops.HostEmbedding("a", tf.zeros([2, 2]), "BANANA")
    with pytest.raises(ValueError, match="must be a resource variable"):
        embedding_ops.HostEmbedding("a", tf.get_variable("ref", [2, 2], use_resource=False))
    with pytest.raises(ValueError, match="iteration count must be positive, but it is 0"):
        table(iteration_count=0)
    spec = embedding_ops.HostEmbeddingSGDGAOptimizerSpec(0.5, 4)
    assert spec.get_learning_rate() == 0.5 and spec.get_accumulation_factor() == 4


def test_a_table_that_is_given_as_values(session):
    start = np.arange(12, dtype=np.float32).reshape(6, 2)
    for name, values in (("array", start), ("tensor", tf.constant(start))):
        table = embedding_ops.create_host_embedding(name, start.shape, start.dtype,
                                                    initializer=values)
        with session() as run:
            run.run(tf.global_variables_initializer())
            with table.register(run):
                np.testing.assert_array_equal(run.run(table.get_embedding_tensor()), start)
    with pytest.raises(ValueError, match="must be equal"):
        embedding_ops.create_host_embedding("other", [5, 2], np.float32,
                                            initializer=tf.constant(start))
