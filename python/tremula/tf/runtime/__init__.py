"""The way from TensorFlow graphs to libtremula: the plugin, lowering, and launching.

    plugin       finds and loads the plugin (C), and calls it
    settings     configuring devices
    kernel_list  which ops an IPU has, and registering their kernels
    tracing      a Python function -> a function graph
    node_table   unique names for nodes, and what is known about each (the side table)
    pruning      what of a graph and its functions is compiled
    rewriting    what a graph needs done to it before it can be lowered
    lowering     a graph -> HLO, with TensorFlow's own bridge
    late         lowering while a program runs, when shapes were not known before
    launching    the nodes that run a compiled part
    interrupts   Ctrl-C while a session runs
    clusters     ops on an IPU without `compile`, put together into programs
"""

from tremula.tf.inner import patches
from tremula.tf.runtime import (clusters, clusters_placing, host_calls, interrupts, kernel_list,
                                late, outside, plugin, settings)
from tremula.tf.runtime.kernel_list import supported_ops
from tremula.tf.runtime.plugin import load
from tremula.tf.runtime.settings import (clear_compilation_caches, configure, reset_configuration,
                                         reset_seed)

# What loading the plugin sets up, in this order. The modules only know the plugin.
plugin.on_load(
    kernel_list.register, late.install, settings.install, host_calls.install, outside.install,
    clusters.install, clusters_placing.place_what_can_be_placed, interrupts.install,
    patches.prefer_cpu, patches.leave_unconverted, patches.put_errors_first)

__all__ = ["clear_compilation_caches", "configure", "load", "reset_configuration", "reset_seed",
           "supported_ops"]
