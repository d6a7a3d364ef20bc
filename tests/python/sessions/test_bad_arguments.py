"""What cannot be meant is refused where it is said, by TypeError or ValueError, with its name."""

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def refused(error, words, function, *arguments, **keywords):
    with pytest.raises(error, match=words):
        function(*arguments, **keywords)


@pytest.mark.parametrize("wrong", ["2", 1.5, None, True])
def test_numbers_of_iterations(on_ipu, wrong):
    refused(TypeError, "number of iterations must be an int or an integer tensor, not ", on_ipu,
            lambda: ipu.loops.repeat(wrong, lambda x: x, [1.0]))


def test_loops(on_ipu):
    refused(TypeError, "infeed_queue must be an .*IPUInfeedQueue, not 3", on_ipu,
            lambda: ipu.loops.repeat(2, lambda x: x, [1.0], 3))
    refused(TypeError, "body of a loop must be a function, not 3", on_ipu,
            lambda: ipu.loops.while_loop(lambda x: x < 3., 3, [1.0]))


@pytest.mark.parametrize("wrong, error", [("3", TypeError), (1.5, TypeError), (True, TypeError),
                                          (0, ValueError), (256, ValueError)])
def test_prefetch_depth(wrong, error):
    refused(error, "prefetch_depth must be", ipu.ipu_infeed_queue.IPUInfeedQueue,
            tf.data.Dataset.from_tensors(1.0), prefetch_depth=wrong)


def test_scopes_and_utilities():
    def scope():
        with ipu.scopes.ipu_scope(3):
            pass

    refused(TypeError, "name of a device, such as .*, not 3", scope)
    refused(TypeError, "takes a tf.Graph, not 3", ipu.utils.move_variable_initialization_to_cpu, 3)
