"""Operations of compiled programs for other processes (`gen_application_runtime`), by the functions
of ipu.embedded_runtime."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu.ops import embedded_runtime
from tremula.tf.plugin.poplar.ops import _refused
from tremula.tf.runtime.launching import applications


def __getattr__(name):
    _refused.attribute(__name__, name)


def application_runtime(inputs, filename, engine_name, timeout_us=5000, name=None):
    """Starts the program of a file: a scalar int32 tensor that is there when it has been started.
    See ipu.embedded_runtime.embedded_runtime_start()."""
    with tf.name_scope(name, "ApplicationRuntime"):
        return embedded_runtime.embedded_runtime_start(
            filename, list(inputs), engine_name, timeout_us).start_output()


def application_call(infeeds, outfeed_types, engine_name, anchor=None, name=None):
    """What the program `engine_name` gives for one element of its infeed, a list of tensors of
    `outfeed_types`. `anchor` is what application_runtime() gave."""
    def call(*values):
        return applications.call(engine_name, values)

    with tf.name_scope(name, "ApplicationCall"), tf.control_dependencies(
            [] if anchor is None else [anchor]):
        return embedded_runtime._run(call, [tf.convert_to_tensor(one) for one in infeeds],
                                     list(outfeed_types))
