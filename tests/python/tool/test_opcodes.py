"""docs/hlo_opcodes.md: which kernels compute which opcode, as a program of each type finds them.

python tests/python/tool/test_opcodes.py writes the page anew."""

import pathlib
import re

from tremula import core

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/hlo_opcodes.md"
ROW = re.compile(r'^(OPCODE|ELEMENTWISE)\((\w+), "([\w-]+)", (-?\d+), (\w+),(.*?)\)$',
                 re.MULTILINE | re.DOTALL)
TYPES = ["pred", "s4", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f8e4m3fn", "f8e5m2",
         "f16", "bf16", "f32", "f64", "c64", "c128"]

# Programs of one instruction each: the shape of the result, the operands, the attributes; T is the
# type that is tried, SUM a computation that adds, LESS and MORE ones that compare.
GATHER = ("offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
          "slice_sizes={1,4}")
SCATTER = ("update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
           "index_vector_dim=1, to_apply=SUM")
WINDOW = "window={size=2x2 stride=1x1}, "
ALL = "replica_groups={}, "
SAMPLES = {
    "all-gather": ("T[4,6]", ["T[4,6]"], ALL + "dimensions={0}"),
    "all-reduce": ("T[4,6]", ["T[4,6]"], ALL + "to_apply=SUM"),
    "all-to-all": ("T[4,6]", ["T[4,6]"], ALL + "dimensions={0}"),
    "batch-norm-grad": ("(T[2,3,3,4], T[4], T[4])",
                        ["T[2,3,3,4]", "T[4]", "T[4]", "T[4]", "T[2,3,3,4]"],
                        "epsilon=0.001, feature_index=3"),
    "batch-norm-inference": ("T[2,3,3,4]", ["T[2,3,3,4]", "T[4]", "T[4]", "T[4]", "T[4]"],
                             "epsilon=0.001, feature_index=3"),
    "batch-norm-training": ("(T[2,3,3,4], T[4], T[4])", ["T[2,3,3,4]", "T[4]", "T[4]"],
                            "epsilon=0.001, feature_index=3"),
    "bitcast": ("T[4,6]", ["T[4,6]"], ""),
    "bitcast-convert": ("T[4,6]", ["T[4,6]"], ""),
    "broadcast": ("T[4,6]", ["T[6]"], "dimensions={1}"),
    "cholesky": ("T[4,4]", ["T[4,4]"], "lower=true"),
    "clamp": ("T[4,6]", ["T[]", "T[4,6]", "T[]"], ""),
    "collective-broadcast": ("T[4,6]", ["T[4,6]"], "replica_groups={{0}}"),
    "collective-permute": ("T[4,6]", ["T[4,6]"], "source_target_pairs={{0,0}}"),
    "compare": ("pred[4,6]", ["T[4,6]", "T[4,6]"], "direction=EQ"),
    "complex": ("COMPLEX[4,6]", ["T[4,6]", "T[4,6]"], ""),
    "concatenate": ("T[8,6]", ["T[4,6]", "T[4,6]"], "dimensions={0}"),
    "convert": ("f32[4,6]", ["T[4,6]"], ""),
    "convolution": ("T[2,5,5,4]", ["T[2,6,6,3]", "T[2,2,3,4]"],
                    WINDOW + "dim_labels=b01f_01io->b01f"),
    "dot": ("T[4,5]", ["T[4,6]", "T[6,5]"], "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "dynamic-slice": ("T[2,3]", ["T[4,6]", "s32[]", "s32[]"], "dynamic_slice_sizes={2,3}"),
    "dynamic-update-slice": ("T[4,6]", ["T[4,6]", "T[2,3]", "s32[]", "s32[]"], ""),
    "fft": ("FFT[4,8]", ["FFT[4,8]"], "fft_type=FFT, fft_length={8}"),
    "fusion": ("T[4,6]", ["T[4,6]"], "kind=kLoop, calls=TWICE"),
    "gather": ("T[5,4]", ["T[9,4]", "s32[5]"], GATHER),
    "get-dimension-size": ("s32[]", ["T[4,6]"], "dimensions={0}"),
    "imag": ("PART[4,6]", ["T[4,6]"], ""),
    "iota": ("T[8]", [], "iota_dimension=0"),
    "is-finite": ("pred[4,6]", ["T[4,6]"], ""),
    "map": ("T[4,6]", ["T[4,6]", "T[4,6]"], "dimensions={0,1}, to_apply=SUM"),
    "pad": ("T[6,6]", ["T[4,6]", "T[]"], "padding=1_1x0_0"),
    "partition-id": ("u32[]", [], ""),
    "ragged-all-to-all": ("T[4,6]", ["T[4,6]", "T[4,6]"] + 4 * ["s32[1]"], ALL[:-2]),
    "real": ("PART[4,6]", ["T[4,6]"], ""),
    "reduce": ("T[4]", ["T[4,6]", "T[]"], "dimensions={1}, to_apply=SUM"),
    "reduce-precision": ("T[4,6]", ["T[4,6]"], "exponent_bits=5, mantissa_bits=2"),
    "reduce-scatter": ("T[4,6]", ["T[4,6]"], ALL + "dimensions={0}, to_apply=SUM"),
    "reduce-window": ("T[3,5]", ["T[4,6]", "T[]"], WINDOW + "to_apply=SUM"),
    "replica-id": ("u32[]", [], ""),
    "reshape": ("T[24]", ["T[4,6]"], ""),
    "reverse": ("T[4,6]", ["T[4,6]"], "dimensions={0}"),
    "rng": ("T[4,6]", ["T[]", "T[]"], "distribution=rng_uniform"),
    "rng-bit-generator": ("(u64[2], T[4,6])", ["u64[2]"], "algorithm=rng_three_fry"),
    "scatter": ("T[9,4]", ["T[9,4]", "s32[5]", "T[5,4]"], SCATTER),
    "select": ("T[4,6]", ["pred[4,6]", "T[4,6]", "T[4,6]"], ""),
    "select-and-scatter": ("T[2,8,8,4]", ["T[2,8,8,4]", "T[2,4,4,4]", "T[]"],
                           "window={size=1x2x2x1 stride=1x2x2x1}, select=MORE, scatter=SUM"),
    "set-dimension-size": ("T[4,6]", ["T[4,6]", "s32[]"], "dimensions={0}"),
    "slice": ("T[2,6]", ["T[4,6]"], "slice={[0:4:2], [0:6]}"),
    "sort": ("T[4,64]", ["T[4,64]"], "dimensions={1}, to_apply=LESS"),
    "topk": ("(T[4,3], s32[4,3])", ["T[4,64]"], "k=3, largest=true"),
    "transpose": ("T[6,4]", ["T[4,6]"], "dimensions={1,0}"),
    "triangular-solve": ("T[4,4]", ["T[4,4]", "T[4,4]"],
                         "left_side=true, lower=true, unit_diagonal=false, "
                         "transpose_a=NO_TRANSPOSE"),
}
# What no kernel computes: who does, or why nobody can on an IPU.
ENGINE = "the engine runs it"
HALF = "one half of an asynchronous instruction: both are computed as one"
OTHER_DEVICE = ("refused: there is no other device to send to; a program is compiled for all its "
                "IPUs together")
REASONS = {
    "add-dependency": "a pass takes it out: the order stays",
    "after-all": "orders, and computes nothing",
    "call": "a pass writes the called computation in its place",
    "conditional": ENGINE, "while": ENGINE, "constant": "a value of the program",
    "parameter": "an input", "tuple": "names values", "get-tuple-element": "names a value",
    "domain": "a pass takes it out: the operand is the value",
    "opt-barrier": "a pass takes it out after the passes that it keeps apart",
    "infeed": "the engine runs it, as the infeed that its `infeed_config` names",
    "outfeed": "the engine runs it, as the outfeed that its `outfeed_config` names",
    "send": OTHER_DEVICE, "send-done": OTHER_DEVICE, "recv": OTHER_DEVICE,
    "recv-done": OTHER_DEVICE,
    "ragged-dot": "a pass makes a `while` of it, whose iterations are dots of rows of one group",
    "dynamic-reshape": "a pass makes a `reshape` of it, where only first dimensions are dynamic",
    "rng-get-and-update-state": "refused: the state would be shared by all programs of a process; "
                                "`rng-bit-generator` has its state as operand",
    "scaled-dot": "a pass makes a dot of scaled operands of it",
    "scan": "a pass makes a `while` of it",
    "shuffle": "a pass makes slices or a `gather` of it",
    "collective-reduce": "a pass makes an `all-reduce` of it: every replica gets the result",
    "stochastic-convert": "a pass compares fractions with the random bits; results of 64 bits and "
                          "floats are refused",
}
REASONS.update(dict.fromkeys(
    ["all-gather-start", "all-gather-done", "all-reduce-start", "all-reduce-done", "async-start",
     "async-update", "async-done", "collective-permute-start", "collective-permute-done",
     "copy-start", "copy-done"], HALF))
ALIKE = {"atan": ("atan2", 2, "BINARY")}  # a pass makes one the other
PARTS = {"c64": "f32", "c128": "f64"}
HEAD = """# HLO opcodes

Every opcode of XLA, the kernels that compute it on the CPU, and the types that each kernel takes.
A *fast* kernel is the one that a program gets; the *reference* kernel is what the tests compare
with, and what computes where no fast one does. `tremula run --times` shows which kernel each
instruction of a program has.

The table was made by compiling a small program of each opcode and type. A fast kernel may leave
rare forms of an opcode to the reference kernel; [design/engine.md](design/engine.md) tells which.

"""
TAIL = """
An IPU computes float16 and float32, integers of 8, 16 and 32 bits and booleans. Programs with the
other types run here, and the plan counts them as [tools.md](tools.md#hlo) says.
"""


def opcodes():
    """(name, number of operands, class, rest of the row) of each opcode."""
    text = (ROOT / "src/hlo/opcodes.def").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return [(name, int(arity), kind, elementwise == "ELEMENTWISE" or "NO_KERNEL" not in rest)
            for elementwise, _, name, arity, kind, rest in ROW.findall(text)]


def program(result, operands, opcode, attributes, dtype):
    """The text of a program of one instruction."""
    complex_of = {"f32": "c64", "f64": "c128"}.get(dtype)
    if ("COMPLEX" in result and complex_of is None) or ("PART" in result and dtype not in PARTS):
        return None
    if "FFT" in result and dtype not in PARTS:
        return None

    def typed(shape):
        shape = shape.replace("COMPLEX", complex_of or "").replace("FFT", dtype)
        return re.sub(r"\bT\b", dtype, shape.replace("PART", PARTS.get(dtype, "")))

    lines = [f"  p{i} = {typed(shape)} parameter({i})" for i, shape in enumerate(operands)]
    names = ", ".join(f"p{i}" for i in range(len(operands)))
    add = "or" if dtype == "pred" else "add"
    direction = "EQ" if dtype in PARTS else "LT"
    attributes = f", {attributes}" if attributes else ""
    lines += [f"  ROOT r = {typed(result)} {opcode}({names}){attributes}"]
    called = []
    for name, wanted, root in (("SUM", dtype, f"{add}(a, b)"),
                               ("MORE", "pred", "compare(a, b), direction=GE"),
                               ("LESS", "pred", f"compare(a, b), direction={direction}")):
        if name in attributes:
            called.append(f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
                          f"  ROOT s = {wanted}[] {root}\n}}")
    if "TWICE" in attributes:
        called.append(f"TWICE {{\n  a = {dtype}[4,6] parameter(0)\n"
                      f"  ROOT s = {dtype}[4,6] {add}(a, a)\n}}")
    body = "\n".join(lines)
    return "HloModule one\n" + "\n".join(called) + f"\nENTRY main {{\n{body}\n}}\n"


def kernel_of(text, **options):
    """The kernel of a program of one instruction; None where it is refused."""
    try:
        engine = core.Engine(core.compile(core.Module.read(text), **options))
    except core.TremulaError:
        return None
    engine.time_steps()
    row = engine.print_times().splitlines()[1]
    return row.split()[2] if row else "nothing"


def sample_of(name, arity, kind):
    if name in SAMPLES:
        return SAMPLES[name]
    assert kind in ("UNARY", "BINARY") or name == "copy", f"{name} needs a sample"
    return "T[4,6]", ["T[4,6]"] * arity, ""


def short(found):
    """Types as a text: runs of those that belong together are named once."""
    groups = (("s8..s64", TYPES[2:6]), ("u8..u64", TYPES[6:10]), ("f8", TYPES[10:12]),
              ("c64, c128", TYPES[16:]))
    words = []
    for dtype in TYPES:
        name = next((name for name, members in groups
                     if dtype in members and set(members) <= set(found)), dtype)
        if dtype in found and name not in words:
            words.append(name)
    return "all" if set(found) == set(TYPES) else ", ".join(words)


def kernels(name, arity, kind):
    """{kernel: types} of the default compilation, and of reference code."""
    result, operands, attributes = sample_of(name, arity, kind)
    fast, reference = {}, {}
    any_type = "T" not in re.sub("FFT|PART", "T", "".join([result, *operands]))
    for dtype in ["f32"] if any_type else TYPES:
        text = program(result, operands, name, attributes, dtype)
        if text is None:
            continue
        for found, options in ((fast, {"optimise": False}),
                               (reference, {"optimise": False, "reference": True})):
            kernel = kernel_of(text, **options)
            if kernel is not None:
                found.setdefault(kernel, []).append("-" if any_type else dtype)
    return fast, reference


def cell(found, keep):
    return "; ".join(f"`{kernel}`: {'-' if types == ['-'] else short(types)}".replace(": -", "")
                     for kernel, types in found.items() if keep(kernel)) or "-"


def page():
    rows = ["| opcode | fast kernel: types | reference kernel: types |", "|---|---|---|"]
    nobody = ["", "These have no kernel:", "", "| opcode | why |", "|---|---|"]
    for name, arity, kind, has_kernel in opcodes():
        if name == "custom-call":
            continue
        if not has_kernel:
            nobody.append(f"| {name} | {REASONS[name]} |")
            continue
        fast, reference = kernels(*ALIKE.get(name, (name, arity, kind)))
        assert reference, f"nothing computes {name}"
        rows.append(f"| {name} | {cell(fast, lambda one: not one.startswith('reference.'))} | "
                    f"{cell(reference, lambda one: True)} |")
    return HEAD + "\n".join(rows + nobody) + "\n" + TAIL


def test_the_page_is_current():
    assert PAGE.read_text() == page(), "run python tests/python/tool/test_opcodes.py"


def test_every_opcode_without_a_kernel_has_a_reason():
    without = {name for name, _, _, has_kernel in opcodes() if not has_kernel}
    assert without == set(REASONS) and len(opcodes()) > 120


if __name__ == "__main__":
    PAGE.write_text(page())
