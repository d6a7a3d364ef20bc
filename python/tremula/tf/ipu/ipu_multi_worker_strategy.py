"""Training by several processes, each with IPUs of its own, which talk by TensorFlow's collectives
over gRPC (`tensorflow.python.ipu.ipu_multi_worker_strategy`).

Gradients are summed on the hosts. In a compiled computation the sum is cut out of the program, as
what is in an outside_compilation_scope.
"""

import contextlib
import os

import tensorflow as tf

from tremula.tf.functions import programs
from tremula.tf.inner import (eager, functions, graphs, marks, patches, python_code,
                              strategies)
from tremula.tf.ipu import _workers, scopes
from tremula.tf.runtime.base import checks
from tremula.tf.runtime.device import device_names, plugin

patches.accept_old_collective_keys()
_values = strategies.distributed_values()
_LEAST_THREADS = 8  # of a worker's server
_Synchronization = tf.VariableSynchronization


class IPUSyncOnReadVariable(_values.SyncOnReadVariable):
    """A variable that each worker writes by itself, and whose values are reduced when it is read.
    """


class IPUMirroredVariable(_values.MirroredVariable):
    """A variable that has the same value on all workers."""


class IPUDistributedVariable(_values.DistributedVariable):
    """A variable whose policy says which of the two it is."""


class IPUOnWritePolicy(_values.OnWritePolicy):
    """The policy of what an IPUMirroredVariable is."""


class IPUAutoPolicy(IPUOnWritePolicy):
    """The policy of a variable that does not say which."""


class IPUOnReadPolicy(_values.OnReadPolicy):
    """The policy of what an IPUSyncOnReadVariable is."""


IPU_VARIABLE_CLASS_MAPPING = {
    "VariableClass": IPUDistributedVariable,
    _Synchronization.ON_WRITE: IPUMirroredVariable,
    _Synchronization.ON_READ: IPUSyncOnReadVariable,
}
IPU_VARIABLE_POLICY_MAPPING = {
    _Synchronization.ON_WRITE: IPUOnWritePolicy,
    _Synchronization.ON_READ: IPUOnReadPolicy,
}


class IPUMultiWorkerStrategyV1(tf.compat.v1.distribute.Strategy):
    """Runs the same program on the IPUs of several workers, and keeps their variables equal.

    All workers create the same variables in the same order, initialise them together, and read
    and save together the variables that are synchronised when they are read. An optimizer sums
    gradients over the workers, so a loss is divided by the batch of all of them.
    """

    _collective_key_base = 0  # TensorFlow asks for it

    def __init__(self, cluster_resolver, ipu_device="/device:IPU:0", variables_on_host=False):
        """
        cluster_resolver   names the workers and which of them this process is
        ipu_device         what each worker runs on
        variables_on_host  keeps variables in the memory of the host, where optimizers must be
                           applied then
        """
        plugin.load()
        device_names.ordinal(ipu_device)
        checks.boolean("variables_on_host", variables_on_host)
        super().__init__(IPUMultiWorkerExtendedV1(
            self, cluster_resolver, ipu_device, variables_on_host))

    def run(self, fn, args=(), kwargs=None, options=None):
        """fn(*args, **kwargs) on this worker's IPU. A tf.function becomes one program if it can be
        one."""
        del options
        if not functions.is_function(fn):
            fn = python_code.user_function(fn)
            return self.extended.call_for_each_replica(fn, args, kwargs)
        with programs.run_whole(fn):
            return self.extended.call_for_each_replica(fn, args, kwargs)

    def experimental_run_v2(self, fn, args=(), kwargs=None):
        """run(), as TensorFlow 1.15 has it."""
        return self.run(fn, args, kwargs)


class IPUMultiWorkerExtendedV1(strategies.collective_extended()):
    """What TensorFlow asks of an IPUMultiWorkerStrategyV1."""

    def __init__(self, container_strategy, cluster_resolver, ipu_device, variables_on_host):
        self._ipu, self._variables_on_host = ipu_device, variables_on_host
        self._broadcasts = True  # initial values
        super().__init__(
            container_strategy, cluster_resolver=cluster_resolver,
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.RING))

    def _initialize_local(self, cluster_resolver, devices=None):
        super()._initialize_local(cluster_resolver, devices)
        self._find_devices()

    def _initialize_multi_worker(self, cluster_resolver):
        super()._initialize_multi_worker(cluster_resolver)
        self._find_devices()
        if tf.executing_eagerly():  # the names of this process' devices have changed
            eager.place_by_default(self._host_device)
        if self._num_workers > 1:
            _workers.watch(self._cluster_spec.as_dict(), self._task_type, self._task_id)

    def _update_config_proto(self, config_proto):
        config = super()._update_config_proto(config_proto)
        # A program that waits for the host takes a thread, and what runs there needs others.
        config.inter_op_parallelism_threads = max(
            config.inter_op_parallelism_threads or os.cpu_count(), _LEAST_THREADS)
        return config

    def _find_devices(self):
        hosts = [tf.DeviceSpec.from_string(one) for one in self._devices]
        if len(hosts) != 1 or hosts[0].device_type != "CPU":
            raise ValueError("Expected one host device per worker")
        self._host_device = self._devices[0]
        ipu = tf.DeviceSpec.from_string(self._ipu)
        self._ipu_device = hosts[0].replace(
            device_type="IPU", device_index=ipu.device_index).to_string()
        self._variable_device = (
            self._host_device if self._variables_on_host else self._ipu_device)

    @property
    def host_device(self):
        """The name of this worker's CPU."""
        return self._host_device

    # ---- Variables ----

    def _create_variable(self, next_creator, **kwargs):
        beside = kwargs.pop("colocate_with", None)
        device = strategies.single_device(beside)
        if device is not None:
            with tf.device(device):
                return next_creator(**kwargs)

        def create(**kwargs):
            if kwargs.get("initial_value") is not None:
                kwargs["initial_value"] = self._on_host(self._initial_value(kwargs))
            return [self._create_here(next_creator, kwargs)]

        return strategies.mirrored_variable(
            self._container_strategy(), create, IPU_VARIABLE_CLASS_MAPPING,
            IPU_VARIABLE_POLICY_MAPPING, kwargs)

    def _create_here(self, next_creator, kwargs):
        counts = tf.compat.v1.GraphKeys.GLOBAL_STEP in (kwargs.get("collections") or ())
        if not counts and (not self._variables_on_host or
                           kwargs.get("synchronization") == _Synchronization.ON_READ):
            with tf.device(self._ipu_device):
                return next_creator(**kwargs)
        if not counts and not tf.compat.v1.executing_eagerly_outside_functions():
            kwargs["caching_device"] = self._ipu_device  # where a step reads the value
        with marks.without_marks(), tf.device(self._host_device):
            return next_creator(**kwargs)

    def _initial_value(self, kwargs):
        """A function that gives the initial value: that of the first worker."""
        if self._broadcasts:
            return self._get_variable_creator_initial_value(0, self._host_device, None, **kwargs)
        value = strategies.plain_initial_value(kwargs["initial_value"])
        return lambda: tf.convert_to_tensor(value() if callable(value) else value,
                                            kwargs.get("dtype"))

    def _on_host(self, value):
        def initial_value():
            with strategies.host_values(self._host_device):
                return value()
        return initial_value

    @contextlib.contextmanager
    def without_broadcasts(self):
        """A block in which variables are made with each worker's own initial value."""
        before, self._broadcasts = self._broadcasts, False
        try:
            yield
        finally:
            self._broadcasts = before

    def send(self, variable):
        """An operation, to be run by all workers, that gives them the first one's value."""
        if isinstance(variable, _values.DistributedValues):
            variable, = variable.values
        group = self._collective_keys.get_group_key([self._host_device])
        instance = self._collective_keys.get_instance_key(group, self._host_device)
        with tf.device(self._host_device):
            value = strategies.broadcast(tf.identity(variable.read_value()), self._is_chief,
                                         self._num_workers, group, instance)
        return variable.assign(value, read_value=False)

    def _validate_colocate_with_variable(self, colocate_with_variable):
        device = colocate_with_variable.device
        if device != self._variable_device:
            raise ValueError(f"Unexpected colocated variable device: {device}")

    def read_var(self, var):
        """The value of a variable."""
        return var.read_value()

    # ---- Calls and reductions ----

    def _call_for_each_replica(self, fn, args, kwargs):
        with tf.distribute.ReplicaContext(
                self._container_strategy(), replica_id_in_sync_group=0), \
                tf.device(self._ipu_device):
            return fn(*strategies.of_first_replica(args), **strategies.of_first_replica(kwargs))

    def _use_merge_call(self):
        return True

    def _reduce_to(self, reduce_op, value, destinations, options):
        del destinations
        if isinstance(value, _values.DistributedValues):
            value, = value.values
        with _on_host("host_reduce"):
            value = self._host_value(value)
            return super()._reduce_to(reduce_op, value, value, options)

    def _batch_reduce_to(self, reduce_op, value_destination_pairs, options):
        with _on_host("host_batch_reduce"):
            values = [self._host_value(value) for value, _ in value_destination_pairs]
            return super()._batch_reduce_to(reduce_op, list(zip(values, values)), options)

    def _host_value(self, value):
        if isinstance(value, _values.DistributedValues):
            value, = value.values
        with tf.device(self._host_device):
            return tf.identity(value)


def _on_host(name):
    """An outside_compilation_scope, where what is built is compiled, or will be if it can be."""
    compiled = graphs.in_static_program() or (
        programs.running() is not None and not tf.executing_eagerly())
    outside = marks.graph_attribute(scopes.OUTSIDE_COMPILATION_NAME) is not None
    return scopes.outside_compilation_scope(name) if compiled and not outside \
        else contextlib.nullcontext()


IPUMultiWorkerStrategy = IPUMultiWorkerStrategyV1
IPUMultiWorkerExtended = IPUMultiWorkerExtendedV1
