// A slider for each number of the formula. It predicts how the text would change.

import { json } from "./server.js";
import { element, nearest, replaced, spelled } from "./values.js";

const at = (id) => document.getElementById(id);

/** The sliders of the editor's formula, for the text of the pane that `pane` returns, or null.
 *
 * `isCurrent(pane)` returns true if the pane's text was generated with the editor's formula.
 * `onWrite(formula)` puts a new formula into the editor, and returns it as the server prints it, or
 * null if it is invalid.
 */
export class Sliders {
  #pane; #isCurrent; #onWrite; #meaning = null; #rows = []; #foreseen = new Map();
  #off = ""; #asking = null;

  constructor(pane, isCurrent, onWrite) {
    this.#pane = pane;
    this.#isCurrent = isCurrent;
    this.#onWrite = onWrite;
  }

  /** Turns the sliders off for a reason, or on if the reason is "". */
  turnOff(reason) {
    this.#off = reason;
    this.refresh();
  }

  /** Shows the numbers of a new formula; null if the formula is invalid. */
  show(meaning) {
    this.#meaning = meaning;
    const numbers = meaning?.numbers ?? [];
    if (numbers.length !== this.#rows.length) {
      this.#rows = numbers.map((_, i) => new Row(i, () => this.#moved(i), () => this.#regenerate(i)));
      at("sliders").replaceChildren(...this.#rows.map((row) => row.root));
    }
    this.#rows.forEach((row, i) => row.show(numbers[i], meaning.formula));
    this.refresh();
  }

  /** Drops the predictions and their sentence, because the text has changed. */
  forget() {
    this.#foreseen.clear();
    this.#asking?.abort();
    this.#asking = null;
    this.#say("");
    this.refresh();
  }

  /** Turns the sliders on or off, and shows the reason. */
  refresh() {
    let reason = this.#off;
    const pane = this.#pane();
    if (!reason && !pane) reason = "Choose “The formula” in a pane. Then you can move its numbers.";
    else if (!reason && pane.running) reason = "The text is being written.";
    else if (!reason && !pane.inspection) reason = "Generate a text. Then you can move the numbers.";
    else if (!reason && !this.#isCurrent(pane)) reason = "Generate the text with this formula.";
    at("numbers").hidden = this.#rows.length === 0 && !this.#off;
    at("numbers-off").hidden = reason === "";
    at("numbers-off").textContent = reason;
    at("sliders-hint").hidden = reason !== "";
    for (const row of this.#rows) row.disabled = reason !== "";
  }

  /** Shows the prediction for a moved slider, which the server computes once for all values. */
  async #moved(i) {
    const row = this.#rows[i];
    const { index, number } = row;
    const key = `${i} ${row.values.join(" ")}`;
    if (!this.#foreseen.has(key)) {
      this.#say("Waiting for the server…");
      this.#foreseen.set(key, this.#foresee(i, row.values));
    }
    try {
      const flip = this.#flipAt(await this.#foreseen.get(key), index);
      this.#tell(number, flip);
      return flip;
    } catch (error) {
      this.#foreseen.delete(key);
      if (error.name !== "AbortError") this.#say(error.message);
      return null;
    }
  }

  async #foresee(number, values) {
    this.#asking ??= new AbortController();
    const { request, tokens, ended } = this.#pane();
    const body = { ...request, continuation: tokens, ended, number, values };
    return json("/v1/what_if", body, this.#asking.signal);
  }

  /** Returns the first place at which the tokens for one value differ, and the new token. */
  #flipAt(foreseen, index) {
    const refused = foreseen.refused[index];
    if (refused !== null) return { place: null, refused };
    const place = foreseen.first_flip[index];
    if (place === null) return { place, refused: null };
    return {
      place, refused: null, token: foreseen.tokens[index][place], text: foreseen.flipped_to[index],
    };
  }

  #tell(number, { place, refused, text }) {
    const pane = this.#pane();
    const { positions } = pane.inspection;
    if (refused !== null) this.#say(`With ${number}, the formula is invalid: ${refused}.`);
    else if (place === null) this.#say(`At ${number}, the text stays as it is.`);
    else {
      const now = positions[place] ? `“${spelled(positions[place].text)}”` : "the end";
      this.#say(`At ${number}, token ${place + 1} changes from ${now} to ${worded(text)}.`);
    }
    pane.mark("turns", place, `At ${number} another token is here`);
  }

  /** Generates the text again from the first token that changes, with the new number. */
  async #regenerate(i) {
    const { number } = this.#rows[i];
    const { formula, numbers } = this.#meaning;
    const pane = this.#pane();
    const flip = await this.#moved(i);
    if (flip === null || flip.refused !== null || !this.#isCurrent(pane)) return;
    const { start, end } = numbers[i];
    const printed = await this.#onWrite(replaced(formula, start, end, String(number)));
    if (printed === null) return;
    const { request, tokens } = pane;
    const changed = { ...request, marith: { ...request.marith, formula: printed } };
    pane.mark("turns", null);
    if (flip.place === null) {
      await pane.inspectAgain(changed);
      return;
    }
    await pane.run(changed, tokens.slice(0, flip.place));
    if (pane.running || !pane.inspection) return;
    this.#say(`The text has changed from token ${flip.place + 1} on.`);
    pane.mark("turns", flip.place, "The text has changed from here on");
  }

  #say(sentence) {
    at("prediction").textContent = sentence;
  }
}

const worded = (text) => (text === undefined || text === null ? "the end" : `“${spelled(text)}”`);

/** One number: a slider with 21 values that the server accepts, and a field for any value. */
class Row {
  values = []; #range; #field; #button; #text; #onMoved;

  constructor(index, onMoved, onWrite) {
    this.#onMoved = onMoved;
    const id = `number-${index}`;
    this.#text = element("span", { class: "code" });
    this.#range = element("input", {
      type: "range", min: 0, max: 20, step: 1, id, "aria-describedby": "sliders-hint",
      "aria-label": `Number ${index + 1} of the formula`, oninput: () => this.#move(this.index),
    });
    this.#field = element("input", {
      type: "number", step: "any", "aria-label": `Number ${index + 1} of the formula, any value`,
      onchange: () => this.#typed(),
    });
    this.#button = element("button", { type: "button", onclick: onWrite }, "Regenerate from here");
    this.root = element(
      "div", { class: "slider" },
      element("label", { for: id }, this.#text), this.#range, this.#field, this.#button);
  }

  get index() { return Number(this.#range.value); }
  get number() { return this.values[this.index]; }

  set disabled(off) {
    for (const control of [this.#range, this.#field, this.#button]) control.disabled = off;
  }

  /** Shows a number of the formula. The 21 values stay if the number is among them. */
  show({ value, start, end, values }, formula) {
    const letters = Array.from(formula);
    const part = (from, to) => letters.slice(from, to).join("");
    this.#text.replaceChildren(
      part(0, start), element("b", {}, part(start, end)), part(end, letters.length));
    // Without values only the field is useful.
    if (!this.values.includes(value)) this.values = values ?? Array(21).fill(value);
    this.#set(nearest(this.values, value));
  }

  #set(index) {
    this.#range.value = index;
    this.#field.value = this.number;
    this.#text.querySelector("b").textContent = String(this.number);
    this.#range.setAttribute("aria-valuetext", String(this.number));
  }

  #move(index) {
    this.#set(index);
    this.#onMoved();
  }

  #typed() {
    const value = this.#field.valueAsNumber;
    if (!Number.isFinite(value)) {
      this.#set(this.index);
      return;
    }
    const index = nearest(this.values, value); // the value that the field's value replaces
    this.values = this.values.map((other, i) => (i === index ? value : other));
    this.#move(index);
  }
}
