"""Fixtures: those of end-to-end tests."""


from end_to_end import *  # noqa: F401,F403
