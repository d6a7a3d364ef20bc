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


def is_session(value):
    """Whether something is a session, of any kind."""
    from tensorflow.python.client import session
    return isinstance(value, session.BaseSession)


def start_again(owner, config):
    """Puts a new session of the runtime's, with the ConfigProto `config`, below `owner`, which has
    run nothing."""
    from tensorflow.python.client import pywrap_tf_session as tf_session
    options = tf_session.TF_NewSessionOptions(target=owner._target, config=config)
    try:
        with owner._graph._c_graph.get() as graph:
            new = tf_session.TF_NewSessionRef(graph, options)
    finally:
        tf_session.TF_DeleteSessionOptions(options)
    old, owner._session = owner._session, new
    tf_session.TF_CloseSession(old)
    tf_session.TF_DeleteSession(old)


def fetched(graph, fetches):
    """(elements, build) of what a session's run is to fetch: tensors and operations, and a function
    from their values (None for operations) to the run's result. Raises what the run would."""
    from tensorflow.python.client import session
    with graph.as_default():
        mapper = session._FetchMapper.for_fetch(fetches)
    elements = []
    for one in mapper.unique_fetches():
        if isinstance(one, str):
            one = graph.as_graph_element(one, allow_tensor=True, allow_operation=True)
        elements.append(one)
    return elements, mapper.build_results
