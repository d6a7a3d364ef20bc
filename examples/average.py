"""Horovod's functions: the average over all instances.

    mpirun -np 2 python average.py
"""

import tensorflow as tf
from tensorflow.python.ipu import distributed as hvd

hvd.init()
average = hvd.allreduce(tf.constant([1.0 + hvd.rank()]))
print(f"{hvd.rank()} of {hvd.size()}: {average.numpy()}")
