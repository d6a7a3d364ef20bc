"""python -m tremula.check.page: the page docs/check.md, from the rules."""

import sys
import textwrap

from tremula.check import rules

_HEAD = """# tremula check

`tremula check` reads a TensorFlow program and says what keeps it from running on an IPU, or makes
it slow there: file and line, the reason, and the change that mends it. It reads programs that know
nothing of IPUs as well as those that do. For example:

    tremula check train.py                  # train.py, and the files of its own that it imports
    tremula check src/                      # every .py file below
    tremula check --fix train.py | patch -p0
    tremula check --sarif train.py > check.sarif

It reads and runs nothing: no script is imported, and TensorFlow is not loaded. Where the code does
not tell, it is silent.

    reader.py:17:28: error: batch() without drop_remainder=True gives batches of unknown size
        [drop-remainder]
        `batch(n, drop_remainder=True)`; where no item may be lost, `repeat()` before it.
    1 file, 40 lines: 1 error

Five lines follow, which answer what one asks before a port: size, training or inference, static
shapes, one IPU or several and what kind of parallelism, the next step.

**A model** (a SavedModel, a GraphDef, Keras' file, HLO) can be checked too: operations and types
that an IPU does not have, and unknown shapes. That needs TensorFlow, except for HLO:

    tremula check saved_model/

**Exit code**: 0 where nothing but notes was found, 1 with errors or warnings, 2 after a mistake in
the command line.

**To turn a rule off** for a line, write its name in a comment there, or alone in the line above:

    dataset = dataset.batch(32)  # tremula: ignore[drop-remainder]

**--json** prints findings and answers as JSON. **--sarif** prints SARIF 2.1.0, which code hosts
and editors show beside the code. **--fix** prints the changes that are mechanical as a unified
diff, and changes no file.

**In tests**, `tremula.testing.assert_portable("train.py")` fails with the findings, and
`tremula.testing.assert_fits(executable, target="mk2", ipus=1)` with the plan of a model that does
not fit.

**Which code is for an IPU?** In IPU programs: functions that `ipu_compiler.compile`,
`loops.repeat`, `pipelining_ops.pipeline`, `strategy.run` and IPUEstimators get, and what is under
`ipu_scope`. In all programs also: functions of `tf.function`, an Estimator's `model_fn`, `call` of
Keras layers and models. With each of them goes what it calls, also in other files. Functions that a
dataset maps, and what is under `outside_compilation_scope` or `tf.device("cpu")`, are the host's.

Of the examples below, each bad one gives its rule and no other finding, and each good one none; a
test runs them. `python -m tremula.check.page` writes this page.

## The rules

| rule | level | what it finds |
|---|---|---|
"""


def text():
    found = rules.load().values()
    page = _HEAD + "".join(f"| [{one.id}](#{one.id}) | {one.level} | {one.title} |\n"
                           for one in found)
    return page + "".join(_section(one) for one in found)


def _section(rule):
    parts = [f"\n## {rule.id}\n\n", f"**{rule.title}.** ", rule.why]
    body = "\n".join(textwrap.wrap("".join(parts[1:]), 100, break_on_hyphens=False))
    remedy = "\n".join(textwrap.wrap(f"*Remedy:* {rule.remedy}", 100, break_on_hyphens=False))
    return (f"{parts[0]}{body}\n\n{remedy}\n\nBad:\n\n```python\n{rule.bad}```\n\nGood:\n\n"
            f"```python\n{rule.good}```\n")


if __name__ == "__main__":
    sys.stdout.write(text())
