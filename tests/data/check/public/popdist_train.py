import os
import popdist
import popdist.tensorflow
import horovod.tensorflow.keras as hvd  #! horovod
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu.horovod.popdist_strategy import PopDistStrategy  #! older-api

name = "run"
os.environ["TF_POPLAR_FLAGS"] = os.environ.get("TF_POPLAR_FLAGS", "") + f" --executable_cache_path={os.path.join('/c', name)} --log_cycle_cout=0"  #! unknown-option
config = ipu.config.IPUConfig()
popdist.tensorflow.set_ipu_config(config, ipus_per_replica=1)
config.configure_ipu_system()
hvd.init()
strategy = PopDistStrategy()
with strategy.scope():
    model = tf.keras.applications.ResNet50(weights=None)
    model.compile(tf.keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", steps_per_execution=10)
    ds = tf.data.Dataset.from_tensor_slices((tf.zeros([64, 224, 224, 3]), tf.zeros([64], tf.int32)))
    ds = ds.shard(popdist.getNumInstances(), popdist.getInstanceIndex())
    ds = ds.batch(4, drop_remainder=True).repeat()
    model.fit(ds, steps_per_epoch=40, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
