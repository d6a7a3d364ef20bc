"""The five answers, of what was traced."""

import os

from tremula.check.running import graphs
from tremula.check.running.sizes import Size

_SHAPES = ("unknown-shape", "drop-remainder", "value-dependent-shape")


def answers(findings, steps, size, read):
    """Five texts. size: a Size, or why there is none; read: the answers of reading the code."""
    if not steps:
        return ["size: the script made no step to plan", *read[1:]]
    training = [one for one in steps if graphs.is_training(one)]
    return [_size(size), _training(training, steps), _static(findings),
            _ipus(size, read), _next(findings, size, read)]


def _place(step):
    return f"{_name(step.path)}:{step.line}"


def _name(path):
    found = os.path.relpath(path)
    return path if found.startswith("..") else found


def _size(size):
    if not isinstance(size, Size):
        return f"size: no step could be planned{': ' * bool(size)}{size}"
    plan = size.plan
    whole = plan.bytes_per_tile * plan.tiles_per_ipu * plan.num_ipus
    return (f"size: the step of {_place(size.step)} needs {plan.max_step_bytes / 1e6:.1f} MB of "
            f"the {whole / 1e6:.0f} MB of {plan.num_ipus} {plan.target} "
            f"({plan.weights_bytes / 1e6:.1f} MB of weights), its fullest tile "
            f"{100 * plan.worst_tile_bytes / plan.bytes_per_tile:.0f} %")


def _training(training, steps):
    kind = f"training, by {_place(training[0])}" if training else "inference"
    return f"training or inference: {kind}; {len(steps)} step{'s' * (len(steps) != 1)} traced"


def _static(findings):
    wrong = [one for one in findings if one.rule.id in _SHAPES]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return (f"static shapes: no, from {wrong[0].path}:{wrong[0].line} on "
                f"({wrong[0].rule.id}{more})")
    return "static shapes: yes, of every step that was traced"


def _ipus(size, read):
    kind = read[3].partition("; ")[2]
    if not isinstance(size, Size):
        return read[3]
    if size.ipus == 0:
        count = "no number up to 16 is enough by sharding alone (`tremula plan` finds more changes)"
    elif size.ipus == size.plan.num_ipus:
        count = f"{size.ipus}, which it fits"
    else:
        count = (f"{size.ipus}, sharded (the fullest tile {100 * size.fullest:.0f} %); a pipeline "
                 "keeps them all busy")
    return f"IPUs: {count}; {kind}"


def _next(findings, size, read):
    wrong = [one for one in findings if one.rule.level == "error"]
    if wrong and "mend" not in read[4] and "make the file" not in read[4]:
        return f"next: mend {wrong[0].path}:{wrong[0].line} ({wrong[0].rule.id})"
    if not wrong and isinstance(size, Size) and size.ipus > size.plan.num_ipus:
        return (f"next: divide the model into {size.ipus} pipeline stages "
                "(docs/keras.md, examples/pipelining.py)")
    return read[4]
