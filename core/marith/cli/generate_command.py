"""The command that answers: `marith generate`."""

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    completed_models,
    named_terms,
    note_unused,
    pairs,
    read_text,
)
from marith.cli.terminal.answer_output import print_answers
from marith.cli.terminal.loading_bar import loading
from marith.errors import RequestError, from_validation
from marith.formula.meaning.binding import BARE
from marith.formula.text.term_data import TermData, as_data
from marith.formula.tree.terms import Prompted

if TYPE_CHECKING:
    from marith import Options
    from marith.request.forms.grammar import Grammar

Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="What to answer; - reads it.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        autocompletion=completed_models,
        help="pocket, a directory, a GGUF file or a hub id.  [default: pocket]",
    ),
]
File = Annotated[
    Path | None, typer.Option(help="A persona file (TOML); options given here override its own.")
]
Persona = Annotated[str | None, typer.Option(help="A formula of --file, by name.")]
Formula = Annotated[
    str | None,
    typer.Option("--formula", "-f", help="What to sample from, e.g. '2*formal - M'.  [default: M]"),
]
Adapters = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]LORA",
        help="A LoRA adapter of the model: the term NAME, or M without a name. Repeatable.",
    ),
]
System = Annotated[str | None, typer.Option(help="The application's system message.")]
Samples = Annotated[
    int, typer.Option("-n", "--samples", help="So many answers, with seeds SEED, SEED + 1, …")
]
MaxTokens = Annotated[int | None, typer.Option(help="At most so many tokens.  [default: 256]")]
Temperature = Annotated[
    float | None, typer.Option(help="0 takes the likeliest token.  [default: 1.0]")
]
TopP = Annotated[float | None, typer.Option(help="Sample from this nucleus.  [default: 1.0]")]
TopK = Annotated[int | None, typer.Option(help="Sample from the k likeliest.")]
MinP = Annotated[
    float | None,
    typer.Option(help="Sample from tokens at least so many times as likely as the likeliest."),
]
Penalty = Annotated[
    float | None,
    typer.Option(help="Above 1: the answer repeats its tokens less.  [default: 1.0]"),
]
Seed = Annotated[int | None, typer.Option(help="Equal seeds give equal texts.")]
Bans = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="A text that must not appear. Repeatable."),
]
Schema = Annotated[
    Path | None, typer.Option(help="A file with a JSON schema: the answer is such JSON.")
]
Regex = Annotated[str | None, typer.Option(help="The whole answer matches this expression.")]
Timeout = Annotated[
    float | None, typer.Option(help="Give up after so many seconds of answering: exit code 124.")
]
Speculation = Annotated[
    str | None,
    typer.Option(help="auto, none or a plan that `marith calibrate` wrote.  [default: auto]"),
]
Context = Annotated[
    int | None, typer.Option(help="The most tokens that the model reads; else its own number.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print all there is as JSON.")]

_NAMED = re.compile(r"\w+=")
_NOT_OPTIONS = (
    "prompt", "file", "persona", "term", "define", "_imports", "adapter", "system", "n", "schema",
    "regex", "as_json",
)  # fmt: skip


@app.command()
def generate(
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
    n: Samples = 1,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    min_p: MinP = None,
    repetition_penalty: Penalty = None,
    seed: Seed = None,
    stop: Stops = None,
    ban: Bans = None,
    schema: Schema = None,
    regex: Regex = None,
    timeout: Timeout = None,
    speculation: Speculation = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    context_length: Context = None,
    as_json: AsJson = False,
) -> None:
    """Answer PROMPT with a formula, as the text comes."""
    given = locals()  # all options by name
    with clear_errors():
        options = options_of(given)
        answer(options, messages_of(prompt, system), n, _grammar(schema, regex), as_json)


def answer(
    options: "Options",
    messages: list[dict[str, str]],
    count: int,
    grammar: "Grammar | None",
    as_json: bool,
) -> None:
    """Generate `count` answers at once and print them. Raises MarithError."""
    if count < 1:
        raise RequestError(f"-n is a whole number from 1, not {count}")
    samples = [options]
    if count > 1:
        first = options.seed
        samples = [options.over({} if first is None else {"seed": first + i}) for i in range(count)]
    with loading(options.model):
        options.engine()
        begun = time.monotonic()
        tickets = [each.submit(messages, begun=begun, grammar=grammar) for each in samples]
    print_answers(tickets, as_json, options.timeout is not None)


def options_of(given: Mapping[str, Any]) -> "Options":
    """The options of the command line, and of a persona file where none are given here.

    Raises MarithError.
    """
    from pydantic import ValidationError  # slow to import, and not needed for help

    from marith import Options, Plan

    values = {
        name: value
        for name, value in given.items()
        if name not in _NOT_OPTIONS and value is not None
    }
    if terms := _terms(given["term"], given["define"], given["adapter"]):
        values["terms"] = terms
    plan = given.get("speculation")
    if plan not in (None, "auto", "none"):
        values["speculation"] = Plan.from_json(read_text(Path(plan)))
    file, persona = given["file"] or os.environ.get("MARITH_FILE"), given["persona"]
    if persona is not None and not file:
        raise RequestError(f"--persona {persona!r} is a formula of a file; give its --file too")
    try:
        options = Options.from_file(file, persona, **values) if file else Options(**values)
    except ValidationError as error:
        raise from_validation(error) from None
    if not isinstance(options.speculation, Plan):  # which may name terms that draft
        note_unused(options.formula, options.terms, terms)
    return options


def _terms(
    prompts: Sequence[str] | None,
    definitions: Sequence[str] | None,
    adapters: Sequence[str] | None,
) -> dict[str, TermData]:
    """The terms by name, those of adapters included. Raises RequestError for a name given twice."""
    terms = named_terms(prompts, definitions)
    named = [text if _NAMED.match(text) else f"{BARE}={text}" for text in adapters or ()]
    for name, adapter in pairs("--adapter", "NAME=LORA", named).items():
        if name in terms:
            option = "--term" if isinstance(terms[name], str) else "--define"
            raise RequestError(f"{name!r} is given by {option} and by --adapter")
        terms[name] = as_data(Prompted(adapter=adapter))
    return terms


def messages_of(prompt: str, system: str | None) -> list[dict[str, str]]:
    """The messages of a prompt, which `-` reads from standard input."""
    if prompt == "-":
        prompt = read_text(Path(prompt)).rstrip("\n")
        if not prompt:
            raise RequestError("standard input is empty; the prompt - reads it from there")
    messages = [{"role": "system", "content": system}] if system else []
    return [*messages, {"role": "user", "content": prompt}]


def _grammar(schema: Path | None, regex: str | None) -> "Grammar | None":
    """What the answer has to be. Raises RequestError for what is no schema or expression."""
    from marith.request.forms.grammar import Grammar  # slow to import, and not needed for help

    if schema is not None and regex is not None:
        raise RequestError("an answer follows --schema or --regex, not both")
    if regex is not None:
        return Grammar.regex(regex)
    if schema is None:
        return None
    try:
        return Grammar.json_schema(json.loads(read_text(schema)))
    except ValueError as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"{str(schema)!r} is no JSON: {error}") from None
