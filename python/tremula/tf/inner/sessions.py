"""Sessions of TensorFlow 1 and their options."""



def default_config():
    """The ConfigProto of sessions that are given none."""
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context
    config = config_pb2.ConfigProto()
    config.CopyFrom(context.context().config)
    # Options of functions are in there, ours among them: eager.set_function_options().
    rewriting = config.graph_options.rewrite_options
    if rewriting.min_graph_nodes < 0:
        rewriting.ClearField("min_graph_nodes")
    if not rewriting.ByteSize():
        config.graph_options.ClearField("rewrite_options")
    if not config.graph_options.ByteSize():
        config.ClearField("graph_options")
    return config


def rewrites_precision():
    """Whether sessions compute in half precision where TensorFlow finds that good."""
    from tensorflow.python.client import session
    return session.mixed_precision_global_state.is_mixed_precision_graph_rewrite_enabled()
