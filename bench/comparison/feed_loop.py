"""The time of a loop's turn with feeds: prints {"microseconds", "alone"} as JSON.

    python bench/comparison/feed_loop.py

The loop takes an element, multiplies it by a matrix of 128 x 128, and gives the result to an
outfeed; `alone` is the time of a turn without feeds. TREMULA_ACCELERATOR chooses the device.
"""

import json
import threading
import time

import numpy as np

from tremula import core

ELEMENTS, ROUNDS = 1000, 5
TEXT = """HloModule m
step {{ s = (s32[], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  w = f32[128,128] get-tuple-element(s), index=1
  one = s32[] constant(1)  n = s32[] add(i, one)  {take}
  d = f32[128,128] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  h = f32[128,128] tanh(d)  {give}  ROOT r = (s32[], f32[128,128]) tuple(n, h) }}
goes_on {{ s = (s32[], f32[128,128]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  all = s32[] constant({count})  ROOT c = pred[] compare(i, all), direction=LT }}
ENTRY e {{ w = f32[128,128] parameter(0)  z = s32[] constant(0)
  t = (s32[], f32[128,128]) tuple(z, w)
  l = (s32[], f32[128,128]) while(t), condition=goes_on, body=step
  ROOT n = f32[128,128] get-tuple-element(l), index=1 }}"""
TAKE = ('t = token[] after-all()  in = (f32[128,128], token[]) infeed(t), infeed_config="x"  '
        "x = f32[128,128] get-tuple-element(in), index=0")
GIVE = 'o = token[] outfeed(h, t), outfeed_config="y"'


def _seconds(take, give):
    text = TEXT.format(take=take, give=give, count=ELEMENTS)
    engine = core.Engine(core.compile(core.Module.read(text)))
    element = np.random.default_rng(1).normal(size=(128, 128)).astype(np.float32)
    outfeed = core.Outfeed([(np.float32, (128, 128))])
    if give:
        infeed = core.Infeed([(np.float32, (128, 128))], 255)
        engine.bind("x", infeed)
        engine.bind("y", outfeed)
    seconds = []
    for _ in range(ROUNDS):
        if give:
            infeed.open()
            host = threading.Thread(target=lambda: [infeed.push(element) for _ in range(ELEMENTS)])
            host.start()
        start = time.perf_counter()
        engine.run([element])
        seconds.append(time.perf_counter() - start)
        if give:
            host.join()
            outfeed.take()
    return min(seconds) / ELEMENTS


def main():
    alone, fed = _seconds("x = f32[128,128] tanh(w)", ""), _seconds(TAKE, GIVE)
    print(json.dumps({"microseconds": 1e6 * fed, "alone": 1e6 * alone}))


if __name__ == "__main__":
    main()
