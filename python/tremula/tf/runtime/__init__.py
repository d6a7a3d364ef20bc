"""The way from TensorFlow graphs to libtremula. What TensorFlow 2 and Keras get stands on this.

The plugin and its devices
    plugin, settings, compile_options     loading the plugin (C), calling it, configuring devices
    device_names, user_libraries          names of devices; users' libraries with ops
    kernel_list, support                  which ops an IPU has, and refusing others

A Python function -> a program
    tracing, program_state, accumulation, hoisting, host_tables, collective_shapes
                                          the function graph, and what a program keeps
    replication                           how many replicas it will have
    staging, outside, pruning, rewriting, random_functions, name_order
                                          from the function graph to what can be lowered
    node_marks, node_table                marks of nodes, and what is known of each (the side table)
    lowering, module_state, known_values, messages
                                          to HLO, with TensorFlow's own bridge
    cache, late                           what lowering gave before; lowering while a program runs
    launching, applications               the nodes that run a program; programs in files

Ops on an IPU without `compile`
    clusters, placed_graph, node_kinds, node_sources, group_variables, group_launch
                                          put together into programs
    clusters_placing, placing_on_cpu      where sessions place nodes

Sessions and processes
    host_calls                            sessions by number; functions that programs call
    interrupts, forks, plain_graphs       Ctrl-C, forked processes, options of sessions

For all
    checks, feed_arguments, estimators, recent, regular
"""

from tremula.tf.inner import patches
from tremula.tf.runtime import clusters_placing
from tremula.tf.runtime.clusters import clusters
from tremula.tf.runtime.device import plugin, settings
from tremula.tf.runtime.device.plugin import load
from tremula.tf.runtime.device.settings import (clear_compilation_caches, configure,
                                                reset_configuration, reset_seed)
from tremula.tf.runtime.host import host_calls, outside
from tremula.tf.runtime.lowering import late
from tremula.tf.runtime.ops import kernel_list
from tremula.tf.runtime.ops.kernel_list import supported_ops
from tremula.tf.runtime.sessions import interrupts

# What loading the plugin sets up, in this order. The modules only know the plugin.
plugin.on_load(
    kernel_list.register, late.install, settings.install, host_calls.install, outside.install,
    clusters.install, clusters_placing.place_what_can_be_placed, interrupts.install,
    patches.prefer_cpu, patches.leave_unconverted, patches.put_errors_first)

__all__ = ["clear_compilation_caches", "configure", "load", "reset_configuration", "reset_seed",
           "supported_ops"]
