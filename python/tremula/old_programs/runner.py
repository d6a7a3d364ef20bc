"""The commands `python -m tremula.tf1` and `python -m tremula.tf2`: they prepare the process for an
old program, then run a script, a module or a text as `python` would."""

import importlib
import importlib.util
import os
import sys
import types

_USAGE = """usage: python -m {0} SCRIPT [ARGUMENT...]
       python -m {0} -m MODULE [ARGUMENT...]
       python -m {0} -c CODE [ARGUMENT...]"""


def main(package, arguments):
    """Runs the program that `arguments` begin with, with the other arguments, and exits as it does,
    when `package`.setup.install() has prepared the process.

    Exits with 2 where there is no program to run.
    """
    usage = _USAGE.format(package)
    option = arguments[0] if arguments else None
    if option is None or option in ("-h", "--help") or option in ("-m", "-c") and not arguments[1:]:
        wanted = option in ("-h", "--help")
        about = f"\n\n{sys.modules[package].__doc__.strip()}" if wanted else ""
        print(f"{usage}{about}", file=sys.stdout if wanted else sys.stderr)
        sys.exit(0 if wanted else 2)
    if option == "-m":
        module = _module
    elif option == "-c":
        module = _text
    elif option.startswith("-") and not os.path.exists(option):
        _end(package, 2, f"unknown option {option}\n{usage}")
    else:
        module = _script
    _run(*module(package, arguments))


def _script(package, arguments):
    """(the attributes of __main__, its code) of a script, when the process is prepared."""
    script = arguments[0]
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as error:
        _end(package, 2, f"can't open file {script!r}: {error}")
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    _set_up(package)
    return {"__file__": script}, lambda: compile(source, script, "exec")


def _text(package, arguments):
    """The same for a text."""
    sys.argv[:] = ["-c", *arguments[2:]]
    sys.path[0] = ""
    _set_up(package)
    return {}, lambda: compile(arguments[1], "<string>", "exec")


def _module(package, arguments):
    """The same for a module, or for the `__main__` of a package."""
    name = arguments[1]
    sys.argv[:] = ["-m", *arguments[2:]]  # as Python has it while it looks for the module
    sys.path[0] = os.getcwd()
    _set_up(package)
    spec = _find(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = _find(name)
    get_code = getattr(getattr(spec, "loader", None), "get_code", None)
    code = get_code(name) if get_code is not None else None
    if code is None:
        _end(package, 1, f"No module named {name}")
    sys.argv[0] = spec.origin
    return {"__file__": spec.origin, "__cached__": spec.cached, "__loader__": spec.loader,
            "__package__": spec.parent, "__spec__": spec}, lambda: code


def _find(name):
    """The spec of a module; None where there is none, or no package that it is in."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise  # a package of the program lacks something
        return None


def _end(package, code, message):
    print(f"python -m {package}: {message}", file=sys.stderr)
    sys.exit(code)


def _set_up(package):
    importlib.import_module(f"{package}.setup").install()


def _run(attributes, make_code):
    module = types.ModuleType("__main__")
    module.__dict__.update({"__builtins__": __builtins__, "__cached__": None, "__loader__": None,
                            **attributes})
    sys.modules["__main__"] = module
    try:
        exec(make_code(), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
            traceback = traceback.tb_next  # what is left is the program's
        error.__traceback__ = traceback
        sys.excepthook(type(error), error, traceback)
        sys.stdout.flush()
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)
