"""A function of JAX's that is compiled for one signature: running and planning it."""

import collections
import ctypes
import math
import operator
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np

from tremula import core, planning
from tremula.jax import arguments
from tremula.jax.lazy import LazyArray
from tremula.jax.lowering import is_float0, is_key

# Memory of a result is kept for a later result: arrays cost time to make, and new pages cost more
# than a pass over them. Results of so many bytes begin with a cache line.
_LARGE_BYTES, _MOST_KEPT = 1 << 16, 3


def _taker(kept, references, make):
    """A function without arguments that takes memory: (a view of an array, its address). Each of
    `kept` is (the owner of the bytes, the array, its address); the first one to whose bytes there
    are so many references serves, or else what make() makes."""
    count = sys.getrefcount

    def take():
        for owner, array, address in kept:
            if count(owner) == references:  # of two threads here, each counts the other
                return array[...], address
        return make()

    return take


def _references(make):
    """How many references there are to the owner of what make() makes, if nobody sees the bytes."""
    return next(n for n in range(1, 12) if _taker([make()], n, lambda: None)() is not None)


def _whole():
    array = np.empty(1)
    return array, array, 0


def _part():
    owner = np.empty(2)
    return owner, owner[1:], 0


_OF_WHOLE, _OF_PART = _references(_whole), _references(_part)


def _memory_for(info):
    """A function without arguments that makes an array for one result: (array, its address).

    Numpy counts the references to the bytes behind an array and all its views, so that bytes that
    nobody sees any more are found and used again.
    """
    kept = []
    is_large = info.dtype.itemsize * math.prod(info.shape) >= _LARGE_BYTES

    def make():
        owner = core.block_for(info) if is_large else np.empty(info.shape, info.dtype)
        array = core.array_in(owner, info) if is_large else owner
        address = core.address_of(array)
        if len(kept) < _MOST_KEPT:
            kept.append((owner, array, address))
        return array[...], address

    return _taker(kept, _OF_PART if is_large else _OF_WHOLE, make)


_NO_LEAF = weakref.ref(set())  # refers to nothing


class _Slot:
    """An engine and the addresses of a run. Versions tell the engine which inputs have changed:
    a jax.Array and a LazyArray never do, a numpy array (version 0) may."""

    def __init__(self, executable, is_lazy, callbacks):
        inputs, outputs = max(1, len(executable.inputs)), max(1, len(executable.outputs))
        self.engine = core.Engine(executable)
        for i, call in enumerate(executable.host_calls):
            self.engine.set_host_call(i, _callback(call.id, callbacks))
        self.inputs = (ctypes.c_void_p * inputs)()
        self.outputs = (ctypes.c_void_p * outputs)()
        self.addresses = [None] * outputs  # what `outputs` has, to compare
        self.versions = (ctypes.c_uint64 * inputs)()
        resident = (ctypes.c_uint64 * outputs)(*[1] * outputs) if is_lazy else None
        self.run = core.engine_call(self.engine, self.inputs, self.versions, self.outputs,
                                    resident)
        # Weak references to the jax.Arrays of the last run.
        self.last = [_NO_LEAF] * len(executable.inputs)
        self.runs = 0


def _callback(name, callbacks):
    """The function of a host call, "python callback 3". Of an "ordered" one, JAX's function has a
    token as first argument and result, which no array stands for."""
    function = callbacks[int(name.rpartition(" ")[2])]
    if name.startswith("ordered"):
        return lambda *arrays: function(None, *arrays)[1:]
    return function


class Program:
    """A compiled function on flat lists of leaves. Threads may share it: each run has an engine of
    its own. `types` is what arguments.describe says of each leaf. If is_lazy, results may stay on
    an accelerator: the caller makes LazyArrays of them."""

    def __init__(self, executable, lowered, types=None, is_lazy=False):
        self.executable = executable
        self.results = lowered.results
        self._types = types
        self._inputs = [(info.dtype, one.dtype)
                        for info, one in zip(executable.inputs, lowered.arguments)]
        self._memory = [_memory_for(info) for info in executable.outputs]
        self._plain = not any(is_key(one.dtype) or is_float0(one.dtype) for one in self.results)
        self._is_lazy = is_lazy
        self._callbacks = lowered.callbacks
        self._slots = collections.deque([self._new_slot()])

    def _new_slot(self):
        return _Slot(self.executable, self._is_lazy, self._callbacks)

    def run(self, leaves, x64=None, is_flat=False):
        """The results for the leaves of the arguments, which have the program's types; with `x64`,
        the value of jax_enable_x64, they may have others, and the result is None then. If is_flat,
        they are arguments, which may be no leaves; the result is None then too."""
        try:
            slot = self._slots.pop()
        except IndexError:  # other threads run all that there are
            slot = self._new_slot()
        try:
            for known, leaf in zip(slot.last, leaves):
                # Most leaves are those of the run before, at the same addresses.
                if known() is not leaf or leaf is None or leaf.is_deleted():
                    if is_flat and not arguments.are_leaves(leaves):
                        return None
                    copies = self._read(slot, leaves, x64)  # what is made for this run
                    if copies is None:
                        return None
                    break
            results, known, o = [], slot.addresses, 0
            for take in self._memory:
                array, address = take()
                if address != known[o]:
                    slot.outputs[o] = known[o] = address
                results.append(array)
                o += 1
            slot.run()
        finally:
            self._slots.append(slot)
        return results if self._plain else list(map(_result, results, self.results))

    def _read(self, slot, leaves, x64):
        """Notes where the leaves lie. Returns the arrays that were made of some, or None if a leaf
        has another type."""
        copies = []
        slot.runs += 1
        last = slot.last
        for i, leaf in enumerate(leaves):
            known = last[i]
            if known() is leaf and not leaf.is_deleted():
                continue  # the same version at the same address
            if x64 is not None and arguments.describe(leaf, x64) != self._types[i]:
                return None
            dtype, wanted = self._inputs[i]
            last[i] = _NO_LEAF
            slot.versions[i] = 0
            if type(leaf) is np.ndarray and leaf.dtype == dtype:
                flags = leaf.flags
                if flags.c_contiguous and flags.aligned:
                    slot.inputs[i] = core.address_of(leaf) if flags.writeable else (
                        leaf.__array_interface__["data"][0])
                    continue
            array = arguments.array_of(leaf, wanted)
            slot.inputs[i] = array.__array_interface__["data"][0]
            copies.append(array)
            if type(leaf) is not np.ndarray and isinstance(leaf, (jax.Array, LazyArray)):
                slot.versions[i] = slot.runs
                if not (array.flags.owndata or is_key(wanted)):  # the leaf's own memory
                    last[i] = weakref.ref(leaf)
        return copies


def _result(array, wanted):
    """A result as JAX has it where numpy has no such type: typed keys, and float0."""
    if is_key(wanted.dtype):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=wanted.dtype._impl)
    if is_float0(wanted.dtype):
        return np.zeros(wanted.shape, jax.dtypes.float0)
    return array


class Executable:
    """A function that is compiled for arguments of certain types, as tremula.jax.compile makes it.

    Calling it computes; static arguments are left out, as of what jax.jit(f).lower(...).compile()
    returns. `executable` is the core.Executable."""

    def __init__(self, program, lowered, name, outputs):
        self._program, self._lowered, self._outputs = program, lowered, outputs
        self.executable = program.executable
        self.__name__ = name

    def __call__(self, *args, **kwargs):
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if arguments.tracing(leaves):
            arguments.refuse_tracers(leaves)
        if tree != self._lowered.in_tree:
            raise TypeError(f"{self.__name__} was compiled for arguments of the structure "
                            f"{self._lowered.in_tree}, and is called with {tree}")
        x64 = jax.config.jax_enable_x64
        for i, (leaf, wanted) in enumerate(zip(leaves, self._lowered.arguments)):
            found = arguments.describe(leaf, x64)
            if found is None or (found[0], found[1]) != wanted:
                has = type(leaf).__name__ if found is None else f"{found[1]}{list(found[0])}"
                raise TypeError(f"{self.__name__} was compiled for {wanted.dtype}"
                                f"{list(wanted.shape)} as argument {self._path(i)}, and is called "
                                f"with {has}")
        return finish(self._program.run(leaves), self._lowered.out_tree, self._outputs)

    def _path(self, i):
        tree = jax.tree_util.tree_unflatten(self._lowered.in_tree,
                                            range(self._lowered.in_tree.num_leaves))
        path, _ = jax.tree_util.tree_flatten_with_path(tree)[0][i]
        return jax.tree_util.keystr(path[1:])

    def hlo_text(self, optimised=False):
        """The HLO that JAX lowered, or what Tremula's passes made of it."""
        return self.executable.print() if optimised else self._lowered.module.print()

    def plan(self, target=None, ipus=None):
        """What an IPU would need: a tremula.planning.Plan, which prints as a table. `target` is
        mk1, mk2, bow or a file (None: the option `target`, which is mk2); with `ipus` the program
        is cut into shards. docs/jax.md tells which arguments stay on the IPU."""
        return planning.plan(self.executable, target, ipus)

    def save(self, path):
        """Writes the program for `tremula run` and `core.Executable.load`."""
        self.executable.save(path)


_FIRST = operator.itemgetter(0)
OUTPUTS = {"numpy": None, "jax": jnp.array, "lazy": LazyArray}  # what makes them of arrays


def finish(results, out_tree, outputs):
    """The results of a run as the function returns them."""
    return finisher(out_tree, outputs)(results)


def finisher(out_tree, outputs):
    """A function from the results of a run to what the user's function returns."""
    make = OUTPUTS[outputs]
    if make is None:
        is_array = out_tree.num_nodes == out_tree.num_leaves == 1  # None is a node
        return _FIRST if is_array else out_tree.unflatten  # which takes three times as long
    return lambda results: out_tree.unflatten(
        [make(one) if isinstance(one, np.ndarray) and not is_float0(one.dtype) else one
         for one in results])
