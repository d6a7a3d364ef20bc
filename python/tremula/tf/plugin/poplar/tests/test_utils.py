"""The place of ipu.test_utils before SDK 2.2."""

import sys

from tremula.tf.ipu import test_utils

sys.modules[__name__] = test_utils
