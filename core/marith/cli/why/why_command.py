"""The command that explains an answer: `marith why`."""

from typing import Annotated

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
    Device,
    Dtype,
    Quantize,
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

Continuation = Annotated[
    str | None, typer.Option(help="Explain this text after the prompt; no token is drawn.")
]
Top = Annotated[int, typer.Option(help="Show so many of the likeliest tokens of each position.")]
Every = Annotated[
    bool, typer.Option("--all", help="Show every position, not only where M says another token.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the inspection as JSON.")]


@app.command()
def why(
    prompt: Prompt,
    model: Model = None,
    formula: Formula = None,
    term: Terms = None,
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
    quantize: Quantize = None,
    backend: Backend = None,
    context_length: Context = None,
    as_json: AsJson = False,
) -> None:
    """Answer PROMPT, and say why each token is there: which part of the formula pushed it."""
    given = locals()  # all options by name
    own = ("continuation", "top", "every")
    values = {name: value for name, value in given.items() if name not in own}
    with clear_errors():
        options = options_of({**values, "inspect": top})
        messages = messages_of(prompt, system)
        with loading(options.model):
            options.engine()
        if continuation is None:
            inspection = options.submit(messages).result().inspection
        else:
            inspection = inspection_of(options, messages, continuation, top)
        assert inspection is not None, "the request asked for it"
        if as_json:
            typer.echo(for_terminal(inspection.to_json(indent=2)))
        else:
            print_inspection(inspection, every)
