"""popc: compiles files of codelets for the CPU into a .gp that Graph::addCodelets loads.

    popc [options] SOURCE... -o OUT.gp

g++ compiles each source twice: once for its debug information, from which the vertices and the
offsets of their fields are read, and once with a function for each vertex that calls compute().
The .gp is a shared object with a table of the vertices.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tremula.poplar import generator, paths, vertices

VERSION = "2"  # of what is made from a source: part of the cache's key
# All classes are in the debug information, used or not; version 4 has no indexed strings.
DEBUG_FLAGS = ("-O0", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-femit-class-debug-always")
# Vertices have private members, and read memory by several types.
CODE_FLAGS = ("-w", "-fno-access-control", "-fno-strict-aliasing", "-ffp-contract=off")
# Halves are rounded after each operation, as the IPU rounds them, whatever the optimisation. g++
# before 12, for which they are a class, refuses the flag.
ROUNDING_FLAG = "-fexcess-precision=16"
COMMON_FLAGS = ("-shared", "-fPIC", "-Wno-attributes", "-D__POPC__=1", "-fvisibility=hidden")
_ASSEMBLY = ".s", ".asm"
_USAGE = """usage: popc [options] SOURCE... -o OUT.gp
Compiles codelets for the CPU.
  -o FILE           the output
  -O0, -O1, -O2, -O3, -g
  -I DIR, -D NAME[=VALUE], -U NAME, -std=..., -W..., -f..., -m...   as g++ knows them
  --target=LIST     taken and not used: there is one target, the CPU
  --version, --help"""


class Failure(Exception):
    """What popc cannot do; the text is for the user."""


def compiler():
    """The C++ compiler's command. Raises Failure without one."""
    name = os.environ.get("TREMULA_CXX") or "g++"
    found = shutil.which(name)
    if found is None:
        raise Failure(f"codelets in C++ need the compiler {name}, which is not installed: install "
                      "the package g++ (Debian, Ubuntu) or gcc-c++ (Fedora), or set TREMULA_CXX")
    return found


def compile_codelets(sources, output, options=()):
    """Compiles sources into the .gp `output`, or takes it out of the cache. Raises Failure.

    options   those of g++ that both compilations get: -I, -D, -O and so on
    """
    output = pathlib.Path(output)
    if not output.absolute().parent.is_dir():
        raise Failure(f"{output} cannot be written: its folder does not exist")
    with tempfile.TemporaryDirectory(prefix="popc-") as folder:
        try:
            _copy(cached(sources, options), output)
        except OSError:  # no cache
            _compile(sources, pathlib.Path(folder) / "out.gp", options)
            try:
                _copy(pathlib.Path(folder) / "out.gp", output)
            except OSError as error:
                raise Failure(f"{output} cannot be written: {error.strerror}") from None


def cached(sources, options=()):
    """The cache's .gp of sources, which is compiled unless it is there. Raises Failure, and OSError
    where there can be no cache.

    The key is the sources after the preprocessor, so that a changed header counts.
    """
    sources = [pathlib.Path(one) for one in sources]
    for source in sources:
        _check_source(source)
    common = _command(options)
    version = _run([common[0], "--version"], "g++")
    key = hashlib.blake2b("\0".join([VERSION, version, *options]).encode(), digest_size=16)
    for source in sources:
        text = _run([*common, "-E", "-P", str(source)], f"{source}")
        key.update(f"{source.name}\0{text}\0".encode())
    folder = paths.cache()
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{key.hexdigest()}.gp"
    if not output.exists():
        with tempfile.TemporaryDirectory(prefix="popc-") as made:
            _compile(sources, pathlib.Path(made) / "out.gp", options)
            _copy(pathlib.Path(made) / "out.gp", output)
    return output


def _copy(made, output):
    """Whole, or not at all: another process may load the output."""
    beside = output.absolute().with_name(f".{output.name}.{os.getpid()}")
    shutil.copyfile(made, beside)
    os.replace(beside, output)


def _command(options):
    """The compiler with what every call of it gets."""
    standard = [] if any(one.startswith("-std=") for one in options) else ["-std=gnu++17"]
    return [compiler(), *COMMON_FLAGS, "-isystem", str(paths.INCLUDE), "-isystem",
            str(paths.table_headers()), *standard,
            *(one for one in options if not one.startswith(("-O", "-g")))]


def _compile(sources, output, options):
    common = _command(options)
    optimisation = [one for one in options if one.startswith("-O")] or ["-O2"]
    folder = output.parent
    named, counts, written = {}, [], []
    for number, source in enumerate(map(pathlib.Path, sources)):
        found = _reflect(common, source, folder / f"reflected{number}.so")
        for one in found:
            if one.name in named:
                raise Failure(f"the vertex {one.name} is in {named[one.name]} and in {source}")
            named[one.name] = source
        counts.append(len(found))
        written.append(folder / f"runners{number}.cpp")
        written[-1].write_text(generator.runners(source.absolute(), found, number))
    if not named:
        raise Failure("no vertex was found in " + ", ".join(map(str, sources)) + ": a vertex is a "
                      "class derived from poplar::Vertex or MultiVertex that has compute(); a "
                      "class template must be instantiated, as in `template class Scale<float>;`")
    written.append(folder / "table.cpp")
    written[-1].write_text(generator.table(counts))
    tried = subprocess.run([common[0], ROUNDING_FLAG, "-fsyntax-only", "-xc++", os.devnull],
                           capture_output=True)
    rounding = [ROUNDING_FLAG] if tried.returncode == 0 else []
    _run([*common, *CODE_FLAGS, *rounding, *optimisation, *map(str, written), "-o", str(output)],
         ", ".join(map(str, sources)))


def _reflect(common, source, library):
    """The vertices of a source."""
    _run([*common, *DEBUG_FLAGS, str(source), "-o", str(library)], f"{source}")
    try:
        return vertices.read(library)
    except vertices.Unreadable as error:
        raise Failure(f"{source}: {error}") from None
    except ImportError:
        raise Failure("codelets need the Python package pyelftools, which is not installed: pip "
                      "install pyelftools") from None


def _check_source(source):
    if source.suffix.lower() in _ASSEMBLY:
        raise Failure(f"{source} is assembly of the IPU, which no CPU runs: write the vertex in "
                      "C++")
    if not source.is_file():
        raise Failure(f"there is no file {source}")


def _run(command, what):
    """The command's stdout; its messages are shown when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise Failure(f"{command[0]} could not be started: {error.strerror}") from None
    if done.returncode:
        raise Failure(f"{what}: the compiler failed\n{done.stderr.rstrip()}")
    if done.stderr:
        print(done.stderr, end="", file=sys.stderr)
    return done.stdout


def _arguments(words):
    """(sources, output, options of g++). Raises Failure."""
    sources, output, options, words = [], None, [], list(words)
    while words:
        word = words.pop(0)
        if word in ("-o", "-I", "-D", "-U", "-isystem", "--target", "-include"):
            if not words:
                raise Failure(f"{word} wants a value")
            value = words.pop(0)
            if word == "-o":
                output = value
            elif word != "--target":
                options += [word, value]
        elif word.startswith("-o"):
            output = word[2:]
        elif word.startswith("--target="):
            pass
        elif word in ("-O0", "-O1", "-O2", "-O3", "-Ofast", "-g") or word.startswith(
                ("-I", "-D", "-U", "-std=", "-W", "-f", "-m")):
            options.append(word)
        elif word.startswith("-"):
            raise Failure(f"unknown option {word}\n{_USAGE}")
        else:
            sources.append(word)
    if not sources:
        raise Failure(f"no source is named\n{_USAGE}")
    if output is None:
        raise Failure(f"-o must name the output\n{_USAGE}")
    return sources, output, options


def main(words=None):
    """The command line: the exit code."""
    words = sys.argv[1:] if words is None else words
    if "--help" in words or "-h" in words:
        print(_USAGE)
        return 0
    if "--version" in words:
        print(f"popc of Tremula, codelets version {VERSION}")
        return 0
    try:
        sources, output, options = _arguments(words)
        compile_codelets(sources, output, options)
    except Failure as failure:
        print(f"popc: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
