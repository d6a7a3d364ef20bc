"""docs/command_line.md: the --help of every command, as the commands print it.

python tests/python/tool/test_help_page.py writes the page anew."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/command_line.md"
OTHERS = ["poprun", "gc-info", "gc-inventory", "gc-monitor"]
OLD_PROGRAMS = ["tremula.tf1", "tremula.tf2"]
HEAD = """# The command line

What `--help` of each command prints. For example, `tremula plan model.hlo --ipus 4` says what a
model needs of four IPUs. [tools.md](tools.md) explains the subcommands of `tremula` with examples,
[poprun.md](poprun.md) several processes, [devices.md](devices.md) the `gc-` commands,
[custom_operators.md](custom_operators.md) `popc`, and
[tensorflow2.md](tensorflow2.md#programs-of-2019-to-2022) old programs.

`python tests/python/tool/test_help_page.py` writes this page.
"""


def folder():
    built = ROOT / "build/release/bin"
    return pathlib.Path(os.environ.get("TREMULA_BIN_DIR") or (
        built if built.is_dir() else pathlib.Path(sys.executable).parent))


def help_of(*command):
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def page():
    tremula = folder() / "tremula"
    text = help_of(tremula)
    sections = {"tremula": text}
    for name in re.findall(r"^  tremula ([a-z]+) ", text, re.M):
        sections[f"tremula {name}"] = help_of(tremula, name)
    for name in OTHERS:
        sections[name] = help_of(folder() / name)
    sections["popc"] = help_of(sys.executable, "-m", "tremula.poplar.popc")
    for name in OLD_PROGRAMS:
        sections[f"python -m {name}"] = help_of(sys.executable, "-m", name)
    return HEAD + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in sections.items())


def test_the_page_is_current():
    assert PAGE.read_text() == page(), "run python tests/python/tool/test_help_page.py"


if __name__ == "__main__":
    PAGE.write_text(page())
