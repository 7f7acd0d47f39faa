// Pure functions that format numbers and texts, and a function that makes elements.

/** Makes an element. `fields` that begin with "on" are listeners; others are attributes. */
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

// Control characters, and characters that change the direction of text. They are shown, not obeyed.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Returns a text with its control and direction characters written as code points. */
export function shown(text) {
  return text.replace(UNSEEN, (letter) => {
    const code = letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}

/** Returns a token with visible spaces, line ends and tabs, for a table. */
export function spelled(text) {
  if (text === "") return "(empty)";
  return shown(text).replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥");
}

/** Returns what a token adds to the text. The last token of a character adds the character. */
export const added = (position) => position.completed ?? position.text;

/** Returns a number with `places` decimals and a true minus sign, or "–" without a number. */
export function decimal(value, places = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toFixed(places).replace(/^-0(\.0+)?$/, (zero) => zero.slice(1)).replace("-", "−");
}

/** Returns a number with its sign: "+1.20", "−0.35". */
export function signed(value, places = 2) {
  const text = decimal(value, places);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/** Returns the probability of a log-probability, in per cent. */
export function chance(logprob) {
  if (logprob === null || logprob === undefined) return "0 %";
  const percent = 100 * Math.exp(logprob);
  if (percent >= 99.95) return "100 %";
  if (percent < 0.01) return "< 0.01 %";
  return `${percent.toFixed(percent >= 10 ? 0 : percent >= 1 ? 1 : 2)} %`;
}

/** Returns a rank as text; null means more than 1,000. */
export const ranked = (rank) => (rank === null || rank === undefined ? "> 1,000" : `${rank}`);

/** Returns the push of a token, log P − log P_M in nats, or null if it is unknown. */
export function pushOf(position) {
  if (position.logprob === null || position.bare_logprob === null) return null;
  return position.logprob - position.bare_logprob;
}

/** Returns the strength of a push's background, from 0 to 1, which 3 nats reach. */
export function pushStrength(push) {
  if (push === null || Math.abs(push) < 0.05) return 0;
  return Math.round(Math.min(1, Math.abs(push) / 3) ** 0.6 * 100) / 100;
}

/** Returns the thickness of a log-probability's underline, from 0 to 1, which 8 nats reach. */
export function surpriseStrength(logprob) {
  if (logprob === null) return 1;
  return Math.round(Math.min(1, Math.max(0, -logprob) / 8) * 100) / 100;
}

/** Returns the first index at which two lists of tokens differ, or null if one begins the other. */
export function firstDifference(left, right) {
  const both = Math.min(left.length, right.length);
  for (let i = 0; i < both; i += 1) if (left[i] !== right[i]) return i;
  return null;
}

/** Returns the first index at which two lists differ. A shorter list differs at its end. */
export function firstUnequal(left, right) {
  const inside = firstDifference(left, right);
  if (inside !== null || left.length === right.length) return inside;
  return Math.min(left.length, right.length);
}

/** Returns the index of the value that is nearest to a number. */
export function nearest(values, number) {
  let best = 0;
  values.forEach((value, i) => {
    if (Math.abs(value - number) < Math.abs(values[best] - number)) best = i;
  });
  return best;
}

/** Replaces the characters from `start` to `end` of a text, counted in code points as Python does. */
export function replaced(text, start, end, by) {
  const letters = Array.from(text);
  return letters.slice(0, start).join("") + by + letters.slice(end).join("");
}

/** Returns the line of a text that contains a place, and a line of carets under the place. */
export function caretLines(text, start, end) {
  const letters = Array.from(text);
  const first = letters.lastIndexOf("\n", start - 1) + 1;
  const after = letters.indexOf("\n", first);
  const line = letters.slice(first, after < 0 ? letters.length : after);
  const column = Math.max(0, start - first);
  const width = Math.max(1, Math.min(end, first + line.length) - start);
  return [shown(line.join("")), " ".repeat(column) + "^".repeat(width)];
}

/** Returns the names of a formula's text without M and functions, in order. */
export function namesIn(formula) {
  const found = formula.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "").matchAll(
    /(?<![\w.])([\p{L}_][\p{L}\p{N}_]*)(?!\s*[(=\p{L}\p{N}_])/gu,
  );
  return [...new Set([...found].map((match) => match[1]))].filter((name) => name !== "M");
}

/** Returns the terms (pairs) that a formula names, and the terms that these terms name in turn. */
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
