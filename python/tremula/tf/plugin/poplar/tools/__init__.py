"""Tools of the original that programs import."""
