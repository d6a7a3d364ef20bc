// The views in their order; the first nine have their number as key.

import { livenessView } from "./liveness.js";
import { traceView } from "./trace.js";
import { memoryView } from "./memory.js";
import { summaryView } from "./summary.js";

/** @type {import("../base/app.js").ViewModule[]} */
export const VIEWS = [summaryView, memoryView, livenessView, traceView];
