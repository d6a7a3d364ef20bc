"""tremula plan of HLO: exit codes, JSON, sweeps, shards, messages."""

import itertools
import json
import re

import pytest

CONVOLUTION = """HloModule conv

ENTRY main {
  x = f16[4,56,56,64] parameter(0)
  k = f16[3,3,64,128] parameter(1)
  ROOT y = f16[4,56,56,128] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, metadata={op_type="Conv2D" op_name="a/Conv2D"}
}
"""
PARAMETERS = 3 * 3 * 64 * 128

# Four dense layers, the last two larger than the first two.
LAYERS = """HloModule layers

ENTRY main {
  x = f32[32,512] parameter(0)
  w0 = f32[512,512] parameter(1)
  w1 = f32[512,512] parameter(2)
  w2 = f32[512,2048] parameter(3)
  w3 = f32[2048,512] parameter(4)
  h0 = f32[32,512] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="net/one/MatMul"}
  h1 = f32[32,512] dot(h0, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="net/two/MatMul"}
  h2 = f32[32,2048] dot(h1, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="net/three/MatMul"}
  ROOT h3 = f32[32,512] dot(h2, w3), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="net/four/MatMul"}
}
"""

SHARDED = """HloModule sharded

ENTRY main {
  x = f32[8] parameter(0)
  a = f32[8] add(x, x), sharding={maximal device=0}
  ROOT b = f32[8] multiply(a, a), sharding={maximal device=1}
}
"""


FED = """HloModule fed

cond {
  s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(100)
  ROOT less = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  in = (f32[8,32,32,3], s32[8]) custom-call(), custom_call_target="tremula.infeed", custom_call_has_side_effect=true, backend_config="{\\"feed\\":\\"in\\"}"
  x = f32[8,32,32,3] get-tuple-element(in), index=0
  y = f32[8,32,32,3] tanh(x)
  out = () custom-call(y), custom_call_target="tremula.outfeed", custom_call_has_side_effect=true, backend_config="{\\"feed\\":\\"out\\"}"
  ROOT t = (s32[]) tuple(j)
}

ENTRY main {
  z = s32[] constant(0)
  t = (s32[]) tuple(z)
  ROOT w = (s32[]) while(t), condition=cond, body=body
}
"""


# As JAX lowers step(params, tokens): the arguments' names are metadata, and what a function
# computes is named without the scope of its call.
JAX = """HloModule jit_step

relu {
  h = f32[8,64] parameter(0)
  z = f32[] constant(0)
  zeros = f32[8,64] broadcast(z), dimensions={}, metadata={op_name="broadcast_in_dim"}
  ROOT r = f32[8,64] maximum(h, zeros), metadata={op_name="max"}
}

ENTRY main {
  Arg_0.1 = f32[100,64] parameter(0), metadata={op_name="params[\\'table\\']"}
  Arg_1.2 = f32[64,64] parameter(1), metadata={op_name="params[\\'w\\']"}
  Arg_2.3 = f32[8,64] parameter(2), metadata={op_name="tokens"}
  d = f32[8,64] dot(Arg_2.3, Arg_1.2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layer_0/dot_general"}
  c = f32[8,64] call(d), to_apply=relu, metadata={op_name="jit(step)/layer_0/jit(relu)"}
  ROOT e = f32[8,100] dot(c, Arg_0.1), lhs_contracting_dims={1}, rhs_contracting_dims={1}, metadata={op_name="jit(step)/head/dot_general"}
}
"""


@pytest.fixture
def machine(tool):
    """Writes a machine like an mk2 with fewer tiles; its path."""
    def write(tiles):
        tool.write(f"small{tiles}.json",
                   json.dumps({"base": "mk2", "name": f"small{tiles}", "tilesPerIPU": tiles}))
        return f"./small{tiles}.json"
    return write


def plan(tool, *arguments, code=0):
    """The JSON of a plan that must end with this exit code."""
    result = tool("plan", *arguments, "--json")
    assert result.returncode == code, (result.returncode, result.stderr)
    return json.loads(result.stdout)


@pytest.mark.smoke
def test_json_of_one_that_fits(tool):
    source = tool.write("conv.hlo", CONVOLUTION)
    answer = plan(tool, source)
    assert answer["format"] == 1 and answer["fits"] is True and answer["training"] is None
    assert answer["parameters"] == {"count": PARAMETERS, "bytes": 2 * PARAMETERS}
    assert answer["input"] == {"name": "x", "type": "f16", "shape": [4, 56, 56, 64]}
    case, = answer["cases"]
    assert (case["target"], case["ipus"], case["shards"], case["replicas"]) == ("mk2", 1, 1, 1)
    assert case["fits"] is True and case["is_close"] is False and "explanation" not in case
    memory, cycles = case["memory"], case["cycles"]
    assert memory["bytes_of_machine"] == 1472 * 638976
    assert memory["bytes_over"] == memory["tiles_over"] == 0
    assert memory["worst_tile_bytes"] <= memory["bytes_per_tile"]
    assert memory["always_live_bytes"] + memory["temporary_bytes"] == memory["peak_bytes"]
    assert sum(memory["by_category"].values()) == memory["each_tile_at_its_peak_bytes"]
    parts = ("compute", "copy", "exchange", "global_exchange", "host", "collective", "sync",
             "control")
    assert sum(cycles[part] for part in parts) == cycles["total"] + cycles["overlapped"]
    assert case["seconds"] == pytest.approx(cycles["total"] / 1.33e9)
    assert case["items"] == 4
    assert case["items_per_second"] == pytest.approx(4 / case["seconds"])
    assert sum(layer["cycles"] for layer in case["layers"]) == cycles["total"]
    layer = next(one for one in case["layers"] if one["name"] == "a")
    assert layer["weights_bytes"] == 2 * PARAMETERS
    assert layer["flops"] > 2 * PARAMETERS * 4 * 54 * 54


def test_items_that_infeeds_bring_and_io_tiles(tool):
    source = tool.write("fed.hlo", FED)
    answer = plan(tool, source)
    case, = answer["cases"]
    assert case["items"] == 8 * 100
    assert answer["input"] == {"name": "in", "type": "f32", "shape": [8, 32, 32, 3]}
    assert case["items_per_second"] == pytest.approx(800 / case["seconds"])
    beside, = plan(tool, source, "--option", "io_tiles=64", "--option",
                   "place_ops_on_io_tiles=true")["cases"]
    assert beside["cycles"]["overlapped"] > case["cycles"]["overlapped"] == 0
    assert beside["cycles"]["total"] < case["cycles"]["total"]


def test_names_of_jax_are_kept(tool, machine):
    source = tool.write("jax.hlo", JAX)
    answer = plan(tool, source)
    assert answer["input"] == {"name": "tokens", "type": "f32", "shape": [8, 64]}
    assert answer["cases"][0]["items"] == 8
    named = {layer["name"] for layer in answer["cases"][0]["layers"] if layer["steps"]} - {""}
    assert named == {f"jit(step)/{one}" for one in ("layer_0", "layer_0/jit(relu)", "head")}
    tool.write("full.json", json.dumps({"base": "mk2", "name": "full", "tilesPerIPU": 1,
                                        "memoryBytesPerTile": 30000, "memoryElementOffsets": [0]}))
    case, = plan(tool, source, "--target", "./full.json", code=3)["cases"]
    assert "  params['table']: a weight\n" in case["explanation"]


# What a batch goes through: a lookup, a flattened product, attention over heads, a convolution, a
# loop, a sort, the gradient of the lookup. B and the products with it stand for sizes.
BATCHED = """HloModule batched

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}

less {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT
}}

cond {{
  s = (s32[], f32[{B},20,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}

body {{
  s = (s32[], f32[{B},20,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[{B},20,64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[{B},20,64] tanh(h)
  ROOT n = (s32[], f32[{B},20,64]) tuple(j, t)
}}

ENTRY main {{
  tokens = s32[{B},20] parameter(0)
  table = f32[100,64] parameter(1)
  w = f32[64,64] parameter(2)
  k = f32[3,64,8] parameter(3)
  index = s32[{B20},1] reshape(tokens)
  rows = f32[{B20},64] gather(table, index), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,64}}
  d = f32[{B20},64] dot(rows, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  h = f32[{B},20,64] reshape(d)
  z = s32[] constant(0)
  init = (s32[], f32[{B},20,64]) tuple(z, h)
  loop = (s32[], f32[{B},20,64]) while(init), condition=cond, body=body
  g = f32[{B},20,64] get-tuple-element(loop), index=1
  heads = f32[{B},20,4,16] reshape(g)
  turned = f32[{B},4,20,16] transpose(heads), dimensions={{0,2,1,3}}
  scores = f32[{B},4,20,20] dot(turned, turned), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}
  half = f32[{B},4,10,20] slice(scores), slice={{[0:{B}], [0:4], [0:10], [0:20]}}
  c = f32[{B},20,8] convolution(g, k), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f
  zero = f32[] constant(0)
  sums = f32[{B},8] reduce(c, zero), dimensions={{1}}, to_apply=add
  sorted = f32[{B},8] sort(sums), dimensions={{1}}, to_apply=less
  zeros = f32[100,64] broadcast(zero), dimensions={{}}
  back = f32[100,64] scatter(zeros, index, d), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
  ROOT out = (f32[{B},4,10,20], f32[{B},8], f32[100,64]) tuple(half, sorted, back)
}}
"""


def batched(batch):
    return BATCHED.format(B=batch, B20=20 * batch)


def test_hlo_of_another_batch_is_what_it_would_be(tool, machine):
    source, wanted = (tool.write(f"{one}.hlo", batched(one)) for one in (8, 24))
    answer, same = plan(tool, source, "--batch", "24"), plan(tool, wanted)
    assert answer["input"] == same["input"] and same["input"]["name"] == "tokens"
    for key in ("cycles", "memory", "flops", "items", "layers"):
        assert answer["cases"][0][key] == same["cases"][0][key], key
    cases = plan(tool, source, "--batch", "8,16,...", "--target", machine(2))["cases"]
    assert [case["fits"] for case in cases][-2:] == [True, False]
    assert [case["items"] for case in cases] == [8 * 2 ** i for i in range(len(cases))]


@pytest.mark.parametrize("changes", [
    {"half = f32[8,4,10,20] slice(scores), slice={[0:8]":
     "half = f32[4,4,10,20] slice(scores), slice={[0:4]", "(f32[8,4,10": "(f32[4,4,10"},
    {"t = f32[8,20,64] tanh(h)":
     "z = f32[] constant(0)\n  t = f32[8,20,64] pad(h, z), padding=-1_1x0_0x0_0"},
])
def test_hlo_that_does_not_tell_its_batch_is_refused(tool, changes):
    text = batched(8)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    said = tool.fails("plan", tool.write("own.hlo", text), "--batch", "16", code=1)
    assert said.startswith("a batch of 16: the shapes of own.hlo are fixed")
    assert re.search("(slice|pad).*works on a part of it", said)


@pytest.mark.parametrize("written", [
    b"#loc1 = loc(\"w\")\nmodule @jit__f {\n  func.func public @main(%arg0: tensor<4xf32>) {}\n}\n",
    b"ML\xefR\x0dStableHLO_v1.15.0\0\1!", b"\x18\0\0\0ML\xefR\x0dStableHLO_v1.15.0\0\1"],
    ids=["text", "byte code", "jax.export"])
def test_stablehlo_is_refused_with_the_way_to_hlo(tool, written):
    (tool.folder / "model").write_bytes(written)
    said = tool.fails("plan", "model", code=1)
    assert said.startswith("model is StableHLO, of which JAX makes HLO: write jax.jit(f).lower(")


def test_a_batch_of_one_cannot_be_told(tool):
    said = tool.fails("plan", tool.write("one.hlo", batched(1)), "--batch", "2", code=1)
    assert "a batch of 1 cannot be told from other sizes" in said
    said = tool.fails("plan", tool.write("fed.hlo", FED), "--batch", "2", code=1)
    assert "an infeed brings it" in said


def test_the_first_input_is_that_of_the_first_batch_size(tool):
    source = tool.write("layers.hlo", LAYERS)
    assert "x f32[32,512], so 32 items a run\n" in tool.ok("plan", source, "--batch", "32")
    assert "x f32[32,512], so 32 items a run, at the first batch size\n" in tool.ok(
        "plan", source, "--batch", "32,64")


def test_text_is_the_same_each_time(tool):
    source = tool.write("layers.hlo", LAYERS)
    first = tool.ok("plan", source, "--ipus", "1,2")
    assert first == tool.ok("plan", source, "--ipus", "1,2")
    assert "Model size: 2 621 440 parameters, 10 485 760 bytes (10.5 MB)" in first
    assert "First input: x f32[32,512], so 32 items a run" in first
    for layer in ("net/one", "net/two", "net/three", "net/four"):
        assert f"\n  {layer} " in first


def test_one_that_does_not_fit_ends_with_3_and_says_why(tool, machine):
    source = tool.write("conv.hlo", CONVOLUTION)
    small = machine(6)
    answer = plan(tool, source, "--target", small, code=3)
    case, = answer["cases"]
    assert answer["fits"] is False and case["fits"] is False
    assert case["memory"]["bytes_over"] > 0 and case["memory"]["tiles_over"] > 0
    assert case["explanation"].startswith("Out of memory: tile ")
    needs = case["memory"]["worst_tile_bytes"]
    assert all(one["saved_bytes"] == needs - one["worst_tile_bytes"] for one in case["advice"])
    kept = {one["change"].split(" (")[0]: one["planned"] for one in case["advice"]}
    assert not kept.pop("half the batch") and all(kept.values())
    assert case["smallest"] == [] and case["search_interrupted"] is False  # one layer
    text = tool("plan", source, "--target", small)
    assert text.returncode == 3 and "Out of memory" in text.stdout and not text.stderr
    assert "What would help: bytes saved on the fullest tile" in text.stdout
    half, = [line for line in text.stdout.splitlines() if "half the batch" in line]
    fits = next(one["fits"] for one in case["advice"] if "half the batch" in one["change"])
    assert " may fit " in half if fits else " fit" not in half  # it is not planned


def test_the_smallest_number_of_ipus_is_that_which_the_plans_show(tool, machine):
    dots = "".join(
        f"  w{i} = f32[512,512] parameter({i + 1})\n  h{i + 1} = f32[32,512] dot(h{i}, w{i}), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        f'metadata={{op_name="net/{i}/MatMul"}}\n' for i in range(8))
    source = tool.write("chain.hlo", "HloModule chain\nENTRY main {\n  h0 = f32[32,512] parameter(0)\n"
                        + dots + "  ROOT r = f32[32,512] copy(h8)\n}\n")
    small = machine(6)
    case, = plan(tool, source, "--target", small, code=3)["cases"]
    alone, *_, half = (one for one in case["smallest"] if one["schedule"] is None)
    assert alone["with"] == "" and "float16" in half["with"] and half["ipus"] < alone["ipus"]
    sharded = plan(tool, source, "--target", small, "--ipus",
                   ",".join(str(ipus) for ipus in range(1, alone["ipus"] + 1)))["cases"]
    assert [one["fits"] for one in sharded] == [False] * (alone["ipus"] - 1) + [True]
    assert sharded[-1]["cycles"]["total"] == alone["cycles"]
    change, = [one for one in case["advice"] if one["ipus"] == alone["ipus"] and one["fits"]]
    assert change["change"] == f"sharding over {alone['ipus']} IPUs"
    text = tool("plan", source, "--target", small).stdout
    assert f"The smallest number of IPUs, sharded: {alone['ipus']} (" in text


def test_a_layer_that_is_too_large_alone_is_named(tool, machine):
    source = tool.write("layers.hlo", LAYERS)
    case, = plan(tool, source, "--target", machine(4), code=3)["cases"]
    alone = case["smallest"][0]
    assert alone["ipus"] is None and alone["most_tried"] == 4
    assert alone["fullest_shard_begins_with"] in ("net/three", "net/four")


def test_jax_scopes_are_layers(tool, machine):
    """A gradient goes with its layer, and what JAX names without a scope with the layer around."""
    source = tool.write("scopes.hlo", """HloModule scopes
ENTRY main {
  x = f32[32,512] parameter(0)
  w0 = f32[512,512] parameter(1)
  w1 = f32[512,512] parameter(2)
  h0 = f32[32,512] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/jvp(one)/dot_general"}
  a0 = f32[32,512] abs(h0), metadata={op_name="abs"}
  h1 = f32[32,512] dot(a0, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/jvp(two)/dot_general"}
  g1 = f32[32,512] dot(h1, w1), lhs_contracting_dims={1}, rhs_contracting_dims={1}, metadata={op_name="jit(f)/transpose(jvp(two))/dot_general"}
  ROOT g0 = f32[32,512] dot(g1, w0), lhs_contracting_dims={1}, rhs_contracting_dims={1}, metadata={op_name="jit(f)/transpose(jvp(one))/dot_general"}
}
""")
    case, = plan(tool, source, "--ipus", "2")["cases"]
    assert [(one["after"], one["before"]) for one in case["cuts"]] == [
        ("jit(f)/jvp(one)", "jit(f)/jvp(two)")]
    refused = tool("plan", source, "--ipus", "3")
    assert refused.returncode == 1 and "2 layers in a row" in refused.stderr


def test_it_fits_when_one_of_the_cases_does(tool, machine):
    source = tool.write("conv.hlo", CONVOLUTION)
    answer = plan(tool, source, "--target", f"{machine(6)},mk2")
    assert [case["fits"] for case in answer["cases"]] == [False, True]
    assert answer["fits"] is True


def test_raising_the_proportion_stops_a_program_from_fitting(tool, machine):
    source = tool.write("conv.hlo", CONVOLUTION)
    cases = plan(tool, source, "--target", machine(24), "--sweep",
                 "availableMemoryProportion=0.2:1:0.2")["cases"]
    assert [case["availableMemoryProportion"] for case in cases] == [.2, .4, .6, .8, 1]
    assert [case["fits"] for case in cases] == [True, True, True, True, False]
    memory = [case["memory"]["worst_tile_bytes"] for case in cases]
    cycles = [case["cycles"]["total"] for case in cases]
    assert memory == sorted(memory) and memory[0] < memory[-1]
    assert cycles == sorted(cycles, reverse=True) and cycles[0] > cycles[-1]


def test_a_sweep_plans_what_the_option_does(tool):
    source = tool.write("conv.hlo", CONVOLUTION)
    swept = plan(tool, source, "--sweep", "convolutions.availableMemoryProportion=0.1:0.3:0.2")
    for case, value in zip(swept["cases"], ("0.1", "0.3")):
        one, = plan(tool, source, "--option", f"available_memory_proportion={value}")["cases"]
        assert case["cycles"] == one["cycles"] and case["memory"] == one["memory"]


def test_options_change_the_plan(tool):
    source = tool.write("conv.hlo", CONVOLUTION)
    plain, = plan(tool, source)["cases"]
    code, = plan(tool, source, "--option", "compile_ipu_code=true")["cases"]
    assert plain["memory"]["by_category"]["vertexCode"] == 0
    assert code["memory"]["by_category"]["vertexCode"] > 0
    few, = plan(tool, source, "--option", "tiles_per_ipu=256")["cases"]
    assert few["tiles_per_ipu"] == 256
    assert few["cycles"]["total"] > plain["cycles"]["total"]


def test_shards_are_cut_between_layers(tool):
    source = tool.write("layers.hlo", LAYERS)
    one, two, four = plan(tool, source, "--ipus", "1,2,4")["cases"]
    assert [case["shards"] for case in (one, two, four)] == [1, 2, 4]
    assert one["cuts"] == []
    cut, = two["cuts"]
    layers = ["net/one", "net/two", "net/three", "net/four"]
    assert cut["after"] == layers[layers.index(cut["before"]) - 1]
    assert cut["bytes"] == 32 * 4 * (2048 if cut["before"] == "net/four" else 512)
    assert [one["ipu"] for one in four["cuts"]] == [1, 2, 3]
    assert all(one["cycles"] > 0 for one in four["each_ipu"])
    assert two["cycles"]["global_exchange"] > 0 == one["cycles"]["global_exchange"]
    assert two["memory"]["bytes_of_machine"] == 2 * one["memory"]["bytes_of_machine"]


def _trained(widths, cuts=None):
    """Dense layers of these widths with what their gradients need of them; with `cuts` each shard
    ends with one of these layers."""
    def placed(layer):
        shard = sum(layer > cut for cut in cuts or ())
        return "" if cuts is None else f", sharding={{maximal device={shard}}}"

    lines, parameters, above = [], [f"h0 = f32[64,{widths[0]}] parameter(0)"], None
    for i, (rows, columns) in enumerate(zip(widths, widths[1:]), 1):
        place = placed(i)
        parameters.append(f"w{i} = f32[{rows},{columns}] parameter({i})")
        lines.append(f"h{i} = f32[64,{columns}] dot(h{i - 1}, w{i}), lhs_contracting_dims={{1}}, "
                     "rhs_contracting_dims={0}, "
                     f'metadata={{op_name="net/layer{i}/MatMul"}}{place}')
    for i in range(len(widths) - 1, 0, -1):
        place = placed(i)
        name = f'metadata={{op_name="gradients/net/layer{i}/MatMul_grad/'
        above = above or f"h{i}"
        lines.append(f"d{i} = f32[{widths[i - 1]},{widths[i]}] dot(h{i - 1}, {above}), "
                     f'lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, {name}W"}}{place}')
        lines.append(f"g{i} = f32[64,{widths[i - 1]}] dot({above}, w{i}), "
                     f'lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, {name}X"}}{place}')
        above = f"g{i}"
    results = [f"d{i}" for i in range(1, len(widths))]
    shapes = ", ".join(f"f32[{a},{b}]" for a, b in zip(widths, widths[1:]))
    body = "\n  ".join([*parameters, *lines, f"ROOT all = ({shapes}) tuple({', '.join(results)})"])
    return f"HloModule trained\n\nENTRY main {{\n  {body}\n}}\n"


def _longest(case):
    return max(one["cycles"] for one in case["each_ipu"])


@pytest.mark.parametrize(("widths", "ipus", "tiles"), [
    ((64, 1024, 1024, 512, 256, 256, 128, 128, 128, 64, 64, 64), 2, 1472),
    ((64, 64, 64, 128, 64, 64, 2048, 64, 128, 64, 64, 512), 2, 1472),
    ((64,) * 12, 2, 1472),
    ((64, 1024, 1024, 512, 256, 256, 128, 128, 64), 3, 64),
    ((64, 128, 128, 512, 512, 512, 128, 512, 512), 4, 9),  # few cuts fit
    ((64, 128, 128, 1024, 1024, 128, 128, 128, 512), 3, 16),  # none does
])
def test_of_all_places_to_cut_the_best_is_found(tool, machine, widths, ipus, tiles):
    """Where some cuts fit, the longest shard is hardly longer than it has to be; else the fullest
    tile needs hardly more."""
    target = ("--target", machine(tiles))

    def planned(text, *more):
        result = tool("plan", tool.write("trained.hlo", text), *target, *more, "--json")
        return json.loads(result.stdout)["cases"][0]

    found = planned(_trained(widths), "--ipus", str(ipus))
    every = [planned(_trained(widths, cuts))
             for cuts in itertools.combinations(range(1, len(widths) - 1), ipus - 1)]
    fitting = [_longest(one) for one in every if one["fits"]]
    fullest = [one["memory"]["worst_tile_bytes"] for one in every]
    if fitting:
        assert found["fits"] and _longest(found) <= 1.02 * min(fitting)
    else:
        assert found["memory"]["worst_tile_bytes"] <= 1.02 * min(fullest)


def _trained_by_jax(layers, cuts=()):
    """A training step as JAX writes it: what the backward pass computes again, and the decay of the
    optimizer's state, stand apart from their layers; a constant is the first layer's and of all
    gradients' sums. `cuts`: the layers with which shards begin."""
    wide, lines = 1024, []
    dims = f"f32[{wide},{wide}]"

    def add(name, value, scope, layer):
        shard = sum(layer >= cut for cut in cuts)
        place = f", sharding={{maximal device={shard}}}" if cuts else ""
        lines.append(f'{name} = {value}, metadata={{op_name="jit(step)/{scope}"}}{place}')

    numbers = iter(range(3 * layers))
    lines += [f"{kind}{i} = {dims} parameter({next(numbers) + 1})"
              for kind in ("w", "m") for i in range(layers)]
    lines += [f"h0 = {dims} parameter(0)", "rate = f32[] constant(0.9)",
              f"rates = {dims} broadcast(rate), dimensions={{}}"]
    lines.append("zero = f32[] constant(0)")
    add("q0", f"f32[{wide}] reduce(h0, zero), dimensions={{0}}, to_apply=sum", "jvp(layer_0)/sum", 0)
    add("q1", f"{dims} broadcast(q0), dimensions={{1}}", "jvp(layer_0)/broadcast", 0)
    add("k0", f"{dims} subtract(h0, q1)", "jvp(layer_0)/sub", 0)
    for i in range(layers):
        add(f"z{i}", f"{dims} dot({'h' if i else 'k'}{i}, w{i}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}", f"jvp(layer_{i})/dot_general", i)
        add(f"h{i + 1}", f"{dims} tanh(z{i})", f"jvp(layer_{i})/tanh", i)
    for i in range(layers):
        add(f"d{i}", f"{dims} multiply(m{i}, rates)", "mul", i)
        add(f"r{i}", f"{dims} multiply(h{i + 1}, h{i + 1})", f"jvp(layer_{i})/mul", i)
    above = f"h{layers}"
    for i in reversed(range(layers)):
        scope = f"transpose(jvp(layer_{i}))"
        add(f"t{i}", f"{dims} multiply({above}, r{i})", f"{scope}/mul", i)
        add(f"g{i}", f"{dims} dot(h{i}, t{i}), lhs_contracting_dims={{0}}, "
            "rhs_contracting_dims={0}", f"{scope}/dot_general", i)
        add(f"s{i}", f"f32[{wide}] reduce(t{i}, zero), dimensions={{0}}, to_apply=sum",
            f"{scope}/reduce_sum", i)
        add(f"x{i}", f"{dims} dot(t{i}, w{i}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={1}", f"{scope}/dot_general", i)
        above = f"x{i}"
    for i in range(layers):
        add(f"n{i}", f"{dims} add(d{i}, g{i})", "add", i)
        add(f"u{i}", f"{dims} subtract(w{i}, n{i})", "sub", i)
    results = [f"{kind}{i}" for kind in "uns" for i in range(layers)]
    shapes = [dims] * 2 * layers + [f"f32[{wide}]"] * layers
    lines.append(f"ROOT all = ({', '.join(shapes)}) tuple({', '.join(results)})")
    aliases = ", ".join(f"{{{i}}}: ({i + 1}, {{}}, may-alias)" for i in range(2 * layers))
    return (f"HloModule step, input_output_alias={{ {aliases} }}\n\n"
            "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n\n"
            "ENTRY main {\n  "
            + "\n  ".join(lines) + "\n}\n")


def test_what_jax_writes_apart_from_its_layer_goes_with_it(tool):
    found, = plan(tool, tool.write("step.hlo", _trained_by_jax(8)), "--ipus", "4")["cases"]
    cuts = [int(re.fullmatch(r"jit\(step\)/jvp\(layer_(.)\)", cut["before"])[1])
            for cut in found["cuts"]]
    assert [cut["after"] for cut in found["cuts"]] == [
        f"jit(step)/jvp(layer_{i - 1})" for i in cuts]
    by_hand, = plan(tool, tool.write("hand.hlo", _trained_by_jax(8, cuts)))["cases"]
    for key in ("worst_tile_bytes", "peak_bytes"):
        assert found["memory"][key] == by_hand["memory"][key]
    assert found["cycles"] == by_hand["cycles"]


def _sums_of_gradients(layers, cuts=()):
    """A training step as TensorFlow writes it: a layer's input has several gradients, whose sum has
    a name without the layer. `cuts`: the layers with which shards begin."""
    dims, lines = "f32[512,512]", ["h0 = f32[512,512] parameter(0)"]
    lines += [f"w{i} = {dims} parameter({i + 1})" for i in range(layers)]

    def add(name, value, scope, layer):
        shard = sum(layer >= cut for cut in cuts)
        place = f", sharding={{maximal device={shard}}}" if cuts else ""
        lines.append(f'{name} = {dims} {value}, metadata={{op_name="{scope}"}}{place}')

    def dot(one, other, left, right):
        return (f"dot({one}, {other}), lhs_contracting_dims={{{left}}}, "
                f"rhs_contracting_dims={{{right}}}")

    for i in range(layers):
        add(f"z{i}", dot(f"h{i}", f"w{i}", 1, 0), f"l{i}/MatMul", i)
        add(f"t{i}", f"tanh(z{i})", f"l{i}/Tanh", i)
        add(f"h{i + 1}", f"multiply(z{i}, t{i})", f"l{i}/mul", i)
    above = f"h{layers}"
    for i in reversed(range(layers)):
        scope = f"gradients/l{i}"
        add(f"a{i}", f"multiply({above}, t{i})", f"{scope}/mul_grad/Mul", i)
        add(f"b{i}", f"multiply({above}, z{i})", f"{scope}/mul_grad/Mul_1", i)
        add(f"s{i}", f"add(a{i}, b{i})", f"gradients/AddN_{i}", i)
        add(f"g{i}", dot(f"h{i}", f"s{i}", 0, 0), f"{scope}/MatMul_grad/MatMul_1", i)
        add(f"x{i}", dot(f"s{i}", f"w{i}", 1, 1), f"{scope}/MatMul_grad/MatMul", i)
        above = f"x{i}"
    results = ", ".join(f"g{i}" for i in range(layers))
    lines.append(f"ROOT all = ({', '.join([dims] * layers)}) tuple({results})")
    return "HloModule step\n\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


def test_a_fused_sum_of_gradients_is_where_its_layer_is(tool):
    found, = plan(tool, tool.write("sums.hlo", _sums_of_gradients(8)), "--ipus", "4")["cases"]
    cuts = [int(cut["before"].removeprefix("l")) for cut in found["cuts"]]
    by_hand, = plan(tool, tool.write("hand.hlo", _sums_of_gradients(8, cuts)))["cases"]
    assert found["cycles"] == by_hand["cycles"]
    assert found["memory"]["worst_tile_bytes"] == by_hand["memory"]["worst_tile_bytes"]


def test_what_a_layer_takes_of_a_later_one_goes_there(tool):
    """It is no layer behind all others."""
    dims, product = "f32[256,256]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = [f"x0 = {dims} parameter(0)"]
    for i in range(8):
        lines += [f"w{i} = {dims} parameter({i + 1})",
                  f'x{i + 1} = {dims} dot(x{i}, w{i}), {product}, metadata={{op_name="l{i}/dot"}}']
    lines += [f'late = {dims} dot(x2, w0), {product}, metadata={{op_name="l0/late"}}',
              f"ROOT r = ({dims}, {dims}) tuple(x8, late)"]
    source = tool.write("late.hlo", "HloModule late\n\nENTRY main {\n  " + "\n  ".join(lines)
                        + "\n}\n")
    case, = plan(tool, source, "--ipus", "8")["cases"]
    assert [cut["before"] for cut in case["cuts"]] == [f"l{i}" for i in range(1, 8)]


def test_too_few_layers_are_a_problem_of_that_case(tool):
    source = tool.write("layers.hlo", LAYERS)
    one, many = plan(tool, source, "--ipus", "1,16")["cases"]
    assert one["fits"] and "fits" not in many
    assert "4 layers in a row, too few for 16 shards" in many["problem"]
    assert "too few for 16 shards" in tool("plan", source, "--ipus", "16").stderr
    assert tool("plan", source, "--ipus", "16").returncode == 1


def test_a_sharded_model_stays_as_it_is(tool):
    source = tool.write("sharded.hlo", SHARDED)
    own, = plan(tool, source)["cases"]
    assert (own["ipus"], own["shards"], own["replicas"]) == (2, 2, 1)
    one, two, four = plan(tool, source, "--ipus", "1,2,4")["cases"]
    assert "the model itself uses 2 IPUs" in one["problem"]
    assert two["cycles"] == own["cycles"]
    assert (four["shards"], four["replicas"], four["items"]) == (2, 2, 16)


def test_close_to_the_limit_is_said(tool, machine):
    """Of machines of ever more tiles one is within the error of the model."""
    source = tool.write("conv.hlo", CONVOLUTION)
    targets = ",".join(machine(tiles) for tiles in range(8, 24))
    cases = plan(tool, source, "--target", targets)["cases"]
    for case in cases:
        memory = case["memory"]
        limit = memory["bytes_per_tile"]
        assert case["is_close"] == (memory["worst_tile_bytes_low"] <= limit
                                    < memory["worst_tile_bytes_high"])
        end = memory[f"worst_tile_bytes_{'high' if case['fits'] else 'low'}"]
        assert abs(end / memory["worst_tile_bytes"] - 1) == pytest.approx(case["model_error"])


@pytest.mark.parametrize("arguments, message", [
    ([], "say which MODEL to plan"),
    (["m", "n"], "one model at a time: unexpected 'n'"),
    (["m", "--frob"], "unknown option --frob"),
    (["m", "--target"], "--target wants a value"),
    (["m", "--ipus", "0"], "--ipus wants numbers that rise from 1 to 64"),
    (["m", "--ipus", "4,2"], "--ipus wants numbers that rise from 1 to 64"),
    (["m", "--batch", "1,x"], "--batch wants numbers that rise from 1 on"),
    (["m", "--batch", "..."], "--batch wants numbers that rise from 1 on"),
    (["m", "--sweep", "frob=0:1"], "--sweep: 'frob' cannot be swept"),
    (["m", "--sweep", "availableMemoryProportion"], "--sweep wants KEY=LOW:HIGH"),
    (["m", "--sweep", "availableMemoryProportion=0.5"], "--sweep availableMemoryProportion wants "
                                                        "KEY=LOW:HIGH"),
    (["m", "--sweep", "availableMemoryProportion=0.9:0.1"],
     "--sweep availableMemoryProportion wants a range that goes up"),
    (["m", "--sweep", "availableMemoryProportion=0.1:1.2"],
     "--sweep availableMemoryProportion wants proportions, from 0 to 1"),
    (["m", "--sweep", "availableMemoryProportion=0:1:0.0001"],
     "--sweep availableMemoryProportion has too many values"),
    (["m", "--training", "lamb"], "--training wants sgd, momentum or adam, not 'lamb'"),
    (["m", "--option", "target=mk1"], "say --target instead of --option target=mk1"),
    (["m", "--option", "reference=true"], "the option reference does not affect the estimate"),
    (["m", "--option", "key"], "--option wants KEY=VALUE, not 'key'"),
    (["m", "--sweep", "availableMemoryProportion=0:1", "--option",
      'convolution_options={"availableMemoryProportion":"0.5"}'], "convolution_options sets"),
])
def test_usage_errors(tool, arguments, message):
    text = tool.fails("plan", *arguments, code=2)
    assert text.startswith(message) and text.endswith("(see tremula plan --help)")


def test_failures(tool):
    source = tool.write("conv.hlo", CONVOLUTION)
    assert "there is no file missing.hlo" in tool.fails("plan", "missing.hlo")
    assert '"mk9"' in tool.fails("plan", source, "--target", "mk9")
    assert "frob" in tool.fails("plan", source, "--option", "frob=1")
    assert "available_memory_proportion" in tool.fails("plan", source, "--option",
                                                       "available_memory_proportion=1.5")
    assert "is HLO, which has no gradients" in tool.fails("plan", source, "--training", "sgd")
    tool.write("bad.json", '{"base": "mk2", "tiles": 3}')
    assert "tiles" in tool.fails("plan", source, "--target", "./bad.json")


def test_help(tool):
    text = tool.ok("plan", "--help")
    assert text.startswith("usage: tremula plan MODEL")
    assert "compile_ipu_code=false" in text and "engine_options" not in text
    assert "tremula plan" in tool.ok("--help")


SUM = """HloModule sum

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

ENTRY main { x = f32[1000000] parameter(0)  ROOT r = f32[1000000] all-reduce(x), to_apply=add }
"""


def _summed(text):
    """_trained() with gradients that are the sums over all replicas."""
    lines = []
    for line in text.split("\n"):
        lines.append(line)
        if found := re.match(r"  d(\d+) = (\S+) dot\(", line):
            shape, place = found[2], (re.search(r", sharding=.*", line) or [""])[0]
            lines.append(f"  s{found[1]} = {shape} all-reduce(d{found[1]}), to_apply=add{place}")
    add = SUM.split("\n")[2]
    lines = [re.sub(r"\bd(\d+)\b", r"s\1", line) if "ROOT all" in line else line
             for line in lines]
    return "\n".join(lines).replace("ENTRY", f"{add}\n\nENTRY")


def test_instances_of_a_model_that_is_cut_into_shards(tool):
    """Each has a copy on so many IPUs: as if the model itself were cut there."""
    widths = (64, 512, 512, 64)
    counts = ("--instances", "1,2,64")
    whole = plan(tool, tool.write("whole.hlo", _summed(_trained(widths))), *counts, "--ipus", "2")
    found, = plan(tool, "whole.hlo", "--ipus", "2")["cases"]
    at = int(re.fullmatch(r"net/layer(.)", found["cuts"][0]["after"])[1])
    cut = plan(tool, tool.write("cut.hlo", _summed(_trained(widths, [at]))), *counts)
    for one, other in zip(cut["cases"], whole["cases"], strict=True):
        assert one["cycles"] == other["cycles"] and one["memory"] == other["memory"]
    assert [one["replicas"] for one in whole["cases"]] == [1, 2, 64]
    collective = [one["cycles"]["collective"] for one in whole["cases"]]
    assert collective[0] == 0 < collective[1] < collective[2]
    between = [one["cycles"]["between_domains"] for one in whole["cases"]]
    assert between[:2] == [0, 0] and 0 < between[2]


def test_instances(tool):
    """Instances multiply the replicas; beyond 64 of mk2's IPUs, GW-Links join them."""
    source = tool.write("sum.hlo", SUM)
    cases = plan(tool, source, "--instances", "1,64,128")["cases"]
    assert [(one["instances"], one["replicas"]) for one in cases] == [(1, 1), (64, 64), (128, 128)]
    between = [one["cycles"]["between_domains"] for one in cases]
    assert between[:2] == [0, 0] and 0 < between[2] < cases[2]["cycles"]["collective"]
    shown = tool.ok("plan", source, "--instances", "128")
    assert " instances " in shown and "of them between domains" in shown
    result = tool("plan", source, "--instances", "2,1")
    assert result.returncode == 2 and "numbers that rise from 1" in result.stderr
