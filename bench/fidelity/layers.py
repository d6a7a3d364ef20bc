"""Single layers against the IPU Model of poplibs: cycles and bytes of some two hundred benchmarks.

    python bench/fidelity/layers.py [--update FILE.md] [--set causes|held-out|all] [--each]

layers.csv has what poplibs' own regression tests expect of Graphcore's IPU Model of a GC2 and an
MK2 (tests/benchmark_results.csv of its last public versions), and the layers' sizes
(tests/CMakeLists.txt there). Every layer becomes an HLO module that does what the benchmark does
(docs/fidelity.md). `tremula plan` plans the module, and the result is compared. Half of the layers
are held out, by the parity of the CRC-32 of the name: we looked for causes in the others only. No
TensorFlow is needed.
"""

import argparse
import csv
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import zlib

from tool import find_tremula, replace_between

HERE = os.path.dirname(os.path.abspath(__file__))
MARKS = "<!-- layers: begin -->\n", "<!-- layers: end -->"
ADD = ("add {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n"
       "  ROOT s = {t}[] add(a, b)\n}}\n\n")
MAX = ADD.replace("add {{", "max {{").replace(" add(", " maximum(")


# ---- What each benchmark does, as HLO ------------------------------------------------------------

def _sizes(text):
    return [int(size) for size in text.split("x")]


def _dims(*sizes):
    return ",".join(str(size) for size in sizes)


def _update(dtype, shape, name):
    """new_<name> = <name> - rate * d<name>, in place."""
    return (f"  {name}_rate = {dtype}[] constant(0.5)\n"
            f"  {name}_rates = {dtype}[{shape}] broadcast({name}_rate), dimensions={{}}\n"
            f"  {name}_step = {dtype}[{shape}] multiply(d{name}, {name}_rates)\n"
            f"  new_{name} = {dtype}[{shape}] subtract({name}, {name}_step)\n")


def _add_bias(dtype, shape, channels, places):
    """y = product + bias; the channels are the dimensions `places` of the product."""
    return (f"  b = {dtype}[{channels}] parameter(3)\n"
            f"  biases = {dtype}[{shape}] broadcast(b), dimensions={{{places}}}\n"
            f"  y = {dtype}[{shape}] add(product, biases)\n")


def _update_layer(dtype, weights, channels, summed):
    """new_w and new_b. The bias's gradient is the sum of dy over the dimensions `summed`."""
    return (f"{_update(dtype, weights, 'w')}  zero = {dtype}[] constant(0)\n"
            f"  db = {dtype}[{channels}] reduce(dy, zero), dimensions={{{summed}}}, to_apply=add\n"
            f"{_update(dtype, channels, 'b')}")


def _layer(name, dtype, body):
    """A module whose outputs 2 and 3 update its parameters w, the second, and b, the fourth."""
    return (f"HloModule {name}, input_output_alias={{ {{2}}: (1, {{}}, may-alias), "
            f"{{3}}: (3, {{}}, may-alias) }}\n\n{ADD.format(t=dtype)}ENTRY main {{\n{body}}}\n")


def gemm(m, k, n):
    """C + A B, halves; C is updated."""
    m, k, n = int(m), int(k), int(n)
    return ("HloModule gemm, input_output_alias={ {}: (2, {}, may-alias) }\n\nENTRY main {\n"
            f"  a = f16[{m},{k}] parameter(0)\n  b = f16[{k},{n}] parameter(1)\n"
            f"  c = f16[{m},{n}] parameter(2)\n"
            f"  ab = f16[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}\n"
            f"  ROOT sum = f16[{m},{n}] add(c, ab)\n}}\n")


def fc(batch, inputs, outputs, groups, dtype):
    """Forward with a bias, backward, and the update of the weights and of the bias."""
    b, i, o, g = int(batch), int(inputs), int(outputs), int(groups)
    x, w, y = _dims(g, b, i), _dims(g, i, o), _dims(g, b, o)
    channels = _dims(g, o)
    group = "lhs_batch_dims={0}, rhs_batch_dims={0}"
    body = (f"  x = {dtype}[{x}] parameter(0)\n  w = {dtype}[{w}] parameter(1)\n"
            f"  dy = {dtype}[{y}] parameter(2)\n"
            f"  product = {dtype}[{y}] dot(x, w), {group}, lhs_contracting_dims={{2}}, "
            "rhs_contracting_dims={1}\n"
            f"{_add_bias(dtype, y, channels, '0,2')}"
            f"  dx = {dtype}[{x}] dot(dy, w), {group}, lhs_contracting_dims={{2}}, "
            "rhs_contracting_dims={2}\n"
            f"  dw = {dtype}[{w}] dot(x, dy), {group}, lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={1}\n"
            f"{_update_layer(dtype, w, channels, '1')}"
            f"  ROOT all = ({dtype}[{y}], {dtype}[{x}], {dtype}[{w}], {dtype}[{channels}]) "
            "tuple(y, dx, new_w, new_b)\n")
    return _layer("fc", dtype, body)


def _pads(text):
    sizes = _sizes(text)
    return sizes * 2 if len(sizes) == 1 else sizes


def conv(field, kernel, stride, before, after, inputs, outputs, groups, batch):
    """The same of a convolution of halves. Channels are those of a group."""
    field, kernel, lows, highs = _sizes(field), _sizes(kernel), _pads(before), _pads(after)
    s, i, o, g, b = int(stride), int(inputs), int(outputs), int(groups), int(batch)
    out = [(n + low + high - k) // s + 1 for n, k, low, high in zip(field, kernel, lows, highs)]
    forward, back, update = [], [], []
    for n, k, p, low, high in zip(field, kernel, out, lows, highs):
        spread = (p - 1) * s + 1
        forward.append(f"{low}_{high}")
        back.append(f"{k - 1 - low}_{n - spread - (k - 1 - low) + k - 1}")
        update.append(f"{low}_{k - 1 + spread - n - low}")
    x, w = _dims(b, *field, i * g), _dims(*kernel, i, o * g)
    y = _dims(b, *out, o * g)
    strides = f" stride={s}x{s}" if s > 1 else ""
    spreads = f" lhs_dilate={s}x{s}" if s > 1 else ""
    holes = f" rhs_dilate={s}x{s}" if s > 1 else ""
    group = f", feature_group_count={g}" if g > 1 else ""
    by_batch = f", batch_group_count={g}" if g > 1 else ""
    size = "x".join(str(k) for k in kernel)
    many = "x".join(str(p) for p in out)
    back_labels = "b01f_01io->b01f" if g > 1 else "b01f_01oi->b01f"  # groups: depthwise only
    assert g == 1 or i == o == 1
    body = (f"  x = f16[{x}] parameter(0)\n  w = f16[{w}] parameter(1)\n"
            f"  dy = f16[{y}] parameter(2)\n"
            f"  product = f16[{y}] convolution(x, w), "
            f"window={{size={size}{strides} pad={'x'.join(forward)}}}, "
            f"dim_labels=b01f_01io->b01f{group}, metadata={{op_type=\"Conv2D\"}}\n"
            f"{_add_bias('f16', y, o * g, '3')}"
            f"  turned = f16[{w}] reverse(w), dimensions={{0,1}}\n"
            f"  dx = f16[{x}] convolution(dy, turned), "
            f"window={{size={size} pad={'x'.join(back)}{spreads}}}, "
            f"dim_labels={back_labels}{group}, metadata={{op_type=\"Conv2DBackpropInput\"}}\n"
            f"  dw = f16[{w}] convolution(x, dy), "
            f"window={{size={many} pad={'x'.join(update)}{holes}}}, "
            f"dim_labels=f01b_i01o->01bf{by_batch}, metadata={{op_type=\"Conv2DBackpropFilter\"}}\n"
            f"{_update_layer('f16', w, o * g, '0,1,2')}"
            f"  ROOT all = (f16[{y}], f16[{x}], f16[{w}], f16[{o * g}]) "
            "tuple(y, dx, new_w, new_b)\n")
    return _layer("conv", "f16", body)


def pool(field, kernel, stride, padding, channels):
    """Max pooling of halves, 3 x 3, and its gradient."""
    n, m = _sizes(field)
    k, s, p, c = int(kernel), int(stride), int(padding), int(channels)
    x = _dims(1, n, m, c)
    y = _dims(1, (n + 2 * p - k) // s + 1, (m + 2 * p - k) // s + 1, c)
    window = (f"window={{size=1x{k}x{k}x1 stride=1x{s}x{s}x1 "
              f"pad=0_0x{p}_{p}x{p}_{p}x0_0}}")
    return ("HloModule pool\n\n" + MAX.format(t="f16") + ADD.format(t="f16") +
            "ge {\n  a = f16[] parameter(0)\n  b = f16[] parameter(1)\n"
            "  ROOT s = pred[] compare(a, b), direction=GE\n}\n\nENTRY main {\n"
            f"  x = f16[{x}] parameter(0)\n  dy = f16[{y}] parameter(1)\n"
            "  least = f16[] constant(-inf)\n  zero = f16[] constant(0)\n"
            f"  y = f16[{y}] reduce-window(x, least), {window}, to_apply=max, "
            "metadata={op_type=\"MaxPool\"}\n"
            f"  dx = f16[{x}] select-and-scatter(x, dy, zero), {window}, select=ge, scatter=add, "
            "metadata={op_type=\"MaxPoolGrad\"}\n"
            f"  ROOT all = (f16[{y}], f16[{x}]) tuple(y, dx)\n}}\n")


def reduce(shape, dims, operation, _tiles):
    """A reduction of halves, on an IPU of so many tiles; 0: of all."""
    shape, dims = _sizes(shape), _sizes(dims)
    left = _dims(*(n for d, n in enumerate(shape) if d not in dims))
    x = _dims(*shape)
    squared = f"  q = f16[{x}] multiply(x, x)\n" if operation == "squareadd" else ""
    function = "max" if operation == "max" else "add"
    return ("HloModule reduce\n\n" + (MAX if function == "max" else ADD).format(t="f16") +
            f"ENTRY main {{\n  x = f16[{x}] parameter(0)\n{squared}"
            f"  first = f16[] constant({'-inf' if function == 'max' else 0})\n"
            f"  ROOT r = f16[{left}] reduce({'q' if squared else 'x'}, first), "
            f"dimensions={{{_dims(*dims)}}}, to_apply={function}\n}}\n")


def embed(shape, indices):
    """A gather of rows of halves, and the addition of as many to the table."""
    rows, columns = _sizes(shape)
    n = int(indices)
    return ("HloModule embed, input_output_alias={ {1}: (0, {}, may-alias) }\n\n" +
            ADD.format(t="f16") + "ENTRY main {\n"
            f"  w = f16[{rows},{columns}] parameter(0)\n  i = s32[{n},1] parameter(1)\n"
            f"  d = f16[{n},{columns}] parameter(2)\n"
            f"  y = f16[{n},{columns}] gather(w, i), offset_dims={{1}}, "
            "collapsed_slice_dims={0}, "
            f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}\n"
            f"  new = f16[{rows},{columns}] scatter(w, i, d), update_window_dims={{1}}, "
            "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
            "to_apply=add\n"
            f"  ROOT all = (f16[{n},{columns}], f16[{rows},{columns}]) tuple(y, new)\n}}\n")


def _recurrent(name, steps, state, body):
    """A module that runs `body` for each step. state: (name, type) of the loop's values, of which
    those with a line "next_<name> = ..." in the body change; the last two are the results."""
    state = [("k", "s32[]"), *state]
    types = "(" + ", ".join(kind for _, kind in state) + ")"
    reads = "".join(f"  {one} = {kind} get-tuple-element(p), index={index}\n"
                    for index, (one, kind) in enumerate(state))
    body += "  next_k = s32[] add(k, one)\n"
    left = ", ".join(f"next_{one}" if f"  next_{one} = " in body else one for one, _ in state)
    made = [index for index, (one, _) in enumerate(state)
            if f"  next_{one} = " in body and one != "k"]
    inputs = "".join(f"  {one} = {kind} parameter({index - 1})\n"
                     for index, (one, kind) in enumerate(state) if index and index not in made)
    zeros = "".join(f"  {state[index][0]} = {state[index][1]} broadcast(zero), dimensions={{}}\n"
                    for index in made)
    last = len(state) - 1
    dtype = state[last][1].split("[")[0]
    return (f"HloModule {name}\n\nstep {{\n  p = {types} parameter(0)\n{reads}"
            f"  one = s32[] constant(1)\n  none = s32[] constant(0)\n{body}"
            f"  ROOT r = {types} tuple({left})\n}}\n\nmore {{\n  p = {types} parameter(0)\n"
            f"  k = s32[] get-tuple-element(p), index=0\n  n = s32[] constant({steps})\n"
            "  ROOT r = pred[] compare(k, n), direction=LT\n}\n\nENTRY main {\n"
            f"{inputs}  k = s32[] constant(0)\n  zero = {dtype}[] constant(0)\n{zeros}"
            f"  begin = {types} tuple({', '.join(one for one, _ in state)})\n"
            f"  end = {types} while(begin), condition=more, body=step\n"
            f"  a = {state[last - 1][1]} get-tuple-element(end), index={last - 1}\n"
            f"  b = {state[last][1]} get-tuple-element(end), index={last}\n"
            f"  ROOT all = ({state[last - 1][1]}, {state[last][1]}) tuple(a, b)\n}}\n")


def _columns(dtype, rows, size, index, of):
    return (f"{dtype}[{rows},{size}] slice({of}), "
            f"slice={{[0:{rows}], [{index * size}:{(index + 1) * size}]}}")


def _read_step(dtype, rows, size):
    return (f"  x1 = {dtype}[1,{rows},{size}] dynamic-slice(x, k, none, none), "
            f"dynamic_slice_sizes={{1,{rows},{size}}}\n"
            f"  x2 = {dtype}[{rows},{size}] reshape(x1)\n")


def _keep_step(dtype, rows, size, kept, value, into):
    return (f"  {into}1 = {dtype}[1,{rows},{size}] reshape({value})\n"
            f"  next_{into} = {kept} dynamic-update-slice({into}, {into}1, k, none, none)\n")


def lstm(batch, steps, inputs, outputs, dtype):
    """The forward pass of training, as the test runs it, with one product a step. It keeps gates,
    the cell and its tanh for a backward pass."""
    b, n, i, o, t = int(batch), int(steps), int(inputs), int(outputs), dtype
    v, g = f"{t}[{b},{o}]", f"{t}[{b},{4 * o}]"
    ys, kept = f"{t}[{n},{b},{o}]", f"{t}[{n},{b},{6 * o}]"
    gates = "".join(f"  s{index} = {_columns(t, b, o, index, 'sum')}\n"
                    f"  g{index} = {v} {'tanh' if index == 2 else 'logistic'}(s{index})\n"
                    for index in range(4))
    body = (f"{_read_step(t, b, i)}  xh = {t}[{b},{i + o}] concatenate(x2, h), dimensions={{1}}\n"
            f"  xw = {g} dot(xh, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
            f"  bb = {g} broadcast(bias), dimensions={{1}}\n  sum = {g} add(xw, bb)\n{gates}"
            f"  fc = {v} multiply(g0, c)\n  ig = {v} multiply(g1, g2)\n"
            f"  next_c = {v} add(fc, ig)\n  tc = {v} tanh(next_c)\n"
            f"  next_h = {v} multiply(g3, tc)\n"
            f"  parts = {t}[{b},{6 * o}] concatenate(g0, g1, g2, g3, tc, c), dimensions={{1}}\n"
            f"{_keep_step(t, b, 6 * o, kept, 'parts', 'kept')}"
            f"{_keep_step(t, b, o, ys, 'next_h', 'y')}")
    return _recurrent("lstm", n, [("x", f"{t}[{n},{b},{i}]"), ("w", f"{t}[{i + o},{4 * o}]"),
                                  ("bias", f"{t}[{4 * o}]"), ("h", v), ("c", v), ("kept", kept),
                                  ("y", ys)], body)


def gru(batch, steps, inputs, outputs, dtype):
    """The same for a GRU, with two products a step: of the gates, then of the candidate."""
    b, n, i, o, t = int(batch), int(steps), int(inputs), int(outputs), dtype
    v, g, joined = f"{t}[{b},{o}]", f"{t}[{b},{2 * o}]", f"{t}[{b},{i + o}]"
    ys, kept = f"{t}[{n},{b},{o}]", f"{t}[{n},{b},{3 * o}]"
    dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    body = (f"{_read_step(t, b, i)}  xh = {joined} concatenate(x2, h), dimensions={{1}}\n"
            f"  xw = {g} dot(xh, w), {dot}\n  bb = {g} broadcast(bias), dimensions={{1}}\n"
            f"  sum = {g} add(xw, bb)\n  both = {g} logistic(sum)\n"
            f"  gate = {_columns(t, b, o, 0, 'both')}\n  u = {_columns(t, b, o, 1, 'both')}\n"
            f"  rh = {v} multiply(gate, h)\n"
            f"  xr = {joined} concatenate(x2, rh), dimensions={{1}}\n"
            f"  xv = {v} dot(xr, v), {dot}\n"
            f"  cb = {v} broadcast(shift), dimensions={{1}}\n  xc = {v} add(xv, cb)\n"
            f"  c = {v} tanh(xc)\n  less = {v} subtract(h, c)\n  part = {v} multiply(u, less)\n"
            f"  next_h = {v} add(c, part)\n"
            f"  parts = {t}[{b},{3 * o}] concatenate(gate, u, c), dimensions={{1}}\n"
            f"{_keep_step(t, b, 3 * o, kept, 'parts', 'kept')}"
            f"{_keep_step(t, b, o, ys, 'next_h', 'y')}")
    return _recurrent("gru", n, [("x", f"{t}[{n},{b},{i}]"), ("w", f"{t}[{i + o},{2 * o}]"),
                                 ("v", f"{t}[{i + o},{o}]"), ("bias", f"{t}[{2 * o}]"),
                                 ("shift", f"{t}[{o}]"), ("h", v), ("kept", kept), ("y", ys)], body)


# The tests count variables, messages and vertices, no stacks; only the tool for convolutions has
# compiled code (docs/fidelity.md, "Errors that this comparison found").
STACKS = {"stack"}
CODE = {"controlCode", "vertexCode", "internalExchangeCode", "hostExchangeCode",
        "globalExchangeCode"}
KINDS = {"gemm": gemm, "fc": fc, "conv": conv, "pool": pool, "reduce": reduce, "embed": embed,
         "lstm": lstm, "gru": gru}


# ---- Planning and comparing ---------------------------------------------------------------------

@dataclasses.dataclass
class Point:
    """One layer on one machine."""
    kind: str
    name: str
    target: str
    held_out: bool
    cycles: int       # published
    bytes: int
    our_cycles: int
    our_bytes: int


def is_held_out(name):
    return zlib.crc32(name.encode()) % 2 == 1


# The IPU Model of the tests had an MK2's tiles and memory, but eight of its sixteen units:
# docs/fidelity.md tells how that shows.
UNITS = ("fp16InFp16OutConvUnitsPerTile", "fp16InFp32OutConvUnitsPerTile",
         "fp32InFp32OutConvUnitsPerTile")


def keep_inputs(module):
    """The module with inputs that stay on the IPU. poplibs' tools have an engine's program for the
    upload, one or more for the layer, and one for the download: what a program reads that another
    one has written is always live."""
    first, rest = module.split("\n", 1)
    count = rest[rest.index("ENTRY"):].count(" parameter(")
    table = json.dumps({"inputs": [f"input{k}" for k in range(count)], "arguments": 0})
    return f"{first}, frontend_attributes={{tremula_side_table={json.dumps(table)}}}\n{rest}"


def plan_arguments(module, folder, tiles=0, code=True):
    """The arguments with which `tremula` plans a module for both machines, writing into a folder.
    `tiles` of each IPU; 0: all. poplibs' tools have none of the steps that TensorFlow adds, and run
    one pass after the other."""
    path, machine = os.path.join(folder, "layer.hlo"), os.path.join(folder, "mk2.json")
    with open(machine, "w", encoding="utf-8") as file:
        json.dump({"base": "mk2", "name": "mk2-8", **{key: 8 for key in UNITS}}, file)
    with open(path, "w", encoding="utf-8") as file:
        file.write(keep_inputs(module))
    return ["plan", path, "--json", "--target", f"mk1,{machine}",
            "--option", f"compile_ipu_code={'true' if code else 'false'}",
            "--option", f"tiles_per_ipu={tiles}", "--option", "framework_steps=off",
            "--option", "post_order_scheduler=true"]


def counts_code(kind):
    return kind == "conv"


def counted_bytes(kind, case):
    """The bytes of a planned case that the test of such a layer counts."""
    left_out = STACKS if counts_code(kind) else STACKS | CODE
    return sum(size for category, size in case["memory"]["by_category"].items()
               if category not in left_out)


def plan(module, folder, tiles=0, code=True):
    """The cases of both machines."""
    done = subprocess.run([find_tremula(), *plan_arguments(module, folder, tiles, code)],
                          capture_output=True, text=True, check=False,
                          env={"TREMULA_PYTHON": sys.executable, **os.environ})
    if done.returncode not in (0, 3):
        sys.exit(f"{module}\n{done.stderr}")
    return json.loads(done.stdout)["cases"]


def measure(which):
    """The points of a set: "causes", "held-out" or "all"."""
    points = []
    with open(os.path.join(HERE, "layers.csv"), encoding="utf-8") as file, \
            tempfile.TemporaryDirectory() as folder:
        for row in csv.DictReader(file):
            held_out = is_held_out(row["name"])
            if row["kind"] not in KINDS or which != "all" and held_out != (which == "held-out"):
                continue
            arguments = row["arguments"].split()
            module = KINDS[row["kind"]](*arguments)
            tiles = int(arguments[3]) if row["kind"] == "reduce" else 0
            for target, case in zip(("mk1", "mk2"), plan(module, folder, tiles)):
                if not row[f"{target}_cycles"] or "cycles" not in case:
                    continue
                cycles = case["cycles"]
                points.append(Point(row["kind"], row["name"], target, held_out,
                                    int(row[f"{target}_cycles"]), int(row[f"{target}_bytes"]),
                                    cycles["total"] - cycles["host"],
                                    counted_bytes(row["kind"], case)))
    return points


def _line(points, ours, published):
    errors = [ours(p) / published(p) - 1 for p in points]
    mean = sum(errors) / len(errors)
    size = sum(abs(e) for e in errors) / len(errors)
    worst = max(errors, key=abs)
    return f"{100 * mean:+.0f} % | {100 * size:.0f} % | {100 * worst:+.0f} %"


def group_of(point, arguments):
    """The table's row that a point is in."""
    if point.kind == "conv":
        fields = arguments.split()
        if int(fields[7]) > 1:
            return "depthwise convolutions, all passes"
        return ("pointwise convolutions, all passes" if fields[1] == "1x1"
                else "convolutions with kernels, all passes")
    if point.kind == "fc":
        return ("dense layers of BERT, all passes" if point.name.startswith("bert_")
                else "small dense layers, all passes")
    return {"gemm": "matmul and addition", "pool": "max pooling and its gradient",
            "reduce": "reductions", "embed": "embedding lookups and updates",
            "lstm": "LSTM, forward", "gru": "GRU, forward"}[point.kind]


def table(points):
    """Errors by group, machine and set, as a table."""
    with open(os.path.join(HERE, "layers.csv"), encoding="utf-8") as file:
        arguments = {row["name"]: row["arguments"] for row in csv.DictReader(file)}
    groups = {}
    for point in points:
        groups.setdefault(group_of(point, arguments[point.name]), []).append(point)
    lines = ["| | machine | set | n | cycles: mean error | mean absolute | worst "
             "| bytes: mean error | mean absolute | worst |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for name, members in [*groups.items(), ("all", points)]:
        for target in ("mk1", "mk2"):
            for held_out in (False, True):
                some = [p for p in members if p.target == target and p.held_out == held_out]
                if some:
                    cycles = _line(some, lambda p: p.our_cycles, lambda p: p.cycles)
                    size = _line(some, lambda p: p.our_bytes, lambda p: p.bytes)
                    lines.append(f"| {name} | {target} | {'held out' if held_out else 'causes'} | "
                                 f"{len(some)} | {cycles} | {size} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="layers against the IPU Model of poplibs")
    parser.add_argument("--update", metavar="FILE.md")
    parser.add_argument("--set", choices=("causes", "held-out", "all"), default="all")
    parser.add_argument("--each", action="store_true", help="every layer, too")
    arguments = parser.parse_args()
    points = measure(arguments.set)
    if arguments.each:
        for p in points:
            print(f"{p.target} {p.name}: cycles {p.cycles} {p.our_cycles} "
                  f"{100 * (p.our_cycles / p.cycles - 1):+.0f} %, bytes {p.bytes} {p.our_bytes} "
                  f"{100 * (p.our_bytes / p.bytes - 1):+.0f} %")
    text = table(points)
    print(text, end="")
    if arguments.update:
        replace_between(arguments.update, MARKS, text)


if __name__ == "__main__":
    main()
