// A request as code, to be copied; never a key.

// Letters that people do not see, or that change the direction of a line, are written as numbers.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\" };

function quotedAs(given, number) {
  const letters = Array.from(given.toWellFormed?.() ?? given, (letter) => {
    if (SHORT[letter]) return SHORT[letter];
    return UNSEEN.test(letter) ? number(letter) : letter;
  });
  return `"${letters.join("")}"`;
}

const hex = (code, digits) => code.toString(16).padStart(digits, "0");

/** A text as a literal of Python; TOML's basic strings are written alike. */
export const pythonText = (given) => quotedAs(given, (letter) => {
  const code = letter.codePointAt(0);
  return code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
});

export const tomlText = pythonText;

/** A text as a string of JSON; beyond 16 bits as two halves. */
export const jsonText = (given) => quotedAs(given, (letter) =>
  letter.split("").map((half) => `\\u${hex(half.charCodeAt(0), 4)}`).join(""));

/** A text as one word of a POSIX shell. */
export const shellText = (given) => `'${given.replace(/'/g, "'\\''")}'`;

/** Plain data as JSON, with `jsonText`. */
export function jsonOf(value) {
  if (typeof value === "string") return jsonText(value);
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const pairs = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${pairs.map(([name, member]) => `${jsonText(name)}: ${jsonOf(member)}`).join(", ")}}`;
}

function pythonTerms(terms) {
  if (terms.length === 0) return "{}";
  const written = (term) =>
    term.formula === undefined ? pythonText(term) : `{"formula": ${pythonText(term.formula)}}`;
  const lines = terms.map(([name, term]) => `    ${pythonText(name)}: ${written(term)},\n`);
  return `{\n${lines.join("")}}`;
}

function pythonMessages(messages) {
  const lines = messages.map(({ role, content }) =>
    `    {"role": ${pythonText(role)}, "content": ${pythonText(content)}},\n`);
  return `[\n${lines.join("")}]`;
}

const optionsOf = (asked) =>
  ["temperature", "top_p", "seed", "max_tokens"].map((name) => [name, asked[name]]);
const pythonOptions = (asked, before) =>
  optionsOf(asked).map(([name, value]) => `${before}${name}=${value},\n`).join("");

/** The call as Python. What is asked: model, messages, formula, terms (pairs), and the sampling. */
export function asPython(asked) {
  return `import marith

messages = ${pythonMessages(asked.messages)}
terms = ${pythonTerms(asked.terms)}
with marith.Engine.load(${pythonText(asked.model)}) as engine:
    answer = engine.generate(
        messages,
        ${pythonText(asked.formula)},
        terms,
${pythonOptions(asked, "        ")}    )
print(answer.text)
`;
}

/** The call with LangChain. */
export function asLangChain(asked) {
  return `from langchain_marith import ChatMarith

llm = ChatMarith(
    model=${pythonText(asked.model)},
    formula=${pythonText(asked.formula)},
    terms=${pythonTerms(asked.terms).replace(/\n/g, "\n    ")},
${pythonOptions(asked, "    ")})
messages = ${pythonMessages(asked.messages)}
print(llm.invoke(messages).text)
`;
}

/** The call with LlamaIndex. */
export function asLlamaIndex(asked) {
  const messages = asked.messages.map(({ role, content }) =>
    `    ChatMessage(role=${pythonText(role)}, content=${pythonText(content)}),\n`);
  return `from llama_index.core.llms import ChatMessage
from llamaindex_marith import Marith

llm = Marith(
    model=${pythonText(asked.model)},
    formula=${pythonText(asked.formula)},
    terms=${pythonTerms(asked.terms).replace(/\n/g, "\n    ")},
${pythonOptions(asked, "    ")})
messages = [
${messages.join("")}]
print(llm.chat(messages).message.content)
`;
}

/** A request's body for a POSIX shell; a key comes from MARITH_API_KEY. */
export function asCurl(body, origin, withKey) {
  const key = withKey ? '  -H "authorization: Bearer $MARITH_API_KEY" \\\n' : "";
  return `curl -s ${shellText(`${origin}/v1/chat/completions`)} \\
  -H 'content-type: application/json' \\
${key}  -d ${shellText(jsonOf(body))}
`;
}

/** Formula, terms and sampling as a persona file. */
export function asToml(asked) {
  const options = optionsOf(asked).map(([name, value]) => `${name} = ${value}\n`);
  const written = (term) =>
    term.formula === undefined ? tomlText(term) : `{ formula = ${tomlText(term.formula)} }`;
  const terms = asked.terms.map(([name, term]) =>
    `${/^[A-Za-z0-9_-]+$/.test(name) ? name : tomlText(name)} = ${written(term)}\n`);
  return `# marith serve marith.toml; marith generate --file marith.toml --persona composed "…"
[model]
model = ${tomlText(asked.model)}
${options.join("")}
[terms]
${terms.join("")}
[formulas]
composed = ${tomlText(asked.formula)}
`;
}

/** The code of a call by the name of its language; of one that only the server can make, curl. */
export function copiesOf(asked, body, withKey) {
  const curl = asCurl(body, location.origin, withKey);
  if (asked === null) return { curl };
  return {
    Python: asPython(asked), LangChain: asLangChain(asked), LlamaIndex: asLlamaIndex(asked), curl,
    TOML: asToml(asked),
  };
}

const at = (id) => document.getElementById(id);
const option = (text) => Object.assign(document.createElement("option"), { textContent: text });

let copies = {};

/** Opens the dialog with the copies. */
export function openCopies(found) {
  copies = found;
  at("copy-note").textContent = "Python" in found
    ? "Other options of the server's persona file, such as ban, hold for curl alone, which asks the server."
    : "Only the server knows the terms; so there is curl, which asks it.";
  at("language").replaceChildren(...Object.keys(found).map(option));
  showCopy();
  at("copy-dialog").showModal();
}

function showCopy() {
  at("copy-text").textContent = copies[at("language").value];
  at("copy-status").textContent = "";
}

async function takeCopy() {
  try {
    await navigator.clipboard.writeText(at("copy-text").textContent);
    at("copy-status").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(at("copy-text"));
    at("copy-status").textContent = "It is selected: copy it with Ctrl + C.";
  }
}

/** The dialog's listeners. */
export function readyCopies() {
  at("language").addEventListener("change", showCopy);
  at("copy-copy").addEventListener("click", takeCopy);
  at("copy-close").addEventListener("click", () => at("copy-dialog").close());
}
