#!/usr/bin/env python3
"""An mpirun that runs the instances one after the other, and writes down its arguments."""

import json
import os
import subprocess
import sys

if sys.argv[1:] == ["--version"]:
    print("mpirun (Open MPI) 5.0.0")
    sys.exit(0)
with open(os.environ["STUB_RECORD"], "w") as file:
    json.dump(sys.argv[1:], file)

code, rank = 0, 0
rest = sys.argv[sys.argv.index("-H"):]
while rest:
    end = rest.index(":") if ":" in rest else len(rest)
    words, rest = rest[:end], rest[end + 1:]
    variables = {"RANK": str(rank)}
    while words[0].startswith("-"):
        if words[0] == "-x" and "=" in words[1]:
            variables.update([words[1].split("=", 1)])
        words = words[2:]
    done = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True,
                          check=False)
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        for line in text.splitlines(keepends=True):
            getattr(sys, name).write(f"[1,{rank}]<{name}>: {line}")
    code, rank = code or done.returncode, rank + 1
sys.exit(code)
