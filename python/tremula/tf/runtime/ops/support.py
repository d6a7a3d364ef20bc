"""Refusing ops and types that an IPU lacks, in the words of TensorFlow's own placing errors."""

from tremula.tf.inner import dtypes, errors
from tremula.tf.runtime.nodes import node_table, op_types
from tremula.tf.runtime.ops import collective_shapes, kernel_list, random_functions

# Inputs of functions, and ops that lowering removes or replaces.
_ALWAYS = frozenset(("Placeholder", "PlaceholderWithDefault", "Assert", "CheckNumerics", "NoOp",
                     "IpuEffect",
                     collective_shapes.STAND_IN))


def check(operations, device):
    """Raises InvalidArgumentError for the first operation that cannot be on an IPU."""
    for operation in operations:
        if operation.type in _ALWAYS or operation.type in random_functions.MAKERS:
            continue
        kernels = kernel_list.lowered().get(op_types.lowered(operation.type), [])
        if not any(_fits(operation, constraints) for constraints in kernels):
            raise _refusal(operation, kernels, device)


def _fits(operation, constraints):
    return all(set(_types(operation, attribute)) <= set(names)
               for attribute, names in constraints.items())


def _types(operation, attribute):
    """The names of the types that an attribute holds; none for one that is not there."""
    try:
        value = operation.node_def.attr[attribute]
    except (KeyError, ValueError):
        return []
    numbers = [value.type] if value.type else list(value.list.type)
    return [dtypes.dtype_name(number) for number in numbers]


def _where(operation):
    file, line = node_table.user_frame(operation)
    return f" (defined at {file}:{line})" if file else ""


def _refusal(operation, kernels, device):
    if kernels:
        has = {name: _types(operation, name) for name in kernels[0]}
        has = ", ".join(f"{name}={'/'.join(types)}" for name, types in sorted(has.items()))
        supported = "; ".join(f"{name} in [{', '.join(sorted(names))}]"
                              for name, names in sorted(kernels[0].items()))
        details = f"The types are {has}. An IPU supports {operation.type} with {supported}."
    else:
        details = f"An IPU does not support {operation.type} at all."
    return errors.error_class(errors.INVALID_ARGUMENT)(operation.node_def, None, (
        f"Cannot assign a device for operation {operation.name}{_where(operation)}: "
        f"Could not satisfy explicit device specification '{device}' because no supported kernel "
        f"for IPU devices is available.\n{details}\nMove the operation out of the compiled part, "
        "or change its type."))


def refuse_reference(operation, device):
    """The InvalidArgumentError for a variable that is not a resource."""
    return errors.error_class(errors.INVALID_ARGUMENT)(operation.node_def, None, (
        f"Cannot assign a device for operation {operation.name}{_where(operation)}: "
        f"Could not satisfy explicit device specification '{device}' because no supported kernel "
        "for IPU devices is available.\n"
        "Colocation Debug Info:\nColocation group had the following types and devices:\n"
        f"Assign: CPU\n{operation.type}: CPU\nA variable that an IPU uses must be a "
        "resource. Create it with use_resource=True, or inside ipu_scope()."))
