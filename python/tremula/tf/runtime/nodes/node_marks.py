"""The two attributes that mark nodes for the compiler, and the small protocol buffers in them.

XLA's OpSharding: of it, the kind MAXIMAL, with the numbers of the IPUs. XLA's FrontendAttributes:
a map of text to text.
"""

from tremula.tf.inner import protos

SHARDING = "_XlaSharding"
FRONTEND_ATTRIBUTES = "_XlaFrontendAttributes"


def encode_sharding(indices):
    """OpSharding bytes for the IPUs numbered `indices`."""
    return protos.OpSharding(
        type=protos.OpSharding.MAXIMAL,
        tile_assignment_devices=indices).SerializeToString(deterministic=True)


def decode_sharding(data):
    """The IPU numbers in OpSharding bytes; a tuple's (one sharding an output) one after another."""
    sharding = protos.OpSharding.FromString(data)
    if sharding.type == protos.OpSharding.TUPLE:
        return [index for one in sharding.tuple_shardings for index in one.tile_assignment_devices]
    return list(sharding.tile_assignment_devices)


def encode_attributes(attributes):
    """FrontendAttributes bytes for a dict of text to text."""
    return protos.FrontendAttributes(map=attributes).SerializeToString(deterministic=True)


def decode_attributes(data):
    """The dict in FrontendAttributes bytes."""
    return dict(protos.FrontendAttributes.FromString(data).map)
