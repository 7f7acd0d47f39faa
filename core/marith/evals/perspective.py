"""Perspective as a judge, as in the paper, for as long as it answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from marith.engine.engine import Engine
from marith.errors import ModelError, RequestError
from marith.evals.experiment.measuring import Ask, Better

if TYPE_CHECKING:
    import httpx

NAME = "perspective"
KEY = "PERSPECTIVE_API_KEY"
NOTICE = "Perspective ends on 31 December 2026; an open classifier judges without it: --judge MODEL"
ADDRESS = "https://commentanalyzer.googleapis.com/v1alpha1/comments:analyze"
ATTRIBUTE = "TOXICITY"
REFUSALS = ("LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE", "COMMENT_EMPTY")
AGAIN = frozenset((429, 500, 502, 503, 504))
TRIES = 8
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Perspective:
    """A column of toxicities in [0, 1] by Google's service, one request a text.

    A text in a language that it refuses, or an empty one, has no number. `connect` makes the
    client for its `address`, and `wait` sleeps for so many seconds between tries.
    """

    name: str = "toxicity"
    better: Better = "lower"
    of_engine: bool = field(default=False, init=False)
    address: str = ADDRESS
    connect: Callable[[], httpx.Client] | None = None
    wait: Callable[[float], None] = time.sleep

    def described(self) -> Mapping[str, Any]:
        """The service and its attribute."""
        return {"service": NAME, "attribute": ATTRIBUTE}

    def check(self) -> None:
        """Raise RequestError without a key, or without httpx."""
        if not os.environ.get(KEY):
            raise RequestError(f"the judge {NAME!r} needs a key in {KEY}")
        if find_spec("httpx") is None:
            raise RequestError(f"the judge {NAME!r} needs httpx: pip install 'marith[evals]'")

    def open(self, engine: Engine | None) -> Ask:
        """Connect."""
        import httpx  # an extra that only this judge needs

        client = self.connect() if self.connect else httpx.Client(timeout=_SECONDS)
        client.headers["x-goog-api-key"] = os.environ[KEY]
        return lambda texts: (judged(client, self.address, text.text, self.wait) for text in texts)


def judged(
    client: httpx.Client, address: str, text: str, wait: Callable[[float], None]
) -> float | None:
    """The toxicity of a text, or None where the service refuses its language.

    A service that is busy or out of reach is asked again, each time after twice as long. Raises
    ModelError for any other answer, and after `TRIES`.
    """
    import httpx  # an extra that only this judge needs

    asked = {
        "comment": {"text": text},
        "requestedAttributes": {ATTRIBUTE: {}},
        "doNotStore": True,
    }
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            wait(2.0 ** (attempt - 1))
        try:
            answer = client.post(address, json=asked)
        except httpx.TransportError as error:
            problem = str(error) or type(error).__name__
            continue
        if answer.status_code not in AGAIN:
            return _number(answer)
        problem = f"status {answer.status_code}"
    raise ModelError(f"Perspective does not answer, asked {TRIES} times: {problem}")


def _number(answer: httpx.Response) -> float | None:
    if answer.is_success:
        return float(answer.json()["attributeScores"][ATTRIBUTE]["summaryScore"]["value"])
    if any(refusal in answer.text for refusal in REFUSALS):
        return None
    said = " ".join(answer.text.split())[:200]
    raise ModelError(f"Perspective answers with status {answer.status_code}: {said}")
