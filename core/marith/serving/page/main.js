// The page: reads the form, sends the requests of both panes, and shows the results.

import { tokenCard } from "./card.js";
import { asToml, openCopy, readyCopy } from "./copies.js";
import { Editor } from "./editor.js";
import { compare, Pane } from "./panes.js";
import { json, onKey, useKey } from "./server.js";
import { Sliders } from "./sliders.js";
import { element, termsFor } from "./values.js";

const THE_FORMULA = "@formula";
const NO_FORMULAS =
  "This server was started without --allow-formulas. The editor and the sliders are off, but you " +
  "can use the server's own models.";
const at = (id) => document.getElementById(id);

let models = [];
let base = "";
let isFilled = false; // with the first persona of the server
let chosen = null; // the pane and the index of the token of the card
const editor = new Editor((meaning) => sliders.show(meaning));
const onChoose = (pane, index) => choose({ pane, index });
const events = { onChoose, onChange, onModel: () => sliders.forget() };
const panes = [new Pane("Left", events), new Pane("Right", events)];
const sliders = new Sliders(
  composedPane, (pane) => editor.has(pane.request), (formula) => editor.change(formula));

/** Returns the pane that uses the editor's formula; if both do, the right pane. */
function composedPane() {
  return [...panes].reverse().find((pane) => pane.model === THE_FORMULA) ?? null;
}

function notice(sentence) {
  at("notice").textContent = sentence;
  at("notice").hidden = sentence === "";
}

// The form.

function addMessage(role, content) {
  const roles = ["user", "assistant"].map((name) => element("option", { value: name }, name));
  const select = element("select", { "aria-label": "Role of this message" }, ...roles);
  select.value = role;
  const text = element("textarea", { rows: 3, "aria-label": "Message" });
  text.value = content;
  const row = element("div", { class: "message" }, select, element("button", {
    type: "button", class: "quiet", "aria-label": "Remove the message",
    onclick: () => {
      row.remove();
      at("add-message").focus();
    },
  }, "Remove"), text);
  at("messages").append(row);
  return text;
}

/** Returns the fields of the form as plain data. */
function formNow() {
  const number = (id) => at(id).valueAsNumber;
  return {
    system: at("system").value,
    messages: [...at("messages").children].map((row) => (
      { role: row.querySelector("select").value, content: row.querySelector("textarea").value })),
    terms: editor.terms, seed: number("seed"), temperature: number("temperature"),
    top_p: number("top_p"), max_tokens: number("max_tokens"),
  };
}

// Requests.

const cardOf = (name) => models.find((model) => model.id === name);

/** Returns the body of a pane's request. Throws Error with a sentence for an invalid field. */
function requestOf(pane) {
  const form = formNow();
  for (const [name, label] of [["seed", "Seed"], ["temperature", "Temperature"],
    ["top_p", "Top p"], ["max_tokens", "Tokens"]]) {
    const whole = name === "seed" || name === "max_tokens";
    if (!Number.isFinite(form[name]) || (whole && !Number.isSafeInteger(form[name]))) {
      throw new Error(`“${label}” must be a ${whole ? "whole number" : "number"}.`);
    }
  }
  const system = form.system.trim() ? [{ role: "system", content: form.system }] : [];
  const messages = [...system, ...form.messages];
  if (messages.every(({ content }) => content.trim() === "")) throw new Error("Write a message.");
  const { seed, temperature, top_p, max_tokens } = form;
  const { model } = panes[pane];
  const own = model === THE_FORMULA;
  const terms = Object.fromEntries(form.terms);
  const marith = own ? { formula: editor.formula, terms } : {};
  return { model: own ? base : model, messages, seed, temperature, top_p, max_tokens, marith };
}

async function generate() {
  try {
    const requests = panes.map((_, i) => requestOf(i));
    notice("");
    sliders.forget();
    choose(null);
    await Promise.all(panes.map((pane, i) => pane.run(requests[i])));
  } catch (error) {
    notice(error.message);
  }
}

// Results.

function onChange(pane) {
  const running = panes.some((one) => one.running);
  at("stop").disabled = !running;
  if (pane === composedPane() && !pane.running) sliders.forget();
  else sliders.refresh();
  if (running) return;
  const sentence = compare(...panes);
  at("difference").hidden = sentence === null;
  at("difference").textContent = sentence ?? "";
  if (chosen && chosen.index < (chosen.pane.inspection?.positions.length ?? 0)) choose(chosen);
  else choose(null);
}

/** Shows the card of a token, or no card for null. */
function choose(token) {
  if (token && !token.pane.inspection) return;
  if (chosen && chosen.pane !== token?.pane) chosen.pane.choose(null);
  chosen = token;
  if (token === null) {
    const sentence = "Press a token to see its log-probability under each term.";
    at("inspector").replaceChildren(element("p", { class: "empty" }, sentence));
    return;
  }
  const { pane, index } = token;
  const { request, tokens } = pane;
  pane.choose(index);
  at("inspector").replaceChildren(tokenCard(pane.inspection, index, (other) => {
    if (!pane.running) pane.run(request, [...tokens.slice(0, index), other]);
  }));
}

/** Returns the right pane's formula as a persona file. Throws Error if its terms are secret. */
function copy() {
  const body = requestOf(1);
  const card = cardOf(panes[1].model);
  const own = panes[1].model === THE_FORMULA;
  if (!own && card?.parent !== null && !card?.marith.terms) {
    throw new Error("Only the server knows the terms of this model.");
  }
  const formula = own ? body.marith.formula : card.marith.formula;
  const terms = own ? editor.terms : termsFor(formula, Object.entries(card.marith.terms ?? {}));
  return asToml({ ...body, model: cardOf(base)?.root ?? base, formula, terms });
}

/** Runs `work`, and shows the message of an error above the form. */
async function withNotice(work) {
  try {
    await work();
  } catch (error) {
    notice(error.message);
  }
}

// Start.

async function load() {
  const [listed, recipes] = await Promise.all([json("/v1/models"), json("/v1/recipes")]);
  const allowed = Boolean(listed.marith?.allow_formulas);
  models = listed.data;
  base = models.find((model) => model.parent === null)?.id ?? models[0].id;
  const named = models.map((model) => [model.id, nameOfModel(model)]);
  const all = allowed ? [...named, [THE_FORMULA, "The formula"]] : named;
  const second = allowed ? THE_FORMULA : named[1]?.[0] ?? base;
  panes[0].offer(all, base);
  panes[1].offer(all, second);
  const personas = models.map(({ id, marith: { formula, terms } }) => (
    [id, formula, termsFor(formula, Object.entries(terms ?? {}))]));
  editor.offer(personas, recipes.data);
  const first = personas[1] ?? (allowed ? null : personas[0]); // the example needs its own terms too
  if (first && !isFilled) editor.fill(...first.slice(1));
  isFilled = true;
  editor.allow(allowed, NO_FORMULAS, base);
  sliders.turnOff(allowed ? "" : NO_FORMULAS);
  notice("");
}

function nameOfModel({ id, parent, marith }) {
  const about = parent === null && marith.formula === "M" ? "M alone" : marith.description;
  return about ? `${id}: ${about}` : id;
}

function listen() {
  at("asked").addEventListener("submit", (event) => {
    event.preventDefault();
    generate();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) generate();
  });
  at("stop").addEventListener("click", () => panes.forEach((pane) => pane.stop()));
  at("add-message").addEventListener("click", () => addMessage("user", "").focus());
  at("key").addEventListener("change", () => useKey(at("key").value));
  at("key-form").addEventListener("submit", (event) => event.preventDefault());
  at("copy").addEventListener("click", () => withNotice(() => openCopy(copy())));
  readyCopy();
}

async function begin() {
  at("panes").append(...panes.map((pane) => pane.root));
  addMessage("user", "Tell me of your day.");
  editor.fill("2*happy - M", [["happy", "You are a happy assistant."]]);
  listen();
  await withNotice(load);
  onKey(() => withNotice(load));
}

begin();
