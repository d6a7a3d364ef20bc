"""Which ops an IPU has, what they are to the compiler, and refusing others."""
