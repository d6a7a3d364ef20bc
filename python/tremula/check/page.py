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

Without `--run` it reads and runs nothing: no script is imported, and TensorFlow is not loaded.
Where the code does not tell, it is silent.

    reader.py:17:28: error: batch() without drop_remainder=True gives batches of unknown size
        [drop-remainder]
        `batch(n, drop_remainder=True)`; where no item may be lost, `repeat()` before it.
    1 file, 40 lines: 1 error

Five lines follow, which answer what one asks before a port: size, training or inference, static
shapes, one IPU or several and what kind of parallelism, the next step.

**--run** also runs the script, with the arguments behind it, to look at its graphs:

    tremula check --run train.py --batch 32

    train.py:38:17: error: the op Cholesky is not an IPU's ('step/Cholesky') [unsupported-op]
    size: the step of train.py:61 needs 26.4 MB of the 941 MB of 1 mk2 (0.6 MB of weights), its
        fullest tile 4 %
    IPUs: 1, which it fits; nothing in the code divides the model or the data

Nothing is trained and no device is needed. What a session, a function, `fit`, `evaluate`, `predict`
or an Estimator would compute becomes a graph, and zeros stand for the results. A loop that makes
such steps, or reads a dataset, ends after eight rounds; `fit` traces one step of one epoch. The
graphs tell operations and types that an IPU does not have and inputs of unknown shapes, each at the
line that made it, or that made Keras' layer. The largest step is lowered and planned, on up to 16
IPUs. What follows is to be known:

- The rest of the script is done: it reads its files, works eagerly, writes what Python writes.
  Keras' small data sets (MNIST, CIFAR, IMDB, ...) are zeros of the right shapes and are not
  fetched.
- Checkpoints, models and summaries of TensorFlow are not written, and none is restored. Keras'
  own callbacks and the hooks of sessions are not called. What the script prints is not shown.
- A step that is in no function is computed, operation by operation, with gradients of zero.
- Variables and loops of TensorFlow 1 are made in the form that can be lowered (resources,
  functions), whatever the script says.
- A script that takes from `tensorflow` what TensorFlow 1 alone has there (`tf.Session`,
  `tf.contrib`) runs as `python -m tremula.tf1` runs it.
- A script that fails, or needs a file that is not there, is a finding with the line
  (`script-fails`).

**A model** (a SavedModel, a GraphDef, Keras' file, HLO) can be checked too: operations and types
that an IPU does not have, and unknown shapes. That needs TensorFlow, except for HLO:

    tremula check saved_model/

**Exit code**: 0 where nothing but notes was found, 1 with errors or warnings, 2 after a mistake in
the command line.

**To turn a rule off** for a line, write its name in a comment there, or alone in the line above:

    dataset = dataset.batch(32)  # tremula: ignore[drop-remainder]

**--json** prints one object: `findings` (for each `rule`, `level`, `file`, `line`, `column`,
`message`, `why`, `remedy`, and `fixable`: whether `--fix` mends it), `answers` (the text of each of
the five), `files`, and `lines`, how many these have. **--sarif** prints SARIF 2.1.0, which code
hosts and editors show beside the code. **--fix** prints the changes that are mechanical as a
unified diff, and changes no file.

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
    if rule.needs_run:
        body += "\n\nFound with `--run`."
    remedy = "\n".join(textwrap.wrap(f"*Remedy:* {rule.remedy}", 100, break_on_hyphens=False))
    return (f"{parts[0]}{body}\n\n{remedy}\n\nBad:\n\n```python\n{rule.bad}```\n\nGood:\n\n"
            f"```python\n{rule.good}```\n")


if __name__ == "__main__":
    sys.stdout.write(text())
