"""The table that print_pipeline_stage_assignment_summary() prints."""


class _Table:
    """Rows of fields that end at given columns."""

    def __init__(self, length, ends, print_line):
        self.length, self._ends, self.print_line = length, ends, print_line

    def row(self, fields):
        line = ""
        for field, end in zip(fields, self._ends):
            if line:
                line = line[:-1] + " "
            line = (line + field)[:end].ljust(end)
        self.print_line(line)

    def rule(self, character):
        self.print_line(character * self.length)


def print_summary(name, assignments, has_inputs, line_length=None, print_fn=None):
    """Prints the stages of the layers of a model.

    has_inputs   whether a column has the layers from which a layer gets its inputs
    line_length  89 without it, 60 without such a column
    print_fn     is called with each line; print() without it
    """
    length = line_length or (89 if has_inputs else 60)
    widths = (.4, .8, 1.) if has_inputs else (.5, 1.)
    table = _Table(length, [int(length * width) for width in widths], print_fn or print)
    table.print_line(f'Model: "{name}"')
    table.rule("_")
    table.row(["Layer (type) (node index)", "Input Layers", "Pipeline Stage"] if has_inputs
              else ["Layer (type)", "Pipeline Stage"])
    table.rule("=")
    _print_rows(table, assignments, has_inputs)


def _print_rows(table, assignments, has_inputs):
    for number, one in enumerate(assignments):
        if one.is_nested_model:
            table.print_line(f'Nested Model: "{one.nested_model.name}"')
            table.rule("-")
            _print_rows(table, one.pipeline_stage_assignments, has_inputs)
            continue
        _print_row(table, one, has_inputs)
        last = number + 1 == len(assignments)
        table.rule("=" if last or assignments[number + 1].is_nested_model else "_")


def _print_row(table, assignment, has_inputs):
    name = f"{assignment.layer.name} ({type(assignment.layer).__name__})"
    is_call = hasattr(assignment, "node_index")
    if is_call:
        name += f" ({assignment.node_index})"
    inputs = [one.name for one in assignment.inbound_layers] if is_call and has_inputs else []
    middle = [inputs[0] if inputs else ""] if has_inputs else []
    table.row([name, *middle, str(assignment.pipeline_stage)])
    for one in inputs[1:]:
        table.row(["", one, ""])
