"""TensorFlow's exceptions and their status codes."""


CANCELLED = 1

INVALID_ARGUMENT = 3

FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12
INTERNAL = 13



def error_class(code):
    """The exception class of a status code; `Class(None, None, message)` makes one."""
    from tensorflow.python.framework import errors_impl
    return errors_impl.exception_type_from_error_code(code)


def error_code(error):
    """The status code of an exception: TensorFlow's own, or INTERNAL."""
    from tensorflow.python.framework import errors_impl
    code = getattr(error, "error_code", None)
    return code if isinstance(code, int) and code else errors_impl.INTERNAL


def failed_precondition(message):
    """A FailedPreconditionError."""
    from tensorflow.python.framework import errors_impl
    return errors_impl.FailedPreconditionError(None, None, message)
