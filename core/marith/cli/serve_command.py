"""The command that serves over HTTP: `marith serve`."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marith.cli.own_modules import Imports
from marith.cli.shared import app, clear_errors, completed_models, pairs
from marith.errors import RequestError

if TYPE_CHECKING:
    from marith.serving.server import Server

File = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A persona file: each formula is a model.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        autocompletion=completed_models,
        help="What the formulas are over.  [default: pocket, or the file's]",
    ),
]
Aliases = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="NAME=MODEL", help="A further name of a model. Repeatable."),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--api-key-file",
        help="API keys, one a line, in a file of mode 0600; else those of MARITH_API_KEYS.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host-name", help="A name that clients ask it under. Repeatable."),
]
Origins = Annotated[
    list[str] | None,
    typer.Option("--origin", help="Pages that may ask, e.g. https://chat.example. Repeatable."),
]
Proxies = Annotated[
    list[str] | None,
    typer.Option("--proxy", help="An address whose forwarded headers count. Repeatable."),
]


@app.command("serve")
def _serve(
    file: File = None,
    model: Model = None,
    host: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens.")] = 8000,
    unix_socket: Annotated[
        Path | None, typer.Option(help="A socket of this machine, in place of host and port.")
    ] = None,
    alias: Aliases = None,
    api_key_file: Keys = None,
    allow_formulas: Annotated[
        bool, typer.Option("--allow-formulas", help="Requests may bring formulas and terms.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse fields that are not known.")
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="The most tokens of an answer.")
    ] = None,
    max_seconds: Annotated[
        float, typer.Option(min=1, help="The most seconds that an answer takes.")
    ] = 600.0,
    host_name: Hosts = None,
    origin: Origins = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="A file of TLS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    proxy: Proxies = None,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="How long requests that run have after SIGTERM.")
    ] = 30.0,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Log answers too; else never texts.")
    ] = False,
    _: Imports = None,
) -> None:
    """Serve a formula over HTTP, as OpenAI's clients ask.

    Without a file it serves pocket. Logs are lines of JSON on standard error.
    """
    with clear_errors():
        try:
            from marith.serving.process import Listening, serve
        except ModuleNotFoundError as error:
            needed = f"`pip install 'marith[serve]'`; there is no {error.name}"
            raise RequestError(f"marith serve needs {needed}") from None
        from marith.serving.server_settings import Bounds, ServerSettings, read_keys

        if (tls_certificate is None) != (tls_key is None):
            raise RequestError("--tls-certificate and --tls-key come together")
        listening = Listening(
            host, port, unix_socket, tls_certificate, tls_key, tuple(proxy or ()), drain_seconds
        )
        settings = ServerSettings(
            file,
            model,
            pairs("--alias", "NAME=MODEL", alias),
            read_keys(api_key_file),
            tuple(host_name or ()),
            tuple(origin or ()),
            allow_formulas,
            strict,
            log_texts,
            Bounds(tokens=max_tokens, seconds=max_seconds),
        )
        _log_lines()
        serve(settings, listening, lambda server: _say_ready(server, listening.address))


def _log_lines() -> None:
    """The lines of the server on standard error, as they are."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name, level in (("marith.serving", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False


def _say_ready(server: "Server", address: str) -> None:
    """What is served, and where."""
    models = server.personas
    for one in models.by_name.values():
        of = (
            f", the same as {one.parent}"
            if one.parent and one.name in server.settings.aliases
            else ""
        )
        typer.echo(f"{one.name}: {one.options.formula}{of}", err=True)
    loaded = {name for engine in models.engines() for name in engine.status().checkpoints}
    typer.echo(f"loaded: {', '.join(sorted(loaded))}", err=True)
    keys = len(server.settings.keys)
    asked = f"{keys} API keys" if keys else "no API key"
    typer.echo(f"marith serves {address}/v1 ({asked})", err=True)
