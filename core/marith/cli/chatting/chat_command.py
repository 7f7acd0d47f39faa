"""The command that talks: `marith chat`, with an engine of its own or with a server."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from marith.cli.chatting.conversation import Conversation
from marith.cli.chatting.talking import KEY, EngineAnswers, ServerAnswers
from marith.cli.generate_command import (
    File,
    Formula,
    MaxTokens,
    Model,
    Persona,
    System,
    Temperature,
)
from marith.cli.own_modules import Imports
from marith.cli.shared import Definitions, Terms, app, clear_errors, named_terms
from marith.cli.terminal.loading_bar import loading

Url = Annotated[
    str | None,
    typer.Option(help=f"A server, such as http://127.0.0.1:8000/v1; its key is in {KEY}."),
]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same answers.")]


@app.command()
def chat(
    model: Model = None,
    formula: Formula = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    file: File = None,
    persona: Persona = None,
    system: System = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    seed: Seed = None,
    url: Url = None,
) -> None:
    """Talk with a formula; /help lists what else can be typed. Ctrl-D ends it.

    With --url a server answers, of which --model or --persona is a model.
    """
    with clear_errors():
        drawn = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        given: dict[str, Any] = {name: value for name, value in drawn.items() if value is not None}
        if formula is not None:
            given["formula"] = formula
        if terms := named_terms(term, define):
            given["terms"] = terms
        if url is not None:
            answers = ServerAnswers(url, persona or model or "", os.environ.get(KEY, ""))
            answers.reach()
            talk = Conversation(answers, given, system)
            talk.introduce()
            talk.run()
            return
        path = file or (Path(os.environ["MARITH_FILE"]) if "MARITH_FILE" in os.environ else None)
        typed = {"seed": given.pop("seed")} if "seed" in given else {}  # what /seed changes
        own = EngineAnswers.of(path, persona, model, given)
        talk = Conversation(own, typed, system)
        talk.introduce()
        with loading(own.options.model):
            own.options.engine()
        talk.run()
