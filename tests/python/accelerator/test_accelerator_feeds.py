"""A loop with feeds: the next element goes to the accelerator while the last one is computed."""

from test_accelerator import run
from test_accelerator_failures import TRAIN, failing, feeding  # noqa: F401

# The outfeed gets the result of the region and the counter.
PROGRAM = feeding(6, 'both = (s32[], f32[128,128]) tuple(i, h)  '
                     'o = token[] outfeed(both, t), outfeed_config="y"') + """
    random = np.random.default_rng(1)
    w, *xs = random.normal(size=(7, 128, 128)).astype(np.float32)
    outfeed = core.Outfeed([(np.int32, ()), (np.float32, (128, 128))])
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
# A state of 41 arrays.
MANY = """
    import numpy as np
    from tremula import core
    arrays = range(1, 41)
    state = "(" + ", ".join(["s32[]", *["f32[64,64]" for e in arrays]]) + ")"
    sums = "".join(f"v{e} = f32[64,64] get-tuple-element(s), index={e} "
                   f"w{e} = f32[64,64] add(v{e}, x) " for e in arrays)
    module = core.Module.read(f'''HloModule m
    step {{ s = {state} parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)  n = s32[] add(i, one)
      t = token[] after-all()  in = (f32[64,64], token[]) infeed(t), infeed_config="x"
      x = f32[64,64] get-tuple-element(in), index=0  {sums}
      ROOT r = {state} tuple(n, {", ".join(f"w{e}" for e in arrays)}) }}
    more {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
      turns = s32[] constant(3)  ROOT c = pred[] compare(i, turns), direction=LT }}
    ENTRY e {{ {" ".join(f"p{e} = f32[64,64] parameter({e - 1})" for e in arrays)}
      z = s32[] constant(0)  t = {state} tuple(z, {", ".join(f"p{e}" for e in arrays)})
      ROOT l = {state} while(t), condition=more, body=step }}''')
    engine = core.Engine(core.compile(module))
    infeed = core.Infeed([(np.float32, (64, 64))], 8)
    engine.bind("x", infeed)
    for turn in range(3):
        infeed.push(np.ones((64, 64), np.float32))
    results = engine.run([np.full((64, 64), e, np.float32) for e in arrays])
    assert all((one == e + 3).all() for e, one in zip(arrays, results[1:]))
"""
IN_TURN = PROGRAM + """
    import threading
    import time
    running = threading.Thread(target=engine.run, args=([w],))
    running.start()
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


def test_a_state_is_updated_in_place(failing):  # noqa: F811
    """But values that an outfeed still holds stay."""
    def kept(text):
        done = run(text, failing[0], **failing[1], FAILING_HOW="donate")
        assert done.returncode == 0, done.stderr[-2000:]
        return [line.split()[1] for line in done.stderr.splitlines() if line.startswith("KEEPS ")]
    assert kept(TRAIN) == ["0"] * 9
    assert kept(AT_ONCE) == ["0"] + ["1"] * 5
    assert kept(MANY) == ["0"] * 3


def test_a_host_that_waits_for_each_result(failing):  # noqa: F811
    done = run(IN_TURN, failing[0], **failing[1], FAILING_HOW="never")
    assert done.stdout == run(AT_ONCE).stdout, done.stderr[-2000:]


def test_a_failure_loses_no_result(failing):  # noqa: F811
    """What was computed before the fourth step failed is in the outfeed."""
    done = run(AT_ONCE, failing[0], **failing[1], FAILING_HOW="execute:4")
    assert done.stdout.splitlines() == [
        "InternalError", *run(AT_ONCE).stdout.splitlines()[:3]], done.stderr[-2000:]
