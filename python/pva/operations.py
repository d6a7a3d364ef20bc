"""Operations: programs and variables by the TensorFlow op that they come from."""

import functools


class DebugContext:
    """A map of debug.cbor: id, json (the map)."""

    def __init__(self, fields):
        self.id, self.json = fields.get("id", 0), fields


class Operation:
    """An op: name, layer (its name scope), programs(), flops, cycles (in one run), vars,
    firstStepIndex, lastStepIndex (programs), debugContext, parents (scopes, the outermost
    first)."""

    def __init__(self, report, name, programs):
        self._report, self._programs, self.name = report, programs, name
        self.layer = programs[0].layer

    def programs(self):
        return self._programs

    @property
    def parents(self):
        parts = self.layer.split("/") if self.layer else []
        return ["/".join(parts[:i + 1]) for i in range(len(parts))]

    @property
    def debugContext(self):
        return DebugContext(self._report.debugContexts.get(self._programs[0].debugId, {}))

    @property
    def firstStepIndex(self):
        return self._programs[0]._id

    @property
    def lastStepIndex(self):
        return self._programs[-1]._id

    @property
    def flops(self):
        return round(sum(one.flops * one.executions for one in self._programs))

    @property
    def cycles(self):
        return round(sum(one.cycles * one.executions for one in self._programs))

    @functools.cached_property
    def vars(self):
        """Names of its variables."""
        sources = {one._row["source"] for one in self._programs}
        return [row["name"] for row in self._report._database.rows(
            "variables",
            "SELECT name, source FROM variables ORDER BY id") if row["source"] in sources]


class OperationAnalysis:
    """operations: those of a report, in order of their first program."""

    def __init__(self, report):
        found = {}
        for program in report.compilation.all_programs:
            leaf = program._row["end"] == program._id + 1
            if leaf and program.operation:
                found.setdefault(program.operation, []).append(program)
        self.operations = [Operation(report, name, programs) for name, programs in found.items()]
