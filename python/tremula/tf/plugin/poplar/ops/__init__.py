"""The original's generated modules of operations that programs import by name."""
