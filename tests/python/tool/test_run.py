"""tremula run: inputs, outputs, feeds, .npy files."""

import struct

import numpy as np
import pytest

SUM = """HloModule sum

ENTRY main {
  x = f32[2,3] parameter(0)
  y.4 = f32[3] parameter(1)
  wide = f32[2,3] broadcast(y.4), dimensions={1}
  ROOT s = f32[2,3] add(x, wide)
}
"""

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.array([1, 2, 3], np.float32)


def copy(dtype, shape="2,3"):
    return f"""HloModule copy

ENTRY main {{
  x = {dtype}[{shape}] parameter(0)
  ROOT y = {dtype}[{shape}] copy(x)
}}
"""


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["y.4", "y", "1"])
def test_inputs_by_name_and_number(tool, name):
    program = tool.compile(SUM)
    tool.save("x.npy", X)
    tool.save("y.npy", Y)
    tool.ok("run", program, "--input", "x=x.npy", "--input", f"{name}=y.npy", "--output", "out")
    np.testing.assert_array_equal(tool.load("out/output0.npy"), X + Y)


def test_what_is_wrong_with_an_input_is_said(tool):
    program = tool.compile(SUM)
    tool.save("x.npy", X)
    tool.save("y.npy", Y.astype(np.float64))
    tool.save("z.npy", X.T)

    def message(*inputs):
        given = [one for text in inputs for one in ("--input", text)]
        return tool.fails("run", program, *given)

    assert message("x=x.npy") == ("the input 'y.4' (number 1, f32[3]) is missing: give it with "
                                  "--input y.4=FILE.npy")
    assert message("x=x.npy", "y=y.npy") == "the input 'y.4' is f32[3], but y.npy holds f64[3]"
    assert message("x=z.npy") == "the input 'x' is f32[2,3], but z.npy holds f32[3,2]"
    assert message("q=x.npy") == ("there is no input 'q'. The inputs are: x f32[2,3], y.4 f32[3]")
    assert message("2=x.npy").startswith("there is no input '2'")
    assert message("x=x.npy", "0=x.npy") == "the input '0' is given twice"
    assert message("x") == "--input wants NAME=FILE.npy, not 'x'"
    assert message("x=none.npy") == "cannot open none.npy: No such file or directory"
    assert message("x=.").startswith("cannot read .: ")


TYPES = {"f16": "<f2", "f32": "<f4", "f64": "<f8", "s8": "|i1", "s16": "<i2", "s32": "<i4",
         "s64": "<i8", "u8": "|u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "pred": "|b1"}


@pytest.mark.parametrize("dtype", TYPES)
def test_types_go_through_unchanged(tool, dtype):
    values = np.array([[0, 1, 2], [100, 0, 1]]).astype(TYPES[dtype])
    program = tool.compile(copy(dtype))
    tool.save("c.npy", values)
    tool.save("f.npy", np.asfortranarray(values))
    assert b"'fortran_order': True" in (tool.folder / "f.npy").read_bytes()
    for file in ("c.npy", "f.npy"):
        tool.ok("run", program, "--input", f"x={file}", "--output", "out")
        result = tool.load("out/output0.npy")
        assert result.dtype == values.dtype
        np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(tool, version):
    with open(tool.folder / "x.npy", "wb") as file:
        np.lib.format.write_array(file, X, version=version)
    program = tool.compile(copy("f32"))
    tool.ok("run", program, "--input", "x=x.npy", "--output", "out")
    np.testing.assert_array_equal(tool.load("out/output0.npy"), X)


@pytest.mark.parametrize("shape", ["", "0", "4,0,2", "1,2,3,4,5"])
def test_shapes(tool, shape):
    dims = [int(size) for size in shape.split(",") if size]
    values = np.asarray(np.random.RandomState(1).randn(*dims), np.float32, order="F")
    program = tool.compile(copy("f32", shape))
    np.save(tool.folder / "x.npy", values)
    tool.ok("run", program, "--input", "x=x.npy", "--output", "out")
    np.testing.assert_array_equal(tool.load("out/output0.npy"), values)


def npy(header, data=b"", version=1, length=None):
    header = header.encode()
    size = len(header) if length is None else length
    return (b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size)
            + header + data)


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"


@pytest.mark.parametrize("content, message", [
    (b"", "is not a .npy file"),
    (b"PK\x03\x04 an .npz has this", "is not a .npy file"),
    (npy(GOOD, bytes(24), version=9), "version 9.0"),
    (npy(GOOD, bytes(23)), "23 bytes follow a header that states f32[2,3]"),
    (npy(GOOD, bytes(25)), "25 bytes follow"),
    (npy(GOOD, length=60000), "its header is not all there"),
    (npy(GOOD, version=2, length=2**32 - 1), "its header is not all there"),
    (npy(GOOD.replace("<f4", ">f4"), bytes(24)), "big-endian"),
    (npy(GOOD.replace("<f4", "<U4"), bytes(24)), "NumPy type '<U4'"),
    (npy(GOOD.replace("<f4", "|O"), bytes(24)), "NumPy type '|O'"),
    (npy(GOOD.replace("'<f4'", "[('a', '<f4')]"), bytes(24)), "header that is not understood"),
    (npy(GOOD.replace("(2, 3)", "(2, -3)"), bytes(24)), "header that is not understood"),
    (npy(GOOD.replace("(2, 3)", "(" + "1, " * 40 + ")"), bytes(24)), "header that is not"),
    (npy(GOOD.replace("2, 3", "4611686018427387904, 4"), b""), "0 bytes follow"),
    (npy(GOOD.replace("2, 3", "9" * 30), b""), "header that is not understood"),
    (npy("{'descr': '<f4'}", bytes(24)), "header that is not understood"),
    (npy("{'descr': '<f4", bytes(24)), "header that is not understood"),
])
def test_broken_files(tool, content, message):
    program = tool.compile(copy("f32"))
    (tool.folder / "x.npy").write_bytes(content)
    text = tool.fails("run", program, "--input", "x=x.npy")
    assert message in text and "x.npy" in text


def test_mutated_files_never_crash(tool):
    """Any bytes give a result or a message."""
    program = tool.compile(copy("f32"))
    tool.save("x.npy", np.asfortranarray(X))
    good = (tool.folder / "x.npy").read_bytes()
    random = np.random.RandomState(7)
    for _ in range(120):
        data = bytearray(good)
        for _ in range(random.randint(1, 4)):
            data[random.randint(len(data) if random.rand() < 0.2 else 70)] = random.randint(256)
        (tool.folder / "x.npy").write_bytes(data[:random.randint(1, len(data) + 1)]
                                            if random.rand() < 0.3 else data)
        result = tool("run", program, "--input", "x=x.npy")
        assert result.returncode in (0, 1), result.stderr
        assert result.returncode == 0 or len(result.stderr.splitlines()) == 1


# ---- Results as text ----

def shown(tool, values, dtype):
    shape = ",".join(map(str, values.shape))
    program = tool.compile(copy(dtype, shape))
    tool.save("x.npy", values)
    text = tool.ok("run", program, "--input", "x=x.npy")
    first, _, rest = text.partition("\n")
    assert first == f"output0 = {dtype}[{shape}]"
    return rest


def test_small_results_are_shown_whole(tool):
    assert shown(tool, X, "f32") == "[[0. 1. 2.]\n [3. 4. 5.]]\n"
    assert shown(tool, np.float32(1 / 3), "f32") == "0.33333334\n"
    assert shown(tool, np.array([1 / 3, -65504, 1e-7], np.float16), "f16") == (
        "[   0.3333   -65504. 1.192e-07]\n")
    assert shown(tool, np.array([True, False]), "pred") == "[ True False]\n"
    assert shown(tool, np.array([-128, 127], np.int8), "s8") == "[-128  127]\n"
    assert shown(tool, np.array([2**64 - 1], np.uint64), "u64") == "[18446744073709551615]\n"
    assert shown(tool, np.array([np.nan, np.inf, -np.inf, -0.0], np.float32), "f32") == (
        "[ nan  inf -inf  -0.]\n")
    assert shown(tool, np.zeros((2, 0), np.float32), "f32") == "[]\n"
    assert shown(tool, np.arange(8, dtype=np.int32).reshape(2, 2, 2), "s32") == (
        "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]\n")


def test_floats_are_shown_exactly(tool):
    values = np.random.RandomState(3).randn(50).astype(np.float32)
    values *= (10.0 ** np.arange(-25, 25)).astype(np.float32)
    text = shown(tool, values, "f32")
    read = np.array([np.float32(word) for word in text.strip("[]\n").split()])
    np.testing.assert_array_equal(read, values)
    assert all(len(line) <= 79 for line in text.splitlines())


def test_large_results_are_elided(tool):
    text = shown(tool, np.arange(10000, dtype=np.int32).reshape(100, 100), "s32")
    assert text == """\
[[   0    1    2 ...   97   98   99]
 [ 100  101  102 ...  197  198  199]
 [ 200  201  202 ...  297  298  299]
 ...
 [9700 9701 9702 ... 9797 9798 9799]
 [9800 9801 9802 ... 9897 9898 9899]
 [9900 9901 9902 ... 9997 9998 9999]]
"""


# ---- Several runs ----

def test_repeat_carries_variables_over(tool):
    program = tool.compile("""HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  w = f32[2] parameter(0)
  x = f32[2] parameter(1)
  next = f32[2] add(w, x)
  twice = f32[2] add(x, x)
  ROOT r = (f32[2], f32[2]) tuple(next, twice)
}
""")
    tool.save("w.npy", np.array([1, 10], np.float32))
    tool.save("x.npy", np.array([1, 2], np.float32))
    result = tool("run", program, "--input", "w=w.npy", "--input", "x=x.npy", "--repeat", "5",
                  "--times", "--output", "out")
    assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(tool.load("out/output0.npy"), [6, 20])
    np.testing.assert_array_equal(tool.load("out/output1.npy"), [2, 4])
    assert result.stderr.startswith("5 runs: the fastest ") and "kernel" in result.stderr


# ---- Feeds ----

FED = r"""HloModule feeds

cond {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(6)
  ROOT lt = pred[] compare(i, n), direction=LT
}

body {
  p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[] get-tuple-element(p), index=1
  in = (f32[], s32[2]) custom-call(), custom_call_target="tremula.infeed", custom_call_has_side_effect=true, backend_config="{\"feed\":\"data\"}"
  x = f32[] get-tuple-element(in), index=0
  v = s32[2] get-tuple-element(in), index=1
  sum = f32[] add(a, x)
  out = () custom-call(sum, v), custom_call_target="tremula.outfeed", custom_call_has_side_effect=true, backend_config="{\"feed\":\"losses\"}"
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[]) tuple(next, sum)
}

ENTRY main {
  start = f32[] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[]) tuple(zero, start)
  loop = (s32[], f32[]) while(init), condition=cond, body=body
  ROOT total = f32[] get-tuple-element(loop), index=1
}
"""


@pytest.mark.smoke
def test_feeds(tool):
    program = tool.compile(FED)
    data, pairs = np.arange(20, dtype=np.float32), np.arange(40, dtype=np.int32).reshape(20, 2)
    tool.save("s.npy", np.float32(0.5))
    tool.save("d.npy", data)
    tool.save("v.npy", pairs)
    tool.save("short.npy", data[:3])
    tool.save("short_v.npy", pairs[:3])
    run = ["run", program, "--input", "start=s.npy"]
    tool.ok(*run, "--infeed", "data=d.npy,v.npy", "--repeat", "3", "--output", "out")
    expected = np.concatenate([0.5 + np.cumsum(data[i:i + 6]) for i in (0, 6, 12)])
    np.testing.assert_array_equal(tool.load("out/losses_0.npy"), expected)
    np.testing.assert_array_equal(tool.load("out/losses_1.npy"), pairs[:18])

    assert tool.fails(*run, "--infeed", "data=short.npy,short_v.npy").startswith(
        "the infeed 'data' has no element left: its files have 3, and the program reads more")
    assert "3 and 20 elements" in tool.fails(*run, "--infeed", "data=short.npy,v.npy")
    assert "has 2 arrays, but 1 file is given" in tool.fails(*run, "--infeed", "data=d.npy")
    assert "give it with --infeed data=FILE.npy[,FILE.npy]" in tool.fails(*run)
    assert "no infeed 'losses'" in tool.fails(*run, "--infeed", "losses=d.npy")
    assert "holds s32[20,2]" in tool.fails(*run, "--infeed", "data=v.npy,d.npy")
    assert "given twice" in tool.fails(*run, "--infeed", "data=d.npy,v.npy", "--infeed",
                                       "data=d.npy,v.npy")
