"""How an IPUEstimator runs (`tensorflow.python.ipu.ipu_run_config`)."""

import collections

from tremula.tf.ipu import config as ipu_config
from tremula.tf.runtime.base import checks, estimators


class IPURunConfig(collections.namedtuple("IPURunConfig", [
        "iterations_per_loop", "ipu_options", "num_replicas", "num_shards", "ordinal",
        "prefetch_depth", "compile_summary", "autosharding"])):
    """The IPU's part of a RunConfig."""

    def __new__(cls, iterations_per_loop=1, ipu_options=None, num_replicas=1, num_shards=1,
                ordinal=0, prefetch_depth=None, compile_summary=False, autosharding=False):
        """
        iterations_per_loop  steps on the IPU for each session.run
        ipu_options          an IPUConfig, or what create_ipu_config returned
        num_replicas         copies of the model, which share a step's batches
        num_shards           IPUs of one copy
        ordinal              the number of the TensorFlow device
        prefetch_depth       of the infeed queue; None for its default
        autosharding         puts the model on num_shards IPUs by itself
        compile_summary      makes no difference; POPLAR_ENGINE_OPTIONS ask for reports

        Raises ValueError and TypeError for numbers and options that do not fit together.
        """
        def count(name, value):
            value = checks.whole(name, value)
            if value < 1:
                raise ValueError(f"{name} must be 1 or more, but it is {value}.")
            return value

        iterations_per_loop = count("iterations_per_loop", iterations_per_loop)
        num_replicas = count("num_replicas", num_replicas)
        num_shards = count("num_shards", num_shards)
        checks.integer("ordinal", ordinal, least=0)
        checks.integer("prefetch_depth", prefetch_depth, optional=True)  # the queue knows more
        checks.boolean("compile_summary", compile_summary, optional=True)
        checks.boolean("autosharding", autosharding, optional=True)
        num_devices = num_replicas * num_shards
        if num_devices > 1 and ipu_options is None:
            raise ValueError("IPU configuration requires more than one device, but `ipu_options` "
                             "is None")
        if ipu_options is not None:
            configured = _number_of_ipus(ipu_options, ordinal)
            if configured != num_devices:
                raise ValueError(
                    f"`IPURunConfig` configured with {num_devices} devices ({num_replicas} "
                    f"replicas times {num_shards} shards), but `ipu_options` configured with "
                    f"{configured} devices")
        return super().__new__(cls, iterations_per_loop, ipu_options, num_replicas, num_shards,
                               ordinal, prefetch_depth, compile_summary, autosharding)


def _number_of_ipus(options, ordinal):
    """How many IPUs the device number `ordinal` of a configuration has; of one that lists single
    IPUs, as the original has it, how many those are together."""
    if not isinstance(options, ipu_config.IPUConfig):
        raise TypeError("ipu_options must be an IPUConfig instance.")
    counts, ids = [[chosen] if isinstance(chosen, int) else list(chosen)
                   for chosen in (options.auto_select_ipus, options.select_ipus)]
    if counts:
        return _of_device(counts, ordinal)
    if not ids:
        return 1
    from tremula.tf.runtime.device import settings
    sizes = [settings.ipus_of_id(one) for one in ids]
    return len(sizes) if len(sizes) > 1 and max(sizes) == 1 else _of_device(sizes, ordinal)


def _of_device(sizes, ordinal):
    if ordinal >= len(sizes):
        raise ValueError(f"ordinal is {ordinal}, but `ipu_options` configured with {len(sizes)} "
                         "devices of TensorFlow, which count from 0.")
    return sizes[ordinal]


class RunConfig(estimators.base("RunConfig")):
    """A tf.estimator.RunConfig with an IPURunConfig."""

    def __init__(self, ipu_run_config=None, master=None, **kwargs):
        """`kwargs` are the arguments of tf.estimator.RunConfig."""
        kwargs.pop("use_xla_auto_clustering", None)
        if not isinstance(ipu_run_config, (IPURunConfig, type(None))):
            raise TypeError(f"ipu_run_config must be an IPURunConfig, but it is "
                            f"{ipu_run_config!r}.")
        checks.text("master", master, optional=True)
        super().__init__(**kwargs)
        self._ipu_run_config = ipu_run_config or IPURunConfig()
        if master is not None:
            self._master = master

    @property
    def ipu_run_config(self):
        """The IPURunConfig."""
        return self._ipu_run_config

    @property
    def master(self):
        """The address of the server to use, or ""."""
        return self._master
