"""The way from TensorFlow graphs to libtremula. TensorFlow 2 and Keras stand on this.

The folders are layers: a file imports files of its own folder and of those above.

    base/        checks of arguments, files, small helpers
    device/      plugin, settings, compile_options: loading the plugin (C), calling it, configuring
    nodes/       nodes of GraphDefs: marks, unique names and the side table, rewriting
    ops/         kernel_list, node_kinds: which ops an IPU has and what they are; support: refusing
    host/        outside: cutting out of a program what runs on the host; host_calls: running it
    tracing/     a Python function -> a function graph, and what a program keeps
    lowering/    staging, inlining, lowering, cache: from a graph to HLO, by TensorFlow's bridge;
                 late: the same while a program runs
    sessions/    Ctrl-C, forked processes, options of sessions
    launching/   the nodes that run a program; programs in files
    clusters/    ops on an IPU without `compile`, put together into programs
    placing/     where sessions place nodes
"""

from tremula.tf.inner import patches
from tremula.tf.runtime.clusters import clusters
from tremula.tf.runtime.device import plugin, settings
from tremula.tf.runtime.device.plugin import load
from tremula.tf.runtime.device.settings import (clear_compilation_caches, configure,
                                                reset_configuration, reset_seed)
from tremula.tf.runtime.host import host_calls, outside
from tremula.tf.runtime.lowering import late
from tremula.tf.runtime.ops import kernel_list
from tremula.tf.runtime.ops.kernel_list import supported_ops
from tremula.tf.runtime.placing import session_placing
from tremula.tf.runtime.sessions import interrupts

# What loading the plugin sets up, in this order. The modules only know the plugin.
plugin.on_load(
    kernel_list.register, late.install, settings.install, host_calls.install, outside.install,
    clusters.install, session_placing.place_what_can_be_placed, interrupts.install,
    patches.prefer_cpu, patches.leave_unconverted, patches.put_errors_first)

__all__ = ["clear_compilation_caches", "configure", "load", "reset_configuration", "reset_seed",
           "supported_ops"]
