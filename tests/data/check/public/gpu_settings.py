"""What programs set of GPUs, and how they name them."""
import argparse
import os
from dataclasses import dataclass

import tensorflow.compat.v1 as tf
from tensorflow.contrib import tensorrt as trt

GPUS = ",".join(str(one) for one in range(2))
os.environ["CUDA_VISIBLE_DEVICES"] = GPUS  #! option-without-effect
os.environ.update(TF_CUDNN_DETERMINISTIC="1")  #! option-without-effect
os.putenv("NCCL_DEBUG", "INFO")  #! option-without-effect
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["MODEL_DIR"] = "/models/gpu:0"
session = tf.ConfigProto()
session.gpu_options.per_process_gpu_memory_fraction = 0.5  #! option-without-effect


@dataclass
class Config:
    device: str = "/GPU:0"  #! gpu-only
    host: str = "/cpu:0"


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="/device:GPU:0")  #! gpu-only
config, arguments = Config(), parser.parse_args()
for number in range(2):
    with tf.device("/gpu:{}".format(number)):  #! gpu-only
        tf.identity(1.0)
    with tf.device(f"/job:worker/task:{number}/device:GPU:0"):  #! gpu-only
        tf.identity(1.0)
for device in ["/gpu:%d" % number for number in range(2)]:
    with tf.device(device):  #! gpu-only
        tf.identity(1.0)
with tf.device(config.device), tf.device(arguments.device):
    tf.identity(1.0)
with tf.device(config.host):
    tf.identity(1.0)
if arguments.device == "/gpu:0":
    print("/gpu:0")
chosen = "/device:IPU:0" if arguments.device else "/gpu:0"
strategy = tf.distribute.OneDeviceStrategy(device="/gpu:0")  #! gpu-only
graph = trt.create_inference_graph(tf.GraphDef(), ["y"])  #! gpu-only
