"""Every op of the list runs on the device as docs/supported_ops.md says, or better."""

import json

import pytest
import sweep_ops

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def swept():
    return sweep_ops.sweep()


def _all(results):
    return {(op, dtype): outcome for op, types in results.items()
            for dtype, (outcome, _) in types.items()}


def test_no_bug(swept):
    """A wrong number, a crash, or a failure that says neither what is missing nor why."""
    bad = {f"{op} {dtype}": found for op, types in swept.items() for dtype, found in types.items()
           if found[0] in (sweep_ops.WRONG, sweep_ops.CRASH, sweep_ops.FAILS)}
    assert not bad, json.dumps(bad, indent=1)


def test_nothing_is_lost(swept):
    """What has been found to compute still does."""
    found = _all(swept)
    kept = _all(json.loads(sweep_ops.RESULTS.read_text(encoding="utf-8"))["ops"])
    lost = [key for key, outcome in kept.items() if outcome == sweep_ops.COMPUTES
            and found.get(key, sweep_ops.COMPUTES) != sweep_ops.COMPUTES]
    assert not lost


def test_most_compute(swept):
    """The sweep itself works: inputs were found for most ops, and most ops compute."""
    outcomes = list(_all(swept).values())
    assert outcomes.count(sweep_ops.COMPUTES) > .7 * len(outcomes)
