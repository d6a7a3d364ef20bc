// Filter fields: words, and conditions on columns.

/** Words that must be in a row's text, and conditions like cycles>1000. @param {string} text
 * @param {Column[]} columns */
export function matcher(text, columns) {
  const tests = text
    .trim()
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => {
      const match = /^([\w ]+?)(>=|<=|>|<|=)(-?[\d.]+)$/.exec(word);
      const column = match && columns.find((c) => c.key === match[1] || c.title.toLowerCase() === match[1]);
      if (match && column) {
        const bound = Number(match[3]);
        return (row) => {
          const value = Number(column.value(row));
          switch (match[2]) {
            case ">":
              return value > bound;
            case "<":
              return value < bound;
            case ">=":
              return value >= bound;
            case "<=":
              return value <= bound;
            default:
              return value === bound;
          }
        };
      }
      const wanted = word.toLowerCase();
      const texts = columns.filter((c) => c.kind === "text" || c.kind === "long");
      return (row) =>
        texts.some((c) =>
          String(c.value(row) ?? "")
            .toLowerCase()
            .includes(wanted),
        );
    });
  return (row) => tests.every((test) => test(row));
}
