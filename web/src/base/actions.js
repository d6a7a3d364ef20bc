// What keys and the palette do in every view.

/** @param {string} key for the first chart or table of the view */
export function nudge(key) {
  const target = document.querySelector("main canvas[tabindex]") ?? document.querySelector("main tr[tabindex='0']");
  if (target === null) return;
  /** @type {HTMLElement} */ (target).focus();
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}

/** Goes to the field that finds something in the view. */
export function find() {
  const field = /** @type {HTMLInputElement|null} */ (
    document.querySelector("main :is(input.find, input[type=search], input[type=text])")
  );
  field?.focus();
  field?.select();
}

/** @param {App} app */
export function copyChosen(app) {
  const { values } = app.state;
  const text = ["op", "step", "tiles", "range"]
    .filter((key) => values.has(key))
    .map((key) => `${key} ${values.get(key)}`)
    .join("\n");
  navigator.clipboard?.writeText(text || location.href).catch(() => {});
  app.speak("Copied");
}
