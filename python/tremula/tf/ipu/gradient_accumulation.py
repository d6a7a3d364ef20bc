"""How gradients of several mini-batches become one (`tensorflow.python.ipu.gradient_accumulation`).
"""

import enum


class GradientAccumulationReductionMethod(enum.Enum):
    """SUM: the sum. MEAN: the sum of gradients that are divided by their number first.
    RUNNING_MEAN: the mean of those so far, which keeps numbers small all the time."""
    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(cls, reduction_method):
        """The member that is meant: a member, or its name in any case.

        Raises ValueError for anything else.
        """
        if isinstance(reduction_method, cls):
            return reduction_method
        if isinstance(reduction_method, str) and reduction_method.upper() in cls.__members__:
            return cls[reduction_method.upper()]
        names = ", ".join(cls.__members__)
        raise ValueError(f"Cannot parse {reduction_method!r} as one of {cls.__name__}: {names}.")
