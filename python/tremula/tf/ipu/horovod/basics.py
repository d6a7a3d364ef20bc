"""The functions about processes as methods (`horovod.basics`)."""

from tremula.tf.ipu import horovod

_NAMES = ("init", "shutdown", "size", "local_size", "rank", "local_rank", "is_homogeneous",
          "mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built",
          "nccl_built", "ddl_built", "mlsl_built")


class HorovodBasics:
    """What `horovod` has, but for the collectives. The arguments name a library that is not
    needed."""

    def __init__(self, pkg_path=None, *args):
        del pkg_path, args


for _name in _NAMES:
    setattr(HorovodBasics, _name, staticmethod(getattr(horovod, _name)))
