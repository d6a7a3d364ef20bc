"""What was part of tf.contrib and has no public name today, for tremula.tf1.contrib.

Importing this module imports TensorFlow.
"""

from tensorflow.python.compiler.xla import jit, xla
from tensorflow.python.framework.tensor_util import is_tf_type as is_tensor
from tensorflow.python.framework.tensor_util import constant_value
from tensorflow.python.training.checkpoint_utils import wait_for_new_checkpoint
from tensorflow.python.training.evaluation import _get_or_create_eval_step as \
    get_or_create_eval_step
from tensorflow.python.util import nest
from tensorflow.python.util.deprecation import (deprecated, deprecated_arg_values,
                                                deprecated_args)

__all__ = ["constant_value", "deprecated", "deprecated_arg_values", "deprecated_args",
           "get_or_create_eval_step", "is_tensor", "jit", "nest", "wait_for_new_checkpoint", "xla"]
