"""What a replica knows of itself (`tensorflow.python.ipu.replication_ops`)."""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import graphs
from tremula.tf.ipu.ops import _building, _collectives


def replication_index(name=None):
    """The number of the replica that computes this: a scalar int32 tensor, from 0. Raises no error
    where the program is built."""
    index = graphs.apply_op("XlaReplicaId", name=name or "ReplicationIndex").outputs[0]
    return tf.ensure_shape(index, [])


def replication_factor(name=None):
    """The number of replicas: a scalar int32 tensor."""
    return _collectives.factor(name)


def replication_normalise(x, name=None):
    """`x`, of any shape and a floating-point type, times the inverse of the number of replicas: a
    tensor like x. Raises TypeError for another type, or what cannot be made a tensor."""
    x = tf.convert_to_tensor(x)
    if x.dtype not in (tf.float16, tf.float32):
        raise TypeError(f"Value passed to parameter 'input' has DataType {x.dtype.name} not in "
                        "list of allowed values: float16, float32")
    with tf.name_scope(name or "IpuReplicationNormalise") as scope, \
            _building.layer(scope, "replication-normalise", None), \
            _building.part("replication_normalise"):
        inverse = tf.math.reciprocal(tf.cast(_collectives.factor(), tf.float32))
        return tf.multiply(x, tf.cast(inverse, x.dtype), name=scope)
