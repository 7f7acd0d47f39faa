// Pure functions from numbers and texts to what the page shows, and how an element is made.

/** An element; `fields` that begin with "on" are listeners, "class" and others are attributes. */
export function element(name, fields = {}, ...children) {
  const made = document.createElement(name);
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Control characters, and those that change the direction of text: shown, never obeyed.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text whose control and direction characters are written as their numbers. */
export function shown(text) {
  return text.replace(UNSEEN, (letter) => {
    const code = letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}

/** A token in a table: spaces, line ends and tabs are seen. */
export function spelled(text) {
  if (text === "") return "(empty)";
  return shown(text).replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥");
}

/** What a token adds to the text: one that is part of a character adds it with the last part. */
export const added = (position) => position.completed ?? position.text;

/** A number with so many decimals, and a true minus sign; "–" where there is none. */
export function decimal(value, places = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toFixed(places).replace(/^-0(\.0+)?$/, (zero) => zero.slice(1)).replace("-", "−");
}

/** A number with its sign: "+1.20", "−0.35". */
export function signed(value, places = 2) {
  const text = decimal(value, places);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/** A log-probability as a chance in per cent. */
export function chance(logprob) {
  if (logprob === null || logprob === undefined) return "0 %";
  const percent = 100 * Math.exp(logprob);
  if (percent >= 99.95) return "100 %";
  if (percent < 0.01) return "< 0.01 %";
  return `${percent.toFixed(percent >= 10 ? 0 : percent >= 1 ? 1 : 2)} %`;
}

/** A rank; null stands for more than 1,000. */
export const ranked = (rank) => (rank === null || rank === undefined ? "> 1,000" : `${rank}`);

/** How much likelier the formula made a token: log P − log P_M in nats; null where unknown. */
export function pushOf(position) {
  if (position.logprob === null || position.bare_logprob === null) return null;
  return position.logprob - position.bare_logprob;
}

/** From 0 to 1: how strong the background of a push is; 3 nats are the strongest. */
export function pushStrength(push) {
  if (push === null || Math.abs(push) < 0.05) return 0;
  return Math.round(Math.min(1, Math.abs(push) / 3) ** 0.6 * 100) / 100;
}

/** From 0 to 1: how thick the underline of a log-probability is; 8 nats are the thickest. */
export function surpriseStrength(logprob) {
  if (logprob === null) return 1;
  return Math.round(Math.min(1, Math.max(0, -logprob) / 8) * 100) / 100;
}

/** The first index at which two lists of tokens differ; null where one begins the other. */
export function firstDifference(left, right) {
  const both = Math.min(left.length, right.length);
  for (let i = 0; i < both; i += 1) if (left[i] !== right[i]) return i;
  return null;
}

/** The same, of which one may be longer: then where the shorter one ends. */
export function firstUnequal(left, right) {
  const inside = firstDifference(left, right);
  if (inside !== null || left.length === right.length) return inside;
  return Math.min(left.length, right.length);
}

/** The index of the value that is nearest to a number. */
export function nearest(values, number) {
  let best = 0;
  values.forEach((value, i) => {
    if (Math.abs(value - number) < Math.abs(values[best] - number)) best = i;
  });
  return best;
}

/** A text with the characters from `start` to `end` (code points, as Python counts) replaced. */
export function replaced(text, start, end, by) {
  const letters = Array.from(text);
  return letters.slice(0, start).join("") + by + letters.slice(end).join("");
}

/** The line of a text that has a place, and carets under the place; both to be shown. */
export function caretLines(text, start, end) {
  const letters = Array.from(text);
  const first = letters.lastIndexOf("\n", start - 1) + 1;
  const after = letters.indexOf("\n", first);
  const line = letters.slice(first, after < 0 ? letters.length : after);
  const column = Math.max(0, start - first);
  const width = Math.max(1, Math.min(end, first + line.length) - start);
  return [shown(line.join("")), " ".repeat(column) + "^".repeat(width)];
}

/** Names that a formula's text has beside M and functions, in their order. */
export function namesIn(formula) {
  const found = formula.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "").matchAll(
    /(?<![\w.])([\p{L}_][\p{L}\p{N}_]*)(?!\s*[(=\p{L}\p{N}_])/gu,
  );
  return [...new Set([...found].map((match) => match[1]))].filter((name) => name !== "M");
}

/** Of all terms, as pairs, those that a formula names, and those that these name in turn. */
export function termsFor(formula, terms) {
  const meanings = new Map(terms);
  const waiting = ["M", ...namesIn(formula)];
  const named = new Set();
  while (waiting.length > 0) {
    const name = waiting.pop();
    if (named.has(name) || !meanings.has(name)) continue;
    named.add(name);
    waiting.push(...namesIn(meanings.get(name).formula ?? ""));
  }
  return terms.filter(([name]) => named.has(name));
}
