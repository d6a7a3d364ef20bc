"""Ops on an IPU without compile, put together into programs."""
