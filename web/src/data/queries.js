// Every SQL query of the page. A view's "SQL" button shows the text that is here.

/** The same text as ops_query of src/report/read.c, so that numbers are those of tremula report. */
const LEAVES =
  "WITH leaves AS (SELECT programs.*, coalesce(nullif(sources.op_name, ''), sources.hlo_name, " +
  "programs.name) AS op, coalesce(sources.layer, '') AS layer, sources.plan AS plan, " +
  "sources.hlo_name AS hlo, sources.opcode AS opcode, sources.op_type AS op_type, " +
  "sources.file AS file, sources.line AS line " +
  "FROM programs LEFT JOIN sources ON sources.id = programs.source " +
  "WHERE programs.end = programs.id + 1), " +
  "held AS (SELECT leaves.id AS id, sum(variables.worst_bytes) AS bytes FROM leaves " +
  "JOIN variables ON variables.source = leaves.source AND leaves.source >= 0 " +
  "AND NOT variables.always_live AND variables.first_step <= leaves.id " +
  "AND leaves.id < variables.end_step JOIN var_categories " +
  "ON var_categories.id = variables.category " +
  "WHERE NOT (var_categories.name = 'variable' AND variables.name <> 'variable') " +
  "GROUP BY leaves.id) ";

/** The groupings of operations: a label, and the SQL of the group's name. */
export const LAYERS = {
  op: { label: "TensorFlow op", name: "op" },
  hlo: { label: "HLO instruction", name: "coalesce(hlo, name)" },
  scope: { label: "Name scope", name: "layer" },
  source: { label: "Source line", name: "CASE WHEN file IS NULL OR file = '' THEN '' ELSE file || ':' || line END" },
  type: { label: "Op type", name: "coalesce(nullif(op_type, ''), opcode, type)" },
  opcode: { label: "HLO opcode", name: "coalesce(opcode, type)" },
};

/** @param {keyof typeof LAYERS} layer */
export function operationsQuery(layer) {
  return (
    LEAVES +
    `SELECT ${LAYERS[layer].name} AS "group", min(layer), max(plan), ` +
    "CAST(sum(cycles * executions) AS INTEGER) AS cycles, " +
    "CAST(sum(CASE type WHEN 'OnTileExecute' THEN cycles * executions ELSE 0 END) AS INTEGER), " +
    "CAST(sum(flops * executions) AS INTEGER), coalesce(max(held.bytes), 0), " +
    "CAST(sum(CASE type WHEN 'OnTileExecute' THEN (cycles - cycles_mean) * executions " +
    "ELSE 0 END) AS INTEGER), sum(code_bytes), " +
    "CAST(sum(bytes_in * executions) AS INTEGER), CAST(sum(bytes_out * executions) AS INTEGER), " +
    "CAST(sum(sync_cycles * executions) AS INTEGER), max(executions), count(*), " +
    "max(live_worst), min(leaves.id), max(op_type), max(file), max(line), max(hlo), max(opcode), " +
    "CAST(sum(CASE type WHEN 'DoExchange' THEN cycles * executions ELSE 0 END) AS INTEGER) " +
    `FROM leaves LEFT JOIN held ON held.id = leaves.id GROUP BY ${LAYERS[layer].name} ` +
    'ORDER BY cycles DESC, "group"'
  );
}

/** Vertices, edges and bytes of variables by the group's name. @param {keyof typeof LAYERS} layer */
export function operationSizesQuery(layer) {
  const sources =
    `(SELECT id, ${LAYERS[layer].name} AS "group" FROM (SELECT id, op_name, ` +
    "hlo_name AS hlo, opcode, op_type, file, line, hlo_name AS name, '' AS type, " +
    "coalesce(nullif(op_name, ''), hlo_name) AS op, layer FROM sources)) AS s";
  return {
    vertices:
      `SELECT s."group", sum(c.vertices), sum(c.edges) FROM ${sources} JOIN ` +
      "compute_sets AS c ON c.source = s.id GROUP BY 1",
    variables:
      'SELECT s."group", sum(CASE v.always_live WHEN 1 THEN v.total_bytes ' +
      "ELSE 0 END), sum(CASE v.is_weight WHEN 1 THEN v.total_bytes ELSE 0 END), count(*) FROM " +
      `${sources} JOIN variables AS v ON v.source = s.id GROUP BY 1`,
  };
}

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
  vertexTypes:
    "SELECT t.name, sum(v.count), sum(v.count * v.state_bytes), t.code_bytes, " +
    "count(*) FROM vertices AS v JOIN vertex_types AS t ON t.id = v.vertex_type GROUP BY t.id " +
    "ORDER BY 3 DESC",
  exchanges:
    "SELECT p.id, p.name, p.code_bytes, p.bytes_in, p.bytes_in_worst, p.cycles, " +
    "p.executions FROM programs AS p WHERE p.type IN ('DoExchange', 'GlobalExchange') " +
    "ORDER BY p.code_bytes DESC, p.bytes_in DESC LIMIT 10",
  advice: "SELECT * FROM advice",
};
