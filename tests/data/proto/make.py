"""Writes the HloModuleProtos of this folder with the TensorFlow it runs under:

    python make.py        # once with 2.15, once with 2.21

Paths of source files are cut to their last part, to keep the files small."""
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = '-1'
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_library, ops

try:
  from tensorflow.compiler.xla import xla_data_pb2
  from tensorflow.compiler.xla.service import hlo_pb2
except ImportError:
  from local_xla.xla import xla_data_pb2
  from local_xla.xla.service import hlo_pb2

VERSION = ''.join(tf.__version__.split('.')[:2])
HERE = os.path.dirname(os.path.abspath(__file__))


def dump(name, f, *args):
  data = f.experimental_get_compiler_ir(*args)(stage='hlo_serialized')
  module = hlo_pb2.HloModuleProto.FromString(data)
  for computation in module.computations:
    for instruction in computation.instructions:
      m = instruction.metadata
      m.source_file = os.path.basename(m.source_file)
  data = module.SerializeToString(deterministic=True)
  with open(os.path.join(HERE, f'{name}_{VERSION}.pb'), 'wb') as out:
    out.write(data)
  print(name, len(data))


def jit(f):
  return tf.function(f, jit_compile=True, autograph=False)


def variable(*shape):
  return tf.Variable(np.random.RandomState(0).randn(*shape).astype('float32') * .1)


def conv():
  w, d = variable(3, 3, 3, 4), variable(64, 10)
  scale, offset = tf.Variable(tf.ones([4])), tf.Variable(tf.zeros([4]))

  @jit
  def step(x, y):
    with tf.GradientTape() as tape:
      h = tf.nn.conv2d(x, w, [1, 1, 1, 1], 'SAME')
      h = tf.nn.relu(tf.compat.v1.nn.fused_batch_norm(h, scale, offset, is_training=True)[0])
      h = tf.reshape(tf.nn.max_pool2d(h, 2, 2, 'VALID'), [2, 64])
      loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, h @ d))
    variables = [w, scale, offset, d]
    for v, g in zip(variables, tape.gradient(loss, variables)):
      v.assign_sub(.1 * g)
    return loss

  dump('conv_bn', step, tf.ones([2, 8, 8, 3]), tf.constant([1, 2]))


def lstm():
  k, r, b = variable(8, 16), variable(4, 16), variable(16)

  def cell(i, x, h, c):
    z = x[:, i] @ k + h @ r + b
    a, f, g, o = tf.split(z, 4, 1)
    c = tf.sigmoid(f) * c + tf.sigmoid(a) * tf.tanh(g)
    return i + 1, x, tf.sigmoid(o) * tf.tanh(c), c

  @jit
  def run(x):
    state = [0, x, tf.zeros([2, 4]), tf.zeros([2, 4])]
    return tf.while_loop(lambda i, *_: i < 5, cell, state)[2:]

  dump('lstm', run, tf.ones([2, 5, 8]))


def transformer():
  def block(x, wq, wk, wv, wo):
    q, k, v = [tf.transpose(tf.reshape(x @ w, [6, 2, 4]), [1, 0, 2]) for w in (wq, wk, wv)]
    o = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * .5), v)
    o = tf.reshape(tf.transpose(o, [1, 0, 2]), [6, 8]) @ wo + x
    mean, variance = tf.nn.moments(o, -1, keepdims=True)
    return (o - mean) * tf.math.rsqrt(variance + 1e-3)

  @jit
  def step(tokens, table, *weights):
    with tf.GradientTape() as tape:
      tape.watch([table, *weights])
      y = block(tf.gather(table, tokens), *weights)
      loss = tf.reduce_sum(tf.cast(y, tf.float32)**2)
    return loss, tape.gradient(loss, [table, *weights])

  half = tf.float16
  dump('transformer', step, tf.zeros([6], tf.int32), tf.ones([11, 8], half),
       *[tf.ones([8, 8], half)] * 4)


def custom_call(operands, target, config, dtypes, shapes):
  _, _, op, outputs = op_def_library._apply_op_helper(
      'XlaCustomCallV2', operands=operands, call_target_name=target, backend_config=config,
      has_side_effect=True, result_dtypes=dtypes, result_shapes=shapes)
  return op, outputs


def effects():
  feed = lambda q: custom_call([], 'tremula.infeed', '{"feed":"%s"}' % q, [tf.float32], [[4]])
  take = lambda x, q: custom_call([x], 'tremula.outfeed', '{"feed":"%s"}' % q, [], [])[0]

  def body(i, a):
    op, v = feed('a')
    with tf.control_dependencies([op]):
      op = take(a, 'b')
    with tf.control_dependencies([op]):
      op, z = feed('c')
    with tf.control_dependencies([op]):
      op = take(z[0], 'd')
    with tf.control_dependencies([op]):
      return i + 1, a + v[0]

  @jit
  def run(x):
    op, a = feed('0')
    with tf.control_dependencies([op]):
      r = tf.while_loop(lambda i, a: i < 3, body, [0, x])
    with tf.control_dependencies([r[0].op]):
      take(x, '1')
    return r[1], a[0]

  dump('effects', run, tf.ones([4]))


def sharding():
  def maximal(i):
    s = xla_data_pb2.OpSharding(type=xla_data_pb2.OpSharding.MAXIMAL,
                                tile_assignment_dimensions=[1], tile_assignment_devices=[i])
    return attr_value_pb2.AttrValue(s=s.SerializeToString())

  attributes = xla_data_pb2.FrontendAttributes()
  attributes.map['scope'] = 'x'
  attributes.map['part'] = 'y'
  frontend = attr_value_pb2.AttrValue(s=attributes.SerializeToString())

  @jit
  def run(x, h):
    graph = ops.get_default_graph()
    with graph._attr_scope({'_XlaSharding': maximal(1), '_XlaFrontendAttributes': frontend}):
      y = tf.sin(x @ h)
    with graph._attr_scope({'_XlaSharding': maximal(2)}):
      w = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + h), [0, x])[1]
    return y, w

  dump('sharding', run, tf.ones([4, 4]), tf.ones([4, 4]))


def indexing():
  @jit
  def run(x, i, u):
    return (tf.gather_nd(x, i), tf.tensor_scatter_nd_add(x, i, u), tf.sort(x, axis=0),
            tf.math.top_k(x, 2), tf.cond(x[0, 0] > 0, lambda: x + 1, lambda: x * 2),
            tf.linalg.cholesky(x[:3, :3]), tf.signal.rfft(x), tf.cumsum(x), tf.argmax(x, 1))

  dump('indexing', run, tf.ones([5, 4]), tf.zeros([3, 1], tf.int32), tf.ones([3, 4]))


for example in (conv, lstm, transformer, effects, sharding, indexing):
  example()
