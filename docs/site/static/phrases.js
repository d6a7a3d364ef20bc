// The sections that have the words of a search next to each other, above the results of Sphinx,
// whose index has no order of words and leaves out words such as "of". docs/site/phrases.py makes
// TEXTS.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const query = new URLSearchParams(location.search).get("q") || "";
  const phrase = query.replaceAll('"', " ").trim().toLowerCase().replace(/\s+/g, " ");
  const results = document.getElementById("search-results");
  if (!results || !phrase.includes(" ")) return;
  const list = document.createElement("ul");
  for (const [page, title, id, heading, text] of TEXTS) {
    const at = `${heading} ${text}`.toLowerCase().indexOf(phrase);
    if (at < 0) continue;
    const link = document.createElement("a");
    link.href = `${page}.html${id ? `#${id}` : ""}`;
    link.textContent = heading === title ? title : `${title}: ${heading}`;
    const part = document.createElement("div");
    part.className = "part";
    part.textContent = `… ${`${heading} ${text}`.slice(Math.max(0, at - 80), at + 120)} …`;
    const item = document.createElement("li");
    item.append(link, part);
    list.append(item);
  }
  const found = document.createElement("section");
  found.className = "phrases";
  const head = document.createElement("p");
  head.textContent = `Sections with “${phrase}”: ${list.childElementCount || "none"}`;
  found.append(head, list.childElementCount ? list : "");
  results.before(found);
});
