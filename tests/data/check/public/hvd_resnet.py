import argparse

import horovod.tensorflow as hvd
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
hvd.init()

p = argparse.ArgumentParser()
p.add_argument("--fp16", action="store_true")
p.add_argument("--xla", action="store_true")
args = p.parse_args()


def synthetic(batch):
    x = tf.random.uniform([batch, 224, 224, 3])
    y = tf.random.uniform([batch], maxval=1000, dtype=tf.int64)  #! int64
    return x, y


def resnet(x, data_format="channels_first"):
    x = tf.layers.conv2d(x, 64, 7, 2, data_format=data_format)
    x = tf.layers.batch_normalization(x, axis=1, training=True)
    x = tf.nn.relu(x)
    x = tf.reduce_mean(x, [2, 3])
    return tf.layers.dense(x, 1000)


x, y = synthetic(64)
x = tf.transpose(x, [0, 3, 1, 2])
loss = tf.losses.sparse_softmax_cross_entropy(y, resnet(x))
opt = tf.train.MomentumOptimizer(0.01 * hvd.size(), 0.9)
opt = hvd.DistributedOptimizer(opt, compression=hvd.Compression.fp16)  #! horovod horovod
if args.fp16:
    opt = tf.train.experimental.enable_mixed_precision_graph_rewrite(opt)  #! option-without-effect
gs = tf.train.get_or_create_global_step()
train = opt.minimize(loss, global_step=gs)  #! global-step
hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(1000 // hvd.size())]  #! horovod
config = tf.ConfigProto()
config.gpu_options.visible_device_list = str(hvd.local_rank())  #! option-without-effect
if args.xla:
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
with tf.train.MonitoredTrainingSession(checkpoint_dir="/tmp/c" if hvd.rank() == 0 else None,
                                       hooks=hooks, config=config) as sess:
    while not sess.should_stop():
        sess.run(train)
