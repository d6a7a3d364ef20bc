"""Which ops an IPU has: those that TensorFlow can lower, without the types that an IPU lacks.

TensorFlow fills its list of ops that can be lowered when it first lowers something, which costs a
second. So the list is kept in a file for each version of TensorFlow.
"""

import functools
import hashlib
import os

from tremula.tf.inner import bridge, dtypes, registry, versions
from tremula.tf.runtime.base import regular
from tremula.tf.runtime.device import plugin
from tremula.tf.runtime.nodes import rewriting

_FORMAT = 6  # changes with the rules below

# Data types of an IPU and, beside them, the handles that programs pass around.
TYPES = ("float16", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool", "resource", "variant")

# The original leaves these out.
EXCLUDED = frozenset((
    "Angle", "Complex", "ComplexAbs", "Conj", "FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D",
    "Imag", "Real", "MaxPoolGradGrad", "MaxPool3DGradGrad", "NonMaxSuppressionV4"))

# Ops on handles or functions: inside a compiled part they are lowered. A single one has nothing to
# do on a device, so TensorFlow's own kernels or errors serve.
_ONLY_COMPILED = ("Stack", "TensorArray", "TensorList", "EmptyTensorList", "Xla", "_Xla")

# Of these, the ops of which the IPU's own operations are built.
CALL = "XlaCustomCallV2"
EFFECT = "IpuEffect"  # as CALL where that is done for its effects only
IPU_OPS = frozenset((CALL, EFFECT, "XlaReplicaId", "XlaOptimizationBarrier"))

# Ops on variables that TensorFlow has no kernels of for every device, and for which a plugin cannot
# have kernels in all versions of TensorFlow: see group_variables.py.
_ON_VARIABLES = ("ResourceApply", "ResourceGather", "ResourceScatter",
                 "ResourceStridedSliceAssign")


def needs_variables(op):
    """Whether an op is one of those."""
    return op.startswith(_ON_VARIABLES)


@functools.cache
def lowered():
    """Kernels by op: {op: [{attribute: type names that it may have}]}, for every op that can be
    part of a compiled program. An attribute that is not named may have any type."""
    kernels = {}
    for kernel in _kernel_defs().kernel:
        constraints = {}
        for constraint in kernel.constraint:
            constraints[constraint.name] = [
                dtypes.dtype_name(number) for number in constraint.allowed_values.list.type]
        kernels.setdefault(kernel.op, []).append(constraints)
    return kernels


def supported_ops():
    """The ops of an IPU: {op: {attribute: [type names]}}, both sorted."""
    table = {}
    for op, kernels in sorted(lowered().items()):
        table[op] = {}
        for constraints in kernels:
            for attribute, names in sorted(constraints.items()):
                table[op][attribute] = sorted(set(table[op].get(attribute, [])) | set(names))
    return table


def register():
    """Registers a kernel of the device for every op of the list that can run on its own."""
    library = plugin.library()
    everywhere = {}
    for kernel in registry.registered_kernels().kernel:
        if kernel.device_type == "DEFAULT" and not kernel.label:
            everywhere.setdefault(kernel.op, []).append(kernel)
    for listed in _kernel_defs().kernel:
        kernel = type(listed)()
        kernel.CopyFrom(listed)
        if kernel.op not in IPU_OPS and (
                kernel.op.startswith(_ONLY_COMPILED) or _is_functional(kernel.op)):
            continue
        if all(_leave(kernel, other) for other in everywhere.get(kernel.op, [])):
            plugin.check(library.trm_tf_register_kernel, kernel.op.encode(),
                         kernel.SerializeToString(), int(needs_variables(kernel.op)))


def _leave(kernel, other):
    """Takes off a kernel of ours the types for which TensorFlow has a kernel for every device.
    Returns whether any remain.

    Those kernels often take small integers in host memory: shapes.
    """
    excluded = {one.name: set(one.allowed_values.list.type) for one in other.constraint}
    ours = {one.name: one.allowed_values.list.type for one in kernel.constraint}
    if not set(excluded) <= set(ours):
        return True
    partial = [name for name in excluded if not set(ours[name]) <= excluded[name]]
    if len(partial) == 1:
        kept = [number for number in ours[partial[0]] if number not in excluded[partial[0]]]
        del ours[partial[0]][:]
        ours[partial[0]].extend(kept)
    return bool(partial)


def _is_functional(op):
    """Whether the op calls functions, or reads or writes resources other than as a whole."""
    if needs_variables(op):
        return False
    definition = registry.op_definition(op)
    if definition is None:
        return True
    if any(attribute.type in ("func", "list(func)") for attribute in definition.attr):
        return True
    arguments = list(definition.input_arg) + list(definition.output_arg)
    return any(dtypes.dtype_name(argument.type) in ("resource", "variant") if argument.type
               else False for argument in arguments)


@functools.cache
def _kernel_defs():
    """The KernelDefs of the device, from the file if it is there."""
    cached = _read_cache()
    if cached is not None:
        return cached
    bridge.lower_something()
    kernels = registry.kernel_list()
    for kernel in registry.registered_kernels().kernel:
        own = kernel.device_type == "XLA_CPU_JIT" and _for_ipu(kernel)
        if own:
            kernels.kernel.append(own)
    _write_cache(kernels)
    return kernels


def _for_ipu(kernel):
    """The KernelDef for the device that corresponds to one for lowering, or None."""
    if kernel.op in EXCLUDED or not _has_types_of_ipu(kernel.op):
        return None
    own = type(kernel)()
    own.CopyFrom(kernel)
    own.device_type = "IPU"
    # Below TensorFlow's own kernels, so that nodes without a device stay on the CPU.
    own.priority = -1
    possible = _types_of_definition(kernel.op)
    for constraint in own.constraint:
        kept = [number for number in constraint.allowed_values.list.type
                if dtypes.dtype_name(number) in TYPES
                and number in possible.get(constraint.name, (number,))]
        if not kept:
            return None
        if kernel.op in rewriting.RANDOM_OPS and constraint.name == "dtype":
            kept = dtypes.with_half(kept)  # which TensorFlow's lowering has not for all of them
        del constraint.allowed_values.list.type[:]
        constraint.allowed_values.list.type.extend(kept)
    return own


def _types_of_definition(op):
    """{attribute: numbers of the types that the op itself allows}, where it does not allow all."""
    definition = registry.op_definition(op)
    return {one.name: set(one.allowed_values.list.type)
            for one in (definition.attr if definition is not None else [])
            if one.HasField("allowed_values") and one.allowed_values.list.type}


def _has_types_of_ipu(op):
    """Whether those arguments of the op that have the same type always have one of an IPU's."""
    definition = registry.op_definition(op)
    if definition is None:
        return True
    return all(dtypes.dtype_name(argument.type) in (*TYPES, "string")
               for argument in [*definition.input_arg, *definition.output_arg] if argument.type)


# ---- The file ----

def _cache_path():
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    version = f"{versions.tensorflow_version()}-{_FORMAT}"
    return os.path.join(folder, "tremula", f"kernels-{version}.pb")


def _read_cache():
    try:
        with open(_cache_path(), "rb", opener=regular.opener) as file:
            data = file.read()
    except OSError:
        return None
    digest, body = data[:32], data[32:]
    if hashlib.sha256(body).digest() != digest:
        return None
    return registry.kernel_list(body)


def _write_cache(kernels):
    """Writes another file and renames it, so that no process reads half a file. If the folder
    cannot be written to, the next process makes the list again."""
    body = kernels.SerializeToString()
    try:
        os.makedirs(os.path.dirname(_cache_path()), exist_ok=True)
        with regular.replacing(_cache_path()) as file:
            file.write(hashlib.sha256(body).digest() + body)
    except OSError:
        pass
