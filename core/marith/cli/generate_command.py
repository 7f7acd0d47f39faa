"""The command `marith generate`."""

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marith import MarithError, Prompted, RequestError
from marith.cli.application import app, clear_errors
from marith.cli.files import for_terminal, read_text
from marith.cli.options import (
    BARE,
    Prompt,
    asked,
    defined,
    drawn,
    loaded,
    named_terms,
    note_unused,
    pairs,
    placed,
    takes,
)
from marith.errors import valid_options

if TYPE_CHECKING:
    from marith import Completion, Engine, Grammar, Options, Ticket

Samples = Annotated[
    int, typer.Option("-n", "--samples", help="The number of answers, with seeds SEED, SEED + 1, …")
]
MinP = Annotated[
    float | None,
    typer.Option(help="The minimum probability, relative to the likeliest token."),
]
Penalty = Annotated[
    float | None,
    typer.Option(help="Above 1, repeat tokens less.  [default: 1.0]"),
]
Bans = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Forbid this text. Repeatable."),
]
Schema = Annotated[Path | None, typer.Option(help="A file with a JSON schema for the answer.")]
Regex = Annotated[str | None, typer.Option(help="A regular expression for the whole answer.")]
Speculation = Annotated[
    str | None,
    typer.Option(help="auto, none or a plan of `marith calibrate`.  [default: auto]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
BETWEEN = "---"  # the line between two answers
CUT_OFF = " [cut off]"  # printed after an unfinished answer
_NAMED = re.compile(r"\w+=")
_NOT_OPTIONS = "file", "persona", "term", "define", "_imports", "adapter", "system"


@app.command()
@takes(asked, defined, drawn, loaded, placed)
def generate(
    prompt: Prompt,
    n: Samples = 1,
    min_p: MinP = None,
    repetition_penalty: Penalty = None,
    ban: Bans = None,
    schema: Schema = None,
    regex: Regex = None,
    speculation: Speculation = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Answer PROMPT with a formula, and print the text as it comes."""
    own = {"min_p": min_p, "repetition_penalty": repetition_penalty, "ban": ban}
    with clear_errors():
        complete = options_of({**options, **own, "speculation": speculation})
        messages = messages_of(prompt, options["system"])
        answer(complete, messages, n, _grammar(schema, regex), as_json)


def answer(
    options: "Options",
    messages: list[dict[str, str]],
    count: int,
    grammar: "Grammar | None",
    as_json: bool,
) -> None:
    """Generate `count` answers at once and print them. Raises MarithError."""
    if count < 1:
        raise RequestError(f"-n must be a whole number of at least 1, not {count}")
    samples = [options.sample(i) for i in range(count)]
    load(options)
    started = time.monotonic()
    tickets = [each.submit(messages, started=started, grammar=grammar) for each in samples]
    print_answers(tickets, as_json, options.timeout is not None)


def load(options: "Options") -> "Engine":
    """Return the engine of the options. On a terminal, print the name of the model first."""
    if sys.stderr.isatty():
        typer.echo(f"loading {options.model!r} …", err=True)
    return options.engine()


def print_answers(tickets: "Sequence[Ticket]", as_json: bool, has_timeout: bool) -> None:
    """Print the answers in order.

    With `has_timeout`, an answer is printed when it is finished, except on a terminal. A file or a
    program therefore never receives a part of an answer.
    """
    if as_json:
        completions = [as_data(ticket.result()) for ticket in tickets]
        data = completions[0] if len(completions) == 1 else completions
        typer.echo(json.dumps(data, ensure_ascii=False, indent=2))
        return
    for i, ticket in enumerate(tickets):
        if i:
            typer.echo(BETWEEN)
        if has_timeout and not sys.stdout.isatty():
            typer.echo(for_terminal(ticket.result().text))
        else:
            _stream(ticket)


def as_data(completion: "Completion") -> dict[str, Any]:
    """Return a completion as plain data, with the figures that follow from its counts."""
    stats = completion.stats
    data = asdict(completion)
    data["usage"]["total_tokens"] = completion.usage.total_tokens
    data["stats"]["passes_per_token"] = stats.passes_per_token
    data["stats"]["calls_per_token"] = stats.calls_per_token
    data["stats"]["acceptance"] = stats.acceptance
    return data


def _stream(ticket: "Ticket") -> None:
    """Print an answer as it comes. An unfinished text gets a mark at its end."""
    try:
        for chunk in ticket:
            typer.echo(for_terminal(chunk.text), nl=False)
            sys.stdout.flush()
    except MarithError:
        typer.echo(CUT_OFF)
        raise
    typer.echo()


def options_of(arguments: Mapping[str, Any]) -> "Options":
    """Return the options of a command, completed by the options of a persona file.

    Raises MarithError.
    """
    from marith import Plan

    values = {
        name: value
        for name, value in arguments.items()
        if name not in _NOT_OPTIONS and value is not None
    }
    if terms := _terms(arguments["term"], arguments["define"], arguments["adapter"]):
        values["terms"] = terms
    plan = arguments.get("speculation")
    if plan not in (None, "auto", "none"):
        values["speculation"] = Plan.from_json(read_text(Path(plan)))
    options = read_options(arguments["file"], arguments["persona"], values)
    # A plan may use terms for its drafts that the formula does not use.
    if not isinstance(options.speculation, Plan):
        note_unused(options.formula, options.terms, terms)
    return options


def read_options(file: Path | None, persona: str | None, values: Mapping[str, Any]) -> "Options":
    """Return the options of `values`, and of the persona file if there is one.

    `values` take precedence. Raises MarithError.
    """
    from marith import Options

    path = file or os.environ.get("MARITH_FILE")
    if persona is not None and not path:
        raise RequestError(f"--persona {persona!r} needs a persona file; write --file too")
    with valid_options():
        if path and (file or persona):
            return Options.from_file(path, persona, **values)
        # `Options` itself reads the file that MARITH_FILE names.
        return Options(**values)


def _terms(
    prompts: Sequence[str] | None,
    definitions: Sequence[str] | None,
    adapters: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the terms by name, including adapters. Raises RequestError for a repeated name."""
    terms = named_terms(prompts, definitions)
    named = [text if _NAMED.match(text) else f"{BARE}={text}" for text in adapters or ()]
    for name, adapter in pairs("--adapter", "NAME=LORA", named).items():
        if name in terms:
            option = "--term" if isinstance(terms[name], str) else "--define"
            raise RequestError(f"{name!r} is defined by both {option} and --adapter")
        terms[name] = Prompted(adapter=adapter)
    return terms


def messages_of(prompt: str, system: str | None) -> list[dict[str, str]]:
    """Return the messages of a prompt. The prompt `-` is read from standard input."""
    if prompt == "-":
        prompt = read_text(Path(prompt)).rstrip("\n")
        if not prompt:
            raise RequestError("standard input is empty, but the prompt - is read from it")
    messages = [{"role": "system", "content": system}] if system else []
    return [*messages, {"role": "user", "content": prompt}]


def _grammar(schema: Path | None, regex: str | None) -> "Grammar | None":
    """Return the grammar of the answer. Raises RequestError for an invalid schema or expression."""
    # This import is slow, and the help does not need it.
    from marith import Grammar

    if schema is not None and regex is not None:
        raise RequestError("write --schema or --regex, not both")
    if regex is not None:
        return Grammar.regex(regex)
    if schema is None:
        return None
    try:
        return Grammar.json_schema(json.loads(read_text(schema)))
    except json.JSONDecodeError as error:
        raise RequestError(f"{str(schema)!r} is not valid JSON: {error}") from None
