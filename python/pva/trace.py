"""Traces of the System Analyser (PVTI_OPTIONS): not written by Tremula, and said so."""


class Event:
    """What a trace would be made of: label, duration, children(). There are none."""

    def __init__(self):
        raise NotImplementedError(_WHY)


_WHY = ("Traces for the System Analyser (.pvti, PVTI_OPTIONS) are neither written nor read by "
        "Tremula. What an IPU and this host did in each run is in profile.pop: pva.openReport, "
        "report.execution.runs.")


def openTrace(path):
    """Raises NotImplementedError: a .pvti file is of a format that is not public."""
    del path
    raise NotImplementedError(_WHY)
