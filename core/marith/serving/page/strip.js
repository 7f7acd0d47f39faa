// The strip: every token of a text, coloured by the formula's push. Does not need a server.

import {
  added, chance, decimal, element, pushOf, pushStrength, shown, spelled, surpriseStrength,
} from "./values.js";

/** Returns a sentence about the token at `index`. */
export function sentenceOf(positions, index) {
  const position = positions[index];
  const push = pushOf(position);
  const parts = [`Token ${index + 1} of ${positions.length}, “${labelOf(position)}”`];
  parts.push(`${chance(position.logprob)} likely`);
  if (push === null) parts.push("M alone gives it probability 0");
  else if (Math.abs(push) < 0.05) parts.push("as likely as by M alone");
  else parts.push(`${decimal(Math.abs(push))} nats ${push > 0 ? "likelier" : "less likely"} than by M`);
  const instead = position.bare_likeliest;
  if (position.flipped) parts.push(`the formula's likeliest, where M's is “${spelled(instead.text)}”`);
  return `${parts.join("; ")}.`;
}

/** A strip of tokens, with one tab stop, arrow keys, and one listener for all tokens. */
export class TokenStrip {
  #root; #tokens = []; #positions = []; #current = 0; #chosen = null; #only = false;
  #onChoose; #onRead;

  /** `onChoose` gets the index of a clicked token, `onRead` a sentence about a token. */
  constructor(label, onChoose, onRead) {
    this.#onChoose = onChoose;
    this.#onRead = onRead;
    this.#root = element("div", {
      class: "strip", role: "group", "aria-label": label, dir: "auto",
      onclick: (event) => this.#clicked(event),
      onkeydown: (event) => this.#pressed(event),
      onpointerover: (event) => this.#read(event.target),
      onfocusin: (event) => this.#read(event.target),
    });
  }

  get root() { return this.#root; }

  /** Shows the positions of an inspection. */
  show(positions) {
    this.#positions = positions;
    this.#tokens = positions.map(tokenOf);
    this.#current = 0;
    this.#chosen = null;
    this.#root.replaceChildren(...this.#tokens);
    this.#tokens[0]?.setAttribute("tabindex", "0");
  }

  /** Marks the token of the card. */
  choose(index) {
    this.#tokens[this.#chosen]?.removeAttribute("aria-pressed");
    this.#chosen = index;
    if (index === null) return;
    this.#tokens[index]?.setAttribute("aria-pressed", "true");
    this.#moveTo(index, false);
  }

  /** Marks only the token at `index` by a class; null removes the mark. */
  mark(kind, index, note = "") {
    for (const marked of this.#root.querySelectorAll(`.${kind}`)) {
      marked.classList.remove(kind);
      marked.removeAttribute("title");
    }
    const token = index === null ? null : this.#tokens[index];
    if (!token) return;
    token.classList.add(kind);
    token.title = note;
  }

  /** If `only`, shows tokens that are not flipped pale, and lets the arrow keys skip them. */
  onlyFlipped(only) {
    this.#only = only;
    this.#root.classList.toggle("only-flipped", only);
  }

  #indexOf(target) {
    const token = target.closest?.(".token");
    return token ? Number(token.dataset.index) : null;
  }

  #clicked(event) {
    const index = this.#indexOf(event.target);
    if (index === null) return;
    this.choose(index);
    this.#onChoose(index);
  }

  #read(target) {
    const index = this.#indexOf(target);
    if (index !== null) this.#onRead(sentenceOf(this.#positions, index));
  }

  #pressed(event) {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.ctrlKey || event.metaKey || event.altKey || this.#tokens.length === 0) return;
    if (event.key === "Enter" || event.key === " ") this.#clicked(event);
    else if (event.key === "Home") this.#moveTo(this.#next(-1, 1), true);
    else if (event.key === "End") this.#moveTo(this.#next(this.#tokens.length, -1), true);
    else if (event.key in steps) this.#moveTo(this.#next(this.#current, steps[event.key]), true);
    else return;
    event.preventDefault();
  }

  #next(from, step) {
    for (let i = from + step; i >= 0 && i < this.#tokens.length; i += step) {
      if (!this.#only || this.#positions[i].flipped) return i;
    }
    return this.#current;
  }

  #moveTo(index, focused) {
    this.#tokens[this.#current]?.setAttribute("tabindex", "-1");
    this.#current = index;
    const token = this.#tokens[index];
    token?.setAttribute("tabindex", "0");
    if (focused) token?.focus();
  }
}

/** Returns a checkbox that shows only the flipped tokens of a strip in colour. */
export function filterOf(strip) {
  const filter = element("input", {
    type: "checkbox", onchange: () => strip.onlyFlipped(filter.checked),
  });
  return filter;
}

/** Returns the legend of a strip's colours and lines, with its filter. */
export function legend(filter) {
  const scale = element("span", { class: "scale", "aria-hidden": "true" });
  return element(
    "div", { class: "legend-row" },
    element("span", { class: "hint" }, "less likely than by M ", scale, " likelier"),
    element("span", { class: "hint surprise" }, "thicker: more surprising"),
    element("label", {}, filter, " Changed tokens only"),
  );
}

function tokenOf(position, index) {
  const push = pushOf(position);
  const kinds = ["token"];
  if (push === null || push > 0) kinds.push("likelier");
  else kinds.push("unlikelier");
  if (position.flipped) kinds.push("flipped");
  const made = element("span", { class: kinds.join(" "), role: "button", tabindex: "-1" });
  made.dataset.index = index;
  made.style.setProperty("--push", push === null ? 1 : pushStrength(push));
  made.style.setProperty("--surprise", surpriseStrength(position.logprob));
  made.textContent = shownToken(position);
  if (isPart(position) || !/[^\s]/.test(position.text)) made.setAttribute("aria-label", labelOf(position));
  return made;
}

// A character of several tokens is shown at its last token; the tokens before it show "⋯".
const isPart = (position) => position.completed === "";

function labelOf(position) {
  return isPart(position) ? "a part of a character" : spelled(added(position));
}

function shownToken(position) {
  if (isPart(position)) return "⋯";
  if (position.text === "") return "∅";
  return shown(added(position)).replace(/\n/g, "↵\n");
}
