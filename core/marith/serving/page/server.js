// How the page asks the server: one key in memory, events, and errors as one clear sentence.

const NO_ANSWER = "The server does not answer. Start it again with `marith serve`, then try again.";
const SENTENCES = {
  formulas_not_allowed:
    "This server takes no formulas from the page, because it was started without --allow-formulas.",
};

let key = "";
let keyChanged = () => {};

/** The key of later requests; it stays in memory alone. */
export function useKey(given) {
  key = given.trim();
  keyChanged();
}

/** Call this whenever another key is used. */
export function onKey(work) {
  keyChanged = work;
}

/** What went wrong, as a sentence; `code` and `place` are those of the server's error. */
export class ServerError extends Error {
  constructor(message, code = null, place = null) {
    super(message);
    this.code = code;
    this.place = place;
  }
}

/** The sentence for a server's answer that is an error. */
export function errorOf(status, body) {
  const error = body?.error ?? {};
  if (status === 401 && error.code === "invalid_api_key") {
    return new ServerError(
      key !== ""
        ? "The server does not know this key. Type another one into “Key”."
        : "This server asks for a key. Type it into “Key” at the top of the page.",
      "invalid_api_key",
    );
  }
  const problem = error.marith?.problem ?? error.message; // without the lines that draw the place
  const message = SENTENCES[error.code] ?? problem ?? `The server answered ${status}.`;
  return new ServerError(message, error.code ?? null, error.marith ?? null);
}

async function ask(path, body, signal) {
  const headers = { accept: "application/json" };
  if (key !== "") headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    throw asSentence(error);
  }
  if (!answer.ok) throw errorOf(answer.status, await answer.json().catch(() => null));
  return answer;
}

function asSentence(error) {
  if (error.name === "AbortError" || error instanceof ServerError) return error;
  return new ServerError(NO_ANSWER, "no_answer");
}

/** The JSON that the server answers to a body; to none, GET. Throws ServerError. */
export async function json(path, body, signal) {
  const answer = await ask(path, body, signal);
  try {
    return await answer.json();
  } catch (error) {
    throw asSentence(error);
  }
}

/** Reads the server's events: give it pieces of text, and it returns the data of whole events. */
export function eventReader() {
  const before = []; // pieces without an end: joined once, for an inspection has many of them
  return (piece) => {
    before.push(piece);
    if (!piece.includes("\n")) return [];
    const events = before.splice(0).join("").split("\n\n");
    before.push(events.pop());
    return events.filter((event) => event.startsWith("data: ")).map((event) => event.slice(6));
  };
}

/** Each chunk of a streamed chat. Throws ServerError, also for an error within the stream. */
export async function* chat(body, signal) {
  const answer = await ask("/v1/chat/completions", { ...body, stream: true }, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const read = eventReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new ServerError("The answer ended too early: the server has stopped.", "cut");
      for (const data of read(value)) {
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw errorOf(0, chunk);
        yield chunk;
      }
    }
  } catch (error) {
    throw asSentence(error);
  } finally {
    reader.cancel().catch(() => {});
  }
}
