"""Who answers in a conversation: an engine of this process, or a server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from marith import ModelError, RequestError
from marith.cli.generate_command import read_options, valid_options
from marith.cli.why_command import inspection_of
from marith.errors import suggestion

if TYPE_CHECKING:
    from marith import Inspection, Options

Result = TypeVar("Result")
Messages = Sequence[Mapping[str, str]]
KEY = "MARITH_API_KEY"
Why: TypeAlias = "Callable[[], Inspection]"  # raises MarithError
_SECONDS = 600
_NOT_THERE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
LIKELIEST = 3  # tokens of each position that /why shows


class EngineAnswers:
    """An engine of this process, and the formulas of a persona file if there is one."""

    def __init__(
        self, options: Options, path: Path | None, values: Mapping[str, Any] | None = None
    ) -> None:
        self.options, self._path = options, path
        self._values = {k: v for k, v in (values or {}).items() if k != "formula"}
        self._asked: tuple[Options, Messages] | None = None
        self._tokens: list[int] = []

    @classmethod
    def of(
        cls, path: Path | None, persona: str | None, model: str | None, given: Mapping[str, Any]
    ) -> EngineAnswers:
        """Return what the command line asks for. Raises MarithError."""
        values = {**given, **({} if model is None else {"model": model})}
        return cls(read_options(path, persona, values), path, values)

    def stream(self, messages: Messages, given: Mapping[str, Any]) -> Iterator[str]:
        """Stream the answer, by options that override its own. Raises MarithError."""
        options = self._over(given)
        self._asked, self._tokens = (options, messages), []
        for chunk in options.submit(messages):
            self._tokens += chunk.tokens
            yield chunk.text

    def answered(self) -> Why:
        """Return what inspects the answer that was streamed last, by its own options."""
        assert self._asked is not None, "an answer was streamed"
        options, messages = self._asked
        return partial(inspection_of, options, messages, self._tokens, LIKELIEST)

    def personas(self) -> list[str]:
        """Return the formulas of the file."""
        return [*self.options.file.formulas] if self.options.file is not None else []

    def choose(self, persona: str) -> None:
        """Let this formula answer from now on. Raises MarithError."""
        if self._path is None:
            raise RequestError("there is no persona file; start with --file")
        self.options = type(self.options).from_file(self._path, persona, **self._values)

    @property
    def name(self) -> str:
        """Return who answers: the formula of the file, or the model."""
        file = self.options.file
        return (file and file.formula_name) or str(self.options.model)

    def formula(self, given: Mapping[str, Any]) -> str:
        """Return the formula of the options. Raises FormulaError; nothing is loaded."""
        return str(self._over(given).formula)

    def _over(self, given: Mapping[str, Any]) -> Options:
        with valid_options():
            return self.options.over(given)


class ServerAnswers:
    """A server with OpenAI's API, `marith serve` or another."""

    def __init__(self, url: str, model: str, key: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise RequestError(f"--url begins with http:// or https://, not {url!r}")
        self._url, self.model, self._key = url.rstrip("/"), model, key
        self._asked: dict[str, Any] = {}
        self._pieces: list[str] = []

    def stream(self, messages: Messages, given: Mapping[str, Any]) -> Iterator[str]:
        """Stream the answer, by options that override its own. Raises ModelError."""
        own = {name: given[name] for name in ("formula", "terms") if name in given}
        drawn = {name: value for name, value in given.items() if name not in own}
        asked: dict[str, Any] = {"messages": [*messages]}
        if self.model:
            asked["model"] = self.model
        if own:
            asked["marith"] = own
        self._asked, self._pieces = asked, []
        body = {**asked, "stream": True, **drawn}
        with self._open("/chat/completions", json.dumps(body).encode()) as answer:
            for line in answer:
                text = line.decode("utf-8").strip()
                if not text.startswith("data: ") or text == "data: [DONE]":
                    continue
                event = json.loads(text[6:])
                if "error" in event:
                    raise ModelError(str(event["error"].get("message")))
                for choice in event["choices"]:
                    self._pieces.append(choice["delta"].get("content") or "")
                    yield self._pieces[-1]

    def answered(self) -> Why:
        """Return what asks the server to inspect the text of the answer that was streamed last."""
        return partial(self._inspected, {**self._asked, "continuation": "".join(self._pieces)})

    def _inspected(self, body: Mapping[str, Any]) -> Inspection:
        """Return the server's inspection of a text. Raises ModelError where it has none."""
        from marith import Inspection

        data = json.dumps({**body, "top": LIKELIEST}).encode()
        none = f"/why needs `marith serve` with this model, and {self._url} has no /inspect for it"
        return self._read("/inspect", data, lambda d: Inspection.from_dict(d["inspection"]), none)

    def personas(self) -> list[str]:
        """Return the models of the server. Raises ModelError where it has no list of them."""
        none = f"{self._url}/models is no list of models; --url ends with /v1 as a rule"
        return self._read("/models", None, lambda d: [model["id"] for model in d["data"]], none)

    def _read(
        self, path: str, body: bytes | None, take: Callable[[Any], Result], none: str
    ) -> Result:
        """Return what `take` finds in an answer of the server. Raises ModelError with `none`."""
        answer = self._open(path, body, optional=True)
        try:
            if answer is not None:
                with answer:
                    return take(json.load(answer))
        except (ValueError, KeyError, TypeError):
            pass
        raise ModelError(none)

    def choose(self, persona: str) -> None:
        """Let this model answer from now on. Raises RequestError."""
        self._take(persona, self.personas())

    def _take(self, persona: str, known: Sequence[str]) -> None:
        if persona not in known:
            hint = suggestion(persona, known, f", but {', '.join(known) or 'none'}")
            raise RequestError(f"the server has no model {persona!r}{hint}")
        self.model = persona

    def reach(self) -> None:
        """Ask the server for its models. Raises MarithError for a wrong address, key or model."""
        known = self.personas()
        self._take(self.model or next(iter(known), ""), known)

    @property
    def name(self) -> str:
        """Return the model of the server."""
        return self.model

    def formula(self, given: Mapping[str, Any]) -> str:
        """Return the formula as the server explains it, or as it is for another server."""
        own = {name: given[name] for name in ("formula", "terms") if name in given}
        body = json.dumps({"model": self.model, **own}).encode()
        answer = self._open("/explain", body, optional=True)
        if answer is None:
            return str(given.get("formula", ""))
        with answer:
            return str(json.load(answer)["formula"])

    def _open(self, path: str, body: bytes | None = None, *, optional: bool = False) -> Any:
        """Return an answer of the server, None for an `optional` path that it does not have.

        Raises ModelError with what it says of an error.
        """
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._url + path, body, headers)  # noqa: S310 (checked)
        try:
            return urllib.request.urlopen(request, timeout=_SECONDS)  # noqa: S310 (checked)
        except urllib.error.HTTPError as error:
            if optional and error.code in _NOT_THERE:
                return None
            raise ModelError(_message(error)) from None
        except (OSError, ValueError) as error:
            raise ModelError(f"{self._url} does not answer: {error}") from None


def _message(error: urllib.error.HTTPError) -> str:
    if error.code == HTTPStatus.UNAUTHORIZED:
        return f"the server asks for a key; set {KEY} to one that it knows"
    try:
        return f"the server's error: {json.load(error)['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return f"the server answers with status {error.code}"


Answers: TypeAlias = EngineAnswers | ServerAnswers
