"""The IPU's own operations. Each module is shown as `ipu.X` too.

When the API was `tensorflow.contrib.ipu`, this was a module with what scopes and summary_ops have.
"""

import importlib

from tremula import _finder
from tremula.tf.ipu import _planned

_SCOPES = ("ipu_scope", "ipu_jit_scope", "ipu_shard", "frontend_attribute",
           "outside_compilation_scope", "stochastic_rounding", "partials_type")
_SUMMARIES = ("ipu_compile_summary", "get_ipu_reports")


def __getattr__(name):
    for module, names in (("scopes", _SCOPES), ("ops.summary_ops", _SUMMARIES)):
        if name in names:
            return getattr(importlib.import_module(f"tremula.tf.ipu.{module}"), name)
    module = None if name.startswith("__") else _finder.resolve("tremula.tf.ipu", f"ops.{name}")
    if module is None:
        raise AttributeError(_planned.message(f"ops.{name}")
                             or f"module 'tensorflow.python.ipu.ops' has no attribute {name!r}")
    return importlib.import_module(module)
