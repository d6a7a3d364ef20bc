"""popc: the vertices of a source, their fields, and the .gp that it makes."""
import ctypes
import os
import pathlib
import random
import subprocess

import numpy as np
import pytest
import table
from tremula.poplar import popc, vertices

SOURCES = pathlib.Path(__file__).parent / "sources"
SCALE = """#include <poplar/Vertex.hpp>
#include "factor.hpp"
class Scale : public poplar::Vertex {
 public:
  poplar::InOut<poplar::Vector<float>> x;
  bool compute() { for (auto &one : x) one *= FACTOR; return true; }
};
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TREMULA_CODELET_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def gp(tmp_path_factory):
    path = tmp_path_factory.mktemp("gp") / "kinds.gp"
    source = str(SOURCES / "kinds.cpp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREMULA_CODELET_CACHE", str(path.parent))
        assert popc.main(["-O3", "--target=ipu1,ipu2", source, "-o", str(path)]) == 0
    return table.load(path)[0]


def test_vertices_by_their_poplar_names(gp):
    assert list(gp) == ["shapes::Mixed<float,Mode::SUM,2>", "shapes::Mixed<half,Mode::PRODUCT,1>",
                        "Derived", "Shared", "Hidden"]
    assert [one.workers for one in gp.values()] == [1, 1, 1, 6, 1]


def test_fields(gp):
    fields = gp["shapes::Mixed<half,Mode::PRODUCT,1>"].by_name()
    half, f32 = 10, 11
    assert {name: one.summary() for name, one in fields.items()} == {
        "count": (table.VALUE, 0, 8, 1, 0, 0),
        "in": (table.EDGES, table.INPUT, half, 1, 0, 0),
        "rows": (table.LISTS, table.INPUT, f32, 1, 1, 1),
        "out": (table.EDGES, table.OUTPUT, half, 1, 1, 0),
        "total": (table.EDGE, table.INOUT, half, 1, 0, 0),
        "done": (table.EDGE, table.OUTPUT, 1, 1, 0, 0),
        "table": (table.VALUES, 0, 4, 1, 0, 0),
        "list": (table.LISTS, table.INPUT, f32, 1, 1, 1),
        "ends": (table.LISTS, table.OUTPUT, 7, 1, 1, 0),
        "scale": (table.VALUE, 0, f32, 1, 0, 0),
        "on": (table.VALUE, 0, 1, 1, 0, 0),
        "unused": (table.VALUE, 0, 4, 1, 0, 0),
        "three": (table.VALUE, 0, 6, 1, 0, 0),
        "pair": (table.VALUE, 0, f32, 2, 0, 0)}
    assert fields["three"].count == 3 and fields["out"].min_align == 8
    assert (fields["in"].ipu_bytes, fields["rows"].ipu_bytes, fields["on"].ipu_bytes) == (4, 8, 1)


def test_a_vertex_with_all_kinds_computes(gp):
    rows = [np.arange(4, dtype=np.float32), np.ones(4, np.float32)]
    spans = (table.Span * 2)(*map(table.span, rows))
    listed = [np.array([0, 1], np.float32), np.array([2], np.float32)]
    list_spans = (table.Span * 2)(*map(table.span, listed))
    x, out = np.full(4, 10, np.float32), np.zeros(4, np.float32)
    total, done, numbers = np.ones(1, np.float32), np.zeros(1, bool), np.array([0, 7], np.int32)
    ends = [np.zeros(1, np.uint16) for _ in range(2)]
    ends_at = (ctypes.c_void_p * 2)(*(one.ctypes.data for one in ends))
    gp["shapes::Mixed<float,Mode::SUM,2>"].call({
        "count": ctypes.c_uint32(4), "in": table.pointer(x), "out": table.span(out),
        "rows": table.Span(ctypes.addressof(spans), 2), "total": table.pointer(total),
        "done": table.pointer(done), "table": table.pointer(numbers),
        "list": table.Span(ctypes.addressof(list_spans), 2),
        "ends": table.Span(ctypes.addressof(ends_at), 2), "scale": ctypes.c_float(0.5),
        "on": ctypes.c_bool(True), "pair": (ctypes.c_float * 2)(100, 0)})
    np.testing.assert_array_equal(out, [110, 11, 12, 13])
    assert (total[0], done[0], ends[0][0], ends[1][0]) == (1 + 46, True, 2, 65535)


def test_a_virtual_compute_and_inherited_fields(gp):
    first, second = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    gp["Derived"].call({"first": table.pointer(first), "second": table.pointer(second)})
    assert (first[0], second[0]) == (1, 2)


def test_a_multi_vertex_runs_for_each_worker(gp):
    out = np.zeros(8, np.int32)
    gp["Shared"].call({"out": table.span(out)})
    np.testing.assert_array_equal(out, [0, 1, 2, 3, 4, 5, 0, 1])


def test_halves_are_rounded_after_each_operation(gp, tmp_path):
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float16)
    expected = values * np.float16(0.1)
    found = values.copy()
    gp["Hidden"].call({"x": table.span(found)})
    np.testing.assert_array_equal(found, expected)
    # The class that compilers without _Float16 get.
    path = tmp_path / "class.gp"
    popc.compile_codelets([SOURCES / "kinds.cpp"], path, ["-DTREMULA_HALF_CLASS"])
    other, _ = table.load(path)
    assert list(other) == list(gp)
    found = values.copy()
    other["Hidden"].call({"x": table.span(found)})
    np.testing.assert_array_equal(found, expected)


def test_every_half_converts_as_in_numpy(tmp_path):
    source = tmp_path / "convert.cpp"
    source.write_text("#include <poplar/Vertex.hpp>\nusing namespace poplar;\n"
                      "class Convert : public Vertex { public: Input<Vector<half>> h; Output<Vector"
                      "<float>> f; Input<Vector<float>> g; Output<Vector<half>> k; bool compute() {"
                      "for (unsigned i = 0; i < h.size(); ++i) f[i] = h[i];"
                      "for (unsigned i = 0; i < g.size(); ++i) k[i] = half(g[i]);"
                      "return true; } };")
    path = tmp_path / "convert.gp"
    popc.compile_codelets([source], path, ["-DTREMULA_HALF_CLASS"])
    halves = np.arange(65536).astype(np.uint16).view(np.float16)
    wide = np.zeros(65536, np.float32)
    generator = np.random.default_rng(1)
    floats = np.concatenate([
        generator.integers(0, 2**32, 100_000, np.uint64).astype(np.uint32).view(np.float32),
        np.float32([65519.99, 65520, 65504, 2**-24, 2**-25, 2.0**-25 * 1.001, 0, -0.0, np.inf])])
    narrow = np.zeros(floats.size, np.float16)
    table.load(path)[0]["Convert"].call({"h": table.span(halves), "f": table.span(wide),
                                         "g": table.span(floats), "k": table.span(narrow)})
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow, floats.astype(np.float16))


@pytest.mark.parametrize("name, text, message", [
    ("a.S", "", "a.S is assembly of the IPU, which no CPU runs"),
    ("none.cpp", "int x;", "no vertex was found in"),
    ("wrong.cpp", "#include <poplar/Vertex.hpp>\nint x = y;", "'y' was not declared"),
])
def test_what_cannot_be_compiled_is_explained(tmp_path, capsys, name, text, message, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    (tmp_path / name).write_text(text)
    assert popc.main([str(tmp_path / name), "-o", str(tmp_path / "x.gp")]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x.gp").exists()


@pytest.mark.parametrize("words, message", [
    (["a.cpp"], "-o must name the output"), ([], "no source is named"),
    (["--what", "a.cpp", "-o", "x"], "unknown option --what"),
    (["a.cpp", "-o"], "-o wants a value"),
    (["missing.cpp", "-o", "x.gp"], "there is no file missing.cpp"),
])
def test_mistakes_in_the_command_line(words, message, capsys):
    assert popc.main(words) == 1
    assert message in capsys.readouterr().err


def test_a_missing_compiler_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TREMULA_CXX", "no-such-g++")
    assert popc.main([str(SOURCES / "kinds.cpp"), "-o", str(tmp_path / "x.gp")]) == 1
    assert "install the package g++ (Debian, Ubuntu)" in capsys.readouterr().err


def test_an_old_compiler_that_knows_no_halves(tmp_path, monkeypatch):
    """g++ before 12 refuses the flag by which halves are rounded."""
    old = tmp_path / "old-g++"
    old.write_text('#!/bin/sh\ncase " $* " in *excess-precision*) exit 1 ;; esac\nexec g++ "$@"\n')
    old.chmod(0o755)
    monkeypatch.setenv("TREMULA_CXX", str(old))
    (tmp_path / "scale.cpp").write_text(SCALE)
    (tmp_path / "factor.hpp").write_text("#define FACTOR 2")
    popc.compile_codelets([tmp_path / "scale.cpp"], tmp_path / "scale.gp", ["-DTREMULA_HALF_CLASS"])
    assert "Scale" in table.load(tmp_path / "scale.gp")[0]


def test_the_cache_goes_by_content(tmp_path):
    (tmp_path / "scale.cpp").write_text(SCALE)
    (tmp_path / "factor.hpp").write_text("#define FACTOR 2\n")
    first = popc.cached([tmp_path / "scale.cpp"])
    made = first.stat().st_mtime_ns
    assert popc.cached([tmp_path / "scale.cpp"]) == first
    assert first.stat().st_mtime_ns == made
    (tmp_path / "factor.hpp").write_text("#define FACTOR 3\n")
    second = popc.cached([tmp_path / "scale.cpp"])
    assert second != first != popc.cached([tmp_path / "scale.cpp"], ["-O1"])
    for path, factor in (first, 2), (second, 3):
        x = np.ones(3, np.float32)
        table.load(path)[0]["Scale"].call({"x": table.span(x)})
        np.testing.assert_array_equal(x, [factor] * 3)


def test_without_a_cache_sources_are_compiled_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TREMULA_CODELET_CACHE", str(tmp_path / "file/cache"))
    (tmp_path / "scale.cpp").write_text(SCALE)
    words = [str(tmp_path / "scale.cpp"), "-o", str(tmp_path / "x.gp"), "-DFACTOR=2"]
    (tmp_path / "factor.hpp").write_text("")
    assert popc.main(words) == 0 and "Scale" in table.load(tmp_path / "x.gp")[0]
    words[2] = str(tmp_path / "nowhere/x.gp")
    assert popc.main(words) == 1


def test_damaged_debug_information_is_refused_and_nothing_else_happens(tmp_path):
    good = tmp_path / "good.so"
    (tmp_path / "factor.hpp").write_text("#define FACTOR 2\n")
    (tmp_path / "scale.cpp").write_text(SCALE)
    subprocess.run([popc.compiler(), *popc.COMMON_FLAGS, *popc.DEBUG_FLAGS,
                    f"-I{popc.paths.INCLUDE}",
                    str(tmp_path / "scale.cpp"), "-o", str(good)], check=True)
    data = good.read_bytes()
    expected = vertices.read(good)
    assert [one.name for one in expected] == ["Scale"]
    generator, refused = random.Random(7), 0
    bad = tmp_path / "bad.so"
    rounds = int(os.environ.get("TREMULA_DAMAGE_ROUNDS", 80))
    for _ in range(rounds):
        damaged = bytearray(data)
        for _ in range(generator.choice([1, 4, 64])):
            damaged[generator.randrange(len(data))] = generator.randrange(256)
        bad.write_bytes(damaged[:generator.choice([len(data), generator.randrange(len(data))])])
        try:
            vertices.read(bad)
        except vertices.Unreadable:
            refused += 1
    assert refused > rounds // 4
