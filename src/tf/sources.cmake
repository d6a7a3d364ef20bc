# The plugin's files, by what they need of TensorFlow.

# Run programs. The C tests link them with a stand-in for TensorFlow (tests/c/tf/fake).
set(TF_RUNNING
  cache.c
  cxx.c
  dumps.c
  events.c
  feed_ops.c
  feeds.c
  host_calls.c
  interrupt.c
  late_devices.c
  launch.c
  log.c
  observe.c
  pool.c
  runs.c
  settings.c
  synthetic.c
  tensorflow.c
  unit_build.c
  units.c
  watch.c)

# Tell TensorFlow of a device, operations or an optimizer, or are kernels on its variables.
set(TF_REGISTERING
  assertions.c
  collectives.c
  device.c
  ops.c
  optimizer.c
  variables.c)
