"""Profiles of several instances: `tremula trace` shows them side by side."""

import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = "HloModule step\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] add(x, x)\n}\n"


def test_instances_side_by_side(tmp_path):
    built = pathlib.Path(os.environ.get("TREMULA_BIN_DIR", ROOT / "build/release/bin")) / "tremula"
    tool = str(built) if built.exists() else shutil.which("tremula")
    (tmp_path / "step.hlo").write_text(PROGRAM)

    def run(*arguments, **variables):
        return subprocess.run([tool, *arguments], cwd=tmp_path, env={**os.environ, **variables},
                              text=True, capture_output=True, timeout=600, check=True).stdout

    for rank in "01":
        run("compile", "step.hlo", "-o", "step.poplar_exec", OMPI_COMM_WORLD_RANK=rank,
            OMPI_COMM_WORLD_SIZE="2", POPLAR_ENGINE_OPTIONS='{"autoReport.all": "true"}')
    profiles = sorted(tmp_path.glob("tf_report__*"))
    assert len(profiles) == 2
    rows = json.loads(run("trace", *profiles))["traceEvents"]
    named = {row["pid"]: row["args"]["name"] for row in rows if row["ph"] == "M"}
    assert sorted(named.values()) == ["instance 0, IPU 0", "instance 1, IPU 0"]
