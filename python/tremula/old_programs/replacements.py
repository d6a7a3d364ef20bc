"""What today's packages have nothing like: functions of NumPy and Python that were dropped."""

import builtins
import collections
import collections.abc
import functools
import html
import importlib.util
import inspect
import platform
import random

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(func):
    """inspect.getargspec of Python 3.10."""
    full = inspect.getfullargspec(func)
    return ArgSpec(full.args, full.varargs, full.varkw, full.defaults)


def formatargspec(args, varargs=None, varkw=None, defaults=None, kwonlyargs=(),
                  kwonlydefaults=None, annotations=None):
    """inspect.formatargspec of Python 3.10: the text of a function's parameters, in brackets."""
    of, kinds = inspect.Parameter, []
    by_name = {**dict(zip(args[len(args) - len(defaults or ()):], defaults or ())),
               **(kwonlydefaults or {})}
    for names, kind in ((args, of.POSITIONAL_OR_KEYWORD), ([varargs], of.VAR_POSITIONAL),
                        (kwonlyargs, of.KEYWORD_ONLY), ([varkw], of.VAR_KEYWORD)):
        kinds += [of(name, kind, default=by_name.get(name, of.empty),
                     annotation=(annotations or {}).get(name, of.empty)) for name in names if name]
    returned = (annotations or {}).get("return", inspect.Signature.empty)
    return str(inspect.Signature(kinds, return_annotation=returned))


def linux_distribution(*_, **__):
    """platform.linux_distribution of Python 3.7: the name, version and code name."""
    about = platform.freedesktop_os_release()
    return tuple(about.get(key, "") for key in ("NAME", "VERSION_ID", "VERSION_CODENAME"))


def dist(*_, **__):
    """platform.dist of Python 3.7: as linux_distribution, with the name in short."""
    about = platform.freedesktop_os_release()
    return (about.get("ID", ""), *linux_distribution()[1:])


def find_loader(name, path=None):
    """importlib.find_loader of Python 3.11: the loader of a module, None where there is none."""
    del path
    spec = importlib.util.find_spec(name)
    return None if spec is None else spec.loader


def make_suite(testCaseClass, prefix="test", sortUsing=None, suiteClass=None):
    """unittest.makeSuite of Python 3.12."""
    import unittest
    loader = unittest.TestLoader()
    loader.testMethodPrefix = prefix
    loader.sortTestMethodsUsing = sortUsing or loader.sortTestMethodsUsing
    loader.suiteClass = suiteClass or loader.suiteClass
    return loader.loadTestsFromTestCase(testCaseClass)


def unescape(self, text):
    """HTMLParser.unescape of Python 3.8."""
    return html.unescape(text)


def accept_universal_mode(use):
    """Gives `open` the mode "U" again, which is how text is read anyway; use(name) hears of it."""
    opened = builtins.open
    if hasattr(opened, "__wrapped__"):
        return

    @functools.wraps(opened)
    def open_universal(file, mode="r", *arguments, **keywords):
        if isinstance(mode, str) and "U" in mode:
            use('the mode "U" of open()')
            mode = mode.replace("U", "") or "r"
            mode = mode if "r" in mode else "r" + mode
        return opened(file, mode, *arguments, **keywords)

    builtins.open = open_universal


def sample_sets(use):
    """Makes random.sample take a set again, as Python 3.10 did; use(name) hears of it."""
    sample = random.Random.sample
    if hasattr(sample, "__wrapped__"):
        return

    @functools.wraps(sample)
    def sample_any(self, population, *arguments, **keywords):
        if isinstance(population, collections.abc.Set):
            use("random.sample of a set")
            population = tuple(population)
        return sample(self, population, *arguments, **keywords)

    random.Random.sample = sample_any
    random.sample = random._inst.sample


def load_without_loader(use):
    """A function that makes a module `yaml` load without a Loader again, as PyYAML 5 did; use(name)
    hears of it."""
    def change(yaml):
        def with_loader(load, name):
            @functools.wraps(load)
            def load_any(stream, Loader=None):
                if Loader is None:
                    use(f"{name}() without a Loader")
                return load(stream, yaml.FullLoader if Loader is None else Loader)
            return load_any

        for name in ("load", "load_all"):
            setattr(yaml, name, with_loader(getattr(yaml, name), f"yaml.{name}"))
    return change


# ---- NumPy's. This file is imported before NumPy may be. ----

def alen(a):
    """The first dimension of an array, 1 of a scalar."""
    import numpy
    return len(numpy.array(a, ndmin=1))


def asfarray(a, dtype=None):
    """An array of floats: of `dtype`, where that is a floating-point type, or float64."""
    import numpy
    wanted = numpy.dtype(float if dtype is None else dtype)
    return numpy.asarray(a, wanted if wanted.kind in "fc" else float)


def asscalar(a):
    """The Python number in an array of one element."""
    return a.item()


class _Cast:
    """numpy.cast[dtype](array)."""

    def __getitem__(self, dtype):
        import numpy
        return lambda array: numpy.asarray(array).astype(dtype)


cast = _Cast()


def find_common_type(array_types, scalar_types):
    """The type of an operation on arrays and scalars; a scalar counts where its kind is higher."""
    import numpy
    arrays = numpy.result_type(*array_types) if array_types else None
    scalars = numpy.result_type(*scalar_types) if scalar_types else None
    if arrays is None or scalars is None:
        return scalars if arrays is None else arrays
    kinds = "biufc"
    return scalars if kinds.find(scalars.kind) > kinds.find(arrays.kind) else arrays


def issubsctype(arg1, arg2):
    """Whether a type is below another in NumPy's hierarchy."""
    import numpy
    return numpy.issubdtype(numpy.dtype(arg1), arg2)


def msort(a):
    """A copy of an array, sorted along its first axis."""
    import numpy
    return numpy.sort(a, axis=0)


class _ScalarTypes(collections.UserDict):
    """numpy.sctypes: kind -> types, made when it is first asked."""

    def __missing__(self, kind):
        import numpy
        names = {"int": ("int8", "int16", "int32", "int64"),
                 "uint": ("uint8", "uint16", "uint32", "uint64"),
                 "float": ("float16", "float32", "float64", "longdouble"),
                 "complex": ("complex64", "complex128", "clongdouble")}
        if kind == "others":
            return [bool, object, bytes, str, numpy.void]
        return [getattr(numpy, name) for name in names[kind]]


sctypes = _ScalarTypes()
