"""From a configuration's snapshot to the compiler's options (KEY=VALUE lines)."""


def lines(snapshot, device):
    """The compiler's options for one TF device of a configuration, one a line."""
    del snapshot, device
    return ""
