"""Unit tests as they were written for the original: they import TensorFlow's inner modules, and of
the IPU's at most the helpers of tests."""

import os

import interpreter
import pytest

DEVICE_ONLY = """
import numpy as np
from tensorflow.compiler.tests import xla_test
from tensorflow.python.framework import ops
from tensorflow.python.ops import array_ops, math_ops, nn, variable_scope, variables
from tensorflow.python.platform import googletest
from tensorflow.python.training import gradient_descent


class PlacedTest(xla_test.XLATestCase):
  def testTraining(self):
    with self.session() as sess:
      with ops.device("/device:IPU:0"), variable_scope.variable_scope("v", use_resource=True):
        x = array_ops.placeholder(np.float32, [1, 2])
        w = variable_scope.get_variable("w", initializer=np.float32([[1, 2], [3, 4]]))
        y = math_ops.matmul(x, w)
        train = gradient_descent.GradientDescentOptimizer(0.5).minimize(math_ops.reduce_sum(y))
      self.assertIn("IPU", y.device)
      sess.run(variables.global_variables_initializer())
      sess.run(train, {x: [[2, 4]]})
      self.assertAllClose(sess.run(w), [[0, 1], [1, 2]])

  def testCells(self):
    with self.session() as sess, ops.device("/device:IPU:0"):
      x = array_ops.placeholder(np.float32, [2, 5])
      with variable_scope.variable_scope("c", use_resource=True):
        outputs, _ = nn.static_rnn(nn.rnn_cell.GRUCell(4), [x, x, x], dtype=np.float32)
      sess.run(variables.global_variables_initializer())
      self.assertEqual(sess.run(outputs[2], {x: np.ones([2, 5])}).shape, (2, 4))


if __name__ == "__main__":
  googletest.main()
"""

IN_GRAPH_MODE = """
import numpy as np
from tensorflow.compiler.plugin.poplar.tests import test_utils as tu
from tensorflow.keras import layers
from tensorflow.python.framework import ops, test_util
from tensorflow.python.ipu import ipu_compiler
from tensorflow.python.ops import array_ops, math_ops, variables
from tensorflow.python.platform import googletest
from tensorflow.python.training import gradient_descent


class LayersTest(test_util.TensorFlowTestCase):
  @test_util.deprecated_graph_mode_only
  def testTraining(self):
    def net(x):
      loss = math_ops.reduce_sum(layers.Dense(2, kernel_initializer="ones")(x))
      return loss, gradient_descent.GradientDescentOptimizer(0.5).minimize(loss)

    x = array_ops.placeholder(np.float32, [1, 2])
    with ops.device("/device:IPU:0"):
      out = ipu_compiler.compile(net, inputs=[x])
    tu.move_variable_initialization_to_cpu()
    with tu.ipu_session() as sess:
      report = tu.ReportJSON(self, sess)
      sess.run(variables.global_variables_initializer())
      report.reset()
      losses = [sess.run(out, {x: [[1, 1]]})[0] for _ in range(2)]
      self.assertAllClose(losses, [4, 1])
      report.parse_log()
      self.assertEqual((report.get_num_ipus(), report.get_num_tiles()), (1, 1472))
      self.assertEqual(report.tensor_map.ipu_ids(), {0})
      first = report.get_program()
      self.assertEqual(first, report.get_first_program_of_type(first["type"]))
      names = [report.get_program(i)["name"] for i in first["children"]]
      self.assertTrue(names)
      kinds = {report.get_program(i)["type"] for i in first["children"]}
      self.assertTrue(set(report.get_program_names_of_type("OnTileExecute")) & set(names), kinds)
      self.assertIsNone(report.get_first_program_of_type("no such"))
      report.assert_all_global_exchanges_and_list([])


if __name__ == "__main__":
  googletest.main()
"""

ONE_AFTER_THE_OTHER = """
import numpy as np
from tensorflow.compiler.plugin.poplar.tests import test_utils as tu
from tensorflow.python import ipu
from tensorflow.python.client import session
from tensorflow.python.framework import test_util
from tensorflow.python.platform import googletest


def take(count, events=False):
  cfg = ipu.config.IPUConfig()
  cfg.auto_select_ipus = count
  if events:
    tu.enable_ipu_events(cfg)
  cfg.configure_ipu_system()


def number_of_ipus(test):
  with ipu.scopes.ipu_scope("/device:IPU:0"):
    sums = ipu.ipu_compiler.compile(lambda x: x + 2., [np.ones([20], np.float32)])
  with session.Session() as sess:
    report = tu.ReportJSON(test, sess)
    report.reset()
    sess.run(sums)
    report.parse_log()
    devices = ipu.config.get_ipu_config()[0].device_config
    return bool(report.events), devices[0].auto_count if devices else 1


take(4, events=True)


class FirstTest(test_util.TensorFlowTestCase):
  @test_util.deprecated_graph_mode_only
  def testFirst(self):
    self.assertEqual(number_of_ipus(self), (True, 4))  # of the module

  @test_util.deprecated_graph_mode_only
  def testLater(self):
    take(2)
    self.assertEqual(number_of_ipus(self), (False, 2))  # this test wants no events

  @test_util.deprecated_graph_mode_only
  def testLatest(self):
    self.assertEqual(number_of_ipus(self), (True, 1))  # testLater's is over

  def testMost(self):
    take(4, events=True)


class SecondTest(test_util.TensorFlowTestCase):
  def setUp(self):
    pass  # not that of the class above

  @test_util.deprecated_graph_mode_only
  def testIts(self):
    self.assertEqual(number_of_ipus(self), (True, 1))  # testMost's is over


class ThirdTest(test_util.TensorFlowTestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    take(2, events=True)

  @test_util.deprecated_graph_mode_only
  def testIts(self):
    self.assertEqual(number_of_ipus(self), (True, 2))  # of the class


if __name__ == "__main__":
  googletest.main()
"""


@pytest.mark.parametrize("runner", [[], ["-m", "tremula.tf1"]], ids=["plain", "tf1"])
@pytest.mark.parametrize("source", [DEVICE_ONLY, IN_GRAPH_MODE, ONE_AFTER_THE_OTHER],
                         ids=["device", "layers", "order"])
def test_it_passes(source, runner, tmp_path):
    (tmp_path / "unit_test.py").write_text(source)
    done = interpreter.run([*runner, "unit_test.py"], cwd=tmp_path,
                           env={**os.environ, "TREMULA_RUNTIME_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-3000:]
    assert "OK" in done.stderr
