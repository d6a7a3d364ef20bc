"""Values that the CPU hands to a region in other ways than as a whole slot of their own."""

import pytest

from test_accelerator import plugin, run
from test_accelerator_failures import failing  # noqa: F401

# What is before the outfeed is too little work to move; what is behind the infeed is not.
RESHAPE = """
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
    ENTRY e { p = f32[64,64] parameter(0)
      c = f32[1,1] slice(p), slice={[2:3], [2:3]}  n = f32[1,1] negate(c)
      r = f32[128,32] reshape(p)
      t = token[] after-all()  o = token[] outfeed(n, t), outfeed_config="o"
      in = (f32[64,64], token[]) infeed(o), infeed_config="i"
      y = f32[64,64] get-tuple-element(in), index=0
      d = f32[64,64] dot(p, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      y2 = f32[32,128] reshape(y)
      e = f32[128,128] dot(r, y2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT q = (f32[64,64], f32[128,128]) tuple(d, e) }''')
"""
# The part v of w is read where it is (schedule_views.c), and the region reads it too.
VIEW = """
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
    body { s = (s32[], f32[5,64,64], f32[64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0  w = f32[5,64,64] get-tuple-element(s), index=1
      a = f32[64,64] get-tuple-element(s), index=2
      one = s32[] constant(1)  j = s32[] add(i, one)  z = s32[] constant(0)
      v = f32[1,64,64] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,64,64}
      c = f32[1,1,1] slice(v), slice={[0:1], [2:3], [2:3]}  n = f32[1,1,1] negate(c)
      t = token[] after-all()  o = token[] outfeed(n, t), outfeed_config="o"
      in = (f32[64,64], token[]) infeed(o), infeed_config="i"
      y = f32[64,64] get-tuple-element(in), index=0  r = f32[64,64] reshape(v)
      d = f32[64,64] dot(r, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      k = f32[64,64] tanh(d)  e = f32[64,64] add(a, k)
      ROOT q = (s32[], f32[5,64,64], f32[64,64]) tuple(j, w, e) }
    more { s = (s32[], f32[5,64,64], f32[64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0  n = s32[] constant(5)
      ROOT c = pred[] compare(i, n), direction=LT }
    ENTRY e { w = f32[5,64,64] parameter(0)  a = f32[64,64] parameter(1)  z = s32[] constant(0)
      t = (s32[], f32[5,64,64], f32[64,64]) tuple(z, w, a)
      l = (s32[], f32[5,64,64], f32[64,64]) while(t), condition=more, body=body
      ROOT n = f32[64,64] get-tuple-element(l), index=2 }''')
"""
RUN = """
    random = np.random.default_rng(1)
    def normal(*shape):
        return random.normal(size=shape).astype(np.float32)
    inputs = INPUTS
    elements = [normal(64, 64) for step in range(5)]
    for accelerator in ("", PLUGIN):
        engine = core.Engine(core.compile(module), accelerator=accelerator)
        infeed, outfeed = core.Infeed([(np.float32, (64, 64))], 8), core.Outfeed(OUTFEED)
        engine.bind("i", infeed)
        engine.bind("o", outfeed)
        for element in elements:
            infeed.push(element)
        results = engine.run(inputs)
        print(*(f"{np.abs(one).sum():.1f}" for one in (*results, outfeed.take()[0])))
    assert " region" in engine.accelerated, engine.accelerated
"""


def lines_of(text, path, inputs, outfeed, **environment):
    text = text + RUN.replace("INPUTS", inputs).replace("OUTFEED", outfeed)
    done = run(text.replace("PLUGIN", repr(path)), **environment)
    assert done.returncode == 0, done.stderr[-2000:]
    cpu, there = done.stdout.splitlines()
    assert cpu == there
    return done.stderr


def test_two_shapes_of_one_value(failing):  # noqa: F811
    """The region gets an array of each shape. (The CPU plugin would take another shape, too.)"""
    log = lines_of(RESHAPE, failing[0], "[normal(64, 64)]", "[(np.float32, (1, 1))]",
                   **failing[1], FAILING_HOW="shapes")
    assert [line for line in log.splitlines() if line.startswith("SHAPES")] == [
        "SHAPES 64x64 64x64 128x32"], log


def test_a_part_of_an_array():
    lines_of(VIEW, plugin(), "[normal(5, 64, 64), normal(64, 64)]",
             "[(np.float32, (1, 1, 1))]")


# The condition comes after the outfeed, the tuple of the branches' operands before it.
BRANCHES = """
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
    yes { p = (f32[64,64]) parameter(0)  x = f32[64,64] get-tuple-element(p), index=0
      d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = (f32[64,64]) tuple(d) }
    no { p = (f32[64,64]) parameter(0)  x = f32[64,64] get-tuple-element(p), index=0
      n = f32[64,64] tanh(x)  ROOT r = (f32[64,64]) tuple(n) }
    ENTRY e { p = f32[64,64] parameter(0)
      a = f32[64,64] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      c = f32[1,1] slice(a), slice={[2:3], [2:3]}
      t = token[] after-all()  o = token[] outfeed(c, t), outfeed_config="o"
      in = (f32[64,64], token[]) infeed(o), infeed_config="i"
      y = f32[64,64] get-tuple-element(in), index=0
      s = f32[1,1] slice(y), slice={[2:3], [2:3]}  n = f32[] reshape(s)  z = f32[] constant(SIGN)
      b = pred[] compare(n, z), direction=GT  both = (f32[64,64]) tuple(a)
      g = (f32[64,64]) conditional(b, both, both), true_computation=yes, false_computation=no
      h = f32[64,64] get-tuple-element(g), index=0
      ROOT q = f32[64,64] dot(h, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }''')
"""


@pytest.mark.parametrize("sign", ["-100", "100"])
def test_a_condition_that_comes_later(sign):
    lines_of(BRANCHES.replace("SIGN", sign), plugin(), "[normal(64, 64)]",
             "[(np.float32, (1, 1))]")
