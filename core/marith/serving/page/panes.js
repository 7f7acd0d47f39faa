// A pane asks one model, streams its text and then shows its tokens.

import { chat, json } from "./server.js";
import { filterOf, legend, TokenStrip } from "./strip.js";
import { added, element, firstUnequal, shown, spelled } from "./values.js";

const ASKED_TOP = 10; // the number of likeliest tokens that the card shows
const FINISHED = {
  stop: "finished", length: "reached the maximum length", tool_calls: "called a tool",
};

/** One pane. `events` has onChoose(pane, index), onChange(pane) and onModel(pane). */
export class Pane {
  inspection = null; request = null; finish = null; running = false; ended = false;
  #events; #strip; #text; #status; #read; #select; #filter; #legend; #aborting = null; #runs = 0; #warnings = [];

  constructor(name, events) {
    this.name = name;
    this.#events = events;
    this.#strip = new TokenStrip(`Tokens, ${name}`, (index) => events.onChoose(this, index),
      (sentence) => { this.#read.textContent = sentence; });
    this.#text = element("div", { class: "streaming", dir: "auto", hidden: true });
    this.#status = element("p", { class: "status", role: "status" }, "No text yet.");
    this.#read = element("p", { class: "read" });
    this.#select = element("select", { onchange: () => events.onModel(this) });
    this.#filter = filterOf(this.#strip);
    this.#legend = legend(this.#filter);
    this.#legend.hidden = true;
    this.root = element(
      "section", { class: "pane", "aria-label": name },
      element("header", {}, element("label", {}, `${name} `, this.#select)),
      this.#text, this.#strip.root, this.#status, this.#legend, this.#read,
    );
  }

  get model() { return this.#select.value; }
  get tokens() { return this.inspection?.positions.map((position) => position.token) ?? []; }

  /** Sets the models that can be chosen, as pairs of value and text. */
  offer(models, chosen) {
    const kept = this.model || chosen;
    this.#select.replaceChildren(
      ...models.map(([value, text]) => element("option", { value }, text)));
    if (models.some(([value]) => value === kept)) this.#select.value = kept;
  }

  stop() { this.#aborting?.abort(); }

  /** Generates a text, which begins with the tokens of `prefix`. */
  async run(request, prefix = []) {
    if (prefix.length >= request.max_tokens) {
      this.ended = false;
      await this.inspectAgain(request, prefix, "length");
      return;
    }
    const run = this.#begin(request);
    const kept = (this.inspection?.positions ?? []).slice(0, prefix.length);
    this.inspection = null; // a stopped text has no inspection
    const body = {
      ...request,
      max_tokens: request.max_tokens - prefix.length, // the server counts new tokens only
      marith: { ...request.marith, inspect: ASKED_TOP, ...(prefix.length ? { prefix } : {}) },
    };
    const write = this.#writing(kept.map(added).join(""));
    try {
      let inspection = null;
      let content = "";
      for await (const chunk of chat(body, this.#aborting.signal)) {
        if (run !== this.#runs) return;
        const choice = chunk.choices[0];
        if (choice?.delta?.reasoning_content) write(choice.delta.reasoning_content);
        if (choice?.delta?.content) write(choice.delta.content);
        content += choice?.delta?.content ?? "";
        this.#warnings = chunk.marith?.warnings ?? this.#warnings;
        this.finish = choice?.finish_reason ?? this.finish;
        inspection = chunk.marith?.inspection?.[0] ?? inspection;
      }
      const whole = await this.#whole(inspection, prefix);
      this.ended = this.finish === "stop" && !isCut(whole, prefix.length, content);
      this.#show(run, whole);
    } catch (error) {
      if (run === this.#runs) this.#failed(error);
    } finally {
      if (run === this.#runs) this.#done();
    }
  }

  /** Inspects the same tokens with another formula, in one pass. Draws no token. */
  async inspectAgain(request, tokens = this.tokens, finish = this.finish) {
    const run = this.#begin(request);
    try {
      this.finish = finish;
      this.#show(run, await inspected(request, tokens, this.#aborting.signal));
    } catch (error) {
      if (run === this.#runs) this.#failed(error);
    } finally {
      if (run === this.#runs) this.#done();
    }
  }

  #begin(request) {
    this.stop();
    this.#aborting = new AbortController();
    this.#runs += 1;
    this.request = request;
    this.finish = null;
    this.running = true;
    this.#warnings = [];
    this.root.setAttribute("aria-busy", "true");
    this.#say("Waiting for the server…");
    this.#events.onChange(this);
    return this.#runs;
  }

  #writing(before) {
    const node = document.createTextNode(shown(before));
    this.#text.replaceChildren(node);
    this.#text.hidden = false;
    this.#strip.root.hidden = true;
    this.#legend.hidden = true;
    this.#read.textContent = "";
    let waiting = "";
    return (piece) => {
      if (waiting === "") requestAnimationFrame(() => {
        node.appendData(shown(waiting));
        waiting = "";
      });
      waiting += piece;
      this.#say("Writing…");
    };
  }

  /** Returns the inspection of the whole text, even if the server inspected only its new tokens. */
  async #whole(inspection, prefix) {
    if (inspection === null || prefix.length === 0) return inspection;
    const first = inspection.positions[0]?.place ?? 0;
    const known = inspection.positions.map((position) => position.token);
    if (first === 0 && known.length >= prefix.length) return inspection;
    return inspected(this.request, [...prefix, ...known], this.#aborting.signal);
  }

  #show(run, inspection) {
    if (run !== this.#runs) return;
    this.inspection = inspection;
    if (inspection === null) {
      this.#say("The server returned the text without an inspection.");
      return;
    }
    this.#strip.show(inspection.positions);
    this.#text.hidden = true;
    this.#strip.root.hidden = this.#legend.hidden = false;
    this.#strip.onlyFlipped(this.#filter.checked);
    const flipped = inspection.positions.filter((position) => position.flipped).length;
    const cut = this.finish === "stop" && !this.ended;
    const how = cut ? "ended at a stop string" : FINISHED[this.finish] ?? this.finish ?? "stopped";
    const count = inspection.positions.length;
    this.#say(`${count} ${count === 1 ? "token" : "tokens"}, ${how}. ` +
      `${flipped} of ${count} are the formula's likeliest, where M would have picked another.` +
      this.#warnings.map((warning) => ` ${shown(warning)}.`).join(""));
  }

  #done() {
    this.running = false;
    this.root.removeAttribute("aria-busy");
    this.#events.onChange(this);
  }

  #failed(error) {
    if (error.name === "AbortError") this.#say("Stopped.");
    else this.#say(error.message, true);
  }

  #say(sentence, wrong = false) {
    if (this.#status.textContent === sentence) return;
    this.#status.textContent = sentence;
    this.#status.classList.toggle("wrong", wrong);
  }

  choose(index) { this.#strip.choose(index); }

  mark(kind, index, note) { this.#strip.mark(kind, index, note); }
}

// A stop string cuts the text within its tokens. Otherwise the text has all of its tokens.
function isCut(inspection, from, content) {
  const positions = inspection?.positions.slice(from) ?? [];
  const whole = positions.map(added).join("");
  return whole !== content && whole.startsWith(content);
}

/** Returns an inspection of existing tokens. Throws ServerError. */
export async function inspected(request, tokens, signal) {
  const { model, messages, marith } = request;
  const body = { model, messages, continuation: tokens, top: ASKED_TOP };
  const answer = await json("/v1/inspect", marith ? { ...body, marith } : body, signal);
  return answer.inspection;
}

/** Marks the first token at which two panes differ. Returns a sentence, or null until both end. */
export function compare(left, right) {
  const place = left.inspection && right.inspection ? firstUnequal(left.tokens, right.tokens) : null;
  const texts = [left, right].map((pane) => pane.inspection?.positions[place]?.text);
  [left, right].forEach((pane, i) => {
    const other = texts[1 - i] === undefined ? "its end" : `“${spelled(texts[1 - i])}”`;
    pane.mark("differs", place, `The first difference; the other text has ${other} here`);
  });
  if (!left.inspection || !right.inspection) return null;
  if (place === null) return "Both texts are the same.";
  const [first, second] = texts.map((text) => text === undefined ? "its end" : `“${spelled(text)}”`);
  const where = place === 0 ? "The texts differ from the first token"
    : `The texts are the same for ${place} tokens, and differ at token ${place + 1}`;
  return `${where}: the left one has ${first}, the right one ${second}.`;
}
