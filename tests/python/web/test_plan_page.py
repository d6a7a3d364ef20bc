"""tremula plan --html: plans side by side in the browser."""

import json
import re

import pytest

import walking
from analyser import tremula


def network(rows=32, wide=512):
    """HLO of three layers, the second inside the first."""
    widths = [("one", wide, wide), ("one/inner", wide, 4 * wide), ("three", 4 * wide, wide)]
    lines = [f"x = f32[{rows},{wide}] parameter(0)"]
    lines += [f"w{i} = f32[{a},{b}] parameter({i + 1})" for i, (_, a, b) in enumerate(widths)]
    for i, (name, _, b) in enumerate(widths):
        root = "ROOT " if i == len(widths) - 1 else ""
        lines.append(f"{root}h{i} = f32[{rows},{b}] dot({f'h{i - 1}' if i else 'x'}, w{i}), "
                     "lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                     f'metadata={{op_name="net/{name}/MatMul" op_type="MatMul"}}')
    return "HloModule network\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """planned(name, text, arguments...): the URL of a page, the same as JSON, what was printed."""
    folder = tmp_path_factory.mktemp("plans")
    known = {}

    def make(name, text, *arguments):
        if name not in known:
            (folder / f"{name}.hlo").write_text(text, encoding="utf-8")
            page = folder / f"{name}.html"
            done = tremula("plan", f"{name}.hlo", *arguments, "--html", page, "--json",
                           check=False, folder=folder)
            assert done.returncode in (0, 3) and not done.stderr, done.stderr
            known[name] = page.as_uri(), json.loads(done.stdout)
        return known[name]
    return make


@pytest.fixture
def machines(planned):
    """A model that fits one of two machines, on one IPU and cut."""
    return planned("machines", network(wide=4096), "--target", "mk1,mk2", "--ipus", "1,2")


def cells(page, table, key):
    row = page.page.locator(f'#{table} tr[data-key="{key}"]')
    return row.locator("td").evaluate_all("all => all.slice(1).map((one) => one.dataset.value)")


def test_the_figures_are_those_of_the_answer(new_page, machines):
    url, answer = machines
    page = new_page().open(url, "plans")
    cases = answer["cases"]
    heads = page.page.locator("#plans thead th").all_text_contents()
    assert heads == ["", "mk1, 1 IPU", "mk1, 2 IPUs", "mk2, 1 IPU", "mk2, 2 IPUs"]
    verdicts = {(True, False): "fits", (True, True): "barely fits",
                (False, True): "just does not fit", (False, False): "does not fit"}
    wanted = {"fits": [verdicts[one["fits"], one["is_close"]] for one in cases],
              "cycles": [one["cycles"]["total"] for one in cases],
              "cycles compute": [one["cycles"]["compute"] for one in cases],
              "worst_tile_bytes": [one["memory"]["worst_tile_bytes"] for one in cases],
              **{f"category {name}": [one["memory"]["by_category"][name] for one in cases]
                 for name in ("variable", "vertexInstanceState")}}
    for key, values in wanted.items():
        assert cells(page, "plans", key) == [str(one) for one in values], key
    assert page.value("fitting") == sum(one["fits"] for one in cases)
    assert 0 < page.value("fitting") < len(cases)
    cycles = cases[0]["cycles"]
    bar = page.page.locator('#plans tr[data-key="cycles"] small.error').first.inner_text()
    low, high = (round(100 * (cycles[end] / cycles["total"] - 1)) for end in ("low", "high"))
    assert bar.replace("\u2212", "-") == f"{low:+} to {high:+} % for {cycles['like']}"
    found = page.table("hints")
    advice = [hint for one in cases for hint in one.get("advice", [])]
    assert advice and [(row["change"], row["saved"], row["cycles"]) for row in found] == [
        (one["change"], str(one["saved_bytes"]), str(one["cycles"] or "")) for one in advice]
    rows = page.table("ipus1")
    each = cases[1]["each_ipu"]
    assert [row["bytes"] for row in rows] == [str(one["bytes"]) for one in each]
    assert max(one["worst_tile_bytes"] for one in each) == cases[1]["memory"]["worst_tile_bytes"]
    assert rows[1]["before"] == cases[1]["cuts"][0]["before"]
    layers = {row["name"]: row for row in page.table("layers")}
    for layer in cases[2]["layers"]:
        assert layers[layer["name"] or "(no layer)"]["plan2"] == str(layer["worst_tile_bytes"])
    largest = page.table("largest")
    assert largest[0]["plan0"] == str(max(one["worst_bytes"] for one in cases[0]["largest"]))
    assert "net/one/inner" in largest[0]["name"] or "net/three" in largest[0]["name"]
    assert not page.faults
    assert [one for one in page.requests if not one.startswith("blob:")] == [url]


def test_what_is_chosen_is_in_the_address(new_page, machines):
    url, answer = machines
    page = new_page().open(url, "plans")
    page.page.get_by_label("mk1, 1 IPU", exact=True).uncheck()
    page.page.get_by_label("Compared with").select_option("mk2, 1 IPU")
    page.page.get_by_role("button", name="Only rows that differ").click()
    page.page.locator("[data-focus=layers]").select_option("cycles")
    page.until("document.querySelectorAll('#plans thead th').length === 4")
    assert page.page.evaluate("location.hash") == "#hide=0&base=2&only=1&layers=cycles"
    assert page.page.locator('#plans tr[data-key="items"]').count() == 0, "all have as many items"
    change = page.page.locator('#plans tr[data-key="cycles"] small.change').first.inner_text()
    one, base = (answer["cases"][i]["cycles"]["total"] for i in (1, 2))
    assert change.replace("\u2212", "-") == f"{100 * (one / base - 1):+.1f} %"
    again = new_page().open(f"{url}#hide=0&base=2&only=1&layers=cycles", "plans")
    assert again.main() == page.main()
    again.page.go_back()
    assert not page.faults + again.faults


def test_a_change_is_a_column_beside_its_plan(new_page, planned):
    url, answer = planned("changed", network(), "--what-if", "net/one/inner:half")
    page = new_page().open(url, "plans")
    case, = answer["cases"]
    heads = page.page.locator("#plans thead th").all_text_contents()
    assert heads[1:] == ["mk2, 1 IPU", "mk2, 1 IPU: net/one/inner:half"]
    assert cells(page, "plans", "cycles") == [str(case["what_if"][key]["cycles"])
                                              for key in ("as_it_is", "changed")]
    assert case["what_if"]["plan"]["cycles"]["total"] == case["what_if"]["changed"]["cycles"]


@pytest.mark.parametrize(("name", "arguments", "heads"), [
    ("batches", ["--batch", "32,64"], ["batch 32", "batch 64"]),
    ("sweep", ["--sweep", "matmuls.availableMemoryProportion=0.1:0.2"],
     ["matmuls.proportion 0.1", "matmuls.proportion 0.2"])])
def test_batches_and_sweeps_are_in_full(new_page, planned, name, arguments, heads):
    url, answer = planned(name, network(), *arguments)
    page = new_page().open(url, "plans")
    assert page.page.locator("#plans thead th").all_text_contents()[1:] == heads
    assert all(one["layers"] and one["largest"] for one in answer["cases"])


def test_a_plan_that_cannot_be_made_says_why(new_page, planned):
    """A module of several IPUs is not planned on one that is no multiple."""
    text = re.sub(r"(h0 = .*)", r"\1, sharding={maximal device=0}", network())
    text = re.sub(r"(h2 = .*)", r"\1, sharding={maximal device=1}", text)
    url, answer = planned("shards", text, "--ipus", "1,2")
    assert "problem" in answer["cases"][0]
    page = new_page().open(url, "plans")
    assert answer["cases"][0]["problem"] in page.main()
    assert page.page.locator("#plans thead th").all_text_contents()[1:] == ["2 IPUs"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_its_way(new_page, machines, scheme):
    page = new_page(color_scheme=scheme, bypass_csp=True).open(machines[0], "plans")
    walking.find_nothing_serious(page, ["v=plans"], {})


def test_telephones(new_page, machines):
    page = new_page()
    page.page.set_viewport_size({"width": 390, "height": 780})
    page.open(machines[0], "plans")
    assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 1
    seen = page.page.evaluate("""() => {
        const box = document.getElementById("plans").closest(".tablebox");
        const end = box.getBoundingClientRect().right;
        return [...document.querySelectorAll('#plans tr[data-key="cycles"] td')].filter(
            (cell) => cell.getBoundingClientRect().right <= end).length;
    }""")
    assert seen >= 2, "a name and at least a figure"


def test_the_terminal_still_has_the_cases(tmp_path):
    (tmp_path / "model.hlo").write_text(network(), encoding="utf-8")
    done = tremula("plan", "model.hlo", "--html", "page.html", folder=tmp_path)
    assert re.search(r"^mk2 +1 yes ", done.stdout, re.M) and "By layer" not in done.stdout
    assert "data-plan" in (tmp_path / "page.html").read_text(encoding="utf-8")
    done = tremula("plan", "model.hlo", "--html", "no/page.html", folder=tmp_path, check=False)
    assert done.returncode == 1 and "cannot write no/page.html" in done.stderr
