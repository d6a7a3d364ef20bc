"""How many IPUs a test may use, and what becomes of it where there are fewer (for test_utils)."""

import functools
import os

from tremula.tf.ipu import utils
from tremula.tf.ipu.config import IPUConfig

_MAY_USE = "TF_IPU_COUNT"


def compute_device_count(pipelining=False, sharded=False, replicated=False):
    """The number of IPUs that the kind of a test asks for; 0 for "one, in any way"."""
    count = 2 if sharded else 4 if pipelining else 0
    if replicated:
        return 2 * count or 2
    return count


def get_ci_num_ipus():
    """How many IPUs tests may use: the variable TF_IPU_COUNT, without it 0."""
    return int(os.environ.get(_MAY_USE, 0))


def has_ci_ipus():
    """Whether tests may use IPUs."""
    return get_ci_num_ipus() > 0


def add_hw_ci_connection_options(opts):
    """Makes the configuration attach to its IPUs when they are used; returns it, as the functions
    of the first releases do."""
    if isinstance(opts, IPUConfig):
        opts.device_connection.type = utils.DeviceConnectionType.ON_DEMAND
        opts.device_connection.enable_remote_buffers = True
        return opts
    return utils.set_ipu_connection_type(opts, utils.DeviceConnectionType.ON_DEMAND,
                                         enable_remote_buffers=True)


def test_uses_ipus(num_ipus, allow_ipu_model=False, func=None):
    """A decorator: the test is skipped where there are fewer IPUs, unless it may run on the IPU
    Model."""
    def decorate(function):
        @functools.wraps(function)
        def decorated(self, *args, **kwargs):
            if not allow_ipu_model:
                skip_if_not_enough_ipus(self, num_ipus)
            if get_ci_num_ipus() >= num_ipus > 0 and utils.running_on_ipu_model():
                raise AssertionError("Do not set use_ipu_model when running HW tests.")
            return function(self, *args, **kwargs)
        return decorated
    return decorate if func is None else decorate(func)


def test_may_use_ipus_or_model(num_ipus, func=None):
    """The decorator for a test that may run on the IPU Model."""
    return test_uses_ipus(num_ipus, True, func)


# Not tests of their own, whatever pytest takes their names for.
test_uses_ipus.__test__ = test_may_use_ipus_or_model.__test__ = False


def skip_on_hw(func):
    """A decorator: the test is skipped where there are IPUs."""
    return skip_on_hw_with_reason("Skipping test on HW")(func)


def skip_on_hw_with_reason(reason):
    """The same with a reason."""
    return _skip_if(has_ci_ipus, reason)


def skip_with_asan(reason):
    """A decorator: the test is skipped under the address sanitizer."""
    return _skip_if(lambda: "ASAN_OPTIONS" in os.environ, reason)


def skip_if_not_enough_ipus(self, num_ipus):
    """Skips the test `self` where there are fewer IPUs."""
    available = get_ci_num_ipus()
    if available < num_ipus:
        self.skipTest(f"Requested {num_ipus} IPUs, but only {available} are available.")


def _skip_if(condition, reason):
    def decorate(function):
        @functools.wraps(function)
        def decorated(self, *args, **kwargs):
            if condition():
                self.skipTest(reason)
            return function(self, *args, **kwargs)
        return decorated
    return decorate
