"""python -m tremula.tf.supported_ops: the page docs/supported_ops.md.

    python -m tremula.tf.supported_ops [--checked FILE] > docs/supported_ops.md

Every op of the IPU device with its types, from the running TensorFlow; and what came of running it,
from FILE, which tests/python/ops/sweep_ops.py writes (in a checkout tests/data/sweep_ops.json).
"""

import argparse
import json
import os

_SWEEP = os.path.join("tests", "data", "sweep_ops.json")

_HEAD = """# TensorFlow operations on an IPU

This page lists the operations of TensorFlow {version} that `/device:IPU:N` accepts, with the types
of each. For example, `Abs` takes float16, float32 and four integer types, and was checked with
three of them. `{command}` writes this page.

TensorFlow's own XLA bridge lowers these operations to HLO. The list does not promise that an
operation works with any inputs:

- **Shapes are static.** An operation whose result's shape depends on values, such as `Where`,
  `Unique` or `DynamicPartition`, is refused when it is compiled.
- **Some arguments must be constants**, such as shapes, axes and paddings. In a compiled function
  they come from the function itself, not from its inputs. Outside of `compile` their values are
  taken when the operation runs.
- **Some HLO is not computed.** It is refused when it is compiled, with the instruction's name:
  communication between programs (`send`, `recv`), results of dynamic size, and custom calls that
  the library does not know. `tremula ops --hlo` lists the HLO that is computed.
- float64 and complex types are not types of an IPU.
- Operations that take functions (`While`, `If`, `Case`, `PartitionedCall`) and operations on
  handles (`TensorList`, `TensorArray`, `Stack`) work within a compiled function only.
"""

_CHECKED = """
**Checked** is the result of running each operation on the device. The inputs are made from the
operation's definition, with up to three types (float32, float16 and int32, where the operation has
them). The result is compared with TensorFlow's CPU kernel and with XLA. An operation that can be
placed on the device alone is placed; an operation with variables is compiled.

Of {total} operations {counts}.

| checked | meaning |
|---|---|
| a type | the result is TensorFlow's or XLA's (for random numbers: its shape and type) |
| refused | a clear message says that the operation is not implemented; see below |
| no lowering | TensorFlow's bridge does not lower the operation with these inputs |
| fails, wrong, crash | a bug of Tremula; see below |
| - | not run: it takes a function or a handle, or stock TensorFlow does not compute it either |
"""


def main():
    parser = argparse.ArgumentParser(prog="python -m tremula.tf.supported_ops")
    parser.add_argument("--checked", default=_SWEEP, help="what sweep_ops.py has written")
    arguments = parser.parse_args()
    checked, version = None, None
    if arguments.checked != _SWEEP or os.path.exists(_SWEEP):
        with open(arguments.checked, encoding="utf-8") as file:
            content = json.load(file)
        checked, version = content["ops"], content["tensorflow"]
    print(page(checked, version), end="")


def page(checked=None, checked_version=None):
    """The page as a text. `checked` is {op: {type: [outcome, message]}}."""
    from tremula.tf.inner import versions
    from tremula.tf.runtime import supported_ops
    table = supported_ops()
    text = _HEAD.format(command="python -m tremula.tf.supported_ops",
                        version=versions.tensorflow_version())
    if checked:
        text += _CHECKED.format(total=len(table), counts=_counts(table, checked))
        if checked_version != versions.tensorflow_version():
            text += f"\nThe check was made with TensorFlow {checked_version}.\n"
        text += _problems(table, checked)
    text += "\n## The operations\n\n| operation | types |" + (" checked |\n" if checked else "\n")
    text += "|---|---|" + ("---|\n" if checked else "\n")
    for op, attributes in table.items():
        line = f"| {op} | {_types(attributes)} |"
        text += line + (f" {_outcomes(checked.get(op, {}))} |\n" if checked else "\n")
    return text


def _types(attributes):
    return "; ".join(f"{attribute}: {', '.join(names)}" for attribute, names in attributes.items())


def _outcomes(found):
    computed = [dtype for dtype, (outcome, _) in found.items() if outcome == "computes"]
    others = [f"{outcome} ({dtype})" for dtype, (outcome, _) in found.items()
              if outcome not in ("computes", "unchecked")]
    return ", ".join(computed + others) or "-"


def _counts(table, checked):
    """In words, by the best that an op came to."""
    order = ("computes", "refused", "no lowering", "fails", "wrong", "crash")
    counts = dict.fromkeys(order, 0)
    for op in table:
        outcomes = {outcome for outcome, _ in checked.get(op, {}).values()}
        for name in order:
            if name in outcomes:
                counts[name] += 1
                break
    names = {"computes": "compute", "refused": "are refused", "no lowering": "have no lowering",
             "fails": "fail", "wrong": "are wrong", "crash": "crash"}
    parts = [f"{counts[name]} {names[name]}" for name in order if counts[name]]
    rest = len(table) - sum(counts.values())
    return ", ".join(parts) + f", {rest} were not run"


def _problems(table, checked):
    """What did not compute, with the message."""
    lines = []
    for op in table:
        by_message = {}
        for dtype, (outcome, message) in checked.get(op, {}).items():
            if outcome not in ("computes", "unchecked"):
                by_message.setdefault((outcome, _plain(message)), []).append(dtype)
        for (outcome, message), dtypes in by_message.items():
            lines.append(f"| {op} | {', '.join(dtypes)} | {outcome} | {message} |\n")
    if not lines:
        return ""
    return ("\n## What did not compute\n\n| operation | types | | message |\n|---|---|---|---|\n"
            + "".join(lines))


def _plain(message):
    """For a cell of a table, without what changes from run to run."""
    import re
    message = re.sub(r"^\w+Error: ([A-Z_]+: )?", "", message)
    message = re.sub(r" \(while reading.*| of computation \S+| \(%.*", "", message)
    return message.replace("|", "\\|").replace("<", "&lt;")[:160]


if __name__ == "__main__":
    main()
