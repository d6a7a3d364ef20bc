"""Modules of TensorFlow of which some instructions, chosen by a seed, stay on the CPU, so that they
are cut into regions at other places than programs are."""

import pathlib

import pytest

from test_accelerator import plugin, run

MODULES = pathlib.Path(__file__).resolve().parents[2] / "data/hlo"

PROGRAM = """
    import random
    import re
    import numpy as np
    from tremula import core

    WHOLE = re.compile(r"\\s+(ROOT )?%?[\\w.-]+ = ")  # an instruction, all of which is one line
    PARTS = re.compile(r" (parameter|constant|tuple|get-tuple-element)\\(|frontend_attributes")

    def cut(text, seed, share):
        chance = random.Random(seed)
        for line in text.splitlines():
            if WHOLE.match(line) and not PARTS.search(line) and chance.random() < share:
                line = line.split(", metadata=")[0] + ', frontend_attributes={on_cpu="chance"}'
            yield line

    def argument(info):
        if info.dtype.kind == "f":
            return numbers.normal(size=info.shape).astype(info.dtype)
        return numbers.integers(0, 2, info.shape).astype(info.dtype)

    text = core.Module.read_file(PATH).print()
    for seed, share in enumerate([0.03, 0.1, 0.2, 0.4, 0.6]):
        module = core.Module.read("\\n".join(cut(text, seed, share)))
        numbers = np.random.default_rng(seed)
        inputs = [argument(info) for info in core.compile(module).inputs]
        cpu, there = (core.Engine(core.compile(module), accelerator=one) for one in ("", PLUGIN))
        for turn in range(2):
            for one, other in zip(cpu.run(inputs), there.run(inputs)):
                one, other = np.asarray(one, float), np.asarray(other, float)
                np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)
        print(there.accelerated.splitlines()[0].split()[2])
"""


@pytest.mark.parametrize("name", ["tf215_index", "tf215_train", "tf221_lstm"])
def test_same_numbers_wherever_it_is_cut(name):
    done = run(f"PATH = {str(MODULES / name)!r} + '.hlo'; PLUGIN = {plugin()!r}\n"
               + PROGRAM.replace("\n    ", "\n"), TREMULA_ACCELERATOR_LEAST="0")
    assert done.returncode == 0, done.stderr[-3000:]
    regions = [int(line) for line in done.stdout.split()]
    assert len(regions) == 5 and max(regions) > 1
