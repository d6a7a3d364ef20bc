"""The original's test cases."""


def add_test_methods(methods):
    """Gives every TensorFlowTestCase `methods`, {name: function}: the original's tests call them on
    test cases of any class."""
    from tensorflow.python.framework import test_util
    for name, method in methods.items():
        setattr(test_util.TensorFlowTestCase, name, method)
