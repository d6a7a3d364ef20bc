"""What to say of the modules of `tensorflow.compiler.tests` that are not there: nothing."""


def message(tail):
    """None: there is no such module."""
    del tail
