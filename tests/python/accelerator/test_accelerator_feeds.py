"""A loop with feeds: the next element goes to the accelerator while the last one is computed."""

from test_accelerator import run
from test_accelerator_failures import failing, feeding  # noqa: F401

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


def test_a_host_that_waits_for_each_result(failing):  # noqa: F811
    done = run(IN_TURN, failing[0], **failing[1], FAILING_HOW="never")
    assert done.stdout == run(AT_ONCE).stdout, done.stderr[-2000:]


def test_a_failure_loses_no_result(failing):  # noqa: F811
    """What was computed before the fourth step failed is in the outfeed."""
    done = run(AT_ONCE, failing[0], **failing[1], FAILING_HOW="execute:4")
    assert done.stdout.splitlines() == [
        "InternalError", *run(AT_ONCE).stdout.splitlines()[:3]], done.stderr[-2000:]
