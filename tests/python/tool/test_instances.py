"""Profiles of several instances: `tremula trace` shows them side by side."""

import json
import os
import subprocess

import built

PROGRAM = "HloModule step\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] add(x, x)\n}\n"


def test_instances_side_by_side(tmp_path):
    tool = built.program("tremula")
    (tmp_path / "step.hlo").write_text(PROGRAM)

    def run(*arguments, **variables):
        return subprocess.run([tool, *arguments], cwd=tmp_path, env={**os.environ, **variables},
                              text=True, capture_output=True, timeout=600, check=True).stdout

    for rank in "01":
        instance = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "2"}
        run("compile", "step.hlo", "-o", "step.poplar_exec", **instance)
        run("run", "step.poplar_exec", "--zeros", **instance,
            POPLAR_ENGINE_OPTIONS='{"autoReport.all": "true"}')
    profiles = sorted(tmp_path.glob("tf_report__*"))
    assert len(profiles) == 2
    rows = json.loads(run("trace", *profiles))["traceEvents"]
    named = {row["pid"]: row["args"]["name"] for row in rows if row["ph"] == "M"}
    assert sorted(named.values()) == ["instance 0, IPU 0", "instance 1, IPU 0"]
