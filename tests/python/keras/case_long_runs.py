"""What is left after many fits and many models."""

import gc
import pathlib
import threading

import fitting
from fitting import compiled, data, keras

FITS = 200


def resident():
    """Bytes of this process in memory."""
    gc.collect()
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def test_memory_is_flat_over_200_fits():
    with fitting.scope():
        made = compiled(metrics=["mae"])
        dataset = data()
        before = None
        for number in range(FITS):
            made.fit(dataset, verbose=0)
            if number % 10 == 0:
                made.evaluate(dataset, verbose=0)
                made.predict(dataset.map(lambda x, y: x), verbose=0)
            if number == FITS // 4:
                before, threads = resident(), threading.active_count()
        grown = resident() - before
        assert grown < 8 << 20, f"{grown >> 20} MiB more after {FITS - FITS // 4} fits"
        assert threading.active_count() <= threads


def test_models_leave_no_threads():
    def run(asynchronous):
        made = compiled()
        made.set_asynchronous_callbacks(asynchronous)
        made.fit(data(), verbose=0, callbacks=[keras.callbacks.Callback()])
        made.predict(data().map(lambda x, y: x), verbose=0)

    with fitting.scope():
        run(True)
        gc.collect()
        before = threading.active_count()
        for number in range(10):
            run(number % 2 == 0)
        gc.collect()
        assert threading.active_count() <= before
