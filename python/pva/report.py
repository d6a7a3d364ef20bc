"""Reports: opening them, versions, instrumentation."""

import enum
import functools
import re

from pva import debug
from pva.compilation import CompilationReport
from pva.database import Database
from pva.execution import ExecutionReport


class PoplarVersion:
    """The version of what made a profile: Tremula's own."""

    def __init__(self, text):
        self.string = text
        numbers = re.search(r"(\d+)\.(\d+)\.(\d+)$", text)
        self.major, self.minor, self.point = (
            (int(one) for one in numbers.groups()) if numbers else (0, 0, 0))
        self.packageHash = ""

    def __str__(self):
        return self.string


class ProfileReportVersion:
    """The version of the format."""

    def __init__(self, number):
        self.major, self.minor, self.point = number, 0, 0
        self.isUnstableFormat = False


class InstrumentationSettings:
    """How finely cycles are known: of each vertex type, as estimates."""

    class ComputeInstrumentationLevel(enum.IntEnum):
        Off = 0
        Vertex = 1
        Tile = 2
        Ipu = 3
        Device = 4
        Unknown = 5

    class ExternalExchangeInstrumentationLevel(enum.IntEnum):
        Off = 0
        Tile = 1
        Unknown = 2

    compute = ComputeInstrumentationLevel.Tile
    externalExchange = ExternalExchangeInstrumentationLevel.Tile


class Report:
    """A profile: compilation and execution."""

    def __init__(self, path, debug_path=None):
        self._database = Database(path)
        self._debug_path = debug_path

    @functools.cached_property
    def compilation(self):
        return CompilationReport(self._database)

    @functools.cached_property
    def execution(self):
        return ExecutionReport(self._database, self.compilation)

    @functools.cached_property
    def debugContexts(self):
        """The contexts of debug.cbor by id; empty where the file is not found."""
        return debug.read(self._database, self._debug_path)

    @property
    def poplarVersion(self):
        return PoplarVersion(self._database.meta["producer"])

    @property
    def version(self):
        return ProfileReportVersion(self._database.meta["format"])

    @property
    def instrumentationSettings(self):
        return InstrumentationSettings()

    @staticmethod
    def listPrintLength():
        """How many items of a list are printed."""
        return 10


def openReport(profile, debugInfo=None):
    """Opens a profile.pop, or the directory that it is in.

    `debugInfo` is a debug.cbor; by default it is looked for beside the profile, in the directories
    above it, where it was written, and in the working directory. Raises FileNotFoundError where
    there is no profile, and ValueError for a file that is none or is damaged.
    """
    return Report(profile, debugInfo)
