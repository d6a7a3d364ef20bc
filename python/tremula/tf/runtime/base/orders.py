"""Orders of graphs."""


def postorder(roots, neighbours):
    """What a depth-first search finds, in the order in which the search leaves it. The search takes
    the last of `roots`, and of neighbours(one), first."""
    order, seen = [], set()
    waiting = [(one, False) for one in roots]
    while waiting:
        one, is_done = waiting.pop()
        if is_done:
            order.append(one)
        elif one not in seen:
            seen.add(one)
            waiting.append((one, True))
            waiting += [(other, False) for other in neighbours(one) if other not in seen]
    return order
