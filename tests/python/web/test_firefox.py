"""Every view of the analyser in Firefox, which puppeteer drives; chromium has the other tests."""

import json
import pathlib
import shutil
import subprocess

import pytest

from analyser import ROOT, VIEWS, tremula

MODULES = ROOT / "build/web/node_modules"


@pytest.mark.long
def test_every_view_opens_in_firefox(html, profiles, tmp_path):
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox is None or not (MODULES / "puppeteer-core").exists():
        pytest.skip("no firefox or no puppeteer-core (make test-all installs both)")
    done = subprocess.run(
        ["node", pathlib.Path(__file__).with_name("firefox.mjs"), MODULES, firefox,
         html("plain", "changed"), *VIEWS], text=True, capture_output=True, check=False,
        timeout=600, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["faults"] == [] and list(found["views"]) == VIEWS
    for view, shown in found["views"].items():
        assert shown["alerts"] == [] and shown["wider"] <= 0, view
    wanted = json.loads(tremula("report", profiles["plain"], "--json").stdout)
    assert float(found["views"]["summary"]["cycles"]) == wanted["cycles"]
    assert "pairs" in found["views"]["compare"]["tables"]
