"""The command that explains an answer: `marith why`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marith.cli.generate_command import (
    Adapters,
    Context,
    File,
    Formula,
    MaxTokens,
    Model,
    Persona,
    Prompt,
    Seed,
    System,
    Temperature,
    Timeout,
    TopK,
    TopP,
    messages_of,
    options_of,
)
from marith.cli.own_modules import Imports
from marith.cli.shared import (
    Backend,
    Definitions,
    Device,
    Dtype,
    Revision,
    Stops,
    Terms,
    app,
    clear_errors,
)
from marith.cli.terminal.loading_bar import loading
from marith.cli.terminal.shown_text import for_terminal
from marith.cli.why.given_text import inspection_of
from marith.cli.why.why_page import print_inspection
from marith.errors import RequestError

if TYPE_CHECKING:
    from marith import Inspection

Continuation = Annotated[
    str | None, typer.Option(help="Explain this text after the prompt; no token is drawn.")
]
Top = Annotated[int, typer.Option(help="Show so many of the likeliest tokens of each position.")]
Every = Annotated[
    bool,
    typer.Option(
        "--all", help="Show every position, not only where the formula's likeliest is not M's."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the inspection as JSON.")]

_NOT_OPTIONS = "continuation", "top", "every"
_DRAWING = "max_tokens", "temperature", "top_p", "top_k", "seed", "stop"


@app.command()
def why(
    prompt: Prompt,
    model: Model = None,
    formula: Formula = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    adapter: Adapters = None,
    file: File = None,
    persona: Persona = None,
    system: System = None,
    continuation: Continuation = None,
    top: Top = 3,
    every: Every = False,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    seed: Seed = None,
    stop: Stops = None,
    timeout: Timeout = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    context_length: Context = None,
    as_json: AsJson = False,
) -> None:
    """Answer PROMPT, and show why each token is there: which part of the formula pushed it."""
    given = locals()  # all options by name
    with clear_errors():
        inspection = _inspection(given)
        if as_json:
            typer.echo(for_terminal(inspection.to_json(indent=2)))
        else:
            print_inspection(inspection, every)


def _require_used(given: Mapping[str, Any]) -> None:
    """Raises RequestError for an option that would be ignored, or has no meaning."""
    if given["top"] < 1:
        raise RequestError(f"--top is a whole number from 1, not {given['top']}")
    if given["every"] and given["as_json"]:
        raise RequestError("--json has every position; write --json without --all")
    drawing = [name for name in _DRAWING if given[name] not in (None, [])]
    if given["continuation"] is not None and drawing:
        option = f"--{drawing[0].replace('_', '-')}"
        raise RequestError(f"--continuation draws no token; write it without {option}")


def _inspection(given: Mapping[str, Any]) -> "Inspection":
    """That of an answer, or of the text that is given. Raises MarithError."""
    _require_used(given)
    values = {name: value for name, value in given.items() if name not in _NOT_OPTIONS}
    options = options_of({**values, "inspect": given["top"]})
    messages = messages_of(given["prompt"], given["system"])
    with loading(options.model):
        options.engine()
    if given["continuation"] is not None:
        return inspection_of(options, messages, given["continuation"], given["top"])
    inspection = options.submit(messages).result().inspection
    assert inspection is not None, "the request asks for it"
    return inspection
