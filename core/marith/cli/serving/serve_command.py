"""The command that serves over HTTP: `marith serve`."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marith.cli.own_modules import Imports
from marith.cli.shared import app, clear_errors, completed_models, pairs
from marith.errors import RequestError

if TYPE_CHECKING:
    from marith.serving.server import Server

File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A persona file: each formula is a model.")
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
Host = Annotated[str, typer.Option(help="Where it listens.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Where it listens.")]
Socket = Annotated[
    Path | None, typer.Option(help="A socket of this machine, in place of host and port.")
]
Aliases = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="NAME=MODEL", help="A further name of a model. Repeatable."),
]
Keys = Annotated[
    Path | None,
    typer.Option(help="API keys, one a line, in a file of mode 0600; else MARITH_API_KEYS."),
]
Brings = Annotated[bool, typer.Option("--allow-formulas", help="Requests may bring formulas.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse fields that are not known.")]
Most = Annotated[int | None, typer.Option(min=1, help="The most tokens of an answer.")]
Seconds = Annotated[float, typer.Option(min=1, help="The most seconds that an answer takes.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A name that clients ask it under. Repeatable."),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="Pages that may ask, e.g. https://chat.example. Repeatable."),
]
Certificate = Annotated[Path | None, typer.Option(help="A certificate of TLS.")]
CertificateKey = Annotated[Path | None, typer.Option(help="The key of the certificate.")]
Proxies = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="An address whose forwarded headers count. Repeatable."),
]
Drain = Annotated[float, typer.Option(min=0, help="Seconds for what runs, after SIGTERM.")]
NoPage = Annotated[bool, typer.Option("--no-page", help="Serve no page to browsers.")]
Texts = Annotated[bool, typer.Option("--log-texts", help="Log answers too; else no text.")]


@app.command("serve")
def serve(
    file: File = None,
    model: Model = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    unix_socket: Socket = None,
    alias: Aliases = None,
    api_key_file: Keys = None,
    allow_formulas: Brings = False,
    strict: Strict = False,
    max_tokens: Most = None,
    max_seconds: Seconds = 600.0,
    host_name: Hosts = None,
    origin: Origins = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    proxy: Proxies = None,
    drain_seconds: Drain = 30.0,
    log_texts: Texts = False,
    no_page: NoPage = False,
    _imports: Imports = None,
) -> None:
    """Serve formulas over HTTP, as OpenAI's clients ask; without a file, pocket.

    Logs are lines of JSON on standard error.
    """
    where = host, port, unix_socket, tls_certificate, tls_key, tuple(proxy or ()), drain_seconds
    given = {
        "file": file, "model": model, "hosts": tuple(host_name or ()), "strict": strict,
        "origins": tuple(origin or ()), "allow_formulas": allow_formulas, "log_texts": log_texts,
        "page": not no_page,
    }  # fmt: skip
    with clear_errors():
        aliases = pairs("--alias", "NAME=MODEL", alias)
        _run({**given, "aliases": aliases}, api_key_file, (max_tokens, max_seconds), where)


def _run(given: dict[str, Any], keys: Path | None, most: Any, where: Any) -> None:
    """Serve until a signal ends it. Raises MarithError."""
    try:
        from marith.serving.process import Listening
        from marith.serving.process import serve as run
    except ModuleNotFoundError as error:
        needed = f"`pip install 'marith[serve]'`; there is no {error.name}"
        raise RequestError(f"marith serve needs {needed}") from None
    from marith.serving.server_settings import Bounds, ServerSettings, read_keys

    listening = Listening(*where)
    if (listening.certificate is None) != (listening.certificate_key is None):
        raise RequestError("--tls-certificate and --tls-key come together")
    bounds = Bounds(tokens=most[0], seconds=most[1])
    settings = ServerSettings(**given, keys=read_keys(keys), bounds=bounds)
    _log_lines()
    run(settings, listening, lambda server: _say_ready(server, listening.address))


class _Line(logging.Handler):
    """Prints what the server logs, as it is."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, and the traceback of an error."""
        print(self.format(record), file=sys.stderr, flush=True)


def _log_lines() -> None:
    """Print the lines of the server and the warnings of what it stands on."""
    for name, level in (("marith.serving", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [_Line()]
        logger.setLevel(level)
        logger.propagate = False


def _say_ready(server: "Server", address: str) -> None:
    """What is served, and where."""
    models = server.models
    for one in models.by_name.values():
        alias = one.name in server.settings.aliases
        of = f", the same as {one.parent}" if alias else ""
        typer.echo(f"{one.name}: {one.options.formula}{of}", err=True)
    for engine in models.engines():
        typer.echo(repr(engine), err=True)
    keys = len(server.settings.keys)
    asked = f"{keys} API keys" if keys else "no API key"
    typer.echo(f"marith serves {address}/v1 ({asked})", err=True)
