"""Commands about one formula: `marith generate`, `calibrate`, `show` and `demo`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from marith.cli.shared import Formula, Model, Terms, app, clear_errors, lines, split_terms
from marith.errors import RequestError
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check
from marith.formula.text.explaining import explain
from marith.request.plan import Plan
from marith.speculation.execution_plan import ExecutionPlan

Speculation = Annotated[
    str, typer.Option(help="auto, none or a plan that `marith calibrate` wrote.")
]


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help="What to answer.")],
    model: Model = "pocket",
    formula: Formula = "M",
    term: Terms = None,
    max_tokens: Annotated[int, typer.Option(help="At most so many tokens.")] = 256,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="Sample from this nucleus.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Sample from the k likeliest.")] = None,
    seed: Annotated[int | None, typer.Option(help="Equal seeds give equal texts.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this. Repeatable.")] = None,
    ban: Annotated[
        list[str] | None, typer.Option(help="A text that must not appear. Repeatable.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Give up after so many seconds.")] = None,
    system: Annotated[str | None, typer.Option(help="The application's system message.")] = None,
    speculation: Speculation = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print all there is as JSON.")] = False,
) -> None:
    """Answer PROMPT with a formula, as the text comes."""
    with clear_errors():
        terms = split_terms(term)
        plan = _speculation(speculation)
        _check(formula, terms, plan)
        from marith import Ban, Engine, Request, Sampling, Stop  # torch, which `show` does without

        messages = [{"role": "system", "content": system}] if system else []
        request = Request(
            prompt=[*messages, {"role": "user", "content": prompt}],
            formula=formula,
            terms=terms,
            sampling=Sampling(temperature, top_k, top_p, seed=seed),
            stop=Stop(max_tokens, tuple(stop or ())),
            speculation=plan,
            timeout=timeout,
            ban=Ban(tuple(ban)) if ban else None,
        )
        with Engine.load(model) as engine:
            _print(engine.submit(request), as_json)


@app.command()
def calibrate(
    formula: Annotated[str, typer.Argument(help="The formula that is to be made fast.")],
    prompt: Annotated[list[str] | None, typer.Option(help="What may be asked. Repeatable.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="A file with a prompt a line.")] = None,
    model: Model = "pocket",
    term: Terms = None,
    costs: Annotated[
        str,
        typer.Option(help="time: measured on this machine; calls: one per call, as in the paper."),
    ] = "time",
    output: Annotated[Path | None, typer.Option(help="Write the plan to this file.")] = None,
) -> None:
    """Measure how far each term of FORMULA may lag, and print the plan as JSON."""
    with clear_errors():
        terms = split_terms(term)
        all_prompts = [*(prompt or ()), *lines(prompts)]
        if not all_prompts:
            raise RequestError("a plan is measured on prompts: --prompt TEXT or --prompts FILE")
        if costs not in ("time", "calls"):
            raise RequestError(f"--costs is time or calls, not {costs!r}")
        if output is not None and (output.is_dir() or not output.parent.is_dir()):
            raise RequestError(f"{str(output)!r} is a directory, or its directory does not exist")
        _check(formula, terms)
        from marith import Engine  # torch, which `show` does without
        from marith.evals.speed.speculation.calibration import measured, table

        with Engine.load(model) as engine:
            plan = measured(
                engine, formula, all_prompts, terms, "calls" if costs == "calls" else "time"
            )
        table(plan, parse(formula), terms)
        if output is None:
            typer.echo(plan.to_json())
        else:
            output.write_text(plan.to_json() + "\n", encoding="utf-8")


@app.command()
def show(
    formula: Annotated[str, typer.Argument(help="The formula to explain.")], term: Terms = None
) -> None:
    """Draw FORMULA as a tree, with its normalised form and warnings. Loads no model."""
    with clear_errors():
        terms = split_terms(term)
        typer.echo(explain(formula, terms or None))


@app.command()
def demo(
    model: Model = "pocket",
    question: Annotated[
        str, typer.Option(help="What all formulas answer.")
    ] = "Tell me something interesting about pandas.",
    seed: Annotated[int, typer.Option(help="Equal seeds give equal answers.")] = 1,
) -> None:
    """Put one question to six formulas: by the engine, by LangChain and by LlamaIndex."""
    with clear_errors():
        from marith.demo import run  # torch, which `show` does without

        run(model, question, seed)


def _check(formula: str, terms: dict[str, str], plan: Plan | Literal["auto"] | None = None) -> None:
    """Refuse, before anything is loaded, what means nothing and a plan of another formula."""
    parsed, bound_terms = parse(formula), resolve(terms)
    check(parsed, bound_terms)
    ExecutionPlan.of(parsed, bound_terms, plan)


def _speculation(text: str) -> Plan | Literal["auto"] | None:
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    return Plan.from_json("\n".join(lines(Path(text))))


def _print(ticket: Any, as_json: bool) -> None:
    """The text as it comes, or all there is at the end."""
    if as_json:
        _print_json(ticket.result())
        return
    for chunk in ticket:
        typer.echo(chunk.text, nl=False)
        sys.stdout.flush()
    typer.echo()


def _print_json(completion: Any) -> None:
    stats, usage = completion.stats, completion.usage
    data = asdict(completion)
    data["usage"]["total_tokens"] = usage.total_tokens
    data["stats"]["passes_per_token"] = stats.passes_per_token
    data["stats"]["calls_per_token"] = stats.calls_per_token
    data["stats"]["acceptance"] = stats.acceptance
    typer.echo(json.dumps(data, ensure_ascii=False, indent=2))
