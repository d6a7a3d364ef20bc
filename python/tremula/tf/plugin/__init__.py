"""What programs know as `tensorflow.compiler.plugin`."""
