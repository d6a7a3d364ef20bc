"""One case run four ways, and the results compared.

    fast        our library as users have it: passes, fusion, fast kernels
    reference   our library with the reference kernels only
    xla         stock XLA, jit_compile=True
    tf          TensorFlow's own kernels, eagerly

A test file has a table of Cases and says `test_x = differential(CASES)`; adding an op is adding a
line. Lowering and compiling cost most of the time, so neighbours of a table are compiled as one
program (which tests fusion across them, too); where one of them fails, they are compiled one by
one.
"""

import functools
import zlib
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from bounds import BOUNDS, difference

from tremula import core

FLOATS = ("float32", "float16")
INTS = ("int32", "int8", "uint8", "int64")
NUMBERS = FLOATS + INTS
ALL = NUMBERS + ("bool",)
_BATCH = 16


class Case(NamedTuple):
    """name      of the test
    function  of the tensors; returns a tensor or a structure of them
    inputs    generators (case_values.py), one a tensor
    dtypes    the types that the test runs with
    bound     a line of bounds.py
    but       {"xla" or "tf": why it does not count as a peer here}
    marks     pytest marks
    """
    name: str
    function: Callable
    inputs: list
    dtypes: tuple = FLOATS
    bound: str = "exact"
    but: Any = {}
    marks: tuple = ()


def gradients(function, *which):
    """The function's results, and the gradients of a weighted sum of them by the inputs `which`
    (default: all)."""
    def both(*inputs):
        chosen = [inputs[i] for i in which] if which else list(inputs)
        with tf.GradientTape() as tape:
            tape.watch(chosen)
            results = [y for y in tf.nest.flatten(function(*inputs))]
            total = []
            for y in results:
                # Other weights than one: a sum of softmaxes has no gradient, for one.
                weights = np.cos(np.arange(int(np.prod(y.shape))) * 1.7).reshape(y.shape)
                total.append(tf.reduce_sum(tf.cast(y, tf.float32) * weights.astype(np.float32)))
            total = tf.add_n(total)
        return results, [tf.convert_to_tensor(g) for g in tape.gradient(total, chosen)]
    return both


def lower(function, arrays):
    """(serialised HLO, results of stock XLA) of a function of tensors."""
    tensors = [tf.constant(array) for array in arrays]
    jitted = tf.function(function, jit_compile=True, autograph=False)
    hlo = jitted.experimental_get_compiler_ir(*tensors)(stage="hlo_serialized")
    return hlo, lambda: _numpy(jitted(*tensors))


def _numpy(results):
    return [tensor.numpy() for tensor in tf.nest.flatten(results) if tensor is not None]


def run_ours(hlo, arrays, **options):
    executable = core.compile(core.Module.read(hlo), **options)
    if len(executable.inputs) < len(arrays):  # TensorFlow makes constants of what has no elements
        arrays = [array for array in arrays if array.size > 0]
    return core.Engine(executable).run(arrays)


class _Batch:
    """Neighbours in a table, with their dtypes."""

    def __init__(self, members):
        self.members = members

    @functools.cached_property
    def together(self):
        """{member: results} of all in one program, or None where that fails."""
        try:
            return self._run(self.members)
        except Exception:  # pylint: disable=broad-except
            return None  # alone() shows which one, and how

    @functools.cache  # noqa: B019 - a handful of tables, which live as long as their module
    def alone(self, member):
        return self._run([member])[member]

    def results(self, member):
        return self.together[member] if self.together is not None else self.alone(member)

    def _run(self, members):
        arrays = {member: member.arrays for member in members}
        counts = {}

        def program(*tensors):
            results, at = [], 0
            for member in members:
                mine = tensors[at:at + len(arrays[member])]
                at += len(mine)
                flat = [y for y in tf.nest.flatten(member.case.function(*mine)) if y is not None]
                counts[member] = len(flat)
                results += flat
            return results

        inputs = [array for member in members for array in arrays[member]]
        hlo, run_xla = lower(program, inputs)
        ways = {"fast": run_ours(hlo, inputs), "reference": run_ours(hlo, inputs, reference=True)}
        if any("xla" not in member.case.but for member in members):
            ways["xla"] = run_xla()
        split, at = {}, 0
        for member in members:
            split[member] = {way: results[at:at + counts[member]] for way, results in ways.items()}
            at += counts[member]
            if "tf" not in member.case.but:
                split[member]["tf"] = _numpy(
                    member.case.function(*map(tf.constant, arrays[member])))
        return split


class _Member:
    """A case with one of its dtypes."""

    def __init__(self, case, dtype):
        self.case, self.dtype = case, dtype

    @functools.cached_property
    def arrays(self):
        rng = np.random.default_rng(zlib.crc32(f"{self.case.name} {self.dtype}".encode()))
        return [generate(rng, np.dtype(self.dtype)) for generate in self.case.inputs]


def differential(cases, batch=_BATCH):
    """A test function of a table of cases."""
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), "two cases have one name"
    parameters = []
    for dtype in ALL:
        members = [_Member(case, dtype) for case in cases if dtype in case.dtypes]
        for at in range(0, len(members), batch):
            neighbours = _Batch(members[at:at + batch])
            parameters += [
                pytest.param(neighbours, member, marks=member.case.marks,
                             id=f"{member.case.name}-{dtype}") for member in neighbours.members]

    @pytest.mark.parametrize("neighbours, member", parameters)
    def test(neighbours, member):
        check(member, neighbours.results(member))
    return test


def check(member, ways):
    """Compares the results of the ways."""
    case = member.case
    bound = BOUNDS[case.bound]
    grain = np.float16 if member.dtype == "float16" else None
    found = []

    def compare(one, other, words):
        assert len(ways[one]) == len(ways[other])
        for i, (got, want) in enumerate(zip(ways[one], ways[other])):
            differs = difference(got, want, bound.against(other, grain or want.dtype), grain)
            if differs:
                found.append(words.format(f"result {i} of {one} differs from {other}: {differs}"))

    for peer in ("reference", "xla", "tf"):
        if peer in ways and peer not in case.but:
            compare("fast", peer, "{}")
    if found and "xla" in ways and "tf" in ways:
        compare("xla", "tf", "({})")
    assert not found, f"{case.name}, bound {case.bound}:\n" + "\n".join(found)


def check_all(cases):
    """Checks cases in one program, each with its first dtype."""
    batch = _Batch([_Member(case, case.dtypes[0]) for case in cases])
    for member in batch.members:
        check(member, batch.results(member))
