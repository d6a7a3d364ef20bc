#!/usr/bin/env python3
"""What `tremula plan` costs for programs that fit on no single IPU.

    python bench/plan.py [--only NAME,...] [--rounds N]

Three figures are promised: the search of a chain of 100 000 instructions takes under 10 s and
2 GB; the advice that a refused program prints takes at most two plans; a cut for 16 IPUs takes at
most two plans. "search" is the command as a process. The other columns are of one process: the
plan of the whole program, and what the advice and the cut take as multiples of it. All times are
processor times, the least of the rounds.
"""

import argparse
import ctypes
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
_DOES_NOT_FIT = 3


# ---- Programs ------------------------------------------------------------------------------------

def _write_chain(path, length, size, *, weights=False, results=0):
    """A chain of products, sums and maxima of [size, size], with a weight for every four
    instructions or one for all, of whose values each `results`-th stays until the end."""
    kind = f"f32[{size},{size}]"
    product = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines, last, kept = [f"x = {kind} parameter(0)"], "x", []
    for number in range(length // 4 if weights else 1):
        lines.append(f"w{number} = {kind} parameter({number + 1})")
    for i in range(length):
        weight = f"w{i // 4 if weights else 0}"
        one = (f"dot({last}, {weight}), {product}", f"add({last}, {weight})",
               f"maximum({last}, x)", f"tanh({last})")[i % 4]
        last = f"v{i}"
        lines.append(f'{last} = {kind} {one}, metadata={{op_name="layer{i // 40}/op{i}"}}')
        if results and i % results == results - 1:
            kept.append(last)
    kept = kept or [last]
    types = ", ".join([kind] * len(kept))
    lines.append(f"ROOT r = ({types}) tuple({', '.join(kept)})")
    path.write_text("HloModule chain\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n")


def _write_training(path, make):
    """A training step of a network of bench/fidelity; its gradients are added to sums."""
    sys.path.insert(0, str(ROOT / "bench" / "fidelity"))
    import tensorflow.compat.v1 as tf
    import stages
    tf.disable_v2_behavior()
    stages.write(lambda: make(stages), str(path), True)


PROGRAMS = {
    "chain": functools.partial(_write_chain, length=100000, size=64),
    "chain-results": functools.partial(_write_chain, length=100000, size=64, results=30),
    "chain-weights": functools.partial(_write_chain, length=100000, size=128, weights=True),
    "short-chain": functools.partial(_write_chain, length=10000, size=448, weights=True),
    "resnet-50": functools.partial(
        _write_training, make=lambda stages: stages.residual(64, (3, 4, 6, 3))),
    "bert-large": functools.partial(
        _write_training, make=lambda stages: stages.bert(2, 384, 1024, 16, 24)),
}


# ---- Measuring -----------------------------------------------------------------------------------

def _timed(function, *arguments):
    """The result of a call, and its processor seconds."""
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


def _split(program, ipus):
    from tremula import core, planning
    cut = ctypes.c_void_p()
    core._call("trm_program_create_split", program, ipus, ctypes.byref(cut))
    planning._library().trm_program_free(cut)


def _work(path, rounds):
    """Prints the seconds of a plan, of its advice, and of a cut over 16 IPUs."""
    from tremula import core, planning
    executable = ctypes.c_void_p()
    module = core.Module.read_file(path)
    planning._library().trm_inspect_compile_for_plan.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    core._call("trm_inspect_compile_for_plan", module._handle, None, 0, ctypes.byref(executable))
    executable = core.Executable(executable)
    least = [float("inf")] * 3
    for _ in range(rounds):
        plan, first = _timed(planning.plan, executable, "mk2")
        assert not plan.fits
        seconds = first, _timed(plan.explain)[1], _timed(_split, plan._handle, 16)[1]
        least = list(map(min, least, seconds))
    print(*least)


def _run_search(path):
    """Processor seconds and bytes of the command."""
    tool = pathlib.Path(os.environ["TREMULA_LIBRARY_DIR"]).parent / "bin" / "tremula"
    command = subprocess.Popen([tool, "plan", path, "--target", "mk2"],
                               stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(command.pid, 0)
    command.returncode = os.waitstatus_to_exitcode(status)
    assert command.returncode == _DOES_NOT_FIT, command.returncode
    return used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    for part in "make", "work":  # in processes of their own, whose memory is not the command's
        parser.add_argument(f"--{part}", metavar="PATH", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        PROGRAMS[arguments.only](pathlib.Path(arguments.make))
        return
    if arguments.work:
        _work(arguments.work, arguments.rounds)
        return
    print(f"{'program':15} {'search':>8} {'memory':>8} {'plan':>8} {'advice':>8} {'cut':>8}")
    for name in arguments.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"{name}.hlo"
            own = [sys.executable, __file__, "--only", name, "--rounds", str(arguments.rounds)]
            subprocess.run([*own, "--make", path], check=True, stderr=subprocess.DEVNULL)
            searches = [_run_search(path) for _ in range(arguments.rounds)]
            done = subprocess.run([*own, "--work", path], check=True, stdout=subprocess.PIPE,
                                  text=True)
        plan, advice, cut = map(float, done.stdout.split())
        print(f"{name:15} {min(one[0] for one in searches):6.1f} s "
              f"{max(one[1] for one in searches) / 1e9:5.2f} GB {plan:6.2f} s "
              f"{advice / plan:6.2f} x {cut / plan:6.2f} x", flush=True)


if __name__ == "__main__":
    main()
