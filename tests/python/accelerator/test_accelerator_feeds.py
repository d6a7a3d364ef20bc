"""A loop with feeds: the next element goes to the accelerator while the last one is computed."""

from test_accelerator import run
from test_accelerator_failures import failing  # noqa: F401

# A step in a loop until 6, with an infeed and an outfeed of the region's result and of the counter.
PROGRAM = """
    import threading
    import numpy as np
    from tremula import core
    module = core.Module.read('''HloModule m
    step { s = (s32[], f32[128,128]) parameter(0)
      i = s32[] get-tuple-element(s), index=0  w = f32[128,128] get-tuple-element(s), index=1
      one = s32[] constant(1)  n = s32[] add(i, one)
      t = token[] after-all()  in = (f32[128,128], token[]) infeed(t), infeed_config="x"
      x = f32[128,128] get-tuple-element(in), index=0
      d = f32[128,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      h = f32[128,128] tanh(d)  both = (s32[], f32[128,128]) tuple(i, h)
      o = token[] outfeed(both, t), outfeed_config="y"
      ROOT r = (s32[], f32[128,128]) tuple(n, h) }
    until6 { s = (s32[], f32[128,128]) parameter(0)  i = s32[] get-tuple-element(s), index=0
      six = s32[] constant(6)  ROOT c = pred[] compare(i, six), direction=LT }
    ENTRY e { w = f32[128,128] parameter(0)  z = s32[] constant(0)
      t = (s32[], f32[128,128]) tuple(z, w)
      l = (s32[], f32[128,128]) while(t), condition=until6, body=step
      ROOT n = f32[128,128] get-tuple-element(l), index=1 }''')
    random = np.random.default_rng(1)
    w, *xs = random.normal(size=(7, 128, 128)).astype(np.float32)
    engine = core.Engine(core.compile(module))
    infeed = core.Infeed([(np.float32, (128, 128))], 8)
    outfeed = core.Outfeed([(np.int32, ()), (np.float32, (128, 128))])
    engine.bind("x", infeed)
    engine.bind("y", outfeed)

    def show(taken):
        counts, arrays = taken
        for count, array in zip(counts, arrays):
            print(int(count), f"{float(np.abs(array).sum()):.1f}")
        return len(counts)
"""
AT_ONCE = PROGRAM + """
    for x in xs:
        infeed.push(x)
    try:
        engine.run([w])
    except core.TremulaError as error:
        print(type(error).__name__)
    show(outfeed.take())
"""
IN_TURN = PROGRAM + """
    running = threading.Thread(target=engine.run, args=([w],))
    running.start()
    import time
    for x in xs:  # the next one only when the last one's result has come
        infeed.push(x)
        while not show(outfeed.take()):
            time.sleep(0.001)
    running.join()
"""


def test_copied_while_the_last_is_computed(failing):  # noqa: F811
    """Each run starts before the result of the one before it is read."""
    done = run(AT_ONCE, failing[0], **failing[1], FAILING_HOW="say")
    assert done.stdout == run(AT_ONCE).stdout and done.stdout.count("\n") == 6, done.stderr[-2000:]
    does = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("DOES ")]
    assert does == ["up", "up", "run"] + ["up", "run", "down"] * 5 + ["down", "down"]


def test_a_host_that_waits_for_each_result(failing):  # noqa: F811
    done = run(IN_TURN, failing[0], **failing[1], FAILING_HOW="never")
    assert done.stdout == run(AT_ONCE).stdout, done.stderr[-2000:]


def test_a_failure_loses_no_result(failing):  # noqa: F811
    """What was computed before the fourth step failed is in the outfeed."""
    done = run(AT_ONCE, failing[0], **failing[1], FAILING_HOW="execute:4")
    assert done.stdout.splitlines() == [
        "InternalError", *run(AT_ONCE).stdout.splitlines()[:3]], done.stderr[-2000:]
