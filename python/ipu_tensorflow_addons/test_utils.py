"""The name by which tests of the addons import `tensorflow.python.ipu.test_utils`."""

import sys

from tensorflow.python.ipu import test_utils

sys.modules[__name__] = test_utils
