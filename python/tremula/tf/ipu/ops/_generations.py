"""Arguments in the order of an older release.

Between releases of the SDK some functions took the same arguments in another order. The types of
the positional ones tell which order a call has.
"""

import functools


def older_order(names, is_old):
    """Lets a function be called with positional arguments in an older order too.

    names   of the positional arguments in the older order; they are keywords of the function
    is_old  positional arguments -> whether they are in that order
    """
    def decorate(function):
        @functools.wraps(function)
        def call(*arguments, **keywords):
            if not is_old(arguments):
                return function(*arguments, **keywords)
            if len(arguments) > len(names):
                raise TypeError(f"{function.__name__}() takes at most {len(names)} positional "
                                f"arguments, but {len(arguments)} were given.")
            named = dict(zip(names, arguments))
            for name in keywords:
                if name in named:
                    raise TypeError(f"{function.__name__}() got multiple values for the argument "
                                    f"'{name}'.")
            return function(**named, **keywords)
        return call
    return decorate


def is_number(value):
    """Whether a value is a number of Python's or numpy's, no bool."""
    import numbers
    import numpy as np
    return (isinstance(value, (numbers.Real, np.number)) and not isinstance(value, (bool, np.bool_))
            or isinstance(value, np.ndarray) and value.ndim == 0)
