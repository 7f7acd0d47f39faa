// An inspection in a notebook: its tokens, and the card of the chosen one.

import { tokenCard } from "../../serving/page/card.js";
import { filterOf, legend, TokenStrip } from "../../serving/page/strip.js";
import { element } from "../../serving/page/values.js";

/** Shows the model's inspection in `el`. Returns a function that ends what it has begun. */
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
  // Rules of the notebook for tables and lists end at a shadow root, and those of the widget too.
  // JupyterLab takes no key for a command that is pressed within an element of this attribute.
  const host = element("div", { class: "marith-inspection", "data-lm-suppress-shortcuts": "true" });
  host.attachShadow({ mode: "open" }).append(
    element("style", {}, model.get("_style")),
    element("div", { class: "inspection" }, strip.root, legend(filterOf(strip)), read, card),
  );
  el.append(host);
  strip.show(inspection.positions);
  showChosen();
  model.on("change:chosen", showChosen);
  const unfollow = followTheme(host, el);
  return () => {
    model.off("change:chosen", showChosen);
    unfollow();
  };
}

function hint(inspection) {
  const sentence = inspection.positions.length === 0
    ? "There are no tokens." : "Press a token of the text to see what each term says of it.";
  return element("p", { class: "empty" }, sentence);
}

/** Gives `host` the class "dark" while what is behind `el` is dark. Returns what ends that. */
function followTheme(host, el) {
  const follow = () => host.classList.toggle("dark", isDark(el));
  const system = matchMedia("(prefers-color-scheme: dark)");
  const attributes = new MutationObserver(follow);
  const attached = new ResizeObserver(follow);
  system.addEventListener("change", follow);
  for (const node of [document.documentElement, document.body]) {
    attributes.observe(node, { attributes: true });
  }
  attached.observe(host);
  return () => {
    system.removeEventListener("change", follow);
    attributes.disconnect();
    attached.disconnect();
  };
}

/** Whether the first background behind an element is dark; where there is none, the system's is. */
function isDark(el) {
  for (let node = el; node; node = node.parentElement ?? node.getRootNode().host) {
    const [red, green, blue, alpha] = pixelOf(getComputedStyle(node).backgroundColor);
    if (alpha > 127) return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** A colour of any notation as red, green, blue and alpha from 0 to 255. */
function pixelOf(colour) {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = "transparent";
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
}

export default { render };
