// A slider for each number of the formula: what the text would be, and then the text itself.

import { json } from "./server.js";
import { element, firstUnequal, nearest, replaced, spelled } from "./values.js";

const at = (id) => document.getElementById(id);

/** The sliders of the editor's formula over the text of one pane, which `pane` gives, or null.
 *
 * `isCurrent(pane)` says whether its text is by the formula in the editor; `onRelease(formula)` puts
 * there what a slider has made that was let go, and gives it as the server prints it, or null.
 */
export class Sliders {
  #pane; #isCurrent; #onRelease; #meaning = null; #rows = []; #foreseen = new Map();
  #off = ""; #asking = null;

  constructor(pane, isCurrent, onRelease) {
    this.#pane = pane;
    this.#isCurrent = isCurrent;
    this.#onRelease = onRelease;
  }

  /** Turns the sliders off, and says why; "" turns them on. */
  turnOff(reason) {
    this.#off = reason;
    this.refresh();
  }

  /** The formula is another one, with other numbers; null while it has a fault. */
  show(meaning) {
    this.#meaning = meaning;
    const numbers = meaning?.numbers ?? [];
    if (numbers.length !== this.#rows.length) {
      this.#rows = numbers.map((_, i) => new Row(i, () => this.#moved(i), () => this.#released(i)));
      at("sliders").replaceChildren(...this.#rows.map((row) => row.root));
    }
    this.#rows.forEach((row, i) => row.show(numbers[i], meaning.formula));
    this.refresh();
  }

  /** The text is another one: what was foreseen of the former is of no use. */
  forget() {
    this.#foreseen.clear();
    this.#asking?.abort();
    this.#asking = null;
    this.refresh();
  }

  /** Whether the sliders can be moved, and why not. */
  refresh() {
    let reason = this.#off;
    const pane = this.#pane();
    if (!reason && !pane) reason = "Choose “The formula” in a pane; then its numbers can be moved.";
    else if (!reason && pane.running) reason = "The text is being written.";
    else if (!reason && !pane.inspection) reason = "Generate a text; then its numbers can be moved.";
    else if (!reason && !this.#isCurrent(pane)) reason = "The text is by another formula: generate anew.";
    at("numbers").hidden = this.#rows.length === 0 && !this.#off;
    at("numbers-off").hidden = reason === "";
    at("numbers-off").textContent = reason;
    at("sliders-hint").hidden = reason !== "";
    for (const row of this.#rows) row.disabled = reason !== "";
  }

  /** Looks up what the text would be, and asks the server where that is not known yet. */
  async #moved(i) {
    const row = this.#rows[i];
    const { index, number } = row;
    const key = `${i} ${row.values.join(" ")}`;
    if (!this.#foreseen.has(key)) {
      this.#say("Asking what would follow…");
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

  /** Where the tokens at one value turn from the text, and what stands there. */
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
    if (refused !== null) this.#say(`With ${number} it is no formula: ${refused}.`);
    else if (place === null) this.#say(`At ${number} the text stays as it is.`);
    else {
      const now = positions[place] ? `“${spelled(positions[place].text)}”` : "the end";
      this.#say(`At ${number} token ${place + 1} turns: ${worded(text)} in place of ${now}.`);
    }
    pane.mark("turns", place, `At ${number} another token follows here`);
  }

  /** Makes the text anew from the first token that turns, by the formula with the new number. */
  async #released(i) {
    const row = this.#rows[i];
    const { number } = row; // what the server says meanwhile moves no slider that is let go
    const { formula, numbers } = this.#meaning;
    const { start, end, value } = numbers[i];
    if (number === value) {
      this.#pane().mark("turns", null);
      this.#say("");
      return;
    }
    const pane = this.#pane();
    const flip = await this.#moved(i);
    if (flip === null || flip.refused !== null || !this.#isCurrent(pane)) {
      if (row.number === number) row.takeBack();
      return;
    }
    const printed = await this.#onRelease(replaced(formula, start, end, String(number)));
    if (printed !== null) await this.#writeAnew(pane, printed, flip);
  }

  async #writeAnew(pane, formula, flip) {
    const { request, tokens } = pane;
    const changed = { ...request, marith: { ...request.marith, formula } };
    pane.mark("turns", null);
    if (flip.place === null) {
      await pane.inspectAgain(changed);
      return;
    }
    await pane.run(changed, tokens.slice(0, flip.place));
    this.#compare(pane, tokens, flip);
  }

  /** Says whether the token came that was foreseen. */
  #compare(pane, before, flip) {
    if (!pane.inspection || pane.running || pane.request === null) return;
    const came = pane.tokens[flip.place];
    const same = firstUnequal(before.slice(0, flip.place), pane.tokens.slice(0, flip.place)) === null;
    if (came === undefined) {
      this.#say(`The text ends before token ${flip.place + 1}; ${worded(flip.text)} was foreseen.`);
      return;
    }
    this.#say(`Token ${flip.place + 1} is ${worded(pane.inspection.positions[flip.place].text)} now, ` +
      (same && came === flip.token ? "as was foreseen." : `but ${worded(flip.text)} was foreseen.`));
    pane.mark("turns", flip.place, "From here on the text is another one");
  }

  #say(sentence) {
    at("prediction").textContent = sentence;
  }
}

const worded = (text) => (text === undefined || text === null ? "the end" : `“${spelled(text)}”`);

/** One number: a range of 21 values that the server accepts, and a field for any other. */
class Row {
  values = []; #offered = []; #around = ""; #range; #field; #text; #onMoved; #onReleased; #value = 0; #byKey = false; #moving = false;

  constructor(index, onMoved, onReleased) {
    this.#onMoved = onMoved;
    this.#onReleased = onReleased;
    const id = `number-${index}`;
    this.#text = element("span", { class: "code" });
    this.#range = element("input", {
      type: "range", min: 0, max: 20, step: 1, id,
      "aria-label": `Number ${index + 1} of the formula`, "aria-describedby": "sliders-hint",
      oninput: () => this.#slid(), onchange: () => this.#changed(),
      onkeydown: (event) => this.#pressed(event), onblur: () => this.#left(),
      onpointerdown: () => { this.#byKey = false; },
    });
    this.#field = element("input", {
      type: "number", step: "any", "aria-label": `Number ${index + 1} of the formula, any value`,
      onchange: () => this.#typed(),
    });
    this.root = element(
      "div", { class: "slider" }, element("label", { for: id }, this.#text), this.#range, this.#field);
  }

  get index() { return Number(this.#range.value); }
  get number() { return this.values[this.index]; }

  set disabled(off) {
    this.#range.disabled = off;
    this.#field.disabled = off;
  }

  /** Shows a number of the formula; its 21 values stay while it alone changes, to one of them. */
  show({ value, start, end, values }, formula) {
    const letters = Array.from(formula);
    const part = (from, to) => letters.slice(from, to).join("");
    this.#text.replaceChildren(
      part(0, start), element("b", {}, part(start, end)), part(end, letters.length));
    const around = JSON.stringify([part(0, start), part(end, letters.length)]);
    this.#offered = values ?? Array(21).fill(value); // without values there is the field alone
    if (!this.values.includes(value) || around !== this.#around) {
      this.values = this.#offered;
      this.#moving = false;
    }
    this.#around = around;
    this.#value = value;
    if (!this.#moving) this.#set(nearest(this.values, value));
  }

  /** Shows the number that the formula has. */
  takeBack() {
    this.#moving = false;
    this.values = this.#offered;
    this.#set(nearest(this.values, this.#value));
  }

  #set(index) {
    this.#range.value = index;
    this.#field.value = this.number;
    this.#range.setAttribute("aria-valuetext", String(this.number));
  }

  #slid() {
    this.#moving = true;
    this.#set(this.index);
    this.#onMoved();
  }

  // Browsers say "change" after each key: there, only Enter lets a slider go, and Escape takes back.
  #changed() {
    if (!this.#byKey) this.#release();
  }

  #release() {
    this.#moving = false;
    this.#onReleased();
  }

  #pressed(event) {
    this.#byKey = true;
    if (event.key === "Enter") this.#release();
    else if (event.key === "Escape") this.#left();
  }

  #left() {
    if (!this.#byKey || this.number === this.#value) return;
    this.#set(nearest(this.values, this.#value));
    this.#release();
  }

  #typed() {
    const value = this.#field.valueAsNumber;
    if (!Number.isFinite(value)) {
      this.#set(this.index);
      return;
    }
    const index = nearest(this.values, value); // the place that the field's value takes
    this.values = this.values.map((other, i) => (i === index ? value : other));
    this.#set(index);
    this.#release();
  }
}
