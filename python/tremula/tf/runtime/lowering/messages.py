"""TensorFlow's errors of lowering, in words on which the author of the program can act.

TensorFlow's text has the names of the rewritten graph ("n17"), which users do not know, and names
of TensorFlow's own functions and files.
"""

import re

_NAME = re.compile(r"\bn\d+\b")
_TAG = re.compile(r"\{\{node (\S+?)\}\}")
_CONSTANT = re.compile(r"Input (\d+) to node `(\S+)` with op (\S+) must be a compile-time constant")
_INFERENCE = re.compile(r"^(.*?) for '\{\{node (\S+)\}\} = (\w+)\[.*'(?: with .*)?$", re.DOTALL)

_STATIC = "An IPU program is static: all its shapes must be known when it is compiled."
_LOOP = ("{what} belongs to a loop whose number of iterations is not known when the program is "
         "compiled, but a TensorArray in it, or its gradient, needs to know. Pass "
         "maximum_iterations to tf.while_loop (or, for a gradient, to the loop that is "
         "differentiated; loops.repeat has none).")
_UNKNOWN = ("{what}: its input number {number} must be a compile-time constant: it must be known "
            "when the program is compiled, but it is computed from values that are not. "
            + _STATIC + " Make it a constant, or compute it outside the compiled part and pass it "
            "in as an integer tensor.")
_HIDDEN = ("{what}: an input of it must be a compile-time constant, but what comes out of a "
           "barrier and what an outlined function takes is none. Take a constant instead, such "
           "as a number of Python's that the function knows without being given it.")


def describe(entry, op=None):
    """A node in the user's words: 'name (an Op, defined at file:line)'."""
    details = [f"{op}"] if op else []
    if entry["file"]:
        details.append(f"defined at {entry['file']}:{entry['line']}")
    return entry["name"] + (f" ({', '.join(details)})" if details else "")


def explain(text, table):
    """The message in the place of TensorFlow's `text`, for a graph with this node table."""
    def what(name, op=None):
        entry = table.find(name)
        return describe(entry, op) if entry else f"An operation ({op})" if op else "An operation"

    tags = [name for name in _TAG.findall(text) if table.find(name)]
    constant = _CONSTANT.search(text)
    if constant:
        number, name, op = constant.groups()
        pattern = _LOOP if op.startswith("TensorList") else _UNKNOWN
        return pattern.format(what=what(name, op), number=number)
    if "requires a fixed tensor list size" in text:
        return _LOOP.format(what=what(tags[0]) if tags else "A list")
    if "HloEvaluator" in text and "opt-barrier" in text:
        return _HIDDEN.format(what=what(tags[0]) if tags else "An operation")
    inference = _INFERENCE.match(text)
    if inference:
        said, name, op = inference.groups()
        return f"{what(name, op)}: {said}."
    return _plain(text, tags, table)


def _plain(text, tags, table):
    """The text without the names of TensorFlow's functions and files."""
    text = text.removeprefix("Failed getting HLO text: ").strip("'")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(
        ("Stack trace for op definition", "dummy_file_name", "\t"))]
    said = " ".join(line.strip() for line in lines)
    said = _TAG.sub(lambda match: match.group(1), said)
    said = _NAME.sub(lambda match: (table.find(match.group()) or {"name": match.group()})["name"],
                     said)
    return f"{describe(table.find(tags[0]))}: {said}" if tags else said
