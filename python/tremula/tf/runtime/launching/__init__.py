"""The nodes that run a program, and programs in files."""
