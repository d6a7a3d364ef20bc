"""The arguments of infeed and outfeed queues. Their names and order changed with SDK 2.4; both
generations are accepted. Also: how an element of a queue becomes the arguments of a function."""

import collections
import itertools
import threading
import weakref

from tremula.tf.inner import errors
from tremula.tf.runtime.base import checks

_ids = set()
_numbers = collections.defaultdict(lambda: itertools.count(2))  # by name
_lock = threading.Lock()


def new_id(name):
    """An id that no other queue of this process has: the name, or the name with a number. (The
    original takes the name itself and refuses the second queue.)"""
    with _lock:
        found = name
        while found in _ids:
            found = f"{name}.{next(_numbers[name])}"
        _ids.add(found)
    return found


_infeeds = weakref.WeakValueDictionary()  # by id


def remember_infeed(queue_id, queue):
    """Makes infeed() find a queue as long as the queue exists."""
    _infeeds[queue_id] = queue


def infeed(queue_id):
    """The infeed queue with that id. Raises FailedPreconditionError where the queue is gone."""
    try:
        return _infeeds[queue_id]
    except KeyError:
        raise errors.failed_precondition(
            f"The infeed queue {queue_id} was deleted, and a function still reads the queue. Keep "
            "the queue or its iterator as long as the function.") from None


def either_generation(queue, before, args, kwargs, new, old):
    """The optional arguments of a queue as a dict by name; None for those that are not given.

    queue     the name of the class, for messages
    before    how many positional arguments come before these
    new, old  the names in their order since SDK 2.4 and before it, when the first was a string

    Raises TypeError for too many and for unknown ones, and for one that is given twice.
    """
    order = old if args and isinstance(args[0], str) else new
    if len(args) > len(order):
        raise TypeError(f"{queue} takes {before + len(order)} positional arguments at most.")
    options = dict.fromkeys(new + old)
    given = dict(zip(order, args))
    for name, value in kwargs.items():
        if name not in options or name in given:
            raise TypeError(f"{queue} got an unexpected argument {name!r}.")
        given[name] = value
    options.update(given)
    return options


def check(options):
    """Checks those that both queues have. Raises TypeError and ValueError."""
    checks.text("feed_name", options["feed_name"], optional=True)
    checks.integer("device_ordinal", options["device_ordinal"], least=0, optional=True)
    checks.boolean("optimise_latency", options["optimise_latency"], optional=True)
    checks.integer("replication_factor", options["replication_factor"], least=1, most=2 ** 32 - 1,
                   optional=True)


def of_element(element):
    """An element of a dataset as (positional arguments, arguments by name). A tuple gives
    positional arguments. A dict, alone or as a tuple's only element, gives arguments by name; with
    a key that is no string it is one positional argument."""
    if isinstance(element, tuple) and len(element) == 1:
        element = element[0]
    if isinstance(element, dict) and all(isinstance(key, str) for key in element):
        return (), element
    return (element if isinstance(element, tuple) else (element,)), {}
