"""Writes docs/api.md from api_symbols.json: `python docs/data/make_api_table.py`.

api_symbols.json has the names of the original's API, by package, module and class, and `states`:
patterns (fnmatch, of a full name) of what does not just work, the last that fits counts. Operations
that a generated module refuses are known to that module.
"""

import fnmatch
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OPERATIONS = "tensorflow.compiler.plugin.poplar.ops"
_WORDS = {"works": "works", "ignored": "accepted and ignored", "refused": "refused",
          "not yet": "not yet"}
_INTRODUCTION = """# The API, symbol by symbol

This page lists every name of `tensorflow.python.ipu` (SDK 1.2 to 3.4, TensorFlow 1 and 2), of the
generated modules, and of other modules that programs import, and says whether the name works. For
example, `ipu.config.KeyId` is accepted and ignored, because transfers to the host are not
encrypted. [ipu_config.md](ipu_config.md) has the options, [ipu_ops.md](ipu_ops.md) says what the
IPU's operations compute. A test imports every name.

| word | meaning |
|---|---|
| works | the name does what it does in the original |
| accepted and ignored | the name can be called and has no effect, for the reason given |
| refused | the name exists, and its error says what to use instead |
| not yet | importing the name is an error that says so |

`python docs/data/make_api_table.py` writes this page from `docs/data/api_symbols.json`.

"""


def load():
    """The data, with the operations that generated modules refuse among the states."""
    data = json.loads((HERE / "api_symbols.json").read_text())
    if str(ROOT / "python") not in sys.path:
        sys.path.insert(0, str(ROOT / "python"))
    from tremula.tf.plugin.poplar.ops import _refused
    data["states"] = [
        {"match": f"{OPERATIONS}.{module}.{name}", "status": "refused", "why": f"use {instead}"}
        for module, names in _refused.INSTEAD.items() for name, instead in names.items()
    ] + data["states"]
    return data


def state(data, name):
    """(status, why) of a full name."""
    found = ("works", "")
    for one in data["states"]:
        if fnmatch.fnmatchcase(name, one["match"]):
            found = (one["status"], one["why"])
    return found


def symbols(data):
    """(package, module, symbol, member or None, status, why) of every name."""
    for package, modules in data["symbols"].items():
        for module, names in modules.items():
            for name, members in names.items():
                full = f"{package}.{module}.{name}"
                yield (package, module, name, None, *state(data, full))
                for member in members:
                    own = state(data, f"{full}.{member}")
                    yield (package, module, name, member,
                           *(own if own[0] != "works" else state(data, full)))


def markdown(data):
    """The text of docs/api.md."""
    rows = list(symbols(data))
    lines = [_INTRODUCTION, "| | symbols | with methods and members |\n|---|---|---|\n"]
    for status, words in _WORDS.items():
        own = [row for row in rows if row[4] == status]
        lines.append(f"| {words} | {sum(row[3] is None for row in own)} | {len(own)} |\n")
    package = module = None
    for row in rows:
        if row[0] != package:
            package = row[0]
            lines.append(f"\n## `{package}`\n")
        if row[1] != module:
            module = row[1]
            lines.append(f"\n### `{module}`\n\n| symbol | | why |\n|---|---|---|\n")
        if row[3] is None:
            differing = [other for other in rows if other[:3] == row[:3] and other[3]]
            alike = [other[3] for other in differing if other[4:] == row[4:]]
            name = f"`{row[2]}`" + (f": {', '.join(alike)}" if alike else "")
            lines.append(f"| {name} | {_WORDS[row[4]]} | {row[5]} |\n")
            lines += [f"| `{row[2]}.{other[3]}` | {_WORDS[other[4]]} | {other[5]} |\n"
                      for other in differing if other[4:] != row[4:]]
    return "".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "api.md").write_text(markdown(load()))
