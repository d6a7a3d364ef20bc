import os
import sys

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
cluster = tf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1"]})
job, task = os.environ.get("JOB", "worker"), int(os.environ.get("TASK", 0))
server = tf.train.Server(cluster, job_name=job, task_index=task)
if job == "ps":
    server.join()
    sys.exit()
setter = tf.train.replica_device_setter(worker_device="/job:worker/task:%d/gpu:%d" % (task, task), cluster=cluster)  #! gpu-only
with tf.device(setter):
    x = tf.placeholder(tf.float32, [None, 10])  #! unknown-shape
    y = tf.placeholder(tf.float32, [None, 1])  #! unknown-shape
    h = tf.layers.dense(x, 32, tf.nn.relu)
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(h, 1))
    gs = tf.train.get_or_create_global_step()
    opt = tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 2, 2)  #! gpu-only
    train = opt.minimize(loss, global_step=gs)  #! global-step
    for i in range(2):
        with tf.device("/gpu:%d" % i):  #! gpu-only
            tf.identity(loss)
    with tf.device("/gpu:{}".format(task)):  #! gpu-only
        tf.identity(loss)
    with tf.device(f"/GPU:{task}"):  #! gpu-only
        tf.identity(loss)
with tf.train.MonitoredTrainingSession(server.target, task == 0, hooks=[opt.make_session_run_hook(task == 0)]) as s:
    s.run(train)
if tf.test.is_gpu_available():
    print(tf.test.gpu_device_name())
