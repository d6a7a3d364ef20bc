"""What programs know as `tensorflow.compiler.plugin.poplar`: generated operations and protos."""
