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


def test_every_text_file_counts_for_its_tower(tmp_path):
    house = load()
    for name, data in {"host/a.inc.h": b"1\n", "ipu/b.md": b"1\n2\n", "ops/x/tile_c.c": b"1\n",
                       "hlo/d.def": b"1\n", "hlo/picture": b"\0\n"}.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert [path.name for path in house.files(tmp_path, "src")] == [
        "d.def", "a.inc.h", "b.md", "tile_c.c"]
    assert [house.tower_of(name) for name in ("host/a.inc.h", "ops/x/tile_c.c", "hlo/d.def")] == [
        "the host", "the estimate of an IPU", "both"]


def test_the_walk_of_an_opcode_starts_at_its_row(tmp_path):
    src = tmp_path / "src/hlo"
    src.mkdir(parents=True)
    (src / "opcodes.def").write_text(
        'OPCODE(SORT, "sort", -1, OTHER, 1, KERNELS(fast_sort, reference_sort),\n'
        '       COST(sort), NO_EFFECT)\nOPCODE(DOT, "dot", 2, LINEAR, 0, KERNEL(dot), COST(dot))\n')
    (src / "a.c").write_text(function("trm_fast_sort_create") + function("trm_dot_create"))
    (src / "b.c").write_text(function("trm_tile_sort", "trm_further"))
    (src / "c.c").write_text(function("trm_further"))
    house = load()
    starts = house.opcode_starts(tmp_path, "SORT")
    assert starts == ["trm_fast_sort_create", "trm_reference_sort_create", "trm_tile_sort"]
    assert house.walk(tmp_path, starts, None, True) == (3, 3, 0)
    assert house.naming(tmp_path, "SORT") == 2


def test_imports_by_a_call_count(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("importlib.import_module('a.b')\n")
    assert list(load().imported(path)) == ["a.b"]
