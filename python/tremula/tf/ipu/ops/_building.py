"""What the modules of this package ask about the place where an operation is being built."""

import contextlib

from tremula.tf import compat


def in_program():
    """Whether what is built now is part of a program that is compiled for an IPU, where custom
    calls can be. Operations that are placed on an IPU one by one must be TensorFlow's own."""
    return compat.in_static_program()


@contextlib.contextmanager
def marked(**attributes):
    """Marks what is built with frontend attributes (names and text; None: not), which the cost
    model reads."""
    from tremula.tf.ipu import scopes
    with contextlib.ExitStack() as stack:
        for name, value in attributes.items():
            if value is not None:
                stack.enter_context(scopes.frontend_attribute(name, str(value)))
        yield
