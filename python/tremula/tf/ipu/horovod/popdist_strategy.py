"""PopDistStrategy, and its former name (`ipu.horovod.popdist_strategy`)."""

from tremula.tf.ipu.distributed.popdist_strategy import *  # noqa: F403
