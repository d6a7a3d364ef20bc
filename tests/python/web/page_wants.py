"""What each table of the analyser's page must show, by SQL and by pva's readers, without the page.

A want is (columns, rows, how): how is "all", or a column that the table has the largest of.
"""

import collections

from pva import lowered

_SHARE = "100.0 * {} / (SELECT value FROM totals WHERE key = 'cycles')"
_LIFE = ("CASE WHEN v.always_live THEN 'always' ELSE v.first_step || ' – ' || (v.end_step - 1) "
         "END")
_VARIABLES = ("variables AS v LEFT JOIN sources AS s ON s.id = v.source "
              "LEFT JOIN var_categories AS c ON c.id = v.category")
_OP = "coalesce(nullif(s.op_name, ''), s.hlo_name, '')"
_LEAVES = ("SELECT p.*, coalesce(nullif(s.op_name, ''), s.hlo_name, p.name) AS op, s.plan AS plan, "
           "CASE WHEN s.file IS NULL OR s.file = '' THEN '' ELSE s.file || ':' || s.line END AS at "
           "FROM programs AS p LEFT JOIN sources AS s ON s.id = p.source WHERE p.end = p.id + 1")
_WASTED = ("CAST(sum(CASE type WHEN 'OnTileExecute' THEN (cycles - cycles_mean) * executions "
           "ELSE 0 END) AS INTEGER)")
_PEAK = "(SELECT peak_program FROM memory_by_tile ORDER BY total_including_gaps DESC, tile LIMIT 1)"
_TRACE = "trace AS t JOIN programs AS p ON p.id = t.program WHERE t.id > 1"

# table: columns, SQL with {step} and {op}, how
_QUERIES = {
    "categories": ("name always_live not_always_live",
                   "SELECT name, sum(i.always_live * size_bytes), sum((1 - i.always_live) * "
                   "size_bytes) FROM vars_info AS i JOIN var_categories AS c ON c.id = category "
                   "GROUP BY 1", "all"),
    "options": ("name value given acts",
                "SELECT name, value, CASE given WHEN 1 THEN 'given' ELSE '' END, CASE acts WHEN 1 "
                "THEN 'has an effect' ELSE 'none here' END FROM engine_options", "all"),
    "runs": ("id name wait_cycles load_cycles cycles host_seconds infeed_wait_seconds",
             "SELECT id, name, wait_cycles, load_cycles, cycles, host_seconds, "
             "infeed_wait_seconds FROM runs", "all"),
    "advice": ("text saved worst_tile_bytes fits num_ipus cycles change",
               "SELECT text, saved, worst_tile_bytes, CASE fits WHEN 1 THEN 'fits' ELSE "
               "'does not fit' END, num_ipus, nullif(cycles, 0), CASE WHEN cycles > 0 THEN "
               f"{_SHARE.format('cycles')} - 100 END FROM advice", "all"),
    "insights-always-live": ("name total worst dtype op",
                             f"SELECT v.name, total_bytes, worst_bytes, dtype, {_OP} FROM "
                             f"{_VARIABLES} WHERE v.always_live", "total"),
    "insights-alive-at-the-peak": (
        "name total worst dtype op",
        f"SELECT v.name, total_bytes, worst_bytes, dtype, {_OP} FROM {_VARIABLES} WHERE NOT "
        f"v.always_live AND first_step <= {_PEAK} AND {_PEAK} < end_step", "total"),
    "insights-vertex-state": ("name state count",
                              "SELECT name, sum(count * state_bytes), sum(count) FROM vertices "
                              "JOIN vertex_types ON id = vertex_type GROUP BY id", "state"),
    "insights-vertex-code": ("name code", "SELECT name, code_bytes FROM vertex_types", "code"),
    "insights-exchanges": ("name code in cycles",
                           "SELECT name, code_bytes, bytes_in, cycles FROM programs WHERE type IN "
                           "('DoExchange', 'GlobalExchange')", "code"),
    "insights-cycles": ("name cycles share",
                        "SELECT op, CAST(sum(cycles * executions) AS INTEGER), "
                        f"{_SHARE.format('sum(cycles * executions)')} FROM ({_LEAVES}) GROUP BY 1",
                        "cycles"),
    "insights-wasted": ("name wasted share",
                        f"SELECT op, {_WASTED} AS wasted, {_SHARE.format(_WASTED)} FROM ({_LEAVES})"
                        " GROUP BY 1 HAVING wasted > 0", "wasted"),
    "memory-tiles": ("tile total total_including_gaps gaps always_live not_always_live interleaved "
                     "overflowed",
                     "SELECT tile, total, total_including_gaps, gaps, always_live, "
                     "not_always_live, interleaved, overflowed FROM memory_by_tile", "all"),
    "regions": ("region category live t0 t5",
                "SELECT region, name, CASE r.always_live WHEN 1 THEN 'always' ELSE 'at times' END, "
                "sum((tile = 0) * size_bytes), sum((tile = 5) * size_bytes) FROM vars_by_region "
                "AS r JOIN var_categories AS c ON c.id = category WHERE tile IN (0, 5) "
                "GROUP BY 1, 2, 3", "all"),
    "alive": ("name s3 s9 difference life category operation line",
              "SELECT name, a, b, b - a, life, category, op, line FROM (SELECT v.name AS name, "
              "total_bytes * (v.always_live OR (first_step <= 3 AND 3 < end_step)) AS a, "
              "total_bytes * (v.always_live OR (first_step <= 9 AND 9 < end_step)) AS b, "
              f"{_LIFE} AS life, c.name AS category, {_OP} AS op, CASE WHEN s.file IS NULL OR "
              "s.file = '' THEN '' ELSE s.file || ':' || s.line END AS line FROM "
              f"{_VARIABLES}) WHERE a > 0 OR b > 0", "all"),
    "programs": ("name type cycles executions share active_tiles balance bytes_in live_bytes",
                 "SELECT name, type, cycles, executions, "
                 f"{_SHARE.format('cycles * executions')}, active_tiles, CASE WHEN type = "
                 "'OnTileExecute' AND cycles > 0 THEN 100.0 * cycles_mean / (cycles - sync_cycles) "
                 "END, bytes_in, live_bytes FROM programs", "all"),
    "vertices": ("name count cycles state states code",
                 "SELECT t.name, count, v.cycles, state_bytes, count * state_bytes, t.code_bytes "
                 "FROM vertices AS v JOIN vertex_types AS t ON t.id = vertex_type WHERE "
                 "compute_set = (SELECT compute_set FROM programs WHERE id = {step})", "all"),
    "touched": ("name total worst life category",
                f"SELECT v.name, total_bytes, worst_bytes, {_LIFE}, c.name FROM {_VARIABLES} WHERE "
                "v.source = (SELECT source FROM programs WHERE id = {step}) AND (v.always_live OR "
                "(first_step <= {step} AND {step} < end_step))", "all"),
    "steps": ("id name type cycles executions all live",
              "SELECT id, name, type, cycles, executions, cycles * executions, live_bytes FROM "
              f"({_LEAVES}) WHERE op = '{{op}}'", "all"),
    "op-variables": ("name total worst dtype life category",
                     f"SELECT v.name, total_bytes, worst_bytes, dtype, {_LIFE}, c.name FROM "
                     f"{_VARIABLES} WHERE {_OP} = '{{op}}'", "all"),
    "trace-table": ("id name ipu cycles_base cycles cycles_overlapped sync_cycles iterations "
                    "data_in data_out",
                    "SELECT t.id, p.name, t.ipu, cycles_base, t.cycles, cycles_overlapped, "
                    f"t.sync_cycles, iterations, data_in, data_out FROM {_TRACE}", "all"),
    "range-operations": ("name cycles share",
                         "SELECT coalesce(nullif(op_name, ''), nullif(hlo_name, ''), p.name), "
                         "sum(t.cycles), 100.0 * sum(t.cycles) / (SELECT sum(cycles) FROM trace "
                         "WHERE id > 1) FROM trace AS t JOIN programs AS p ON p.id = t.program "
                         "LEFT JOIN sources AS s ON s.id = p.source WHERE t.id > 1 GROUP BY 1 "
                         "HAVING sum(t.cycles) > 0", "cycles"),
    "stages": ("stage busy bubble share",
               "WITH r AS (SELECT * FROM trace WHERE id > 1 AND stage >= 0 AND cycles > 0), span "
               "AS (SELECT max(cycles_base + cycles) - min(cycles_base) AS n FROM r) SELECT stage, "
               "sum(cycles), n - sum(cycles), 100.0 * sum(cycles) / n FROM r, span GROUP BY 1",
               "all"),
    "streams": ("name kind direction bytes cycles programs",
                "SELECT s.name, kind, direction, bytes, coalesce(sum(cycles * executions), 0), "
                "count(p.id) FROM streams AS s LEFT JOIN programs AS p ON p.stream = s.id GROUP BY "
                "s.id", "all"),
    "result": ("c0 c1 c2", "SELECT type, count(*), sum(cycles * executions) FROM programs WHERE "
               "end = id + 1 GROUP BY 1", "all"),
}

# What an operation or a line of source sums up; {} is the group.
_SUMS = ("SELECT {0}, CAST(sum(cycles * executions) AS INTEGER), "
         f"{_SHARE.format('sum(cycles * executions)')}, {_WASTED}, "
         "CAST(sum(flops * executions) AS INTEGER), CAST(sum((type = 'DoExchange') * cycles * "
         f"executions) AS INTEGER), max(plan) FROM ({_LEAVES}) GROUP BY 1")


def _operations(one, report):
    """Rows of the table of operations."""
    sizes = {name: (always, weights) for name, always, weights in one.execute(
        f"SELECT {_OP}, sum(v.always_live * total_bytes), sum(is_weight * total_bytes) FROM "
        f"{_VARIABLES} GROUP BY 1")}
    temporary = {row["op"]: row["temporary_bytes"] for row in report["ops"]}
    tiles, = one.execute("SELECT count(*) FROM memory_by_tile").fetchone()
    for name, cycles, share, wasted, flops, exchange, plan in one.execute(_SUMS.format("op")):
        always, weights = sizes.get(name, (0, 0))
        rate = flops / cycles if cycles else None
        yield (name, cycles, share, wasted, temporary[name], exchange, flops, rate,
               None if rate is None else 100 * rate / tiles / 128, always, weights, plan)


def _lines(one):
    """Rows of the table of source lines, without their temporary bytes."""
    where = "CASE WHEN s.file IS NULL OR s.file = '' THEN '' ELSE s.file || ':' || s.line END"
    sizes = {name: rest for name, *rest in one.execute(
        f"SELECT {where}, sum(v.always_live * total_bytes), sum((v.always_live OR (first_step <= "
        f"{_PEAK} AND {_PEAK} < end_step)) * total_bytes) FROM {_VARIABLES} GROUP BY 1")}
    for name, cycles, share, wasted, flops, _, _ in one.execute(_SUMS.format("at")):
        if name:
            always, live = sizes.get(name, (0, 0))
            yield name, cycles, share, always, live, wasted, flops


def bytes_on(folder, tiles):
    """{variable: its bytes on each of the tiles} of vars.capnp, those on none left out."""
    distributions, variables = lowered.read(str(folder / "vars.capnp"))
    found = {}
    for number, variable in enumerate(variables):
        runs = distributions[variable["distribution"]]
        on = [sum(size for first, count, size in runs if first <= tile < first + count)
              for tile in tiles]
        if any(first <= tile < first + count for first, count, _ in runs for tile in tiles):
            found[number] = on
    return found


def _tile_variables(one, folder):
    on = bytes_on(folder, [0, 5])
    peaks = [one.execute("SELECT peak_program FROM memory_by_tile WHERE tile = ?", (tile,)
                         ).fetchone()[0] for tile in (0, 5)]
    for number, name, always, first, end, life, category, dtype, op, total in one.execute(
            f"SELECT v.id, v.name, v.always_live, first_step, end_step, {_LIFE}, c.name, dtype, "
            f"{_OP}, total_bytes FROM {_VARIABLES}"):
        if number in on:
            alive = any(size > 0 and (always or first <= peak < end)
                        for peak, size in zip(peaks, on[number], strict=True))
            yield (name, *on[number], "alive" if alive else "", life, category, dtype, op, total)


def halves(one, folder):
    """(name, bytes) of float32 variables that are alive when the fullest tile is fullest, on the
    one of the five fullest tiles that holds most of each."""
    tiles = [tile for tile, in one.execute("SELECT tile FROM memory_by_tile ORDER BY "
                                           "total_including_gaps DESC, tile LIMIT 5")]
    on = bytes_on(folder, tiles)
    return [(name, max(on[number])) for number, name in one.execute(
        f"SELECT id, name FROM variables WHERE dtype = 'f32' AND (always_live OR (first_step <= "
        f"{_PEAK} AND {_PEAK} < end_step))") if max(on.get(number, [0])) > 0]


def liveness(one):
    """A row says what an IPU has from a program on; the page shows the sum of all IPUs."""
    floor, = one.execute("SELECT sum(always_live) FROM memory_by_tile").fetchone()
    now, sums = collections.Counter(), {}
    for program, ipu, size in one.execute("SELECT * FROM liveness ORDER BY program"):
        now[ipu] = size
        sums[program] = now.total()
    names = dict(one.execute("SELECT id, name FROM programs"))
    return [(program, names[program], size, size + floor) for program, size in sums.items()]


def _histogram(one):
    end, = one.execute("SELECT value FROM target WHERE key = 'bytes_per_tile'").fetchone()
    totals = [row[0] for row in one.execute("SELECT total_including_gaps FROM memory_by_tile")]
    width = max(end, *totals) / 48
    counts = collections.Counter(min(47, int(total / width)) for total in totals)
    return [(i * width, (i + 1) * width, counts[i]) for i in range(48)]


def _parts(report):
    return [(name, cycles, 100 * cycles / report["cycles"])
            for name, cycles in report["cycles_by_part"].items()]


def _details(one):
    names = ("total_including_gaps gaps total always_live not_always_live interleaved overflowed"
             .split())
    titles = ("Memory including gaps|Gaps|Memory excluding gaps|Always live|At times, when fullest|"
              "Interleaved|Beyond the end").split("|")
    for title, name in zip(titles, names, strict=True):
        yield (title, *one.execute(
            f"SELECT sum({name}), sum((tile = 0) * {name}), sum((tile = 5) * {name}) FROM "
            "memory_by_tile").fetchone())
    yield from one.execute(
        "SELECT name, sum(size_bytes), sum((tile = 0) * size_bytes), sum((tile = 5) * size_bytes) "
        "FROM vars_info JOIN var_categories ON id = category GROUP BY 1")


def wants(one, report, folder, step, op):
    """{table: (columns, rows, how)} of a profile: an open database, the JSON, the folder."""
    found = {table: (columns.split(), list(one.execute(sql.format(step=step, op=op))), how)
             for table, (columns, sql, how) in _QUERIES.items()}
    for table, columns, rows, how in (
            ("parts", "part cycles share", _parts(report), "all"),
            ("operations", "name cycles share wasted temporary exchange flops rate peak alwaysLive "
             "weights plan", _operations(one, report), "all"),
            ("lines", "name cycles share alwaysLive live wasted flops", _lines(one), "all"),
            ("tile-variables", "name t0 t5 peak life category dtype op total",
             _tile_variables(one, folder), "all"),
            ("halves", "name bytes", halves(one, folder), "bytes"),
            ("liveness-table", "program name not_always_live live", liveness(one), "all"),
            ("histogram-table", "from to tiles", _histogram(one), "all"),
            ("details", "what all t0 t5", _details(one), "all"),
            ("files", "name size", [(path.name, path.stat().st_size)
                                    for path in folder.iterdir()], "all")):
        found[table] = (columns.split(), list(rows), how)
    return found
