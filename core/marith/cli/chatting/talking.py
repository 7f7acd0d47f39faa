"""Who answers in a conversation: an engine of this process, or a server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from marith.cli.why.given_text import inspection_of
from marith.errors import ModelError, RequestError, from_validation

if TYPE_CHECKING:
    from marith import Inspection, Options

Messages = Sequence[Mapping[str, str]]
_SECONDS = 600
LIKELIEST = 3  # tokens of each position that /why shows


class Answers(Protocol):
    """Answers a conversation in pieces of text."""

    def stream(self, messages: Messages, given: Mapping[str, Any]) -> Iterator[str]:
        """The answer, by options that override its own. Raises MarithError."""
        ...

    def why(self) -> Inspection:
        """Why each token of the last answer is there. Raises MarithError."""
        ...

    def personas(self) -> list[str]:
        """The names that /persona takes."""
        ...

    def choose(self, persona: str) -> None:
        """Let this persona answer from now on. Raises MarithError."""
        ...


class EngineAnswers:
    """An engine of this process, and the formulas of a persona file if there is one."""

    def __init__(self, options: Options, path: Path | None) -> None:
        self.options, self._path = options, path
        self._asked: tuple[Options, Messages] | None = None
        self._tokens: list[int] = []

    @classmethod
    def of(
        cls, path: Path | None, persona: str | None, model: str | None, given: Mapping[str, Any]
    ) -> EngineAnswers:
        """That of the command line. Raises MarithError."""
        from pydantic import ValidationError

        from marith import Options

        if persona is not None and path is None:
            raise RequestError(f"--persona {persona!r} is a formula of a file; give its --file too")
        values = {**given, **({} if model is None else {"model": model})}
        try:
            made = Options(**values) if path is None else Options.from_file(path, persona, **values)
        except ValidationError as error:
            raise from_validation(error) from None
        return cls(made, path)

    def stream(self, messages: Messages, given: Mapping[str, Any]) -> Iterator[str]:
        """The answer, by options that override its own. Raises MarithError."""
        from pydantic import ValidationError

        try:
            options = self.options.over(given)
        except ValidationError as error:
            raise from_validation(error) from None
        self._asked, self._tokens = (options, messages), []
        for chunk in options.submit(messages):
            self._tokens += chunk.tokens
            yield chunk.text

    def why(self) -> Inspection:
        """Why each token of the last answer is there. Raises MarithError."""
        if self._asked is None:
            raise RequestError("there is no answer yet")
        options, messages = self._asked
        return inspection_of(options, messages, self._tokens, LIKELIEST)

    def personas(self) -> list[str]:
        """The formulas of the file."""
        return [*self.options.file.formulas] if self.options.file is not None else []

    def choose(self, persona: str) -> None:
        """Let this formula answer from now on. Raises MarithError."""
        if self._path is None:
            raise RequestError("there is no persona file; start with --file")
        self.options = type(self.options).from_file(self._path, persona)


class ServerAnswers:
    """A server with OpenAI's API, `marith serve` or another."""

    def __init__(self, url: str, model: str, key: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise RequestError(f"--url begins with http:// or https://, not {url!r}")
        self._url, self.model, self._key = url.rstrip("/"), model, key

    def stream(self, messages: Messages, given: Mapping[str, Any]) -> Iterator[str]:
        """The answer, by options that override its own. Raises ModelError."""
        own = {name: given[name] for name in ("formula", "terms") if name in given}
        drawn = {name: value for name, value in given.items() if name not in own}
        body: dict[str, Any] = {"messages": [*messages], "stream": True, **drawn}
        if self.model:
            body["model"] = self.model
        if own:
            body["marith"] = own
        with self._open("/chat/completions", json.dumps(body).encode()) as answer:
            for line in answer:
                text = line.decode("utf-8").strip()
                if not text.startswith("data: ") or text == "data: [DONE]":
                    continue
                event = json.loads(text[6:])
                if "error" in event:
                    raise ModelError(str(event["error"].get("message")))
                for choice in event["choices"]:
                    yield choice["delta"].get("content") or ""

    def why(self) -> Inspection:
        """Raises RequestError: a server sends no distributions with an answer."""
        raise RequestError("/why needs a model in this process: start without --url")

    def personas(self) -> list[str]:
        """The models of the server."""
        with self._open("/models") as answer:
            return [model["id"] for model in json.load(answer)["data"]]

    def choose(self, persona: str) -> None:
        """Let this model answer from now on. Raises RequestError."""
        if persona not in (known := self.personas()):
            raise RequestError(f"the server has no model {persona!r}, but {', '.join(known)}")
        self.model = persona

    def _open(self, path: str, body: bytes | None = None) -> Any:
        """An answer of the server. Raises ModelError with its sentence about an error."""
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url + path, body, headers)  # noqa: S310 (checked)
        try:
            return urllib.request.urlopen(request, timeout=_SECONDS)  # noqa: S310 (checked)
        except urllib.error.HTTPError as error:
            raise ModelError(_message(error)) from None
        except (OSError, ValueError) as error:
            raise ModelError(f"{self._url} does not answer: {error}") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return f"the server's error: {json.load(error)['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return f"the server answers with status {error.code}"
