"""TensorFlow's estimators, where TensorFlow has them: 2.15 is the last version that does."""


def module():
    """`tf.compat.v1.estimator`.

    Raises ImportError, with what to do, where there is none.
    """
    import tensorflow.compat.v1 as tf
    estimator = getattr(tf, "estimator", None)
    if estimator is None or not hasattr(estimator, "Estimator"):
        raise ImportError(
            f"TensorFlow {tf.version.VERSION} has no estimators any more, so there are no "
            "IPUEstimators either. Install TensorFlow 2.15.1, the last version that has them, or "
            "train with ipu_compiler.compile and a session.")
    return estimator


def base(name):
    """The class of that name in it."""
    return getattr(module(), name)


def parts():
    """The inner modules (estimator, model_fn) of TensorFlow's estimators."""
    module()
    from tensorflow_estimator.python.estimator import estimator, model_fn
    return estimator, model_fn
