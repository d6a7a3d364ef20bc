"""Names that programs of 2019 to 2022 use and today's NumPy, Python and other packages have
dropped: the table, and what puts them back for one process.

A module or class shows a name of the table only where it lacks that name. At its end the process
lists on standard error those that the program used.
"""

import atexit
import functools
import importlib
import sys

from tremula import _callers, _finder
from tremula.old_programs import replacements

_NUMPY_ALIASES = {
    "Inf": "inf", "Infinity": "inf", "NAN": "nan", "NaN": "nan", "PINF": "inf", "alltrue": "all",
    "bool8": "bool_", "cfloat": "complex128", "clongfloat": "clongdouble",
    "complex_": "complex128", "cumproduct": "cumprod", "float_": "float64", "in1d": "isin",
    "infty": "inf", "int0": "intp", "longcomplex": "clongdouble", "longfloat": "longdouble",
    "mat": "asmatrix", "object0": "object_", "product": "prod", "rank": "ndim", "round_": "round",
    "row_stack": "vstack", "singlecomplex": "complex64", "sometrue": "any", "string_": "bytes_",
    "trapz": "trapezoid", "typeDict": "sctypeDict", "uint0": "uintp", "unicode_": "str_"}

# Module, or module:Class -> {lost name: what it was}. A text "module:name" is what is there; of a
# class, a text is the method's name today.
NAMES = {
    "numpy": {
        **{name: f"builtins:{name}"
           for name in ("bool", "int", "float", "complex", "object", "str")},
        "long": int, "unicode": str, "NINF": -float("inf"), "NZERO": -0.0, "PZERO": 0.0,
        **{name: f"numpy:{today}" for name, today in _NUMPY_ALIASES.items()},
        **{name: f"numpy.exceptions:{name}" for name in (
            "AxisError", "ComplexWarning", "ModuleDeprecationWarning", "RankWarning",
            "TooHardError", "VisibleDeprecationWarning")},
        **{name: getattr(replacements, name) for name in (
            "alen", "asfarray", "asscalar", "cast", "find_common_type", "issubsctype", "msort",
            "sctypes")},
        "byte_bounds": "numpy.lib.array_utils:byte_bounds", "loads": "pickle:loads",
        "math": "math", "os": "os", "sys": "sys", "warnings": "warnings"},
    "asyncio": {"coroutine": "types:coroutine"},
    "base64": {"decodestring": "base64:decodebytes", "encodestring": "base64:encodebytes"},
    "cgi": {"escape": "html:escape"},
    "collections": {name: f"collections.abc:{name}" for name in (
        "AsyncGenerator", "AsyncIterable", "AsyncIterator", "Awaitable", "ByteString", "Callable",
        "Collection", "Container", "Coroutine", "Generator", "Hashable", "ItemsView", "Iterable",
        "Iterator", "KeysView", "Mapping", "MappingView", "MutableMapping", "MutableSequence",
        "MutableSet", "Reversible", "Sequence", "Set", "Sized", "ValuesView")},
    "configparser": {"SafeConfigParser": "configparser:ConfigParser"},
    "configparser:RawConfigParser": {"readfp": "read_file"},
    "fractions": {"gcd": "math:gcd"},
    "html.parser:HTMLParser": {"unescape": replacements.unescape},
    "importlib": {"find_loader": replacements.find_loader},
    "inspect": {name: getattr(replacements, name) for name in (
        "ArgSpec", "formatargspec", "getargspec")},
    "locale": {"format": "locale:format_string"},
    "PIL.Image": {"ANTIALIAS": "PIL.Image:LANCZOS", "CUBIC": "PIL.Image:BICUBIC",
                  "LINEAR": "PIL.Image:BILINEAR"},
    "platform": {name: getattr(replacements, name) for name in ("dist", "linux_distribution")},
    "threading:Thread": {"isAlive": "is_alive"},
    "time": {"clock": "time:perf_counter"},
    "unittest": {"makeSuite": replacements.make_suite},
    "unittest.case:TestCase": {
        "assertAlmostEquals": "assertAlmostEqual", "assertEquals": "assertEqual",
        "assertItemsEqual": "assertCountEqual", "assertNotEquals": "assertNotEqual",
        "assertRaisesRegexp": "assertRaisesRegex", "assertRegexpMatches": "assertRegex",
        "assert_": "assertTrue"},
}

# Lost module -> what has its names.
MODULES = {
    "cgi": "html",
    "distutils": "setuptools._distutils",
    "imghdr": "tremula.old_programs.imghdr",
    "imp": "tremula.old_programs.imp",
    "pipes": "shlex",
    "pkg_resources": "tremula.old_programs.pkg_resources",
    "sklearn.externals.joblib": "joblib",
    "typing.io": "typing",
    "typing.re": "typing",
    "xml.etree.cElementTree": "xml.etree.ElementTree",
}

_used = {}  # in the order of their first use


def restore(command):
    """Puts the names back, and lists at the end of the process those that the program used:
    `python -m COMMAND put back ...`."""
    for place, names in NAMES.items():
        _finder.watch(place.partition(":")[0], functools.partial(_show, place, names))
    _finder.watch("yaml", replacements.load_without_loader(_use))
    replacements.accept_universal_mode(_use)
    replacements.sample_sets(_use)
    sys.meta_path.append(_LostFinder())
    atexit.register(_list, command)


def _use(name):
    _used.setdefault(name)


def _list(command):
    if _used:
        print(f"python -m {command} put back what this program uses and today's packages have "
              f"dropped: {', '.join(_used)}.", file=sys.stderr)


def _show(place, names, module):
    """Makes a module, or its class that `place` names, show `names` where they are missing."""
    _, _, owner = place.partition(":")
    if owner:
        for name, today in names.items():
            if not hasattr(getattr(module, owner), name):
                setattr(getattr(module, owner), name, _Method(f"{owner}.{name}", today))
        return
    before = vars(module).get("__getattr__")
    missing = {name: value for name, value in names.items() if name not in vars(module)}

    def get(name):
        if name in missing:
            if _callers.asked_by_program():
                _use(f"{place}.{name}")
            return _value(missing[name])
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    if missing:
        module.__getattr__ = get


def _value(found):
    if not isinstance(found, str):
        return found
    module, _, name = found.partition(":")
    module = importlib.import_module(module)
    return getattr(module, name) if name else module


class _Method:
    """A lost method: a function, or the method of another name."""

    def __init__(self, name, today):
        self._name = name
        self._today = today

    def __get__(self, instance, owner):
        _use(self._name)
        if isinstance(self._today, str):
            return getattr(owner if instance is None else instance, self._today)
        return self._today.__get__(instance, owner)


class _LostFinder:
    """Finds the modules of MODULES, after every other finder."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in MODULES:
            return None
        if _callers.asked_by_program():
            _use(fullname)
        return _finder.alias_spec(fullname, MODULES[fullname])
