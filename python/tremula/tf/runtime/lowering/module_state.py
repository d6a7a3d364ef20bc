"""Taking program state (program_state.py) out of a lowered module's interface."""


def drop(module, first, num_outputs):
    """Makes the entry's parameters from number `first` on zeros, and drops their new values.

    module       an HloModuleProto as TensorFlow's bridge makes it: the entry's result is a tuple
                 of `num_outputs` results, then new values of parameters, each of which has an
                 entry in the input_output_alias
    """
    entry = next(one for one in module.computations if one.id == module.entry_computation_id)
    shapes = module.host_program_shape.parameters
    if first >= len(shapes):
        return
    _make_zeros(entry, first)
    for one in (module.host_program_shape, entry.program_shape):
        del one.parameters[first:]
        del one.parameter_names[first:]
    dropped = _drop_aliases(module, first)
    root = next(one for one in entry.instructions if one.id == entry.root_id)
    kept = [i for i in range(len(root.operand_ids)) if i not in dropped]
    _keep(root.operand_ids, kept)
    for shape in (root.shape, module.host_program_shape.result, entry.program_shape.result):
        _keep(shape.tuple_shapes, kept)
    assert len(kept) >= num_outputs


def _make_zeros(entry, first):
    """Replaces the parameters by broadcasts of a zero, which come first."""
    number = max(one.id for one in entry.instructions)
    zeros = []
    for one in entry.instructions:
        if one.opcode != "parameter" or one.parameter_number < first:
            continue
        number += 1
        zero = type(one)(id=number, name=f"zero.{number}", opcode="constant")
        zero.shape.element_type = one.shape.element_type
        zero.shape.layout.SetInParent()
        zero.literal.shape.CopyFrom(zero.shape)
        _set_zero(zero.literal)
        zeros.append(zero)
        one.opcode = "broadcast"
        one.parameter_number = 0
        del one.dimensions[:]
        del one.operand_ids[:]
        one.operand_ids.append(number)
    rest = [type(one).FromString(one.SerializeToString()) for one in entry.instructions]
    del entry.instructions[:]
    entry.instructions.extend([*zeros, *rest])


_FIELDS = {1: "preds", 2: "s8s", 3: "s16s", 4: "s32s", 5: "s64s", 6: "u8s", 7: "u16s", 8: "u32s",
           9: "u64s", 10: "f16s", 11: "f32s", 12: "f64s", 16: "bf16s"}
_BYTES = {"s8s": 1, "s16s": 2, "u8s": 1, "u16s": 2, "f16s": 2, "bf16s": 2}


def _set_zero(literal):
    field = _FIELDS[literal.shape.element_type]
    if field in _BYTES:
        setattr(literal, field, bytes(_BYTES[field]))
    else:
        getattr(literal, field).append(0)


def _drop_aliases(module, first):
    """Drops the entries of those parameters; returns the numbers of the results that they name."""
    entries = module.input_output_alias.entries
    dropped = {one.output_shape_index[0] for one in entries if one.parameter_number >= first}
    kept = [one for one in entries if one.parameter_number < first]
    for one in kept:
        before = one.output_shape_index[0]
        one.output_shape_index[0] = before - sum(i < before for i in dropped)
    kept = [type(one).FromString(one.SerializeToString()) for one in kept]
    del entries[:]
    entries.extend(kept)
    return dropped


def _keep(repeated, kept):
    """Keeps the elements of these numbers of a repeated field."""
    values = [repeated[i] for i in kept]
    if values and hasattr(values[0], "SerializeToString"):
        values = [type(one).FromString(one.SerializeToString()) for one in values]
    del repeated[:]
    repeated.extend(values)
