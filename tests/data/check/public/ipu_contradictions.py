"""Settings of a device, an estimator and a pipeline that do not go together."""
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
tf.disable_v2_behavior()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.convolutions.poplar_options["availableMemoryProportion"] = 0.6  #! refused-setting
config.convolutions.poplar_options["partialsType"] = "half"
config.matmuls.poplar_options = {"availableMemoryProportion": 0.6, "partialsType": "half"}  #! refused-setting
config.io_tiles.place_ops_on_io_tiles = True  #! refused-setting
config.device_connection.type = ipu.utils.DeviceConnectionType.PRE_COMPILE  #! refused-setting
run = ipu.ipu_run_config.IPURunConfig(  #! refused-setting
    iterations_per_loop=100, ipu_options=config, num_replicas=2, num_shards=2)
estimator = ipu.ipu_estimator.IPUEstimator(
    lambda features, labels: features, config=ipu.ipu_run_config.RunConfig(ipu_run_config=run))
estimator.train(lambda: data, steps=150)  #! refused-setting
estimator.train(lambda: data, steps=200)

data = tf.data.Dataset.from_tensors(tf.zeros([8])).repeat()
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def first(x):
    return x + 1.0


def second(x):
    return x * 2.0


def model():
    return ipu.pipelining_ops.pipeline(
        [first, second], gradient_accumulation_count=4, infeed_queue=infeed, outfeed_queue=outfeed,
        device_mapping=[0, 1, 1])  #! refused-setting


with ipu.scopes.ipu_scope("/device:IPU:0"):
    step = ipu.ipu_compiler.compile(model)
with tf.Session() as session:
    for epoch in range(3):
        session.run(infeed.initializer)  #! refused-setting
        session.run(step)
