"""Feeds and host embeddings by their names (`gen_pop_datastream_ops`), for libraries that build
their own queues and optimizers of embeddings: each operation works on the IPUInfeedQueue, the
IPUOutfeedQueue or the HostEmbedding of that name.

An infeed and an embedding must be there before the operations that read them are built.
"""

import tensorflow.compat.v1 as tf

from tremula.tf.inner import datasets
from tremula.tf.ipu import ipu_infeed_queue, ipu_outfeed_queue
from tremula.tf.ipu.ops import embedding_ops
from tremula.tf.plugin.poplar.ops import _refused

_infeeds, _outfeeds = {}, {}  # by feed_id: the latest queue


def __getattr__(name):
    _refused.attribute(__name__, name)


def _queue_of(queues, feed_id, made_by):
    if feed_id not in queues:
        raise ValueError(f"There is no feed {feed_id!r} yet: build {made_by} first.")
    return queues[feed_id]


# ---- Feeds ----

def ipu_create_dataset_iterator(input_dataset, feed_id, output_types, output_shapes,
                                device_ordinal=0, prefetch_depth=1, optimise_latency=False,
                                name=None):
    """Makes the infeed `feed_id` of a dataset, a tf.data.Dataset or its variant tensor; returns the
    operation that starts it from its beginning (in eager mode that is done at once: None)."""
    del device_ordinal, optimise_latency, name
    if tf.is_tensor(input_dataset):
        input_dataset = datasets.dataset_of_variant(input_dataset, output_types, output_shapes)
    queue = ipu_infeed_queue.IPUInfeedQueue(input_dataset, feed_name=feed_id,
                                            prefetch_depth=prefetch_depth)
    _infeeds[feed_id] = queue
    return queue.initializer


def pop_datastream_infeed_dequeue(feed_id, output_types, output_shapes, prefetch_depth=1,
                                  optimise_latency=False, name=None):
    """The tensors of the infeed's next element, a list."""
    del output_types, output_shapes, prefetch_depth, optimise_latency
    with tf.name_scope(name, "PopDatastreamInfeedDequeue"):
        queue = _queue_of(_infeeds, feed_id, "ipu_create_dataset_iterator()")
        return tf.nest.flatten(queue._dequeue())


def ipu_delete_dataset_iterator(feed_id, device_ordinal=0, name=None):
    """The operation that drops what waits in the infeed."""
    del device_ordinal, name
    return _queue_of(_infeeds, feed_id, "ipu_create_dataset_iterator()").deleter


def pop_datastream_outfeed_enqueue(inputs, feed_id, output_shapes=None, outfeed_mode="all",
                                   prefetch_depth=1, optimise_latency=False, name=None):
    """The operation that writes tensors, a list of any types and of known shapes, to the outfeed
    `feed_id`, which it makes. `outfeed_mode`: "all", or "get_last" for the last element only.
    Raises ValueError for shapes that are not known."""
    del output_shapes, prefetch_depth, optimise_latency
    mode = ipu_outfeed_queue.IPUOutfeedMode
    with tf.name_scope(name, "PopDatastreamOutfeedEnqueue"):
        queue = ipu_outfeed_queue.IPUOutfeedQueue(
            feed_name=feed_id,
            outfeed_mode=mode.ALL if outfeed_mode.lower() == "all" else mode.LAST)
        _outfeeds[feed_id] = queue
        return queue.enqueue(list(inputs) if isinstance(inputs, (list, tuple)) else [inputs])


def pop_datastream_outfeed_dequeue(feed_id, output_types=None, output_shapes=None,
                                   device_ordinal=0, outfeed_mode="all", prefetch_depth=1,
                                   optimise_latency=False, name=None):
    """The tensors that read the outfeed, a list: see IPUOutfeedQueue.dequeue()."""
    del output_types, output_shapes, device_ordinal, outfeed_mode, prefetch_depth
    del optimise_latency, name
    return _queue_of(_outfeeds, feed_id, "pop_datastream_outfeed_enqueue()").dequeue()


def ipu_delete_outfeed(feed_id, device_ordinal=0, name=None):
    """The operation that drops what has not been read of the outfeed."""
    del device_ordinal, name
    return _queue_of(_outfeeds, feed_id, "pop_datastream_outfeed_enqueue()").deleter


# ---- Host embeddings ----

def ipu_host_embedding_register(ref, embedding_id, optimizer="SGD", device_ordinal=0, name=None):
    """The operation that lets programs use the table `ref`, a variable or a tensor, by that
    name; in eager mode that is done at once."""
    del optimizer, device_ordinal, name
    return embedding_ops.register_table(ref, embedding_id, True)


def ipu_host_embedding_deregister(ref, embedding_id, device_ordinal=0, name=None):
    """The operation after which programs cannot use it any more."""
    del device_ordinal, name
    return embedding_ops.register_table(ref, embedding_id, False)


def ipu_device_embedding_lookup(indices, embedding_id, embedding_shape, dtype,
                                partition_strategy="ENCODING", name=None):
    """The rows of the HostEmbedding `embedding_id` that `indices`, int32 [n], name: [n, encoding]
    of the type `dtype`. `embedding_shape` is [tokens, encoding]. A run without a registered table
    fails with FailedPreconditionError, an index outside of it ends the run with
    InvalidArgumentError."""
    del partition_strategy
    table = embedding_ops.tensor_of(embedding_id, embedding_shape, dtype)
    with tf.name_scope(name, "IpuDeviceEmbeddingLookup"):
        return embedding_ops.HostEmbeddingOptimizerSpec(0).lookup_rows(
            None, table, tf.convert_to_tensor(indices), embedding_id)


def ipu_device_embedding_lookup_trainable(dummy, indices, embedding_id, embedding_shape, optimizer,
                                          learning_rate, partition_strategy="ENCODING", name=None):
    """As ipu_device_embedding_lookup(); the gradient, which reaches the table through the scalar
    `dummy`, which has the table's type, updates it."""
    del partition_strategy
    table = embedding_ops.tensor_of(embedding_id, embedding_shape, dummy.dtype.base_dtype)
    with tf.name_scope(name, "IpuDeviceEmbeddingLookupTrainable"):
        return embedding_ops.HostEmbeddingOptimizerSpec(learning_rate, optimizer).lookup_rows(
            dummy, table, tf.convert_to_tensor(indices), embedding_id)


def ipu_device_embedding_update_add(ins, grads, indices, embedding_id, embedding_shape,
                                    partition_strategy="ENCODING", name=None):
    """The operation that adds the rows `grads`, [n, encoding], to those that `indices` name; `ins`
    has the table's type. As ipu_device_embedding_lookup()."""
    del partition_strategy
    table = embedding_ops.tensor_of(embedding_id, embedding_shape, tf.as_dtype(ins.dtype))
    with tf.name_scope(name, "IpuDeviceEmbeddingUpdateAdd"):
        return embedding_ops.HostEmbeddingOptimizerSpec(-1).update_rows(
            table, tf.convert_to_tensor(indices), grads, embedding_id)


def ipu_device_embedding_notify(embedding_id, device_ordinal=0, name=None):
    """An operation that does nothing: a lookup waits for nobody here."""
    del embedding_id, device_ordinal
    return tf.no_op(name=name or "IpuDeviceEmbeddingNotify")
