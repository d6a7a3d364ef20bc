"""The original's protocol buffers that programs import by name, as plain Python classes."""
