import os

import tensorflow as tf
from tensorflow.contrib import ipu  #! older-api
from tensorflow.contrib.ipu import ops  #! older-api

cfg = ipu.utils.create_ipu_config(profiling=True)  #! older-api
cfg = ipu.utils.auto_select_ipus(cfg, 1)  #! older-api
cfg = ipu.utils.set_ipu_model_options(cfg, compile_ipu_code=True)  #! older-api
ipu.utils.configure_ipu_system(cfg)
os.environ["TF_POPLAR_FLAGS"] = "--use_ipu_model --max_infeed_threads=4"  #! option-without-effect
print(ops)


def stage(x):
    return tf.nn.relu(x)


def model():
    return ipu.pipelining_ops.pipeline([stage, stage], pipeline_depth=8)  #! older-api
