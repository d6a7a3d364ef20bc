// The order of a search's results: a function or class whose name is the query, then the course and
// the guides, then other names of the references, then how Tremula is made and measured.
"use strict";

var Scorer = {
  score: ([page, , , kind, score]) => {
    if (/(parameter|member|attribute|property|data), in /.test(kind)) return score - 55;
    if (/^(course|docs)\/[^/]+$/.test(page)) return score + 20;
    return page.startsWith("docs/reference/") ? score : score - 10;
  },
  objNameMatch: 60,
  objPartialMatch: 0,
  objPrio: { 0: 5, 1: 5, 2: 0 }, // modules; other objects
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
