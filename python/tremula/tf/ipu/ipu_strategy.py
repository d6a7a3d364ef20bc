"""Running TensorFlow 2 programs on an IPU (`tensorflow.python.ipu.ipu_strategy`)."""

import contextlib
import threading

import tensorflow as tf

from tremula.tf.functions import hooks, programs
from tremula.tf.inner import functions, python_code, strategies
from tremula.tf.ipu import keras_extensions
from tremula.tf.ipu.ops import cross_replica_ops
from tremula.tf.runtime.device import device_names, plugin
from tremula.tf.runtime.tracing import tracing

_NOT_A_FUNCTION = (
    "IPUStrategyV1.run(fn, ...) does not support eager execution. Either convert `fn` into a "
    "tf.function or consider calling strategy.run inside a tf.function.")

_local = threading.local()


class IPUStrategyV1(tf.compat.v1.distribute.Strategy, keras_extensions.KerasExtensions):
    """Runs functions on the IPUs of a TensorFlow device.

    `scope()` makes variables on the IPU, with initial values that the CPU computes, and iterators
    of datasets infeed queues. Operations and functions that are called there are not moved to the
    IPU: run() does that.
    """

    def __init__(self, ipu_device="/device:IPU:0", cpu_device="/device:CPU:0",
                 enable_dataset_iterators=True, enable_keras_extensions=True):
        """`enable_dataset_iterators` makes iter(dataset) in the scope an infeed queue,
        `enable_keras_extensions` gives Keras' models of the scope the methods for IPUs.

        Raises ValueError for a device that is no IPU.
        """
        plugin.load()
        self._device_ordinal = device_names.ordinal(ipu_device)
        self._ipu_device, self._cpu_device = ipu_device, cpu_device
        super().__init__(self._make_extended(ipu_device, cpu_device))
        keras_extensions.KerasExtensions.__init__(
            self, enable_dataset_iterators, enable_keras_extensions)

    def _make_extended(self, ipu_device, cpu_device):
        return IPUExtendedV1(self, ipu_device, cpu_device)

    def scope(self):
        """A block in which variables and models are made for the IPU."""
        keras_extensions.register_if_loaded(self)
        return super().scope()

    def run(self, fn, args=(), kwargs=None, options=None):
        """fn(*args, **kwargs) on the IPU: `fn` is a tf.function, which becomes one program, or
        inside of a tf.function any function. A tf.function that does not say `jit_compile=True`
        and cannot be one program runs operation by operation; those that an IPU lacks run on the
        CPU.

        Raises ValueError for other functions, TypeError for float64, and what `fn` raises.
        """
        del options
        is_function = functions.is_function(fn)
        if tf.executing_eagerly() and not is_function:
            raise ValueError(_NOT_A_FUNCTION)
        if not isinstance(args, (list, tuple)):
            raise ValueError("positional args must be a list or tuple, got "
                             f"{type(args).__name__}")
        kwargs = kwargs or {}
        with tf.distribute.ReplicaContext(self, replica_id_in_sync_group=0), \
                tf.device(self._ipu_device), strategies.xla_context():
            if is_function:
                with programs.run_whole(fn):
                    return fn(*args, **kwargs)
            fn = python_code.user_function(fn)
            if functions.is_traced() and tracing.current() is None:
                return programs.call_whole(fn, args, kwargs)
            return fn(*args, **kwargs)

    def experimental_run_v2(self, fn, args=(), kwargs=None):
        """run(), as SDK 2.1 has it."""
        return self.run(fn, args, kwargs)

    @property
    def supports_loss_scaling(self):
        """True."""
        return True


class IPUExtendedV1(tf.compat.v1.distribute.StrategyExtended):
    """What TensorFlow asks of an IPUStrategyV1."""

    def __init__(self, container_strategy, ipu_device, cpu_device):
        super().__init__(container_strategy)
        self._ipu_device, self._cpu_device = ipu_device, cpu_device

    # ---- Variables ----

    def _create_variable(self, next_creator, **kwargs):
        colocate_with = kwargs.pop("colocate_with", None)
        if isinstance(colocate_with, str):
            device = tf.device(colocate_with)
        elif colocate_with is not None and hasattr(colocate_with, "op"):
            device = tf.compat.v1.colocate_with(colocate_with)
        else:
            device = tf.device(self._ipu_device)
        value = strategies.plain_initial_value(kwargs.get("initial_value"))
        dtype = kwargs.get("dtype")

        def initial_value():
            with tf.device(self._cpu_device):
                made = value() if callable(value) else value
                return tf.convert_to_tensor(made, dtype)

        if value is not None:
            kwargs["initial_value"] = initial_value
        with device:
            return next_creator(**kwargs)

    def _validate_colocate_with_variable(self, colocate_with_variable):
        made_by = getattr(colocate_with_variable, "_distribute_strategy", None)
        if made_by is not None and made_by.extended is not self:
            raise ValueError("`colocate_vars_with` must be a variable that was created in this "
                             f"strategy's scope, not: {colocate_with_variable}")

    def read_var(self, replica_local_var):
        """The value of a variable."""
        return tf.identity(replica_local_var)

    def value_container(self, value):
        """`value`: nothing is around it."""
        return value

    def non_slot_devices(self, var_list):
        """The IPU's name."""
        del var_list
        return self._ipu_device

    # ---- Calls, reductions and updates ----

    def _call_for_each_replica(self, fn, args, kwargs):
        with tf.distribute.ReplicaContext(
                self._container_strategy(), replica_id_in_sync_group=0), \
                tf.device(self._ipu_device):
            return fn(*args, **kwargs)

    @contextlib.contextmanager
    def unreduced(self):
        """A block in which nothing is reduced: in it a replica keeps its own gradients."""
        before = getattr(_local, "is_unreduced", False)
        _local.is_unreduced = True
        try:
            yield
        finally:
            _local.is_unreduced = before

    def is_unreduced(self):
        """Whether an unreduced() block is around."""
        return getattr(_local, "is_unreduced", False)

    def _reduce_to(self, reduce_op, value, destinations, options=None):
        del destinations, options
        if hooks.current_ipu() is None or self.is_unreduced():
            return value  # nothing outside of a program has replicas
        if reduce_op == tf.distribute.ReduceOp.SUM:
            return cross_replica_ops.cross_replica_sum(tf.convert_to_tensor(value))
        if reduce_op == tf.distribute.ReduceOp.MEAN:
            return cross_replica_ops.cross_replica_mean(tf.convert_to_tensor(value))
        raise ValueError(f"Unsupported reduce op: {reduce_op}")

    def _gather_to_implementation(self, value, destinations, axis, options):
        del destinations, axis, options
        return value

    def _broadcast_to(self, tensor, destinations):
        del destinations
        return tensor

    def _update(self, var, fn, args, kwargs, group):
        return self._update_non_slot(var, fn, (var, *args), kwargs, group)

    def _update_non_slot(self, colocate_with, fn, args, kwargs, group):
        del colocate_with
        with tf.device(self._ipu_device), strategies.update_context(self._ipu_device):
            result = fn(*args, **kwargs)
        return result if group else tf.nest.map_structure(self._local_results, result)

    def _local_results(self, value):
        return (value,)

    # ---- Datasets ----

    def _make_dataset_iterator(self, dataset):
        return strategies.dataset_iterator(dataset, self._cpu_device, self._container_strategy())

    def _make_input_fn_iterator(
            self, input_fn, replication_mode=tf.distribute.InputReplicationMode.PER_WORKER):
        del replication_mode
        return strategies.input_function_iterator(input_fn, self._cpu_device,
                                                  self._container_strategy())

    def _experimental_distribute_dataset(self, dataset, options):
        return strategies.distributed_dataset(dataset, self._cpu_device,
                                              self._container_strategy(), options)

    def _distribute_datasets_from_function(self, dataset_fn, options):
        del options
        return dataset_fn(tf.distribute.InputContext())

    def _experimental_distribute_values_from_function(self, value_fn):
        return value_fn(tf.distribute.experimental.ValueContext())

    def _experimental_make_numpy_dataset(self, numpy_input, session):
        return strategies.numpy_dataset(numpy_input, self._cpu_device, session)

    # ---- What there is ----

    def _configure(self, session_config=None, cluster_spec=None, task_type=None, task_id=None):
        pass

    def _in_multi_worker_mode(self):
        return False

    def _get_local_replica_id(self, replica_id_in_sync_group):
        return replica_id_in_sync_group

    @property
    def _num_replicas_in_sync(self):
        return 1

    @property
    def worker_devices(self):
        """The IPU's name, in a tuple."""
        return (self._ipu_device,)

    @property
    def parameter_devices(self):
        """The IPU's name, in a tuple."""
        return (self._ipu_device,)

    @property
    def _global_batch_size(self):
        return True

    @property
    def _support_per_replica_values(self):
        return False

    experimental_should_init = should_checkpoint = should_save_summary = True
    experimental_between_graph = False


IPUStrategy = IPUStrategyV1
IPUExtended = IPUExtendedV1
