// An inspection in a notebook: its tokens, and the card of the chosen one.

import { tokenCard } from "../../serving/page/card.js";
import { filterOf, legend, TokenStrip } from "../../serving/page/strip.js";
import { element } from "../../serving/page/values.js";

/** Shows the model's inspection in `el`. Returns a function that cleans up. */
function render({ model, el }) {
  const inspection = model.get("_data");
  const choose = (index) => {
    model.set("chosen", index);
    model.save_changes();
  };
  const read = element("p", { class: "read" });
  const strip = new TokenStrip("Tokens", choose, (sentence) => { read.textContent = sentence; });
  const card = element("div");
  const showChosen = () => {
    const index = model.get("chosen");
    strip.choose(index);
    card.replaceChildren(index === null ? hint(inspection) : tokenCard(inspection, index));
  };
  // A shadow root separates the notebook's rules for tables and lists from the widget's rules.
  // JupyterLab does not treat a key as a command if it is pressed in an element with this attribute.
  const host = element("div", { class: "marith-inspection", "data-lm-suppress-shortcuts": "true" });
  host.attachShadow({ mode: "open" }).append(
    element("style", {}, model.get("_style")),
    element("div", { class: "inspection" }, strip.root, legend(filterOf(strip)), read, card),
  );
  el.append(host);
  strip.show(inspection.positions);
  showChosen();
  model.on("change:chosen", showChosen);
  return () => model.off("change:chosen", showChosen);
}

function hint(inspection) {
  const sentence = inspection.positions.length === 0
    ? "There are no tokens." : "Press a token of the text to see what each term says of it.";
  return element("p", { class: "empty" }, sentence);
}

export default { render };
