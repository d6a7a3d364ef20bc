"""Sums and means over replicas (`tensorflow.python.ipu.cross_replica_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs
from tremula.tf.ipu import scopes
from tremula.tf.ipu.ops import _collectives
from tremula.tf.ipu.ops import cross_replica_ops_grad  # noqa: F401  (registers gradients)
from tremula.tf.runtime.tracing import tracing


def cross_replica_sum(x, replica_group_size=None, name=None):
    """The sum of `x`, of any shape and a type of numbers, over the replicas, the same on all of
    them: a tensor like x.

    With `replica_group_size` k the sums are over replicas 0 to k - 1, over k to 2k - 1, and so on.
    k must divide the number of replicas, or running the program fails with InvalidArgumentError.
    float16 is summed in float32 and rounded once. The gradient is the sum of the gradients.

    Raises ValueError for a group size that is no number.
    """
    return _collectives.all_reduce(
        x, "add", _size(replica_group_size), name or "IpuCrossReplicaSum")


def cross_replica_mean(x, replica_group_size=None, name=None):
    """The mean of `x` over the replicas: a tensor like x in shape and type. Groups, float16 and
    errors are as in cross_replica_sum(); the gradient is the mean of the gradients. Raises
    ValueError for a group size that is no number."""
    return _collectives.all_reduce(
        x, "mean", _size(replica_group_size), name or "IpuCrossReplicaMean")


def assume_equal_across_replicas(tensors, inplace=False):
    """Says that tensors (a tensor or a structure of them, of any shape and type) are equal on all
    replicas, and returns them.

    The original needed that before it let them decide whether a collective is reached. Here any
    value may; replicas that then go different ways are an error when the program runs. With
    enable_prng_stability, what follows from these tensors is rounded alike on all replicas.
    `inplace` makes no difference. Raises TypeError for what cannot be made a tensor.
    """
    del inplace
    return tf.nest.map_structure(_assumed_equal, tensors)


def _assumed_equal(value):
    if tracing.current() is None:  # there are no replicas
        return tf.identity(value, "AssumeEqualAcrossReplicas")

    @tf.custom_gradient
    def assume(value):
        with scopes.frontend_attribute("ASSUME_EQUAL", "true"):  # src/passes/identical.c
            barrier = graphs.apply_op("XlaOptimizationBarrier", input=[value],
                                      name="AssumeEqualAcrossReplicas").outputs[0]
        return barrier, lambda gradient: gradient

    return assume(tf.convert_to_tensor(value))


def in_graph(graph):
    """Whether a graph, or a function that it calls, has a sum or mean over replicas."""
    reached = [graph, *graphs.function_graphs(graph).values()]
    return any(_collectives.is_all_reduce(operation)
               for one in reached for operation in one.get_operations())


def _size(replica_group_size):
    return _collectives.group_size(replica_group_size, "replica_group_size")
