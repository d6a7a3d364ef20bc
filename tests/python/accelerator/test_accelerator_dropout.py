"""Dropout becomes plain HLO on an accelerator, with the bits of the CPU's kernel."""

import pytest

from test_accelerator import plugin, run

PROGRAM = """
    import numpy as np
    from tremula import core
    text = '''
    HloModule m
    ENTRY e {{ x = {type}[{dims}] parameter(0)  s = {seed}[2] parameter(1)
      d = {type}[{dims}] custom-call(x, s), custom_call_target="tremula.dropout",
        backend_config="{{\\\\"rate\\\\":0.3,\\\\"scale\\\\":1.4285714{noise}}}"
      ROOT y = {type}[{dims}] add(d, x) }}'''
    engine = core.Engine(core.compile(core.Module.read(text)))
    shape = ({dims},)
    random = np.random.default_rng(0)
    x = random.normal(size=shape).astype(np.{numpy})
    seed = np.array([-123456789, 987654321]).astype(np.{seeds})
    import hashlib
    print(hashlib.sha256(engine.run([x, seed])[0].tobytes()).hexdigest())
"""


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("dims, noise", [
    ("64,33,17", ""), ("64,33,17", ',\\\\"noise_shape\\\\":[64,1,17]'),
    ("20001", ""), ("30000", ',\\\\"noise_shape\\\\":[1]')])
def test_same_bits(kind, dims, noise):
    seed, seeds = ("s32", "int32") if kind == "f32" else ("u32", "uint32")
    text = PROGRAM.format(type=kind, dims=dims, noise=noise, seed=seed, seeds=seeds,
                          numpy="float32" if kind == "f32" else "float16")
    alone, done = run(text), run(text, plugin(), POPLAR_LOG_LEVEL="INFO")
    assert alone.returncode == 0 and done.returncode == 0, alone.stderr + done.stderr
    assert "2 instructions of e will run on cpu:0" in done.stderr
    assert done.stdout == alone.stdout != ""


OVERFLOW = """
    import numpy as np
    from tremula import core
    text = '''HloModule m
    ENTRY e { x = f16[20000] parameter(0)  ROOT y = f16[20000] multiply(x, x) }'''
    engine = core.Engine(core.compile(core.Module.read(text), half_overflow="largest"))
    print(engine.run([np.full(20000, 300, np.float16)])[0][0])
"""


def test_halves_overflow_as_the_program_says():
    assert run(OVERFLOW, plugin()).stdout == run(OVERFLOW).stdout == "65500.0\n"
