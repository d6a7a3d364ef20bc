"""`tremula check`: the rules, what they find in programs of many styles, and how it is told.

tests/data/check has the programs. A comment `#! RULE ...` at the end of a line says what is found
there; nothing else may be."""
import ast
import itertools
import json
import pathlib
import re
import subprocess
import sys
import time

import pytest

from tremula import check, testing
from tremula.check import names, output, page, rules

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "tests/data/check"
PROGRAMS = [*sorted(DATA.glob("*.py")), *sorted(DATA.glob("chapter/*.py")),
            *sorted(DATA.glob("public/*.py"))]  # of several authors
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
RULES = rules.load()
RUNNING = {one.id for one in RULES.values() if one.needs_run}


def expected(paths):
    return sorted((str(path), number, rule) for path in paths
                  for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1)
                  for mark in re.findall(r"#! (.*)$", line) for rule in mark.split())


def found(report):
    return sorted((one.path, one.line, one.rule.id) for one in report.findings)


@pytest.fixture
def tool(tool):
    tool.environment["TREMULA_PYTHON"] = sys.executable  # without the import of TensorFlow
    return tool


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program(path):
    assert found(check.check([path])) == expected([path])


@pytest.mark.parametrize("script", ["project/train.py", "public/census/task.py",
                                    "public/segmentation/train.py", "public/hub_like/train.py",
                                    "public/vit_project/main.py"])
def test_several_files(script):
    report = check.check([DATA / script])
    assert sorted(report.files) == [str(path) for path in sorted(
        (DATA / script).parent.rglob("*.py"))]
    assert found(report) == expected(report.files)


def test_every_rule_is_found_in_a_program_or_example():
    marked = {rule for _, _, rule in expected([*PROGRAMS, *(DATA / "project").rglob("*.py")])}
    assert marked - set(RULES) == set()
    assert set(RULES) - marked == {"syntax", *RUNNING}  # in their own examples


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_clean(path):
    assert found(check.check([path])) == []


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rule(rule, tmp_path):
    for name, text, wanted in (("bad", rule.bad, {rule.id}), ("good", rule.good, set())):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        assert {one.rule.id for one in check.check([path]).findings} == wanted - RUNNING, name


def test_page_is_that_of_the_rules():
    assert (ROOT / "docs/check.md").read_text() == page.text(), \
        "run python -m tremula.check.page > docs/check.md"
    # Whatever was imported first: some rules' modules import others.
    modules = [one.find.__module__.rpartition(".")[2] for one in RULES.values()]
    assert list(dict.fromkeys(modules)) == list(rules._MODULES)
    assert modules == sorted(modules, key=rules._MODULES.index)


def test_nothing_of_tensorflow_is_loaded():
    text = ("import sys; from tremula import check, testing; check.check(sys.argv[1:]); "
            "print(sorted({one.partition('.')[0] for one in sys.modules} & "
            "{'tensorflow', 'numpy', 'keras'}))")
    ran = subprocess.run([sys.executable, "-c", text, str(EXAMPLES[0])], text=True, check=True,
                         capture_output=True, env={"PYTHONPATH": str(ROOT / "python")})
    assert ran.stdout == "[]\n"


# ---- Names ----

@pytest.mark.parametrize("imports, expression, name", [
    ("import tensorflow as tf", "tf.nn.relu", "tf.nn.relu"),
    ("import tensorflow", "tensorflow.compat.v1.placeholder", "tf.placeholder"),
    ("import tensorflow.compat.v1 as tf", "tf.placeholder", "tf.placeholder"),
    ("from tensorflow.keras import layers as L", "L.Dense", "tf.keras.layers.Dense"),
    ("import keras", "keras.Model", "tf.keras.Model"),
    ("import tensorflow as tf\nK = tf.keras", "K.layers.Dense", "tf.keras.layers.Dense"),
    ("from tensorflow.python import ipu", "ipu.ops.pipelining_ops.pipeline",
     "ipu.pipelining_ops.pipeline"),
    ("import tensorflow as tf", "tf.python.ipu.loops.repeat", "ipu.loops.repeat"),
    ("from tensorflow.contrib.ipu import loops", "loops.repeat", "ipu.loops.repeat"),
    ("from keras.ipu import PipelineStage", "PipelineStage", "ipu.keras.PipelineStage"),
    ("try:\n  import tensorflow.compat.v1 as tf\nexcept ImportError:\n  import tensorflow as tf",
     "tf.cast", "tf.cast"),
    ("import tensorflow as tf\ndef f(tf):\n  return tf.cast", "tf.cast", None),
    ("import tensorflow as tf\ntf = 3", "tf.cast", None),
])
def test_names(imports, expression, name):
    text = imports if "return" in imports else f"{imports}\n{expression}\n"
    file = names.File("x.py", text)
    node = next(one for one in file.nodes if isinstance(one, (ast.Attribute, ast.Name))
                and ast.unparse(one) == expression)
    assert file.resolve(node) == name


# ---- Keras' launches in a loop ----

@pytest.mark.parametrize("text, found_in", [
    ("for image in images:\n    model.predict(image[None])", 5),
    ("for x, y in test:\n    model.evaluate(x, y, verbose=0)", 5),
    ("while True:\n    state = step(model.predict(state))", 5),
    ("for state, target in replay:\n    model.fit(state, target, epochs=1, verbose=0)", 5),
    ("for epoch in range(9):\n    model.fit(images, labels)\n    model.predict(test)", 0),
    ("for epoch in range(9):\n    x = make()\n    model.fit(x)\n    model.predict(x)", 0),
    ("for a, b in folds.split(x):\n    model.predict(x[b])", 0),
    ("for x in parts:\n    model = tf.keras.Sequential([])\n    model.predict(x)", 0),
    ("for one in [1, 2]:\n    model.predict(make(one))", 0),
    ("for n, x in enumerate(parts):\n    if n % 9 == 0:\n        model.predict(x)", 0),
    ("forest = Forest()\nfor x in parts:\n    forest.predict(x)", 0),
])
def test_launches_in_a_loop(text, found_in, tmp_path):
    path = tmp_path / "loop.py"
    path.write_text("import tensorflow as tf\nfrom forests import Forest\n"
                    f"model = tf.keras.Sequential([])\n{text}\n")
    assert found(check.check([path])) == [(str(path), found_in, "host-round-trip")] * bool(found_in)


# ---- Types of what is fed ----

FED = """import functools
import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
data = tf.data.TFRecordDataset("x")
SPEC = {"image": tf.io.FixedLenFeature([4], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64)}
def parse(record, spec=SPEC):
    return tf.io.parse_single_example(record, spec)
"""
MODEL = "model = tf.keras.Sequential([])\n"
INFEED = "ipu.ipu_infeed_queue.IPUInfeedQueue(data)"


@pytest.mark.parametrize("text, line", [  # of the text; 0: nothing is found
    ("data = data.map(lambda x, y: (x, tf.cast(y, tf.int64)))\n" + INFEED, 1),
    ("data = data.map(lambda x, y: (x, tf.cast(y, tf.int64)))", 0),
    ("data = data.map(lambda x, y: (x, tf.cast(y, tf.int64)))\n"
     "data = data.map(lambda x, y: (x, tf.cast(y, tf.int32)))\n" + INFEED, 0),
    ("data = data.map(lambda x, y: (x, tf.cast(y, tf.int64)))\n"
     "data = data.map(lambda x, y: (2 * x, y))\n" + INFEED, 1),
    ("data = data.map(lambda x, y: (x, tf.cast(y, tf.int64)))\n"
     "data = data.map(lambda x, y: x)\n" + INFEED, 0),
    ("def crop(x, at):\n    at = tf.cast(at, tf.int64)\n    return x[at:]\n"
     "data = data.map(crop)\n" + INFEED, 0),
    ("data = data.map(parse).batch(2, drop_remainder=True)\n"
     "data = data.map(lambda one: (one['image'], one['label']))\n" + INFEED, 2),
    ("data = data.map(parse).map(lambda one: one['image'])\n" + INFEED, 0),
    ("def read(record):\n    one = parse(record)\n    label = one['label'] - 1\n"
     "    label = tf.cast(label, tf.int32)\n    return one['image'], label\n"
     "data = data.map(read)\n" + INFEED, 0),
    ("def read(record):\n    one = parse(record)\n    return one['image'], one['label'] - 1\n"
     "data = data.map(read)\n" + INFEED, 3),
    ("def read(record):\n    one = parse(record)\n"
     "    one['label'] = tf.cast(one['label'], tf.int32)\n"
     "    return one['image'], one['label']\ndata = data.map(read)\n" + INFEED, 0),
    ("def read(record):\n    one = parse(record)\n    for key in list(one):\n"
     "        one[key] = tf.cast(one[key], tf.int32)\n    return one\n"
     "data = data.map(read)\n" + INFEED, 0),
    ("def read(record):\n    one = parse(record)\n"
     "    one['label'] = tf.cast(one['label'], tf.int32)\n    return one\n"
     "data = data.map(read)\n" + INFEED, 0),
    ("def read(record):\n    one = parse(record)\n"
     "    one['image'] = one['image'] / 255.0\n    return one\n"
     "data = data.map(read)\n" + INFEED, 4),
    ("def read(record):\n    one = parse(record)\n    label = tf.cast(one.pop('label'), tf.int32)\n"
     "    return one, label\ndata = data.map(read)\n" + INFEED, 0),
    ("def read(x):\n    x, y = tf.numpy_function(np.split, [x, 2], [tf.float32, tf.int64])\n"
     "    return x, y\ndata = data.map(read)\n" + INFEED, 2),
    ("def read(x):\n    x, y = tf.numpy_function(np.split, [x, 2], [tf.float32, tf.int64])\n"
     "    return x\ndata = data.map(read)\n" + INFEED, 0),
    ("def feed(given):\n    ipu.ipu_infeed_queue.IPUInfeedQueue(given.repeat())\n"
     "feed(data.map(lambda x: tf.cast(x, tf.int64)))", 3),
    ("def read(scale, record):\n    return scale * parse(record)['label']\n"
     "data = data.map(functools.partial(read, 2))\n" + INFEED, 2),
    ("def pipeline(source):\n    return source.map(lambda x: tf.argmax(x)), source\n"
     "data, other = pipeline(data)\n" + INFEED, 2),
    ("def pipeline(source):\n    return source, source.map(lambda x: tf.argmax(x))\n"
     "data, other = pipeline(data)\n" + INFEED, 0),
    ("data = tf.data.Dataset.zip((data, tf.data.Dataset.range(9)))\n" + INFEED, 1),
    ("data = data.apply(tf.data.experimental.map_and_batch(\n"
     "    lambda x: tf.strings.to_number(x, tf.int64), 8, drop_remainder=True))\n" + INFEED, 2),
    ("data = tf.data.Dataset.from_generator(list, output_signature=(\n"
     "    tf.TensorSpec([2], tf.float32),\n    tf.TensorSpec([], tf.int64)))\n" + INFEED, 3),
    ("def make(training):\n    def input_fn():\n"
     "        return data.map(lambda x: parse(x)['label'])\n    return input_fn\n"
     "tf.estimator.EvalSpec(make(True))", 3),
    (MODEL + "x = np.ones([8, 4])\ny = np.random.randint(0, 9, 8)\nmodel.fit(x, y)", 3),
    (MODEL + "y = np.random.randint(0, 9, 8).astype(np.int32)\nmodel.fit(np.ones([8, 4]), y)", 0),
    ("forest = Forest()\ny = np.random.randint(0, 9, 8)\nforest.fit(np.ones([8, 4]), y)", 0),
    ("@tf.function\ndef step(batch):\n    return batch\n"
     "for batch in data.map(lambda x: tf.cast(x, tf.int64)):\n    step(batch)", 4),
    ("@tf.function\ndef steps(iterator):\n    return next(iterator)\n"
     "iterator = iter(data.map(lambda x: tf.cast(x, tf.int64)))\nsteps(iterator)", 4),
    ("for batch in data.map(lambda x: tf.cast(x, tf.int64)):\n    print(batch)", 0),
])
def test_types_of_what_is_fed(text, line, tmp_path):
    path = tmp_path / "fed.py"
    path.write_text(FED + text + "\n")
    assert [one.line for one in check.check([path], only=["int64"]).findings] == [
        FED.count("\n") + line] * bool(line)


@pytest.mark.parametrize("text, line", [
    ("def body():\n    return tf.constant(np.float64(2.0))", 2),
    ("def body():\n    return tf.constant(np.float64(2.0), dtype=tf.float32)", 0),
    ("def body():\n    return tf.constant(2.0)", 0),
    ("table = np.random.rand(9)\ndef body():\n    return tf.convert_to_tensor(table)", 3),
    ("table = np.array([[1.5, 2.0], [3, 4]])\ndef body():\n    return tf.constant(table[0])", 3),
    ("table = np.array([1, 2])\ndef body():\n    return tf.constant(table)", 0),
    ("table = np.zeros([9], np.float32)\ndef body():\n    return tf.constant(table)", 0),
    ("table = np.zeros([9]).astype('float32')\ndef body():\n    return tf.constant(table)", 0),
    ("table = np.zeros([9])\ndef body(x):\n    return x * table", 0),
    ("table = np.zeros([9])\ndef other():\n    return tf.constant(table)", 0),
    ("data = tf.data.Dataset.from_tensors(np.ones(3))\ndata = data.repeat()\n" + INFEED, 1),
    ("data = tf.data.Dataset.from_tensors(np.ones(3))\ndata = data.map(tf.cast)\n" + INFEED, 0),
    ("@tf.function\ndef step(x):\n    return x\nstep(np.ones(3))", 4),
    ("@tf.function\ndef step(x):\n    return x\nstep(np.ones(3, np.float32))", 0),
    ("@tf.function(input_signature=[tf.TensorSpec([3])])\ndef step(x):\n    return x\n"
     "step(np.ones(3))", 0),
    ("@tf.function\ndef step(x):\n    return x\n"
     "ipu.ipu_strategy.IPUStrategy().run(step, args=[np.ones(3)])", 4),
    ("def make(n):\n    found = np.zeros_like(n, dtype=np.float64)\n    found[0] = 1\n"
     "    return found\n@tf.function\ndef step(x):\n    return x\nstep(x=make(3))", 8),
])
def test_arrays_of_float64(text, line, tmp_path):
    path = tmp_path / "arrays.py"
    path.write_text(FED + text + "\nipu.ipu_compiler.compile(body, [])\n")
    assert [one.line for one in check.check([path], only=["float64"]).findings] == [
        FED.count("\n") + line] * bool(line)


@pytest.mark.parametrize("text", [
    "def f(x, n):\n    return f(x, n - 1) + f(x, n - 2)\ndata = data.map(lambda x: f(x, 9))\n",
    "def f(x, c):\n" + "    x = tf.reshape(x, [1]) if c else x\n" * 60 + "    return x\n"
    "data = data.map(f)\n",
    "def f(d):\n    if d:\n        return f(f(d))\n    return f(d.map(f))\ndata = f(data)\n"])
def test_many_ways_back_are_not_all_gone(text, tmp_path):
    path = tmp_path / "fed.py"
    path.write_text(FED + text + INFEED)
    assert check.check([path], only=["int64"]).findings == []


def test_other_types_that_are_fed(tmp_path):
    path = tmp_path / "fed.py"
    path.write_text(FED + "data = data.map(lambda x: tf.cast(x, tf.bfloat16) / 255.0)\n" + INFEED
                    + "\ntf.keras.mixed_precision.set_global_policy('mixed_bfloat16')\n")
    assert [one.message for one in check.check([path], only=["float64"]).findings] == [
        "what is fed here is of bfloat16, which an IPU does not have; use float16",
        "an IPU has no bfloat16: the policy is mixed_float16"]


def test_fix_casts_labels_to_int32(tmp_path):
    path = tmp_path / "fed.py"
    path.write_text(FED + "data = data.map(lambda x, y: (x, tf.cast(y, tf.int64)))\n" + INFEED)
    assert "+data = data.map(lambda x, y: (x, tf.cast(y, tf.int32)))" in output.diff(
        check.check([path]))


def test_long_chains_are_read_in_no_time(tmp_path):
    """A name that is bound again and again is asked once, not in every order."""
    path = tmp_path / "chain.py"
    steps = "".join(f"    data = data.{word}({n})\n" for n in range(40) for word in ("take", "map"))
    path.write_text(f"def read(data):\n{steps}    return data.batch(8)\n")
    assert found(check.check([path])) == []


# ---- Output ----

def test_text_ends_with_five_answers():
    lines = output.text(check.check([DATA / "v1_mnist_session.py"])).splitlines()
    assert lines[0].startswith(f"{DATA}/v1_mnist_session.py:13:33: error: ")
    assert [line.split(":")[0] for line in lines[-5:]] == [
        "size", "training or inference", "static shapes", "IPUs", "next"]
    assert "training, which" in lines[-4] and "v1_mnist_session.py:13" in lines[-3]


def test_answers():
    answers = check.check([ROOT / "examples/replication.py"]).answers
    assert "data parallel (ipu.cross_replica_optimizer.CrossReplicaOptimizer)" in answers[3]
    answers = check.check([ROOT / "examples/pipelining.py"]).answers
    assert answers[3].startswith("IPUs: 4 as configured; model parallel (ipu.pipelining_ops")
    assert "examples/custom_loop.py" in check.check([DATA / "tf2_low_level.py"]).answers[4]


def test_json():
    path = DATA / "keras_variable_length.py"
    data = json.loads(output.as_json(check.check([path])))
    assert data["findings"] == [{
        "rule": "unknown-shape", "level": "error", "file": str(path), "line": 4, "column": 29,
        "message": data["findings"][0]["message"], "why": RULES["unknown-shape"].why,
        "remedy": RULES["unknown-shape"].remedy, "fixable": False}]
    assert set(data["answers"]) == {"size", "training or inference", "static shapes", "IPUs",
                                    "next"}


SCHEMA = json.loads((DATA / "sarif.json").read_text())
SIMPLE = {"string": str, "boolean": bool, "uri": str, "index": int, "positive": int}


def invalid(value, kind, place="log"):
    """What of a log does not follow SCHEMA. kind: an object's, a SIMPLE one, a list of texts to
    choose from; "[kind]" is an array, "{kind}" one whose items differ."""
    if isinstance(kind, list):
        return [] if value in kind else [f"{place}: {value!r}"]
    if kind[0] in "[{":
        if not isinstance(value, list) or kind[0] == "{" and len(
                {json.dumps(one) for one in value}) < len(value):
            return [f"{place} is no array, or has an item twice"]
        return [fault for number, one in enumerate(value)
                for fault in invalid(one, kind[1:-1], f"{place}[{number}]")]
    if kind in SIMPLE:
        fine = type(value) is SIMPLE[kind] and not (
            kind == "uri" and re.search(r"\s|^$", value) or kind == "positive" and value < 1
            or kind == "index" and value < -1)
        return [] if fine else [f"{place}: {value!r} is no {kind}"]
    known = SCHEMA[kind]
    return [f"{place} has no {name}" for name in known["required"] if name not in value] + [
        fault for name, one in value.items() for fault in (
            invalid(one, known[name], f"{place}.{name}") if name in known
            else [f"{place}.{name} is not in the schema"])]


def test_sarif():
    report = check.check([DATA / "ipu_half.py", DATA / "ipu_feeds_wrong.py",
                          DATA / "ipu_old_sdk.py"])
    log = json.loads(output.sarif(report, RULES, "1.2.3"))
    assert invalid(log, "log") == []
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["version"] == "1.2.3"
    assert [one["id"] for one in driver["rules"]] == list(RULES)
    assert len(run["results"]) == len(report.findings) > 10
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].startswith("file:///")


@pytest.mark.parametrize("change, fault", [
    (lambda log: log.pop("version"), "log has no version"),
    (lambda log: log["runs"][0].pop("tool"), "log.runs[0] has no tool"),
    (lambda log: log["runs"][0]["results"][0].update(level="bad"), "level: 'bad'"),
    (lambda log: log["runs"][0]["results"][0].update(line=3), "line is not in the schema"),
    (lambda log: log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"].update(
        startLine=0), "startLine: 0 is no positive"),
])
def test_wrong_logs_are_told(change, fault):
    log = json.loads(output.sarif(check.check([DATA / "ipu_old_sdk.py"]), RULES, "0"))
    change(log)
    assert any(one.endswith(fault) for one in invalid(log, "log"))


def test_sarif_has_the_fixes():
    report = check.check([DATA / "ipu_old_sdk.py"])
    results = json.loads(output.sarif(report, RULES, "0"))["runs"][0]["results"]
    changes = [one["fixes"][0]["artifactChanges"][0]["replacements"][0] for one in results
               if "fixes" in one]
    assert {one["insertedContent"]["text"] for one in changes} == {
        "tensorflow.python", "gradient_accumulation_count"}


def test_fix_is_a_diff_that_mends(tmp_path):
    (tmp_path / "a.py").write_text(
        "import tensorflow as tf\n\n"
        "é = tf.data.Dataset.range(9).batch(3); ö = tf.data.Dataset.range(9).batch(\n    3)\n"
        "s = tf.data.Dataset.range(9).batch(3, drop_remainder=False)\n\n\n"
        "@tf.function(experimental_compile=True)\ndef f(x):\n    return tf.cast(x, tf.int64)")
    report = check.check([tmp_path / "a.py"])
    assert len(report.findings) == 5
    diff = output.diff(report).replace(str(tmp_path) + "/", "")
    subprocess.run(["patch", "-s", "-p0"], input=diff, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "a.py").read_text() == (
        "import tensorflow as tf\n\n"
        "é = tf.data.Dataset.range(9).batch(3, drop_remainder=True); "
        "ö = tf.data.Dataset.range(9).batch(\n    3, drop_remainder=True)\n"
        "s = tf.data.Dataset.range(9).batch(3, drop_remainder=False)\n\n\n"
        "@tf.function(jit_compile=True)\ndef f(x):\n    return tf.cast(x, tf.int32)")
    assert found(check.check([tmp_path / "a.py"])) == [
        (str(tmp_path / "a.py"), 5, "drop-remainder")]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_fix_leaves_nothing_to_fix(path, tmp_path):
    """Of every program: what --fix makes of it parses, what it mends is found no more, and what
    else was found is found as before. JSON and SARIF can be read."""
    before = check.check([path])
    assert invalid(json.loads(output.sarif(before, RULES, "0")), "log") == []
    assert len(json.loads(output.as_json(before))["findings"]) == len(before.findings)
    edits = {one.edit for one in before.findings if one.edit is not None}
    data = path.read_bytes().decode("utf-8", errors="surrogateescape")
    fixed = tmp_path / path.name
    fixed.write_bytes("".join(output.changed(data.splitlines(keepends=True), edits)).encode(
        "utf-8", errors="surrogateescape"))
    if edits:
        ast.parse(fixed.read_bytes())
    after = check.check([fixed])
    assert [one for one in after.findings if one.edit is not None] == []
    rest = [(one.rule.id, one.message) for one in before.findings if one.edit is None]
    assert sorted((one.rule.id, one.message) for one in after.findings) == sorted(rest)


def test_five_thousand_lines_take_seconds(tmp_path):
    """A program of 5 000 lines, in files that import each other, and in one."""
    texts = [path.read_text() for path in PROGRAMS if path.stat().st_size < 20_000]
    parts, lines = [], 0
    for number, text in enumerate(itertools.cycle(texts)):
        if lines > 5000:
            break
        (tmp_path / f"part_{number}.py").write_text(text)
        parts.append(f"import part_{number}\n")
        lines += text.count("\n")
    (tmp_path / "main.py").write_text("".join(parts))
    (tmp_path / "one.py").write_text("".join(
        (tmp_path / f"part_{number}.py").read_text() + "\n" for number in range(len(parts))))
    for script in ("main.py", "one.py"):
        start = time.process_time()
        report = check.check([tmp_path / script])
        assert report.lines > 5000 and time.process_time() - start < 5  # 1.4 s on a busy machine


# ---- Files that are strange ----

@pytest.mark.parametrize("data", [
    b"", b"\xef\xbb\xbfx = 1\n", b"\xff\xfe\x00", b"x = (", b"\0", b"print 'a'\n",
    b"x = " + b"-" * 5000 + b"1\n", b"x = " + b"+".join([b"1"] * 3000) + b"\n",
    b"from . import x\nfrom .... import y\nimport x.y\nimport self\n",
    b"f = f\nf()\ndef g(a=g): return g\ng.batch(1)\nx = x.batch(x)\n",
    b"a = b\nb = a\na.map(b).batch(3)\n", b"class A(A): pass\nclass B(C): pass\nclass C(B): pass\n",
    b"with open('x') as f, g() as (h, i): pass\nlambda *a, **k: a\n(x := 1)\n",
    b"async def f():\n  async for x in y: await x\nmatch 1:\n  case [a, *b]: pass\n",
    b"import tensorflow as tf\ntf.data.Dataset.range(*a).batch(**b)\ntf.placeholder()\n"
    b"tf.where()\ntf.device()\ntf.cast()\ntf.reduce_sum()\n@tf.function\ndef f(): f()\n",
])
def test_strange_files(data, tmp_path):
    path = tmp_path / "strange.py"
    path.write_bytes(data)
    report = check.check([path])
    assert output.text(report) and output.as_json(report) and output.sarif(report, RULES, "")
    output.diff(report)
    assert all(one.line >= 1 and one.column >= 1 for one in report.findings)


def test_a_file_of_python_2(tmp_path):
    (tmp_path / "old.py").write_bytes((DATA / "python2.py.txt").read_bytes())
    [one] = check.check([tmp_path / "old.py"]).findings
    assert (one.rule.id, one.line) == ("syntax", 2)


# ---- For tests ----

def test_assert_portable():
    testing.assert_portable(EXAMPLES[0])
    testing.assert_portable([DATA / "keras_variable_length.py"], ignore=["unknown-shape"])
    testing.assert_portable(str(DATA / "ipu_old_sdk.py"))  # notes alone
    with pytest.raises(AssertionError, match=r"1 obstacle .*\n.*length.py:4: .*\[unknown-shape\]"):
        testing.assert_portable(DATA / "keras_variable_length.py")
    with pytest.raises(ValueError, match="no rule 'shapes'"):
        testing.assert_portable(EXAMPLES[0], ignore=["shapes"])


HLO = """HloModule sum

ENTRY main {
  x = f32[SIZE] parameter(0)
  y = TYPE[SIZE] parameter(1)
  z = f32[SIZE] convert(y)
  ROOT s = f32[SIZE] add(x, z)
}
"""


def test_assert_fits(tmp_path):
    (tmp_path / "small.hlo").write_text(HLO.replace("TYPE", "f32").replace("SIZE", "8"))
    assert testing.assert_fits(tmp_path / "small.hlo", target="mk2", ipus=1).fits
    (tmp_path / "large.hlo").write_text(HLO.replace("TYPE", "f32").replace("SIZE", "300000000"))
    with pytest.raises(AssertionError, match="does not fit"):
        testing.assert_fits(tmp_path / "large.hlo")


# ---- The command ----

def test_command(tool):
    tool.write("clean.py", "import tensorflow as tf\n")
    tool.write("bad.py", "import tensorflow as tf\nx = tf.data.Dataset.range(9).batch(2)\n")
    assert "1 file, 1 lines: nothing found" in tool.ok("check", "clean.py")
    ran = tool("check", "bad.py")
    assert ran.returncode == 1 and ran.stderr == ""
    assert ran.stdout.startswith("bad.py:2:30: error: batch()")
    assert tool("check", "clean.py", "bad.py", "--fix").stdout.splitlines()[-1] == \
        "+x = tf.data.Dataset.range(9).batch(2, drop_remainder=True)"
    assert json.loads(tool("check", ".", "--json").stdout)["files"] == ["bad.py", "clean.py"]
    assert json.loads(tool("check", "bad.py", "--sarif").stdout)["version"] == "2.1.0"
    assert tool.ok("check", "--help").startswith("usage: tremula check")


def test_a_module(tool):
    tool.write("wide.hlo", HLO.replace("TYPE", "f64").replace("SIZE", "8"))
    ran = tool("check", "wide.hlo")
    assert ran.returncode == 1
    assert ran.stdout.startswith("wide.hlo:5:1: error: 'y' is of float64")
    tool.write("fine.hlo", HLO.replace("TYPE", "f32").replace("SIZE", "8"))
    assert "nothing found" in tool.ok("check", "fine.hlo")


def test_models_that_cannot_be_read_are_one_line(tool):
    """Neither TensorFlow's log nor a fault in Python is printed."""
    (tool.folder / "noise.bin").write_bytes(bytes(range(256)))
    (tool.folder / "noise.keras").write_bytes(bytes(range(256)))
    assert "not a HloModuleProto" in tool.fails("check", "noise.bin")
    assert tool.fails("check", "noise.keras").startswith("Keras cannot load noise.keras")


@pytest.mark.parametrize("arguments, message", [
    (["check"], "say which script or MODEL to check"),
    (["check", "missing.py"], "cannot read missing.py"),
    (["check", "x", "--frob"], "unknown option --frob"),
    (["check", "--json", "--fix", "."], "--json or --fix, not both"),
    (["check", "."], None),
])
def test_usage(tool, arguments, message):
    text = tool.fails(*arguments, code=2 if message else 1)
    assert text.startswith(message or ". is a folder with no .py file")
