// Every SQL query of the page. A view's "SQL" button shows the text that is here.

/** The same text as ops_query of src/report/read.c, so that numbers are those of tremula report. */
const LEAVES =
  "WITH leaves AS (SELECT programs.*, coalesce(nullif(sources.op_name, ''), sources.hlo_name, " +
  "programs.name) AS op, coalesce(sources.layer, '') AS layer, sources.plan AS plan, " +
  "sources.hlo_name AS hlo, sources.opcode AS opcode, sources.op_type AS op_type, " +
  "sources.file AS file, sources.line AS line " +
  "FROM programs LEFT JOIN sources ON sources.id = programs.source " +
  "WHERE programs.end = programs.id + 1), " +
  "temporaries AS (SELECT leaves.id AS id, sum(variables.worst_bytes) AS bytes FROM leaves " +
  "JOIN variables ON variables.source = leaves.source AND leaves.source >= 0 " +
  "AND NOT variables.always_live AND variables.first_step <= leaves.id " +
  "AND leaves.id < variables.end_step JOIN var_categories " +
  "ON var_categories.id = variables.category " +
  "WHERE NOT (var_categories.name = 'variable' AND variables.name <> 'variable') " +
  "GROUP BY leaves.id) ";

/** TensorFlow ops; data/operations.js adds up the same for every layer. */
const OPERATIONS =
  LEAVES +
  'SELECT op AS "group", min(layer), max(plan), CAST(sum(cycles * executions) AS INTEGER) AS cycles, ' +
  "CAST(sum(CASE type WHEN 'OnTileExecute' THEN cycles * executions ELSE 0 END) AS INTEGER), " +
  "CAST(sum(flops * executions) AS INTEGER), coalesce(max(temporaries.bytes), 0), " +
  "CAST(sum(CASE type WHEN 'OnTileExecute' THEN (cycles - cycles_mean) * executions " +
  "ELSE 0 END) AS INTEGER), sum(code_bytes), " +
  "CAST(sum(bytes_in * executions) AS INTEGER), CAST(sum(bytes_out * executions) AS INTEGER), " +
  "CAST(sum(sync_cycles * executions) AS INTEGER), max(executions), count(*), " +
  "max(live_worst), min(leaves.id), max(op_type), max(file), max(line), max(hlo), max(opcode), " +
  "CAST(sum(CASE type WHEN 'DoExchange' THEN cycles * executions ELSE 0 END) AS INTEGER) " +
  "FROM leaves LEFT JOIN temporaries ON temporaries.id = leaves.id GROUP BY op ORDER BY cycles DESC, op";

export const QUERIES = {
  varCategories: "SELECT id, name, always_live FROM var_categories ORDER BY id",
  alwaysLiveByIpu: "SELECT ipu, sum(always_live) FROM memory_by_tile GROUP BY ipu ORDER BY ipu",
  computeSet:
    "SELECT name, vertices, edges, flops, cycles, cycles_mean, active_tiles, " +
    "shared_with FROM compute_sets WHERE compute_set = ?",
  vertices:
    "SELECT t.name, v.count, v.cycles, v.state_bytes, v.count * v.state_bytes, " +
    "t.code_bytes FROM vertices AS v JOIN vertex_types AS t ON t.id = v.vertex_type " +
    "WHERE v.compute_set = ? ORDER BY 5 DESC",
  operations: OPERATIONS,
  advice: "SELECT * FROM advice",
};
