"""The command line: `marith generate`, `show`, `demo` and `bench`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from marith.errors import MarithError, RequestError
from marith.formula.binding import parse, resolve
from marith.formula.checking import check
from marith.formula.explaining import explain

app = typer.Typer(
    help="Language models composed by arithmetic.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
BAD_INPUT = 2
_SHAPE = (
    "HIDDEN,LAYERS,HEADS,INTERMEDIATE,VOCABULARY of the random Llama (768,12,12,2048,16000), or "
    "what --model is inflated to."
)

Formula = Annotated[str, typer.Option(help="What to sample from, e.g. '2*formal - M'.")]
Terms = Annotated[
    list[str] | None,
    typer.Option("--term", help="NAME=PROMPT: a system prompt or formula text. Repeatable."),
]


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help="What to answer.")],
    model: Annotated[str, typer.Option(help="pocket, a directory or a hub id.")] = "pocket",
    formula: Formula = "M",
    term: Terms = None,
    max_tokens: Annotated[int, typer.Option(help="At most so many tokens.")] = 256,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="Sample from this nucleus.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k likeliest.")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds give equal texts.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this. Repeatable.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Give up after so many seconds.")] = None,
    system: Annotated[str | None, typer.Option(help="The application's system message.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all there is as JSON.")] = False,
) -> None:
    """Answer PROMPT with a formula, as the text comes."""
    with _clear_errors():
        terms = dict(_split(text) for text in term or ())
        check(parse(formula), resolve(terms))  # before anything is loaded
        from marith import Engine, Request, Sampling, Stop  # torch, which `show` does without

        messages = [{"role": "system", "content": system}] if system else []
        request = Request(
            prompt=[*messages, {"role": "user", "content": prompt}],
            formula=formula,
            terms=terms,
            sampling=Sampling(temperature, top_k, top_p, seed=seed),
            stop=Stop(max_tokens, tuple(stop or ())),
            timeout=timeout,
        )
        with Engine.load(model) as engine:
            ticket = engine.submit(request)
            if as_json:
                _print_json(ticket.result())
                return
            for chunk in ticket:
                typer.echo(chunk.text, nl=False)
                sys.stdout.flush()
            typer.echo()


@app.command()
def show(
    formula: Annotated[str, typer.Argument(help="The formula to explain.")], term: Terms = None
) -> None:
    """Draw FORMULA as a tree, with its normalised form and warnings. Loads no model."""
    with _clear_errors():
        terms = dict(_split(text) for text in term or ())
        typer.echo(explain(formula, terms or None))


@app.command()
def demo(
    model: Annotated[str, typer.Option(help="pocket, a directory or a hub id.")] = "pocket",
    question: Annotated[
        str, typer.Option(help="What all formulas answer.")
    ] = "Tell me something interesting about pandas.",
    seed: Annotated[int, typer.Option(help="Equal seeds give equal answers.")] = 1,
) -> None:
    """Put one question to six formulas: by the engine, by LangChain and by LlamaIndex."""
    with _clear_errors():
        from marith.demo import run  # torch, which `show` does without

        run(model, question, seed)


@app.command()
def bench(
    model: Annotated[
        str | None, typer.Option(help="pocket, a directory or a hub id; else a random Llama.")
    ] = None,
    shape: Annotated[str | None, typer.Option(metavar="SIZES", help=_SHAPE)] = None,
    tokens: Annotated[int, typer.Option(help="Tokens a measurement.")] = 32,
    rounds: Annotated[int, typer.Option(help="Medians are over so many.")] = 5,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Of terms,concurrency,first-token,floor. Repeatable."),
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Write all there is as JSON; - prints it.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
) -> None:
    """Time formulas against transformers' own decoding, on the same weights and in turn."""
    with _clear_errors():
        from marith.evals.bench import running, settings, showing  # torch

        sections = settings.split_sections(only or ())
        sizes = None if shape is None else settings.Shape.parse(shape)
        asked = settings.Settings(model, sizes, tokens, rounds, sections)
        showing.check_outputs(as_json, plot, sections)
        showing.show(running.run(asked), as_json, plot)


def _split(text: str) -> tuple[str, str]:
    name, equals, prompt = text.partition("=")
    if not equals or not name.strip():
        raise RequestError(f"--term is NAME=PROMPT, not {text!r}")
    if prompt.strip().startswith("{"):
        raise RequestError(f"--term {text!r} is written as in a file; here: {name}=prompted(…)")
    return name.strip(), prompt


def _print_json(completion: Any) -> None:
    stats, usage = completion.stats, completion.usage
    data = asdict(completion)
    data["usage"]["total_tokens"] = usage.total_tokens
    data["stats"]["passes_per_token"] = stats.passes_per_token
    data["stats"]["calls_per_token"] = stats.calls_per_token
    typer.echo(json.dumps(data, ensure_ascii=False, indent=2))


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Bad input ends with one clear sentence and exit code 2."""
    try:
        yield
    except MarithError as error:
        typer.echo(f"marith: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None


if __name__ == "__main__":
    app()
