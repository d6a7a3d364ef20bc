"""Programs, compute sets, vertices."""

import enum


class VertexType:
    """A codelet: name, size (bytes of state of one vertex), codeBytes (on a tile)."""

    def __init__(self, name, size, code_bytes):
        self.name, self.size, self.codeBytes = name, size, code_bytes


class Vertex:
    """The vertices of one type in a compute set: type, count, countByTile (of its IPU, spread over
    the active tiles), estimatedCycles of the slowest."""

    def __init__(self, compilation, row):
        self._compilation, self._compute_set = compilation, row["compute_set"]
        self.type = VertexType(row["name"], row["state_bytes"], row["code_bytes"])
        self.count = row["count"]
        self.estimatedCycles = row["cycles"]

    @property
    def countByTile(self):
        tiles = self._compilation.target.tilesPerIpu
        active = self._compilation.compute_set(self._compute_set)._row["active_tiles"]
        active = max(1, min(active, tiles, self.count))
        each, more = divmod(self.count, active)
        return [each + (tile < more) for tile in range(active)] + [0] * (tiles - active)


def spread(worst, mean, active, tiles):
    """Cycles by tile of which the worst, the mean and the number of active tiles are known: the
    first tile takes the worst, the other active ones what is left in equal parts."""
    if tiles == 0 or active == 0:
        return [0] * tiles
    active = min(active, tiles)
    rest = max(0, round(mean * tiles) - worst)
    others = [min(worst, rest // (active - 1))] * (active - 1) if active > 1 else []
    return [worst] + others + [0] * (tiles - active)


class ComputeSet:
    """A compute set: name, vertices (by type), estimatedCyclesByTile (of its IPU; see spread)."""

    def __init__(self, compilation, row):
        self._compilation, self._row = compilation, row
        self.name, self._id = row["name"], row["compute_set"]

    @property
    def vertices(self):
        return self._compilation.vertices_of.get(self._id, [])

    @property
    def numVertices(self):
        return self._row["vertices"]

    @property
    def numEdges(self):
        return self._row["edges"]

    @property
    def flops(self):
        return self._row["flops"]

    @property
    def estimatedCycles(self):
        return self._row["cycles"]

    @property
    def estimatedCyclesByTile(self):
        if self._compilation.has_runs_of_tiles:
            return self._compilation.by_tile("tile_cycles", self._row["tile_cycles"],
                                             self._row["ipu"])
        return spread(self._row["cycles"], self._row["cycles_mean"], self._row["active_tiles"],
                      self._compilation.target.tilesPerIpu)

    def __repr__(self):
        return f"<ComputeSet {self.name}>"


class Program:
    """A program: name, type, children, and what it costs once."""

    class Type(enum.Enum):
        Unknown = 0
        Sequence = 1
        Repeat = 2
        RepeatWhile = 3
        If = 4
        Switch = 5
        Call = 6
        OnTileExecute = 7
        DoExchange = 8
        GlobalExchange = 9
        CrossReplicaCopy = 10
        StreamCopyBegin = 11
        StreamCopyMid = 12
        StreamCopyEnd = 13
        Sync = 14
        WriteUndef = 15
        OnEveryTileSwitch = 16
        Sans = 17
        SyncAns = 18
        SetLocalConsensus = 19
        GetGlobalConsensus = 20

    def __init__(self, compilation, row):
        self._compilation, self._row = compilation, row
        self._id, self.name = row["id"], row["name"]
        self.type = Program.Type.__members__.get(row["type"], Program.Type.Unknown)

    @property
    def children(self):
        """Those inside it, in order."""
        every, found, child = self._compilation.all_programs, [], self._id + 1
        while child < self._row["end"]:
            found.append(every[child])
            child = every[child]._row["end"]
        return found

    @property
    def computeset(self):
        """Of an OnTileExecute."""
        return self._compilation.compute_set(self._row["compute_set"])

    @property
    def layer(self):
        """The name scope of the TensorFlow op that it comes from; "" when it comes from none."""
        return self._source("layer")

    @property
    def operation(self):
        """The TensorFlow op that the program comes from, or else the HLO instruction."""
        return self._source("op_name") or self._source("hlo_name")

    def _source(self, column):
        source = self._compilation.sources.get(self._row["source"])
        return (source[column] or "") if source else ""

    @property
    def debugId(self):
        """The id of its context in debug.cbor; 0: none."""
        return self._source("debug_id") or 0

    cycles = property(lambda self: self._row["cycles"])
    flops = property(lambda self: self._row["flops"])
    repeatCount = property(lambda self: self._row["repeat_count"])
    executions = property(lambda self: self._row["executions"])
    bytesIn = property(lambda self: self._row["bytes_in"])
    bytesOut = property(lambda self: self._row["bytes_out"])
    codeBytes = property(lambda self: self._row["code_bytes"])

    @property
    def ipu(self):
        """The IPU that it is on; -1: all of them."""
        return self._row["ipu"]

    @property
    def estimatedCyclesByTile(self):
        row = self._row
        if self._compilation.has_runs_of_tiles and row["tile_cycles"]:
            return self._compilation.by_tile("tile_cycles", row["tile_cycles"], row["ipu"])
        return spread(row["cycles"] - row["sync_cycles"], row["cycles_mean"],
                      row["active_tiles"], self._compilation.target.tilesPerIpu)

    @property
    def codeBytesByTile(self):
        """Its code; of a profile that does not say where, taken to be the same on every tile of
        its IPU."""
        tiles = self._compilation.target.tilesPerIpu
        if self._compilation.has_runs_of_tiles:
            return self._compilation.by_tile("tile_bytes", self._row["code_by_tile"], self.ipu)
        return [self.codeBytes // tiles] * tiles

    controlCodeByTile = codeBytesByTile

    def accept(self, visitor):
        """Calls the visitor's method for its type: visitOnTileExecute, ..."""
        return getattr(visitor, f"visit{self.type.name}")(self)

    def __repr__(self):
        return f"<Program {self._id} {self.type.name} {self.name}>"


class _OfEngine(Program):
    """What belongs to the engine and is in no table of the profile."""

    def __init__(self, compilation, index, name, kind, children=()):
        super().__init__(compilation, {
            "id": index, "name": name, "type": kind, "end": 0, "source": -1, "compute_set": -1,
            "ipu": -1, "stage": -1, "cycles": 0, "sync_cycles": 0, "cycles_mean": 0.,
            "active_tiles": 0, "repeat_count": 1, "executions": 1, "flops": 0, "bytes_in": 0,
            "bytes_out": 0, "code_bytes": 0, "tile_cycles": 0, "code_by_tile": 0})
        self._children = list(children)

    @property
    def children(self):
        return self._children


class HostWork(_OfEngine):
    """What the trace shows before a run though the program does not do it: the IPU waits until the
    host has the next run, or is loaded with the program after it has run another one."""

    _NAMES = {-1: ("WaitForHost", "StreamCopyBegin"), -2: ("LoadExecutable", "StreamCopyMid")}

    def __init__(self, compilation, index):
        super().__init__(compilation, index, *self._NAMES[index])


def switch_over(compilation, main, has_weights):
    """The program by which the host chooses what an engine runs: 0 sends the weights to the IPU,
    1 is the main program, 2 sends the weights back. All weights are one copy."""
    def copies(index, name):
        kinds = ("StreamCopyBegin", "StreamCopyMid", "StreamCopyEnd") if has_weights else ()
        return _OfEngine(compilation, index, name, "Sequence", [
            _OfEngine(compilation, index - 1 - i, f"{name}/{kind}", kind)
            for i, kind in enumerate(kinds)])

    return _OfEngine(compilation, -3, "switchControl", "OnEveryTileSwitch", [
        copies(-4, "DownloadWeights"), main, copies(-8, "UploadWeights")])


class ProgramVisitor:
    """Base of visitors: a method for each type, which does nothing."""

    def visit(self, program):
        return program.accept(self)

    def _ignore(self, program):
        """Of types that the visitor does not care about."""


for _type in Program.Type:
    setattr(ProgramVisitor, f"visit{_type.name}", ProgramVisitor._ignore)
