// The views in their order; the first nine have their number as key.

import { livenessView } from "./liveness.js";
import { memoryView } from "./memory.js";
import { operationsView } from "./operations.js";
import { programView } from "./program.js";
import { summaryView } from "./summary.js";
import { traceView } from "./trace.js";

/** @type {import("../base/app.js").ViewModule[]} */
export const VIEWS = [summaryView, memoryView, livenessView, programView, operationsView, traceView];
