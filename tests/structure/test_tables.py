"""The tables of src/ that Python has a copy of, and what may be said in those tables alone.

python tests/structure/test_tables.py writes the copies anew."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r'^CUSTOM_CALL\((\w+), "([^"]+)"', re.MULTILINE)
COPY = ROOT / "python/tremula/custom_calls.py"
OPTION = re.compile(r'^(?:COMPILER|ESTIMATE)\((\w+), [^,]+, ([^,]*),', re.MULTILINE)
WORD = re.compile(r'^WORD\((\w+), (\w+), "([^"]+)"\)', re.MULTILINE)
TABLES = ROOT / "python/tremula/tables.py"
HEAD = '''"""The targets of Tremula's custom calls.

Made of src/hlo/custom_calls.def by tests/structure/test_tables.py."""
'''


def targets():
    rows = ROW.findall((ROOT / "src/hlo/custom_calls.def").read_text())
    return {name: target for name, target in rows if target.startswith("tremula.")}


def copy():
    return HEAD + "".join(f'{name} = "{target}"\n' for name, target in targets().items())


def enum(path, prefix):
    """The enumerators of a header that begin with `prefix`, and their numbers."""
    numbers, following = {}, 0
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.DOTALL)
    for name, given in re.findall(rf"\b{prefix}(\w+)(?:\s*=\s*(\d+))?\s*[,}}\n]", text):
        numbers[name] = following = int(given) if given else following
        following += 1
    return numbers


def options():
    """The compiler's options and their defaults, as text."""
    return dict(OPTION.findall((ROOT / "src/base/options.def").read_text()))


def words(option):
    """The words that an option takes, and the numbers that they stand for."""
    numbers = enum("include/tremula/program.h", "TRM_SYNTHETIC_")
    return {word: numbers[value.removeprefix("TRM_SYNTHETIC_")] for key, value, word
            in WORD.findall((ROOT / "src/base/options.def").read_text()) if key == option}


def tables():
    """What python/tremula/tables.py says."""
    rows = (("OPTIONS", "The options of trm_compile and their defaults: src/base/options.def.",
             options()),
            ("SYNTHETIC", "Categories of synthetic data, and their bits: trm_synthetic.",
             words("synthetic_data")),
            ("SYNTHETIC_MORE", "Further bits of DeviceSettings.synthetic: src/tf/settings.h.",
             enum("src/tf/settings.h", "TRM_TF_SYNTHETIC_")),
            ("CONNECTIONS", "trm_tf_connection: src/tf/settings.h.",
             enum("src/tf/settings.h", "TRM_TF_CONNECT_")),
            ("PROGRESS", "trm_tf_progress_mode: src/tf/watch.h.",
             enum("src/tf/watch.h", "TRM_TF_PROGRESS_")),
            ("EVENTS", "The bits of trm_tf_events: src/tf/events.h.",
             enum("src/tf/events.h", "TRM_TF_EVENTS_")))
    text = ('"""What Python hands to the compiler and the plugin, as src/ names and numbers it.\n\n'
            'Made of the files that it names by tests/structure/test_tables.py."""\n')
    for name, comment, items in rows:
        assert items, name
        text += f"\n# {comment}\n{name} = {{\n"
        text += "".join(f"    {json.dumps(key)}: {json.dumps(value)},\n"
                        for key, value in items.items()) + "}\n"
    return text


def test_python_has_the_options():
    assert len(options()) >= 30
    assert options()["synthetic_data"] == "" and options()["target"] == "mk2"
    assert TABLES.read_text() == tables(), "run python tests/structure/test_tables.py"


def test_disabled_passes_exist():
    """xla_flags.py names passes that the compiler can leave out."""
    rows = re.findall(r'^    \{"([\w-]+)", \w+, (?:OPTIMISING|HIDING)|^    \{"(simplify-tuples)"',
                      (ROOT / "src/passes/pipeline.c").read_text(), re.MULTILINE)
    known = {name for row in rows for name in row if name}
    text = (ROOT / "python/tremula/xla_flags.py").read_text()
    named = re.findall(r'^    "([\w-]+)": \(', text.split("ORIGINAL =")[0], re.MULTILINE)
    assert len(named) == 7 and set(named) <= known


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
    TABLES.write_text(tables())
