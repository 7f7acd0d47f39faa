// The persona file to copy: the formula, its terms and the sampling, without the key.

// Invisible characters, and characters that change the direction of a line, are escaped.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\" };

/** Returns a text as a basic string of TOML, which is a valid string of Python too. */
export function tomlText(text) {
  const letters = Array.from(text.toWellFormed?.() ?? text, (letter) => {
    if (SHORT[letter]) return SHORT[letter];
    return UNSEEN.test(letter) ? numbered(letter.codePointAt(0)) : letter;
  });
  return `"${letters.join("")}"`;
}

function numbered(code) {
  const digits = code > 0xffff ? 8 : 4;
  return `\\${digits === 8 ? "U" : "u"}${code.toString(16).padStart(digits, "0")}`;
}

/** Returns a persona file with a model, a formula, terms (as pairs) and the sampling. */
export function asToml(asked) {
  const options = ["temperature", "top_p", "seed", "max_tokens"]
    .map((name) => `${name} = ${asked[name]}\n`);
  const written = (term) =>
    term.formula === undefined ? tomlText(term) : `{ formula = ${tomlText(term.formula)} }`;
  const terms = asked.terms.map(([name, term]) =>
    `${/^[A-Za-z0-9_-]+$/.test(name) ? name : tomlText(name)} = ${written(term)}\n`);
  return `# marith serve marith.toml
# marith generate --file marith.toml --persona composed "…"
# langchain_marith.ChatMarith.from_file("marith.toml", "composed")
# llamaindex_marith.Marith.from_file("marith.toml", "composed")
[model]
model = ${tomlText(asked.model)}
${options.join("")}
[terms]
${terms.join("")}
[formulas]
composed = ${tomlText(asked.formula)}
`;
}

const at = (id) => document.getElementById(id);

/** Opens the dialog with a text to copy. */
export function openCopy(text) {
  at("copy-text").textContent = text;
  at("copy-status").textContent = "";
  at("copy-dialog").showModal();
}

async function takeCopy() {
  try {
    await navigator.clipboard.writeText(at("copy-text").textContent);
    at("copy-status").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(at("copy-text"));
    at("copy-status").textContent = "The text is selected. Copy it with Ctrl + C.";
  }
}

/** Adds the listeners of the dialog. */
export function readyCopy() {
  at("copy-copy").addEventListener("click", takeCopy);
  at("copy-close").addEventListener("click", () => at("copy-dialog").close());
}
