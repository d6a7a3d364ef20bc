"""tremula plan --what-if, and machines side by side."""

import json
import re

import pytest

WIDTHS = [("one", 512, 512), ("two", 512, 512), ("two/inner", 512, 2048), ("four", 2048, 512)]


def layers(dtype="f32"):
    """HLO of dense layers, the third inside the second."""
    lines = [f"x = {dtype}[32,512] parameter(0)"]
    lines += [f"w{i} = {dtype}[{rows},{columns}] parameter({i + 1})"
              for i, (_, rows, columns) in enumerate(WIDTHS)]
    for i, (name, _, columns) in enumerate(WIDTHS):
        root = "ROOT " if i == len(WIDTHS) - 1 else ""
        lines.append(f"{root}h{i} = {dtype}[32,{columns}] dot({f'h{i - 1}' if i else 'x'}, w{i}), "
                     "lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                     f'metadata={{op_name="net/{name}/MatMul" op_type="MatMul"}}')
    return "HloModule layers\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


def training(layers_that_recompute=("one", "two")):
    """A tanh of a product in each of two layers, far from the gradients that read it."""
    lines = ["x = f32[512,512] parameter(0)", "w = f32[512,512] parameter(1)"]
    at = "x"
    for name in layers_that_recompute:
        meta = f'metadata={{op_name="net/{name}/op"}}'
        dot = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        lines += [f"d_{name} = f32[512,512] dot({at}, w){dot}{meta}",
                  f"t_{name} = f32[512,512] tanh(d_{name}), {meta}"]
        at = f"t_{name}"
        for i in range(80):
            lines.append(f"{name}{i} = f32[512,512] dot({at}, w){dot}"
                         f'metadata={{op_name="net/chain/op"}}')
            at = f"{name}{i}"
    for name in reversed(layers_that_recompute):
        lines += [f"g_{name} = f32[512,512] multiply({at}, t_{name}), "
                  f'metadata={{op_name="gradients/net/{name}/op_grad/mul"}}',
                  f"k_{name} = f32[512,512] dot(g_{name}, d_{name}){dot}{meta}"]
        at = f"k_{name}"
    lines.append(f"ROOT r = f32[512,512] negate({at})")
    return "HloModule training\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


def plan(tool, *arguments):
    """The only case of a plan in JSON."""
    result = tool("plan", *arguments, "--json")
    assert result.returncode in (0, 3), result.stderr
    case, = json.loads(result.stdout)["cases"]
    return case


def what_if(tool, source, *changes, more=()):
    case = plan(tool, source, *[part for one in changes for part in ("--what-if", one)], *more)
    answer = case["what_if"]
    assert answer["changes"] == list(changes)
    for key, value in answer["changed"].items():
        assert answer["difference"][key] == pytest.approx(value - answer["as_it_is"][key])
    assert answer["as_it_is"]["worst_tile_bytes"] == case["memory"]["worst_tile_bytes"]
    return answer


def test_changes_are_those_of_the_plan_that_has_them(tool):
    source = tool.write("layers.hlo", layers())
    half = tool.write("half.hlo", layers("f16"))
    small = tool.write("small.json", json.dumps({
        "base": "mk2", "name": "small", "memoryBytesPerTile": 15000, "memoryElementOffsets": [0]}))
    for change, arguments in (
            ("half", [half]),
            ("amp=.01", [source, "--sweep", "availableMemoryProportion=0.01:0.01"]),
            ("memory=15000", [source, "--target", f"./{small}"]),
            ("batch=64", [tool.write("wide.hlo", layers().replace("[32,", "[64,"))]),
            ("ipus=2", [source, "--ipus", "2"])):
        answer, want = what_if(tool, source, change), plan(tool, *arguments)
        assert answer["fits"] == want["fits"]
        assert answer["changed"]["worst_tile_bytes"] == want["memory"]["worst_tile_bytes"], change
        assert answer["changed"]["cycles"] == want["cycles"]["total"], change
    together = what_if(tool, source, "half", "memory=15000")["changed"]
    assert together["bytes_per_tile"] == 15000
    assert together["cycles"] == plan(tool, half, "--target", f"./{small}")["cycles"]["total"]


def test_a_layer_in_half_casts_what_comes_and_goes(tool):
    source = tool.write("layers.hlo", layers())
    weights = {name: 4 * rows * columns for name, rows, columns in WIDTHS}
    four = what_if(tool, source, "net/four:half")
    saved = weights["four"] / 2  # less the vertices of the casts
    assert -four["difference"]["always_live_bytes"] == pytest.approx(saved, rel=0.1)
    both = what_if(tool, source, "net/two:half")  # with the layer inside it
    saved = (weights["two"] + weights["two/inner"]) / 2
    assert -both["difference"]["always_live_bytes"] == pytest.approx(saved, rel=0.1)
    text = tool.ok("plan", source, "--what-if", "net/two:half", "--what-if", "net/four:half")
    assert "What if net/two:half, net/four:half\n" in text
    assert re.search(r"\n  net/four +\d[\d ]+ \d", text)


def test_one_layer_recomputes(tool):
    source = tool.write("training.hlo", training())
    one, two, both = (what_if(tool, source, *changes)["difference"]["cycles"] for changes in (
        ["net/one:recompute"], ["net/two:recompute"], ["recompute"]))
    assert one > 0 and two > 0 and both == pytest.approx(one + two, rel=0.05)
    assert both == what_if(tool, source, "net/one:recompute",
                           "net/two:recompute")["difference"]["cycles"]


def test_one_layer_has_its_own_proportion(tool):
    source = tool.write("layers.hlo", layers())
    own = tool.write("own.hlo", layers().replace(
        'metadata={op_name="net/two',
        'frontend_attributes={availableMemoryProportion=".001"}, metadata={op_name="net/two'))
    answer, want = what_if(tool, source, "net/two:amp=.001"), plan(tool, own)
    assert answer["changed"]["cycles"] == want["cycles"]["total"]
    assert answer["changed"]["worst_tile_bytes"] == want["memory"]["worst_tile_bytes"]
    assert answer["difference"]["cycles"] > 0
    less = what_if(tool, source, "net/two/inner:amp=.001")["difference"]["cycles"]
    assert 0 < less < answer["difference"]["cycles"]
    # The layer's counts before that of all, whatever their order.
    both = what_if(tool, source, "net/two:amp=.001", "amp=.6")["changed"]
    assert both == what_if(tool, source, "amp=.6", "net/two:amp=.001")["changed"]
    assert both["cycles"] == answer["changed"]["cycles"]


@pytest.mark.parametrize("change, message", [
    ("net/too:half", '--what-if: there is no layer "net/too"; near names: "net/two", "net'),
    ("zzzzzzzzzzzz:half", '--what-if: there is no layer "zzzzzzzzzzzz"; the first layers: "'),
    ("net/two:quarter", "--what-if: a layer can be changed to half, recompute or amp=P, not to"),
    ("net/two:amp=2", "--what-if: amp wants a proportion above 0 and up to 1"),
    ("amp=2", "--what-if: amp wants a proportion above 0 and up to 1"),
    ("memory=12bananas", "--what-if: memory wants the bytes of a tile"),
    ("frob", '--what-if: "frob" is no change; there are half, recompute, '
     "offload, amp=P, LAYER:half, LAYER:recompute, LAYER:amp=P, memory=BYTES, ipus=N and, for "
     "tremula plan, batch=N"),
])
def test_what_is_no_change_is_said(tool, change, message):
    source = tool.write("layers.hlo", layers())
    assert tool.fails("plan", source, "--what-if", change, code=1).startswith(message)


def test_what_the_program_has_not_is_a_problem_of_that_case(tool):
    source = tool.write("half.hlo", layers("f16"))
    text = tool.ok("plan", source, "--what-if", "half")
    assert "\nWhat if half\n  cannot be planned: half: the program has no float32\n" in text
    assert "problem" in plan(tool, source, "--what-if", "half")["what_if"]
    source = tool.write("last.hlo", layers().replace("ROOT h3", "h3").replace(
        "\n}", '\n  ROOT r = f32[32,512] negate(h3), metadata={op_name="net/last/Neg"}\n}'))
    answer = plan(tool, source, "--what-if", "net/last:amp=.2")["what_if"]
    assert answer["problem"] == (
        "net/last:amp=.2: the layer has no convolution and no product")


def test_machines_side_by_side(tool):
    source = tool.write("layers.hlo", layers())
    answer = json.loads(tool.ok("plan", source, "--target", "mk2,mk1", "--json"))
    for row, case in zip(answer["side_by_side"], answer["cases"], strict=True):
        assert row["target"] == case["target"] and row["fits"] == case["fits"]
        assert row["cycles"] == case["cycles"]["total"]
        assert row["always_live_bytes"] == case["memory"]["always_live_bytes"]
    assert [row["target"] for row in answer["side_by_side"]] == ["mk2", "mk1"]
    text = tool.ok("plan", source, "--target", "mk2,mk1")
    table = text[text.index("Side by side, on 1 IPU"):]
    cycles = re.search(r"\n  cycles +([\d ]+?) {2,}([\d ]+?) {2,}([\d ]+?) {2,}\+", table)
    first, second, more = (int(number.replace(" ", "")) for number in cycles.groups())
    assert [first, second] == [row["cycles"] for row in answer["side_by_side"]]
    assert second - first == more
