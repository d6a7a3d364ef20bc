// The views in their order; the first nine have their number as key.

import { compareView } from "./compare.js";
import { filesView } from "./files.js";
import { graphView } from "./graph.js";
import { insightsView } from "./insights.js";
import { livenessView } from "./liveness.js";
import { memoryView } from "./memory.js";
import { operationsView } from "./operations.js";
import { programView } from "./program.js";
import { sourceView } from "./source.js";
import { sqlView } from "./sql.js";
import { summaryView } from "./summary.js";
import { tilesView } from "./tiles.js";
import { traceView } from "./trace.js";

/** @type {ViewModule[]} */
export const VIEWS = [
  summaryView,
  insightsView,
  memoryView,
  tilesView,
  livenessView,
  programView,
  operationsView,
  graphView,
  traceView,
  compareView,
  sourceView,
  sqlView,
  filesView,
];
