// Requests to the server: the key, which stays in memory, the events, and clear errors.

const NO_ANSWER = "The server does not answer. Start it again with `marith serve`, then try again.";
const SENTENCES = {
  formulas_not_allowed:
    "This server does not accept formulas, because it was started without --allow-formulas.",
};

let key = "";
let keyChanged = () => {};

/** Sets the key of later requests. The page keeps the key only in memory. */
export function useKey(typed) {
  key = typed.trim();
  keyChanged();
}

/** Sets a function that is called whenever the key changes. */
export function onKey(work) {
  keyChanged = work;
}

/** An error with a sentence for people. `code` and `place` come from the server's error. */
export class ServerError extends Error {
  constructor(message, code = null, place = null) {
    super(message);
    this.code = code;
    this.place = place;
  }
}

/** Returns the error for an answer of the server that is not a success. */
export function errorOf(status, body) {
  const error = body?.error ?? {};
  if (status === 401 && error.code === "invalid_api_key") {
    return new ServerError(
      key !== ""
        ? "The server does not know this key. Type another key into “Key”."
        : "This server asks for a key. Type the key into “Key” at the top of the page.",
      "invalid_api_key",
    );
  }
  const problem = error.marith?.problem ?? error.message; // without the quotation and its caret
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

/** Returns the JSON answer to a body, or to GET without a body. Throws ServerError. */
export async function json(path, body, signal) {
  const answer = await ask(path, body, signal);
  try {
    return await answer.json();
  } catch (error) {
    throw asSentence(error);
  }
}

/** Returns a function that receives pieces of a stream and returns the data of complete events. */
export function eventReader() {
  const before = []; // pieces of an incomplete event; joined once, because there may be many
  return (piece) => {
    before.push(piece);
    if (!piece.includes("\n")) return [];
    const events = before.splice(0).join("").split("\n\n");
    before.push(events.pop());
    return events.filter((event) => event.startsWith("data: ")).map((event) => event.slice(6));
  };
}

/** Yields each chunk of a streamed chat. Throws ServerError, also for an error in the stream. */
export async function* chat(body, signal) {
  const answer = await ask("/v1/chat/completions", { ...body, stream: true }, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const read = eventReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new ServerError("The answer is incomplete, because the server has stopped.", "cut");
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
