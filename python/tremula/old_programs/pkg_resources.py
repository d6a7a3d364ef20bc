"""The package `pkg_resources`, which setuptools 82 dropped: what programs use of it, over
importlib.metadata and packaging."""

import importlib
import importlib.metadata
import os

from packaging import requirements, version

parse_version = version.parse


class ResolutionError(Exception):
    """A requirement that the environment does not meet."""


class DistributionNotFound(ResolutionError):
    """A package that is not installed."""


class VersionConflict(ResolutionError):
    """A package of another version."""


class Requirement(requirements.Requirement):
    """A package's name with the versions that will do."""

    @property
    def project_name(self):
        return self.name

    @property
    def key(self):
        return self.name.lower()

    @classmethod
    def parse(cls, text):
        return cls(text)


class Distribution:
    """An installed package."""

    def __init__(self, found):
        self.project_name = found.metadata["Name"]
        self.key = self.project_name.lower()
        self.version = found.version
        self.parsed_version = parse_version(found.version)
        self.location = str(found.locate_file(""))


def get_distribution(name):
    """The installed package `name`, which may have versions ("numpy>=1.19")."""
    wanted = name if isinstance(name, Requirement) else Requirement(str(name))
    try:
        found = Distribution(importlib.metadata.distribution(wanted.name))
    except importlib.metadata.PackageNotFoundError:
        raise DistributionNotFound(
            f"The '{wanted}' distribution was not found and is required by the application"
        ) from None
    if not wanted.specifier.contains(found.version, prereleases=True):
        raise VersionConflict(f"{found.project_name} {found.version} is installed, but {wanted} "
                              "is required")
    return found


def require(*names):
    """The installed packages that meet requirements."""
    return [get_distribution(name) for name in parse_requirements(names)]


def parse_requirements(lines):
    """The requirements of a text or of lines."""
    for line in lines.splitlines() if isinstance(lines, str) else lines:
        line = line.partition(" #")[0].strip()
        if line and not line.startswith("#"):
            yield Requirement(line)


def iter_entry_points(group, name=None):
    """The entry points of a group that installed packages have."""
    for found in importlib.metadata.distributions():
        for entry in found.entry_points:
            if entry.group == group and name in (None, entry.name):
                yield entry


class _WorkingSet:
    """All installed packages."""

    def __iter__(self):
        return (Distribution(one) for one in importlib.metadata.distributions()
                if one.metadata["Name"])

    @property
    def by_key(self):
        return {one.key: one for one in self}


working_set = _WorkingSet()


def declare_namespace(name):
    """Nothing: Python itself knows packages in several folders."""


def resource_filename(package, name):
    """The path of a file beside the code of a module or package."""
    module = package if hasattr(package, "__file__") else importlib.import_module(str(package))
    return os.path.join(os.path.dirname(os.path.abspath(module.__file__)), *name.split("/"))


def resource_exists(package, name):
    return os.path.exists(resource_filename(package, name))


def resource_isdir(package, name):
    return os.path.isdir(resource_filename(package, name))


def resource_listdir(package, name):
    return os.listdir(resource_filename(package, name))


def resource_stream(package, name):
    """The file, open for reading bytes."""
    return open(resource_filename(package, name), "rb")


def resource_string(package, name):
    """The file's bytes."""
    with resource_stream(package, name) as file:
        return file.read()
