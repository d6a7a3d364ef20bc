"""scripts/house.py measures what it says."""
import importlib.util
import pathlib

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/house.py"


def load():
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def function(name, *calls, static=""):
    lines = [f"  {one}();" for one in calls] + ["  x = 1;"] * 10
    return "\n".join([f"{static}int {name}(void) {{", *lines, "}", ""])


def test_a_walk_counts_files_functions_and_returns(tmp_path):
    src = tmp_path / "src/exec"
    src.mkdir(parents=True)
    (src / "a.c").write_text(function("trm_begin", "trm_there", "trm_again", "trm_begin")
                             + "int trm_short(void) {\n  return trm_there_too();\n}\n")
    (src / "b.c").write_text(function("trm_there", "trm_short", "own")
                             + function("own", static="static ") + function("trm_there_too"))
    (src / "c.c").write_text(function("trm_again", "trm_there", "trm_last"))
    (src / "b2.c").write_text(function("trm_last", "table"))
    (src / "d.c").write_text(function("trm_unused", "trm_begin"))
    house = load()
    # begin, there, there_too, own, again and last; b.c is left and entered again by nobody.
    assert house.walk(tmp_path, ["trm_begin"], None) == (4, 6, 0)
    assert house.walk(tmp_path, ["trm_unused"], None) == (5, 7, 0)
    assert house.walk(tmp_path, ["trm_unused"], house.re.compile("trm_last")) == (4, 6, 0)
    (src / "b2.c").write_text(function("trm_last", "trm_back"))
    (src / "a.c").write_text((src / "a.c").read_text() + function("trm_back"))
    assert house.walk(tmp_path, ["trm_begin"], None) == (4, 7, 1)
    assert house.walk(tmp_path, ["trm_nowhere"], None) is None


def test_lengths_of_functions(tmp_path):
    path = tmp_path / "a.c"
    path.write_text("static int one(int a,\n               int b) {\n#define X 1\n  return X;\n}\n"
                    "int two(void);\n" + function("two"))
    house = load()
    assert [(name, static, size) for name, static, size, _ in house.c_functions(path)] == [
        ("one", True, 5), ("two", False, 12)]


def test_circles_of_calls_within_a_folder(tmp_path):
    src = tmp_path / "src/exec"
    src.mkdir(parents=True)
    (src / "a.c").write_text(function("trm_begin", "trm_there"))
    (src / "b.c").write_text(function("trm_there", "trm_last"))
    (src / "c.c").write_text(function("trm_last", "trm_there"))
    (src / "d.c").write_text(function("trm_unused", "trm_begin"))
    assert load().call_circles(tmp_path) == {"src/exec": {"b.c", "c.c"}}
