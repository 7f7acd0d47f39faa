"""The command that explains an answer: `marith why`.

A blue token is likelier than under the bare model, and an orange token is less likely. An
underlined token is surprising. A bold token is flipped: the formula's likeliest token, but not the
bare model's. Without colours, a flipped token is in brackets with its push. Control characters in
the text are shown and not obeyed.
"""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

import marith
from marith import RequestError, escape_control_chars
from marith.cli.application import app, clear_errors
from marith.cli.files import for_terminal
from marith.cli.generate_command import load, messages_of, options_of
from marith.cli.options import Prompt, asked, defined, drawn, loaded, placed, takes

if TYPE_CHECKING:
    from rich.text import Text

    from marith import Inspection, Options

Continuation = Annotated[
    str | None, typer.Option(help="Explain this text instead of a new answer.")
]
Top = Annotated[int, typer.Option(help="The number of likeliest tokens to show.")]
Every = Annotated[
    bool,
    typer.Option("--all", help="Show every position, not only flipped tokens."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the inspection as JSON.")]

# Numbers in the palette of 256 colours: blue for pushes up, orange for pushes down. The last
# number of each is for the strongest push.
_BLUES, _ORANGES = (117, 75, 33), (222, 215, 208)
_STEPS = (0.1, 0.5, 2.0)  # nats: the smallest push of each colour
_SURPRISING = 2.0  # nats: less likely than 14 %
# These columns are text. All other columns are numbers.
_WORDS = "token", "M likeliest", "against", "moved most", "likeliest"
_LETTERS = 28  # the maximum length of a column's head


@app.command()
@takes(asked, defined, drawn, loaded, placed)
def why(
    prompt: Prompt,
    continuation: Continuation = None,
    top: Top = 3,
    every: Every = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Answer PROMPT, and show which part of the formula pushed each token."""
    with clear_errors():
        if top < 1:
            raise RequestError(f"--top must be a whole number of at least 1, not {top}")
        if every and as_json:
            raise RequestError("--json always has every position; write --json without --all")
        inspection = _inspection(prompt, options, continuation, top)
        if as_json:
            typer.echo(for_terminal(inspection.to_json(indent=2)))
        else:
            print_inspection(inspection, every)


def _inspection(
    prompt: str, arguments: Mapping[str, Any], continuation: str | None, top: int
) -> "Inspection":
    """Return the inspection of a new answer, or of `continuation`. Raises MarithError."""
    drawing = [name for name in signature(drawn).parameters if arguments[name] is not None]
    if continuation is not None and drawing:
        option = f"--{drawing[0].replace('_', '-')}"
        raise RequestError(f"--continuation samples no token; leave out {option}")
    options = options_of({**arguments, "inspect": top})
    messages = messages_of(prompt, arguments["system"])
    # The engine is loaded before the request, so that the timeout does not count loading.
    load(options)
    if continuation is not None:
        return inspection_of(options, messages, continuation, top)
    inspection: Inspection = options.submit(messages).result().inspection
    return inspection


def inspection_of(
    options: "Options",
    messages: Sequence[Mapping[str, str]],
    continuation: str | Sequence[int],
    top: int,
) -> "Inspection":
    """Return the inspection of an answer under the formula of the options. Raises MarithError."""
    request = options.request([*messages])
    return marith.inspect(
        options.engine(),
        request.prompt,
        continuation,
        request.formula,
        request.terms,
        top=top,
        timeout=request.timeout,
        template_options=request.template_options,
        cache_salt=request.cache_salt,
    )


def print_inspection(inspection: "Inspection", every: bool) -> None:
    """Print the text, and a table of its flipped positions, or of all positions if `every`."""
    from rich.table import Table
    from rich.text import Text

    from marith.console import say, terminal

    console = terminal()
    coloured = console.color_system is not None and not console.no_color
    console.print(_strip(inspection, coloured), soft_wrap=True, highlight=False)
    say(console, ["", f"{inspection.summary}."])
    if lost := inspection.implausible:
        none = f"{len(lost)} of {len(inspection.positions)} tokens are implausible to every term"
        say(console, [f"{none}; the first is token {lost[0].place}."])
    heads, *rows = inspection.table(every)
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        is_text = head in _WORDS
        table.add_column(
            Text(_short(head)), justify="left" if is_text else "right", no_wrap=not is_text
        )
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    say(console, _legend(inspection))


def _short(head: str) -> str:
    """Return the head of a column, cut if it is long."""
    return head if len(head) <= _LETTERS else f"{head[: _LETTERS - 1]}…"


def _strip(inspection: "Inspection", coloured: bool) -> "Text":
    """Return the text with each token coloured by its push, or with flipped tokens in brackets."""
    from rich.text import Text

    strip = Text()
    for run in inspection.runs:
        text = escape_control_chars(run.text)
        if coloured:
            strip.append(text, _style(run))
        else:
            push = "-" if run.push is None else f"{run.push:+.2f}"
            strip.append(f"[{text} {push}]" if run.flipped else text)
    return strip


def _style(run: Any) -> str:
    """Return the style of a token in rich's notation."""
    words = ["bold"] * run.flipped
    if run.logprob is None or run.logprob < -_SURPRISING:
        words.append("underline")
    push = run.push or 0.0
    if strength := sum(abs(push) >= step for step in _STEPS):
        words.append(f"color({(_BLUES if push > 0 else _ORANGES)[strength - 1]})")
    return " ".join(words)


def _legend(inspection: "Inspection") -> list[str]:
    lines = [
        "Numbers are nats; push is log P - log P_M. The parts of a formula add up to the log-odds",
        "of the token against M's likeliest token, or else the formula's likeliest other token.",
    ]
    if any(part.kind == "leave_one_out" for part in inspection.parts):
        lines.append(
            "without x: the decrease of the log-odds with M instead of x; these do not add up."
        )
    if any(view.vectors for position in inspection.positions for view in position.terms):
        lines.append(
            "vectors of x: log P of x - log P of x without its vectors, and so for the tokens whose"
        )
        lines.append("probabilities the vectors raise and lower most.")
    return lines
