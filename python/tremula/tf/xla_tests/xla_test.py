"""The base class of tests that import `tensorflow.compiler.tests.xla_test`."""

import contextlib

import tensorflow.compat.v1 as tf


class XLATestCase(tf.test.TestCase):
    """A test whose sessions have a graph of their own."""

    @contextlib.contextmanager
    def session(self):
        """A new session, and its graph as the default one."""
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            yield session
