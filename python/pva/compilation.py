"""What was compiled: target, graph, memory, programs, liveness, variables."""

import bisect
import functools
import os

from pva import lowered
from pva.programs import ComputeSet, Program, Vertex, switch_over


class Target:
    """The machine; of a replica where a name does not say otherwise."""

    def __init__(self, values):
        self.type = values["type"]
        self.architecture = values["architecture"]
        self.numIPUs = values["num_ipus"]
        self.ipusPerReplica = values["ipus_per_replica"]
        self.numReplicas = values["num_replicas"]
        self.tilesPerIpu = self.tilesPerIPU = values["tiles_per_ipu"]
        self.numTiles = values["num_tiles"]
        self.bytesPerTile = values["bytes_per_tile"]
        self.bytesPerIPU = self.bytesPerIpu = values["bytes_per_ipu"]
        self.totalMemory = self.bytesPerTile * self.numTiles
        self.clockFrequency = values["clock_frequency"]
        self.minSyncDelay = values["min_sync_delay"]
        self.numWorkerContexts = values["num_worker_contexts"]


class Graph:
    """Counts."""

    def __init__(self, totals):
        self.numComputeSets = totals["num_compute_sets"]
        self.numVertices = totals["num_vertices"]
        self.numVars = totals["num_variables"]
        self.numEdges = totals["num_edges"]


class TotalMemory:
    """Bytes of a tile."""

    def __init__(self, row):
        self.excludingGaps, self.includingGaps = row["total"], row["total_including_gaps"]


class Category:
    """Bytes of a category on a tile, when the tile is fullest."""

    def __init__(self, always, other):
        self.alwaysLive, self.notAlwaysLive, self.total = always, other, always + other


class Categories:
    """By name: categories.vertexCode.total."""

    def __init__(self, names, found):
        self._names = names
        for name in names:
            setattr(self, name, found.get(name, Category(0, 0)))

    def __iter__(self):
        return ((name, getattr(self, name)) for name in self._names)


class TileMemory:
    """Memory of a tile: total, alwaysLiveBytes, notAlwaysLiveBytes, category."""

    def __init__(self, compilation, row):
        self._compilation, self._tile = compilation, row["tile"]
        self.total = TotalMemory(row)
        self.alwaysLiveBytes = row["always_live"]
        self.notAlwaysLiveBytes = row["not_always_live"]
        self.gaps, self.interleavedBytes = row["gaps"], row["interleaved"]
        self.overflowedBytes = row["overflowed"]

    @property
    def vertices(self):
        """By type, as compute sets spread theirs over the tiles (Vertex.countByTile)."""
        ipu, tile = divmod(self._tile, self._compilation.target.tilesPerIpu)
        found = {}
        for one in self._compilation.computeSets:
            if one._row["ipu"] != ipu:
                continue
            for vertex in one.vertices:
                count = vertex.countByTile[tile]
                if count:
                    known = found.setdefault(vertex.type.name, TileVertex(vertex.type, 0))
                    known.count += count
        return list(found.values())

    @property
    def category(self):
        names = self._compilation.category_names
        found = {}
        for category, size, always in self._compilation.categories_of.get(self._tile, ()):
            one = found.setdefault(names[category], Category(0, 0))
            one.total += size
            if always:
                one.alwaysLive += size
            else:
                one.notAlwaysLive += size
        return Categories(list(names.values()), found)


class TileVertex:
    """Vertices of one type on a tile: type, count."""

    def __init__(self, kind, count):
        self.type, self.count = kind, count


class Tile:
    """A tile: memory; id counts over the IPUs of a replica."""

    def __init__(self, compilation, row):
        self.id, self.ipu = row["tile"], row["ipu"]
        self.memory = TileMemory(compilation, row)


class Ipu:
    """An IPU of a replica: tiles."""

    def __init__(self, index, tiles):
        self.id, self.tiles = index, tiles


class Bytes:
    def __init__(self, count):
        self.bytes = count


class StepMemory(Bytes):
    """bytes, and variables: what holds them, the largest first."""

    def __init__(self, count, compilation, program):
        super().__init__(count)
        self._compilation, self._program = compilation, program

    @property
    def variables(self):
        step = self._program._id
        return [NotAlwaysLiveVariable(row) for row in self._compilation._database.rows(
            "variables",
            "SELECT name, total_bytes FROM variables WHERE NOT always_live AND first_step <= ?"
            " AND ? < end_step ORDER BY total_bytes DESC, id", step, step)]


class AlwaysLiveVariable:
    """name, size (bytes on all tiles)."""

    def __init__(self, row):
        self.name, self.size = row["name"], row["total_bytes"]


class NotAlwaysLiveVariable(AlwaysLiveVariable):
    """The same of one that is alive at times."""


class LivenessProgramStep:
    """What a program finds in memory beside what is always live."""

    def __init__(self, compilation, program):
        self._compilation, self.program = compilation, program

    @property
    def notAlwaysLiveMemory(self):
        """Bytes on all tiles."""
        ipus = range(self._compilation.target.ipusPerReplica)
        return StepMemory(sum(self.notAlwaysLiveMemoryForIpu(i).bytes for i in ipus),
                          self._compilation, self.program)

    def notAlwaysLiveMemoryForIpu(self, ipu):
        times, sizes = self._compilation.liveness_of[ipu]
        at = bisect.bisect_right(times, self.program._id) - 1
        return Bytes(sizes[at] if at >= 0 else 0)

    def notAlwaysLiveMemoryForTile(self, tile):
        """Bytes of a tile (needs vars.capnp)."""
        step = self.program._id
        return Bytes(sum(v.bytes for v in self._compilation.loweredVariables.forTile(tile)
                         if not v.alwaysLive and v.firstStep <= step < v.endStep))


class EquivalenceClass:
    """When a variable holds memory: steps, as (first, end) intervals."""

    def __init__(self, index, steps):
        self.id, self.steps = index, steps


class LoweredVariable:
    """A variable on one tile: id, name, bytes, tileId, alwaysLive, firstStep, endStep."""

    def __init__(self, index, fields, tile, size):
        self.id, self.tileId, self.bytes = index, tile, size
        self.name, self.alwaysLive = fields["name"], fields["alwaysLive"]
        self.firstStep, self.endStep = fields["firstStep"], fields["endStep"]
        self.category, self.debugId = fields["category"], fields["debugId"]
        self.equivalenceClass = EquivalenceClass(
            index, [] if self.alwaysLive else [(self.firstStep, self.endStep)])


class LoweredVariables:
    """Variables on tiles, from vars.capnp. Raises FileNotFoundError where there is none."""

    def __init__(self, path):
        self.distributions, self.variables = lowered.read(path)

    def forTile(self, tile):
        """Those that have bytes on a tile."""
        sizes = [next((size for first, count, size in runs if first <= tile < first + count), 0)
                 for runs in self.distributions]
        return [LoweredVariable(i, fields, tile, sizes[fields["distribution"]])
                for i, fields in enumerate(self.variables) if sizes[fields["distribution"]]]

    @property
    def allBriefVars(self):
        """Every variable on every tile, one after the other: an iterator, for there are many."""
        for i, fields in enumerate(self.variables):
            for first, count, size in self.distributions[fields["distribution"]]:
                for tile in range(first, first + count):
                    yield LoweredVariable(i, fields, tile, size)


class CompilationReport:
    """report.compilation."""

    def __init__(self, database):
        self._database = database

    @functools.cached_property
    def target(self):
        return Target(self._database.pairs("target"))

    @functools.cached_property
    def totals(self):
        """What the program needs in all, by the names of the table `totals`."""
        return self._database.pairs("totals")

    @property
    def graph(self):
        return Graph(self.totals)

    @property
    def timestamp(self):
        return self._database.meta["timestamp"]

    @functools.cached_property
    def engineOptions(self):
        return {row["name"]: row["value"] for row in
                self._database.rows("engine_options", "SELECT name, value FROM engine_options")}

    @functools.cached_property
    def category_names(self):
        return {row["id"]: row["name"] for row in
                self._database.rows("var_categories",
                                    "SELECT id, name FROM var_categories ORDER BY id")}

    @functools.cached_property
    def has_runs_of_tiles(self):
        """Whether the profile has cycles and code by tile; older ones have not."""
        return self._database.has("tile_cycles") and self._database.has("tile_bytes")

    def by_tile(self, table, distribution, ipu):
        """The numbers of a distribution on the tiles of an IPU. `table`: tile_cycles or
        tile_bytes."""
        tiles = self.target.tilesPerIpu
        value = {"tile_cycles": "cycles", "tile_bytes": "bytes"}[table]
        numbers = [0] * tiles
        for row in self._database.rows(
                table, f"SELECT first_tile, num_tiles, {value} AS value FROM {table} "
                "WHERE distribution = ?", distribution):
            first = row["first_tile"] - max(ipu, 0) * tiles
            if 0 <= first and first + row["num_tiles"] <= tiles:
                numbers[first:first + row["num_tiles"]] = [row["value"]] * row["num_tiles"]
        return numbers

    @functools.cached_property
    def categories_of(self):
        found = {}
        for row in self._database.rows(
                "vars_info", "SELECT tile, category, size_bytes, always_live FROM vars_info"):
            found.setdefault(row["tile"], []).append(tuple(row)[1:])
        return found

    @functools.cached_property
    def tiles(self):
        return [Tile(self, row) for row in
                self._database.rows("memory_by_tile", "SELECT * FROM memory_by_tile ORDER BY tile")]

    @functools.cached_property
    def ipus(self):
        size = self.target.tilesPerIpu
        return [Ipu(i, self.tiles[i * size:(i + 1) * size])
                for i in range(self.target.ipusPerReplica)]

    @functools.cached_property
    def sources(self):
        return {row["id"]: row for row in self._database.rows("sources", "SELECT * FROM sources")}

    @functools.cached_property
    def all_programs(self):
        return [Program(self, row) for row in
                self._database.rows("programs", "SELECT * FROM programs ORDER BY id")]

    @property
    def programs(self):
        """All programs in order; the first is the whole run. The last is the switch of the engine
        over what the host can run."""
        return [*self.all_programs, self._switch]

    @functools.cached_property
    def _switch(self):
        weights = self._database.rows(
            "variables", "SELECT id FROM variables WHERE is_input AND is_weight LIMIT 1")
        return switch_over(self, self.all_programs[0], bool(list(weights)))

    @functools.cached_property
    def computeSets(self):
        """Those that are compiled: equal ones of operations that are outlined are one."""
        return [one for one in self._all_compute_sets if one._row["shared_with"] < 0]

    @functools.cached_property
    def _all_compute_sets(self):
        return [ComputeSet(self, row) for row in
                self._database.rows("compute_sets",
                                    "SELECT * FROM compute_sets ORDER BY compute_set")]

    def compute_set(self, index):
        """The one that a program's row names, or that which it shares; None for -1."""
        if index < 0:
            return None
        one = self._all_compute_sets[index]
        shared = one._row["shared_with"]
        return one if shared < 0 else self._all_compute_sets[shared]

    @functools.cached_property
    def vertices_of(self):
        found = {}
        for row in self._database.rows("vertices", "SELECT * FROM vertices JOIN vertex_types "
                                       "ON vertex_types.id = vertices.vertex_type"):
            found.setdefault(row["compute_set"], []).append(Vertex(self, row))
        return found

    @functools.cached_property
    def liveness_of(self):
        found = [([], []) for _ in range(self.target.ipusPerReplica)]
        for row in self._database.rows("liveness", "SELECT * FROM liveness ORDER BY ipu, program"):
            times, sizes = found[row["ipu"]]
            times.append(row["program"])
            sizes.append(row["not_always_live"])
        return found

    @functools.cached_property
    def livenessProgramSteps(self):
        """The programs that do something themselves, in order."""
        return [LivenessProgramStep(self, program) for program in self.all_programs
                if program._row["end"] == program._id + 1]

    @functools.cached_property
    def alwaysLiveVariables(self):
        return [AlwaysLiveVariable(row) for row in self._database.rows(
            "variables", "SELECT name, total_bytes FROM variables WHERE always_live ORDER BY id")]

    def alwaysLiveVariablesForTile(self, tile):
        """Those with bytes on a tile (needs vars.capnp)."""
        return [one for one in self.loweredVariables.forTile(tile) if one.alwaysLive]

    @functools.cached_property
    def loweredVariables(self):
        return LoweredVariables(os.path.join(os.path.dirname(self._database.path), "vars.capnp"))
