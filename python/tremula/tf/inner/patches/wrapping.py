"""Putting a function in the place of another one."""

import functools


def wrap(owner, name, make):
    """Puts make(what `owner` has as `name`) there, under the same name."""
    before = getattr(owner, name)
    setattr(owner, name, functools.wraps(before)(make(before)))
