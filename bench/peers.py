#!/usr/bin/env python3
"""Tremula beside TensorFlow's own graph and XLA, as a TensorFlow program: the same networks, in one
run, in turns. bench/league.py has more peers.

    python bench/peers.py [--quick] [--only NAME]... [--output build/bench.json]

Prints a table and writes everything as JSON. Times are of one call; the least and the median of
several rounds. A ratio below 1 means that ours is faster; it is of the least times.
--before DIR adds Tremula as it was: another checkout, with `cmake --build --preset release` done.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from comparison import keras_fit, machine, networks, rounds, startup, worker  # noqa: E402

_HEAD = (f"{'case':15} {'peer':18} {'min':>10} {'median':>10} {'first':>8}  {'ours/it':>7} "
         f"{'differs':>8}")


_KERNELS = 4  # that are shown: those that take most of the time
_KERAS_FITS = {"keras-fit": "mlp", "keras-fit-resnet": "resnet"}


def main():
    names = [case.name for case in networks.cases()] + ["startup", "first-step", *_KERAS_FITS]
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two rounds: whether it runs at all")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME",
                        help="one of " + ", ".join(names) + "; may be repeated")
    parser.add_argument("--peers", default="", help="of " + ", ".join(worker.PEERS)
                        + ", with commas between them; all otherwise")
    parser.add_argument("--before", metavar="DIR", type=pathlib.Path,
                        help="another checkout of Tremula, built, to compare with")
    parser.add_argument("--rounds", type=int, help="rounds, instead of 7 (startup: 5)")
    parser.add_argument("--log", default=ROOT / "build" / "logs" / "peers.log", type=pathlib.Path,
                        help="for what TensorFlow writes to the standard error")
    parser.add_argument("--output", default=ROOT / "build" / "bench.json", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    chosen = [one for one in arguments.peers.split(",") if one] or list(worker.PEERS)
    for one in set(chosen) - set(worker.PEERS):
        parser.error(f"--peers: '{one}' is none of {', '.join(worker.PEERS)}")
    library = arguments.before and arguments.before / "build/release/lib/libtremula.so"
    if library and not library.exists():
        parser.error(f"--before: there is no {library}; build that checkout")

    record = {"machine": _machine(), "cases": [], "startup": None,
              "first-step": None, **dict.fromkeys(_KERAS_FITS)}
    _print_machine(record["machine"])
    arguments.log.parent.mkdir(parents=True, exist_ok=True)
    arguments.log.write_bytes(b"")
    wanted = arguments.only or names
    count = arguments.rounds or (2 if arguments.quick else 7)
    try:
        peers = [rounds.Peer(name, arguments.log) for name in chosen]
        if arguments.before:
            peers.append(rounds.Peer("before", arguments.log, arguments.before))
        _compare([case for case in networks.cases() if case.name in wanted], count, peers, record)
        if "startup" in wanted:
            record["startup"] = startup.measure(
                arguments.rounds or (1 if arguments.quick else 5))
            _print_startup(record["startup"])
        if "first-step" in wanted:
            record["first-step"] = startup.measure_training(
                arguments.rounds or (1 if arguments.quick else 3))
            _print_first_step(record["first-step"])
        for name, case in _KERAS_FITS.items():
            if name in wanted:
                record[name] = keras_fit.measure(
                    case, arguments.rounds or (1 if arguments.quick else None))
                _print_keras_fit(case, record[name])
    finally:
        record["machine"]["load_average_at_end"] = machine.load_average()
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten: {arguments.output}")
    failed = [f"{one['name']} ({name})" for one in record["cases"]
              for name, entry in one["peers"].items()
              if "error" in entry and name in ("core", *worker.OURS)]
    for name in ("startup", "first-step", *_KERAS_FITS):
        failed += [f"{name} ({kind})" for kind, entry in (record[name] or {"kinds": {}})[
            "kinds"].items() if "error" in entry]
    if failed:
        sys.exit("failed: " + ", ".join(failed))


def _compare(cases, count, peers, record):
    if not cases:
        return
    print("\nTimes of one call in ms; first: building, compiling and the first call, in seconds.\n"
          "differs: the largest difference from TensorFlow's result, in parts of the largest "
          "number.\n\n" + _HEAD)
    try:
        for case in cases:
            record["cases"].append(rounds.measure(case, peers, count))
            _print_case(record["cases"][-1])
    finally:
        for peer in peers:
            peer.end()


def _machine():
    versions = {}
    for package in ("tensorflow-cpu", "tensorflow", "tremula"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return {"cpu": machine.cpu_model(), "cores": machine.cores(), "system": platform.platform(),
            "python": platform.python_version(), "packages": versions,
            "load_average": machine.load_average(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S %z")}


def _print_machine(found):
    packages = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    print(f"{found['cpu']}, {found['cores']} cores (every peer has {found['cores']} threads), "
          f"load average {found['load_average']}\n{packages}, Python {found['python']}, "
          f"{found['system']}\n{found['date']}")


def _print_case(case):
    ours = case["peers"].get("ours", {}).get("min")
    for name, entry in case["peers"].items():
        start = f"{case['name']:15} {(worker.PEERS | worker.BEFORE)[name]:18}"
        if "error" in entry:
            print(f"{start} {entry['error'][:200]}")
            continue
        ratio = f"{ours / entry['min']:7.2f}" if ours and name != "ours" else " " * 7
        differs = "" if name == "tf" or entry["difference"] is None else (
            f"{entry['difference']:8.0e}")
        print(f"{start} {1e3 * entry['min']:10.3f} {1e3 * entry['median']:10.3f} "
              f"{entry['first_seconds']:8.2f}  {ratio} {differs}".rstrip())
    kernels = case["peers"].get("core", {}).get("kernels", [])[:_KERNELS]
    if kernels:
        print(f"{'':15} by " + ", ".join(f"{name} {share}" for name, share in kernels))
    others = case["others_share"]
    busy = "unknown" if others is None else f"{100 * others:.0f} %"
    print(f"{'':15} load average {case['load_average']}; others took {busy} of the machine\n",
          flush=True)


def _print_startup(record):
    print("From the start of Python to the first result of a program that adds, in "
          f"seconds; load average {record['load_average']}")
    for kind, entry in record["kinds"].items():
        text = entry.get("error") or f"min {entry['min']:6.2f}   median {entry['median']:6.2f}"
        print(f"{startup.KINDS[kind]:28} {text}")


def _print_first_step(record):
    print("\nResNet-50 training, batch 8, in seconds: building the graph, initialising, the first "
          "step less a later one,\nboth together (how long until the first step begins), a step; "
          f"load average {record['load_average']}")
    for kind, entry in record["kinds"].items():
        if "error" in entry:
            text = entry["error"]
        else:
            least = entry["min"]
            text = "   ".join(f"{name} {value:6.2f}" for name, value in (
                ("graph", least["graph"]), ("initialise", least["initialise"]),
                ("before", least["first"] - least["step"]), ("to the step", least["to_step"]),
                ("step", least["step"])))
        print(f"{startup.KINDS[kind]:28} {text}")


def _print_keras_fit(case, record):
    print(f"\nmodel.fit of {keras_fit.CASES[case].title}: steps a second over those of stock Keras "
          "with 1 and with 100 steps an\nexecution; steps a second; seconds from the start of "
          "Python to the end of the first execution, and of\nthe first epoch less a later one; "
          f"load average {record['load_average']}")
    found = record["kinds"]
    stock = [found[f"tf {steps} {case}"].get("best", {}).get("steps_a_second", float("nan"))
             for steps in (1, 100)]
    for kind, title in keras_fit.kinds(case).items():
        if "error" in found[kind]:
            text = found[kind]["error"]
        else:
            best = found[kind]["best"]
            each = best["steps_a_second"]
            text = (f"{each / stock[0]:6.2f} {each / stock[1]:6.2f}   steps a second {each:8.1f}   "
                    f"started {best['started']:6.2f}   overhead {best['overhead']:6.2f}")
        print(f"{title:44} {text}".rstrip())


if __name__ == "__main__":
    main()
