"""The tables of src/ that Python has a copy of, and what may be said in those tables alone.

python tests/structure/test_tables.py writes the copies anew."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r'^CUSTOM_CALL\((\w+), "([^"]+)"', re.MULTILINE)
COPY = ROOT / "python/tremula/custom_calls.py"
HEAD = '''"""The targets of Tremula's custom calls.

Made of src/hlo/custom_calls.def by tests/structure/test_tables.py."""
'''


def targets():
    rows = ROW.findall((ROOT / "src/hlo/custom_calls.def").read_text())
    return {name: target for name, target in rows if target.startswith("tremula.")}


def copy():
    return HEAD + "".join(f'{name} = "{target}"\n' for name, target in targets().items())


def test_python_has_the_table():
    assert len(targets()) > 10
    assert COPY.read_text() == copy(), "run python tests/structure/test_tables.py"


def test_targets_are_named_in_the_table_only():
    """Code asks for a row of the table, never for the text of a target."""
    quoted = re.compile(r"""["'](%s)["']""" % "|".join(map(re.escape, targets().values())))
    files = [path for folder, endings in (("src", ".c .h .def"), ("tools", ".c .h"),
                                          ("python", ".py"))
             for path in (ROOT / folder).rglob("*") if path.suffix in endings.split()]
    assert len(files) > 300
    wrong = []
    for path in files:
        if path == COPY or path.name == "custom_calls.def":
            continue
        text = path.read_text()
        if path.suffix != ".py":  # comments may name a target
            text = re.sub(r"/\*.*?\*/", lambda one: "\n" * one.group().count("\n"), text,
                          flags=re.DOTALL)
        wrong += [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
                  for number, line in enumerate(text.splitlines(), 1) if quoted.search(line)]
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    COPY.write_text(copy())
