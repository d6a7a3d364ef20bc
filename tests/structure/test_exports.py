"""What libtremula.so exports is what cmake/exports.txt lists and the public headers declare."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTED = ROOT / "cmake" / "exports.txt"
# Older linkers export the bounds of the data.
LINKER = {"_edata", "_end", "__bss_start", "_init", "_fini"}


def library():
    """The installed library, or the one in TREMULA_LIBRARY_DIR."""
    folder = os.environ.get("TREMULA_LIBRARY_DIR")
    if not folder:
        import tremula
        folder = pathlib.Path(tremula.__file__).parent / "lib"
    path = pathlib.Path(folder) / "libtremula.so.0"
    assert path.exists(), f"{path} is missing: install Tremula or set TREMULA_LIBRARY_DIR"
    return path


def listed():
    return LISTED.read_text().split()


def difference(found, where):
    more, less = sorted(found - set(listed())), sorted(set(listed()) - found)
    return (f"not in cmake/exports.txt but {where}: {more}\n"
            f"in cmake/exports.txt but not {where}: {less}")


def test_list_is_sorted():
    names = listed()
    assert names == sorted(set(names))
    assert "trm_compile" in names


def test_library_exports_the_list():
    output = subprocess.run(["nm", "-D", "--defined-only", library()], check=True,
                            capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in output.splitlines()} - LINKER
    assert exported == set(listed()), difference(exported, "exported")


def test_somebody_calls_each():
    """An exported function without a caller in tests, tools, plugin or Python is tested nowhere."""
    callers = [path.read_text() for folder in ("tests", "tools", "python", "src/tf", "bench")
               for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".c", ".h", ".py")]
    called = set(re.findall(r"\btrm_\w+", "\n".join(callers)))
    assert sorted(set(listed()) - called) == []


def test_headers_declare_the_list():
    declared = set()
    for header in sorted((ROOT / "include" / "tremula").glob("*.h")):
        text = re.sub(r"/\*.*?\*/|^\s*#(?:[^\n]*\\\n)*[^\n]*", "", header.read_text(),
                      flags=re.DOTALL | re.MULTILINE)
        declared |= set(re.findall(r"TRM_API\b[^;(]*?\b(trm_\w+)\s*\(", text))
    assert declared == set(listed()), difference(declared, "declared")
