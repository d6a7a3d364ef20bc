"""`tensorflow.examples`, as far as programs import it."""
