"""For tests of programs that are to run on an IPU; pytest or not.

    from tremula import testing

    def test_port():
        testing.assert_portable("train.py")
        testing.assert_fits("model.hlo", target="mk2", ipus=1)
"""

import os


def assert_portable(script, ignore=()):
    """Raises AssertionError with the findings of `tremula check`, if there are any.

    script  a path, or a list of paths; the files that they import are checked too
    ignore  names of rules that do not count (docs/check.md); notes never do

    Raises ValueError for a name that no rule has.
    """
    from tremula import check
    from tremula.check import rules
    unknown = sorted(set(ignore) - set(rules.load()))
    if unknown:
        raise ValueError(f"there is no rule '{unknown[0]}'; docs/check.md lists them")
    scripts = [script] if isinstance(script, (str, os.PathLike)) else list(script)
    found = [one for one in check.check(scripts).findings
             if one.rule.level != "note" and one.rule.id not in ignore]
    if found:
        raise AssertionError("\n".join(
            [f"{len(found)} obstacle{'s' * (len(found) != 1)} to running on an IPU:"]
            + [f"{one.path}:{one.line}: {one.message} [{one.rule.id}]" for one in found]))


def assert_fits(model, target="mk2", ipus=1):
    """Returns the plan of a model (tremula.planning.Plan), or raises AssertionError with it if the
    model does not fit.

    model   a core.Executable, a core.Module, or a file of HLO
    target  "mk1", "mk2", "bow" or the path of a description (docs/targets.md)
    ipus    how many IPUs the model may use
    """
    from tremula import core, planning
    if isinstance(model, (str, os.PathLike)):
        model = core.Module.read_file(os.fspath(model))
    if isinstance(model, core.Module):
        model = core.compile(model, target=target)
    plan = planning.plan(model, target=target, ipus=ipus)
    if not plan.fits:
        raise AssertionError(f"the model does not fit:\n{plan}\n{plan.explain(False)}")
    return plan
