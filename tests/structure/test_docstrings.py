"""Docstrings of public functions, and of public classes' methods, that take or give tensors:
shapes, element types, errors. A constructor's may stand in its class's.

The functions are those of the reference (docs/site/python_reference.py). One takes or gives tensors
if its types (scripts/stub_types.pyi) say so, or if an argument has one of TENSORS as its name. A
docstring that says "See ipu.nn_ops.gelu()", "As popnn_gru_layer()" or "As Optimizer.minimize()" of
its own module, may leave to that function or method what the two have in common.
"""

import ast
import fnmatch
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Arguments that are tensors, or structures or lists of them, wherever a public function has them.
TENSORS = set("""a b absolute_of_input accum array biases data data_length data_lengths dst
    dst_offsets features filters grad gradients grads grads_and_vars hist ids image indices inp
    input input_lengths input_shards inputs labels label_length lhs log_probs loss logits
    logits_lengths num_elems outputs packed_input params rhs segment_ids src src_offsets
    startup_inputs tagged_grads tensor tensors updates value values variables weights x""".split())
TYPES = re.compile(r"\b(Tensor|TensorLike|Structure|GradsAndVars)\b")
# What counts. A shape: dimensions in brackets, or a word for them.
SHAPE = re.compile(r"\[[^\]]*\]|\b(shapes?|scalars?|vectors?|matri(x|ces)|dimensions?|like|as they "
                   r"are|structure)\b")
TYPE = re.compile(r"\b(b?float(16|32|64)?|u?int(8|16|32|64)?|integers?|bool|strings?|types?|dtype|"
                  r"numbers?)\b")
ERROR = re.compile(r"\b(Raises|\w+Error|\w*Exception)\b")
OTHER = re.compile(r"\b(?:See|As)\s+([\w.]+)\(\)")
# Arguments with a tensor's name that are something else; patterns.
NO_TENSORS = {
    "libpvti.*": "`value` is a text, or a number",
    "pva.Target.__init__": "`data` is a profile's section",
    "tremula.core.*": "`data` are bytes of a file",
    "tremula.jax.*.__init__": "programs get these objects from functions",
    "*.config_pb2.IpuOptions.*": "`data` are bytes",
    "tensorflow.contrib.training.HParams.*": "`value` is a number or a text",
    "*.AttributeMetadata.check_type": "`value` is that of an option",
    "*.ReplicatedMetricReductionMethod.parse": "`value` is a member or its name",
    "*.StochasticRoundingBehaviour.from_bool": "`value` is a bool",
    "*.IPUExtendedV1.value_container": "`value` is anything",
    "*.IPU*Estimator.__init__": "`params` is a dict of hyperparameters",
    "tensorflow.python.ipu.legacy_config.select_ipus": "`indices` are ids of IPUs",
    "*.bool_to_three_state": "`value` is a bool"}
NEEDS = {"a shape": SHAPE, "an element type": TYPE, "an error": ERROR}


@pytest.fixture(scope="module")
def reference():
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "docs/site"))
    try:
        import python_reference
        return python_reference
    finally:
        sys.path[:] = before


def of_tensors(node):
    """Whether a function takes or gives tensors."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    types = [one.annotation for one in arguments] + [node.returns]
    return any(one.arg in TENSORS for one in arguments) or any(
        TYPES.search(ast.unparse(one)) for one in types if one is not None)


def functions(reference, sources):
    """(module, name, overloads, docstring) of each public function and method, once."""
    seen = set()
    for place, names in sorted(reference.shown_names(sources).items()):
        for name in names:
            found = sources.find(place, name)
            if found is None or (found[0], name) in seen:
                continue
            seen.add((found[0], name))
            if isinstance(found[1][0], ast.FunctionDef):
                yield found[0], name, found[1], ast.get_docstring(found[1][-1])
            elif isinstance(found[1][0], ast.ClassDef):
                for _, group in reference.methods(found[1][0]):
                    text = ast.get_docstring(group[-1]) or ""
                    if group[-1].name in ("__init__", "__new__"):
                        text += f"\n{ast.get_docstring(found[1][0]) or ''}"
                    yield found[0], f"{name}.{group[-1].name}", group, text


def whole(docstring, place, sources):
    """A docstring, and those that it refers to."""
    text = docstring or ""
    for name in OTHER.findall(text):
        *module, last = name.split(".")
        owner = module.pop() if module and module[-1][0].isupper() else None
        module = ".".join(["tensorflow.python", *module]) if module else place
        module = sources.first.get(sources.modules.get(module), module)
        found = sources.find(module, owner or last)
        node = found and found[1][-1]
        if found and owner:
            node = next((one for one in node.body if getattr(one, "name", None) == last), None)
        assert node, f"{place}: there is no {name}, which a docstring names"
        text += "\n" + whole(ast.get_docstring(node), found[0], sources)
    return text


def missing(docstring):
    return [what for what, pattern in NEEDS.items() if not pattern.search(docstring or "")]


def test_docstrings_tell_shapes_types_and_errors(reference):
    wrong, checked, sources = [], set(), reference.Sources()
    for place, name, nodes, docstring in functions(reference, sources):
        if any(of_tensors(one) for one in nodes):
            checked.add(f"{place}.{name}")
            lacks = missing(whole(docstring, place, sources))
            if lacks and not any(fnmatch.fnmatchcase(f"{place}.{name}", one)
                                 for one in NO_TENSORS):
                wrong.append(f"{place}.{name}: its docstring lacks {', '.join(lacks)}")
    assert not wrong, "\n".join(wrong)
    assert len(checked) > 240
    assert not [one for one in NO_TENSORS if not fnmatch.filter(checked, one)]


@pytest.mark.parametrize("docstring, lacks", [
    ("The sum of `x`, float32 [batch, classes]. Raises ValueError for others.", []),
    ("x * sigmoid(x).", ["a shape", "an element type", "an error"]),
    ("A tensor like x, float16 or float32.", ["an error"]),
    (None, ["a shape", "an element type", "an error"])])
def test_what_a_docstring_lacks_is_found(docstring, lacks):
    assert missing(docstring) == lacks
