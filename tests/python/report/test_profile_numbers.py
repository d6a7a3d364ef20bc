"""Bytes that the original's tests assert, and cycles of SDK 3.4's, within their tolerance
(tests/data/profile_numbers.json): headers of packets, what is always live, inputs that are not
overwritten, sums of one element, triangles that are solved row by row, what calls of outlined
functions copy."""

import json
import pathlib

import named_programs
import pytest
import sized_programs
import tensorflow.compat.v1 as tf
from program_parts import run

DATA = pathlib.Path(__file__).resolve().parents[2] / "data/profile_numbers.json"
WITHIN = ("wide_constant", "slice_in_loop", "padded_result", "norms_of_broadcast",
          "lookup_of_short_rows", "lookup_of_long_rows", "solve_lower", "solve_lower_adjoint",
          "solve_upper", "masked_lookups", "function_of_two_weights",
          "function_of_functions_trained")
WITHIN_3_4 = ("convolutions_of_broadcasts", "lookup_with_two_updates", "norms_of_broadcast",
              "solve_lower", "solve_lower_adjoint", "solve_upper")  # of SDK 3.4
CASES = [case for case in json.loads(DATA.read_text())
         if case["program"] in (WITHIN_3_4 if "sdk" in case else WITHIN)
         and not case.get("initialize")]


@pytest.fixture(scope="module", autouse=True)
def one_ipu_afterwards():
    yield
    from end_to_end import _configure
    _configure(1)


@pytest.mark.parametrize("case", CASES, ids=[case["program"] for case in CASES])
def test_numbers(case, monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")  # its tiles are those asked for
    with tf.Graph().as_default():
        name = case["program"]
        program = getattr(sized_programs, name, None) or getattr(named_programs, name)
        has_cycles = "cycles" in case and "sdk" in case
        report = run(program, case.get("tiles", 0), case.get("code", False),
                     execution=has_cycles, options=case.get("options"))
    tiles = [tile.memory for tile in report.compilation.tiles]
    ours = {"total": sum(one.total.excludingGaps for one in tiles),
            "max": max(one.total.excludingGaps for one in tiles),
            "always": sum(one.alwaysLiveBytes for one in tiles)}
    if has_cycles:
        ours["cycles"] = report.execution.totalCycles.total
    for what in ours.keys() & case.keys():
        published, tolerance = case[what]
        assert ours[what] == pytest.approx(published, rel=tolerance), what
