"""Whole networks against published numbers, as bench/fidelity/networks.py prints them."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "fidelity"

CHECK = """
import json, sys, tempfile
import tensorflow.compat.v1 as tf
import networks
tf.disable_v2_behavior()
with tempfile.TemporaryDirectory() as folder:
    planner = networks.Planner(folder)
    rates = [(one.what, *networks.compare(planner, one)) for one in networks.RATES]
    fits = [(one.what, one.fits, networks.fit(planner, one)) for one in networks.FITS]
print("answer", json.dumps([rates, fits]))
"""


@pytest.mark.long
def test_published_networks(tool):
    path = os.pathsep.join([str(BENCH), tool.environment["PYTHONPATH"]])
    done = subprocess.run([sys.executable, "-c", CHECK], text=True, capture_output=True,
                          timeout=1800, check=False, env={**tool.environment, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    rates, fits = json.loads(done.stdout.split("answer ")[-1])
    assert len(rates) >= 4 and len(fits) >= 7
    for what, published, model in rates:
        assert model == pytest.approx(published, rel=0.16), what
    for what, published, case in fits:
        assert case["fits"] == published, what
