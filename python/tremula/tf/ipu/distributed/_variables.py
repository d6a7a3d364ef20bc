"""What strategies over processes have in common: variables whose initial value is that of the first
instance, and reductions on the host."""

import contextlib
import itertools

import tensorflow as tf

from tremula.tf.functions import programs
from tremula.tf.inner import graphs, marks, strategies
from tremula.tf.ipu import ipu_strategy, scopes
from tremula.tf.ipu.distributed import host_collective_ops

_numbers = {}


def unique_name(stem):
    """A name for a collective. Instances meet by it, because they build the same things in the same
    order."""
    return f"{stem}_{next(_numbers.setdefault(stem, itertools.count()))}"


class DistributedExtended(ipu_strategy.IPUExtendedV1):
    """An IPUExtendedV1 of one of several instances."""

    def __init__(self, container_strategy, ipu_device, cpu_device="/device:CPU:0"):
        super().__init__(container_strategy, ipu_device, cpu_device)
        if "CPU" not in cpu_device.upper():
            raise ValueError("Expected one host device per worker")

    def _create_variable(self, next_creator, **kwargs):
        value = strategies.plain_initial_value(kwargs.get("initial_value"))
        if value is not None:
            dtype, name = kwargs.get("dtype"), unique_name("initial_value")

            def initial_value():
                with strategies.host_values(self._cpu_device):
                    made = tf.convert_to_tensor(value() if callable(value) else value, dtype)
                    return self._send(made, name)

            kwargs["initial_value"] = initial_value
        return super()._create_variable(next_creator, **kwargs)

    def _send(self, value, name):
        """The value of the first instance."""
        return host_collective_ops.broadcast(value, 0, tensor_name=name)

    @property
    def host_device(self):
        """The name of the CPU."""
        return self._cpu_device


@contextlib.contextmanager
def on_host(name, device):
    """A block on the CPU. Inside of a program it is an outside_compilation_scope."""
    compiled = graphs.in_static_program() or (
        programs.running() is not None and not tf.executing_eagerly())
    outside = marks.graph_attribute(scopes.OUTSIDE_COMPILATION_NAME) is not None
    around = scopes.outside_compilation_scope(name) if compiled and not outside \
        else contextlib.nullcontext()
    with around, tf.device(device):
        yield
