"""The name by which tests import tremula.tf.testing.case_extensions."""

import sys

from tremula.tf.testing import case_extensions

sys.modules[__name__] = case_extensions
