// The card of one token. Does not need a server.

import { chance, decimal, element, pushOf, ranked, shown, signed, spelled } from "./values.js";

/** Returns the first name of a term or part, or its text if it has no name. */
const nameOf = (term) => shown(term.names?.[0] ?? term.text);

/** Returns the card of the token at `index`. `onGoOn` is called with another token to continue from. */
export function tokenCard(inspection, index, onGoOn) {
  const position = inspection.positions[index];
  return element(
    "section", { class: "card", "aria-label": `Token ${index + 1}` },
    element(
      "h3", {}, "Why ", quoted(position.text), " ",
      element("small", {}, `token ${index + 1} of ${inspection.positions.length}`),
    ),
    facts(position),
    contributions(inspection, position),
    vectors(inspection, position),
    candidates(inspection, position, onGoOn),
  );
}

const quoted = (text) => element("q", { class: "spelled" }, spelled(text));

function facts(position) {
  const push = pushOf(position);
  const rows = [
    ["Composed", `${chance(position.logprob)}, rank ${ranked(position.rank)}`],
    ["M alone", `${chance(position.bare_logprob)}, rank ${ranked(position.bare_rank)}`],
    ["Push", push === null ? "M gives this token probability 0" : `${signed(push)} nats`],
    ["M's likeliest", position.bare_rank === 1 ? "the same" : quoted(position.bare_likeliest.text)],
    ["Entropy", `${decimal(position.entropy)} nats`],
    ["Total weight", decimal(position.weight, 3)],
  ];
  return element(
    "dl", { class: "facts" },
    ...rows.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

function contributions(inspection, position) {
  const largest = Math.max(...position.contributions.map((one) => Math.abs(one.value ?? 0)), 0.01);
  const row = (part, i) => contributionRow(inspection, position, part, i, largest);
  const rowsOf = (kind) =>
    inspection.parts.map((part, i) => (part.kind === kind ? row(part, i) : null)).filter(Boolean);
  const exact = rowsOf("exact");
  const left = rowsOf("leave_one_out");
  const sum = element(
    "tr", { class: "sum" }, element("th", { scope: "row", colspan: 4 }, "Sum: the log-odds"),
    element("td", { class: "number" }, signed(position.log_odds)), element("td"),
  );
  const groups = [element("tbody", {}, ...exact, sum)];
  if (left.length > 0) {
    const head = element(
      "tr", { class: "group" },
      element("th", { scope: "rowgroup", colspan: 6 }, "Leaving one part out; these do not add up"),
    );
    groups.push(element("tbody", {}, head, ...left));
  }
  const caption = element(
    "caption", {}, "The contribution of each part to the log-odds of ", quoted(position.text), " against ",
    quoted(position.reference.text), ", in nats",
  );
  const heads = ["Part", "Weight", "log P", "Rank", "Adds", ""];
  return framed("Contributions", caption, heads, groups);
}

function contributionRow(inspection, position, part, i, largest) {
  const view = part.term === null ? null : position.terms[part.term];
  const { value } = position.contributions[i];
  const bar = element("span", { class: value < 0 ? "bar negative" : "bar", "aria-hidden": "true" });
  bar.style.setProperty("--size", Math.abs(value ?? 0) / largest);
  return element(
    "tr", {},
    element("th", { scope: "row", class: "part" }, shown(part.text)),
    number(view && view.weight !== null ? decimal(view.weight, 3) : "–"),
    number(view ? decimal(view.logprob) : "–"),
    number(view ? ranked(view.rank) : "–"),
    number(signed(value)),
    element("td", { class: "bars" }, bar),
  );
}

const number = (text) => element("td", { class: "number" }, text);

/** Returns the table of what vectors push, or null if no term has vectors. */
function vectors(inspection, position) {
  const rows = inspection.terms.map((term, i) => {
    const pushed = position.terms[i].vectors;
    return pushed && element(
      "tr", {}, element("th", { scope: "row", class: "part" }, nameOf(term)),
      number(signed(pushed.push)), moved(pushed.raised), moved(pushed.lowered),
    );
  }).filter(Boolean);
  if (rows.length === 0) return null;
  const caption = element(
    "caption", {}, "Vectors: log P of a term, less its log P without its vectors, in nats; for ",
    quoted(position.text), " and for the tokens whose probabilities change most",
  );
  const heads = ["Term", "Pushes", "Raises", "Lowers"];
  return framed("Vectors", caption, heads, [element("tbody", {}, ...rows)]);
}

// tokens that vectors raise or lower most; `marith why` lists two, because its lines are wider
const MOVED = 3;

const moved = (tokens) => element(
  "td", {}, ...tokens.slice(0, MOVED).flatMap((token, i) => [
    i > 0 ? ", " : "", quoted(token.text), ` ${signed(token.push)}`,
  ]),
);

/** Returns the table of the likeliest tokens; the text's own token is always in it. */
function candidates(inspection, position, onGoOn) {
  const whole = inspection.parts
    .map((part, i) => ({ part, i }))
    .filter(({ part }) => part.kind === "exact" && part.term === null);
  const adding = inspection.terms.map((_, term) =>
    inspection.parts.findIndex((part) => part.kind === "exact" && part.term === term));
  const row = (token, k) => candidateRow(position, token, k, { whole, adding, onGoOn });
  const rows = position.top.map((token, k) => row(token, k));
  if (!position.top.some((token) => token.token === position.token)) {
    rows.push(row({ token: position.token, text: position.text, logprob: position.logprob }, null));
  }
  const weights = inspection.terms.map((term, i) => {
    const { weight } = position.terms[i];
    return weight === null ? nameOf(term) : `${decimal(weight, 2)} · ${nameOf(term)}`;
  });
  const heads = ["Token", "Composed", "M", ...weights, ...whole.map(({ part }) => shown(part.text))];
  const caption = element(
    "caption", {},
    "Alternatives: log P, rank, and the contribution to the log-odds against ",
    quoted(position.reference.text), onGoOn ? ". Press a token to continue the text from it." : ".",
  );
  return framed("Alternatives", caption, heads, [element("tbody", {}, ...rows)]);
}

function candidateRow(position, token, k, { whole, adding, onGoOn }) {
  const taken = token.token === position.token;
  const added = (i) =>
    k === null ? position.contributions[i].value : position.contributions[i].of_top[k];
  const terms = position.terms.map((view, term) => element(
    "td", { class: "number" },
    decimal(k === null ? view.logprob : view.of_top[k]),
    element("small", {}, ` #${ranked(k === null ? view.rank : view.ranks_of_top[k])}`),
    adding[term] < 0 ? null : element("span", { class: "adds" }, signed(added(adding[term]))),
  ));
  const button = onGoOn && element("button", {
    type: "button", class: "alternative", disabled: taken,
    "aria-label": taken ? null : `Go on from ${spelled(token.text)}`,
    onclick: () => onGoOn(token.token),
  }, spelled(token.text));
  return element(
    "tr", { class: taken ? "taken" : null, "aria-current": taken ? "true" : null },
    element("th", { scope: "row" }, button ?? quoted(token.text)),
    number(chance(token.logprob)),
    number(chance(k === null ? position.bare_logprob : position.bare_of_top[k])),
    ...terms,
    ...whole.map(({ i }) => number(signed(added(i)))),
  );
}

function framed(label, caption, heads, groups) {
  const head = element("tr", {}, ...heads.map((text) =>
    text === "" ? element("td") : element("th", { scope: "col" }, text)));
  return element(
    "div", { class: "wide", role: "region", tabindex: "0", "aria-label": label },
    element("table", {}, caption, element("thead", {}, head), ...groups),
  );
}
