"""The machine, and how busy other processes keep it."""

import os
import time


def cores():
    return len(os.sched_getaffinity(0))


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown CPU"


def load_average():
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


class Watch:
    """taken() gives the share of the machine's processor time that other processes took since the
    object was made, from 0 to 1; None where /proc does not tell."""

    def __init__(self, pids):
        self._pids = pids
        self._wall, self._busy, self._own = time.monotonic(), _busy_ticks(), self._own_ticks()

    def taken(self):
        busy, own = _busy_ticks(), self._own_ticks()
        if None in (busy, self._busy, own, self._own):
            return None
        ticks = (time.monotonic() - self._wall) * os.sysconf("SC_CLK_TCK") * os.cpu_count()
        others = (busy - self._busy) - (own - self._own)
        return round(max(0.0, others / max(ticks, 1)), 3)

    def _own_ticks(self):
        try:
            return sum(_process_ticks(pid) for pid in [os.getpid(), *self._pids])
        except OSError:
            return None


def _busy_ticks():
    """Ticks of all processors that were neither idle nor waiting for a disk, with time that other
    virtual machines stole."""
    try:
        with open("/proc/stat", encoding="utf-8") as file:
            user, nice, system, _, _, *rest = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return user + nice + system + sum(rest)


def _process_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
