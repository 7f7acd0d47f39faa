// The editor of the formula and its terms, with their meaning and their errors.

import { json } from "./server.js";
import { caretLines, element, namesIn, shown } from "./values.js";

const PAUSE = 250; // milliseconds after the last key press, before the page asks the server
const at = (id) => document.getElementById(id);

/** The editor of one formula. `onMeaning` is called with each explanation, or null for an error. */
export class Editor {
  meaning = null; allowed = false;
  #onMeaning; #timer = null; #asking = null; #beginnings = new Map(); #model = "";

  constructor(onMeaning) {
    this.#onMeaning = onMeaning;
    at("formula").addEventListener("input", () => this.#edited());
    at("add-term").addEventListener("click", () => this.#addTerm("", "").focus());
    at("begin").addEventListener("change", () => this.#begin(at("begin").value));
  }

  get text() { return at("formula").value.trim(); }

  /** The formula as the server prints it; before the server answers, as it was typed. */
  get formula() { return this.meaning?.formula ?? this.text; }

  /** The terms that are not empty, in order: each name with its text, or with {formula}. */
  get terms() {
    return [...at("terms").children]
      .map((row) => ["input", "textarea", "select"].map((kind) => row.querySelector(kind).value))
      .filter(([name, text]) => name.trim() !== "" && text.trim() !== "")
      .map(([name, text, kind]) => [name.trim(), kind === "formula" ? { formula: text } : text]);
  }

  /** Returns true if a request has this formula and these terms. */
  has(request) {
    const { formula, terms } = request?.marith ?? {};
    const now = [this.formula, Object.fromEntries(this.terms)];
    return JSON.stringify([formula, terms]) === JSON.stringify(now);
  }

  /** Turns the editor on, or off with a reason. */
  allow(allowed, reason, model) {
    this.allowed = allowed;
    this.#model = model;
    at("editor").disabled = !allowed;
    at("editor-off").hidden = allowed;
    at("editor-off").textContent = reason;
    if (allowed) this.#ask();
    else this.#show(null);
  }

  /** Writes a formula and its terms into the form. */
  fill(formula, terms) {
    at("formula").value = formula;
    at("terms").replaceChildren();
    for (const [name, term] of terms) this.#addTerm(name, term);
    this.#edited();
  }

  /** Changes the formula. Returns it as the server prints it, or null if it is invalid. */
  async change(formula) {
    at("formula").value = formula;
    this.meaning = null;
    await this.#ask();
    return this.meaning?.formula ?? null;
  }

  /** Fills the list of formulas to begin from: personas as [name, formula, terms], and recipes. */
  offer(personas, recipes) {
    this.#beginnings = new Map();
    const group = (label, entries) => element(
      "optgroup", { label }, ...entries.map(([value, text]) => element("option", { value }, text)));
    const models = personas.map(([name, formula, terms]) => {
      this.#beginnings.set(`model ${name}`, { formula, terms });
      return [`model ${name}`, `${name}: ${formula}`];
    });
    const calls = recipes.map(({ name, call, summary, source }) => {
      this.#beginnings.set(`recipe ${name}`, { formula: call, note: `${summary} ${source ?? ""}` });
      return [`recipe ${name}`, call];
    });
    at("begin").replaceChildren(
      element("option", { value: "" }, "…"), group("Models of this server", models),
      group("Recipes of the literature", calls));
  }

  #begin(chosen) {
    const beginning = this.#beginnings.get(chosen);
    at("begin-note").hidden = !beginning?.note;
    at("begin-note").textContent = beginning?.note ?? "";
    if (!beginning) return;
    const known = new Map(this.terms);
    const missing = namesIn(beginning.formula).map((name) => [name, known.get(name) ?? ""]);
    this.fill(beginning.formula, beginning.terms ?? missing);
  }

  #addTerm(name, term) {
    const input = element("input", {
      value: name, "aria-label": "Name of the term", spellcheck: "false", class: "code",
      autocapitalize: "off", placeholder: "name", oninput: () => this.#edited(),
    });
    const meaning = element("textarea", {
      rows: 2, "aria-label": "Text of the term", oninput: () => this.#edited(),
    });
    meaning.value = term.formula ?? term;
    const kind = element("select", {
      "aria-label": "What the term is", onchange: () => this.#edited(),
    }, element("option", { value: "prompt" }, "system prompt"),
    element("option", { value: "formula" }, "formula"));
    kind.value = term.formula === undefined ? "prompt" : "formula";
    const row = element("div", { class: "term" }, input, kind, element("button", {
      type: "button", class: "quiet", "aria-label": `Remove the term ${name}`,
      onclick: () => this.#removeTerm(row),
    }, "Remove"), meaning);
    at("terms").append(row);
    return input;
  }

  #removeTerm(row) {
    row.remove();
    at("add-term").focus();
    this.#edited();
  }

  #edited() {
    this.meaning = null;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), PAUSE);
  }

  async #ask() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    if (!this.allowed) return;
    const asking = (this.#asking = new AbortController());
    try {
      const body = {
        model: this.#model, formula: this.text, terms: Object.fromEntries(this.terms),
      };
      const meaning = await json("/v1/explain", body, asking.signal);
      if (asking === this.#asking) this.#show(meaning);
    } catch (error) {
      if (error.name !== "AbortError" && asking === this.#asking) this.#refuse(error);
    }
  }

  #show(meaning) {
    this.meaning = meaning;
    at("formula").removeAttribute("aria-invalid");
    at("formula-problem").hidden = true;
    at("formula-problem").replaceChildren();
    at("meaning").hidden = meaning === null;
    if (meaning !== null) {
      at("normalised").textContent = shown(meaning.normalised);
      at("tree").replaceChildren(...meaning.tree.map(branch));
      for (const list of ["vectors", "warnings"]) {
        at(list).replaceChildren(...meaning[list].map((text) => element("li", {}, shown(text))));
      }
    }
    this.#onMeaning(meaning);
  }

  #refuse(error) {
    this.meaning = null;
    const { place } = error;
    const children = [element("p", {}, shown(error.message))];
    if (place) {
      const [line, carets] = caretLines(place.text, place.start, place.end);
      children.push(element("pre", { class: "code" }, line, "\n", element("b", {}, carets)));
    }
    at("formula").setAttribute("aria-invalid", "true");
    at("formula-problem").replaceChildren(...children);
    at("formula-problem").hidden = false;
    at("meaning").hidden = true;
    this.#onMeaning(null);
  }
}

function branch(row) {
  const { depth, text } = row;
  const made = element("li", {}, shown(text));
  made.style.setProperty("--depth", depth);
  return made;
}
