"""The name by which tests import tremula.tf.testing.utils: `tensorflow.python.ipu.test_utils`."""

import sys

from tremula.tf.testing import utils

sys.modules[__name__] = utils
