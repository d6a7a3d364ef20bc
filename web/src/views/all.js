// The views in their order; the first nine have their number as key.

import { summaryView } from "./summary.js";

/** @type {import("../base/app.js").ViewModule[]} */
export const VIEWS = [summaryView];
