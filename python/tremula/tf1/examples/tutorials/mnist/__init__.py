"""`tensorflow.examples.tutorials.mnist`."""
