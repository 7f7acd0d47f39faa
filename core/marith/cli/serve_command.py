"""The commands that serve over HTTP: `marith serve`, and `marith play` with the page."""

import logging
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marith import Explanation, RequestError
from marith.cli.application import app, clear_errors
from marith.cli.options import Imports, placed, takes

if TYPE_CHECKING:
    from marith.serving.server import Server

LOOPBACK = "127.0.0.1"

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="A persona file. Each formula is a model with the options of [model]."
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="The base model.  [default: pocket, or the file's]"),
]
OwnName = Annotated[
    str | None,
    typer.Option("--name", help="The base model's name for clients.  [default: its own]"),
]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
Socket = Annotated[Path | None, typer.Option(help="A Unix socket instead of host and port.")]
Keys = Annotated[
    Path | None,
    typer.Option(
        help="A file of API keys, one per line, of mode 0600.  [default: MARITH_API_KEYS]"
    ),
]
Brings = Annotated[bool, typer.Option("--allow-formulas", help="Allow formulas in requests.")]
Most = Annotated[int | None, typer.Option(min=1, help="The maximum number of tokens of an answer.")]
Seconds = Annotated[float, typer.Option(min=1, help="The time limit of an answer in seconds.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="An allowed host name. Repeatable."),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="An allowed origin, e.g. https://chat.example. Repeatable."),
]
Certificate = Annotated[Path | None, typer.Option(help="A TLS certificate.")]
CertificateKey = Annotated[Path | None, typer.Option(help="The key of the certificate.")]
Proxies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS", help="A proxy whose forwarded headers are trusted. Repeatable."
    ),
]
Drain = Annotated[
    float, typer.Option(min=0, help="The time in seconds for running requests after SIGTERM.")
]
Texts = Annotated[bool, typer.Option("--log-texts", help="Log the texts of answers too.")]
NoBrowser = Annotated[
    bool, typer.Option("--no-browser", help="Print the page's address, but open no browser.")
]


@app.command("serve")
@takes(placed)
def serve(
    file: File = None,
    model: Model = None,
    name: OwnName = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    unix_socket: Socket = None,
    api_key_file: Keys = None,
    allow_formulas: Brings = False,
    max_tokens: Most = None,
    max_seconds: Seconds = 600.0,
    host_name: Hosts = None,
    origin: Origins = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    proxy: Proxies = None,
    drain_seconds: Drain = 30.0,
    log_texts: Texts = False,
    _imports: Imports = None,
    **options: Any,
) -> None:
    """Serve formulas over HTTP with OpenAI's API; without a file, serve pocket.

    Logs are lines of JSON on standard error.
    """
    where = host, port, unix_socket, tls_certificate, tls_key, tuple(proxy or ()), drain_seconds
    limits = {"tokens": max_tokens, "seconds": max_seconds}
    arguments = {
        "file": file, "model": model, "name": name,
        "hosts": tuple(host_name or ()), "origins": tuple(origin or ()),
        "allow_formulas": allow_formulas, "log_texts": log_texts, "placement": options,
    }  # fmt: skip
    with clear_errors():
        run_server(arguments, api_key_file, limits, where, say_ready)


@app.command("play")
@takes(placed)
def play(
    file: File = None,
    model: Model = None,
    port: Port = 8000,
    api_key_file: Keys = None,
    max_tokens: Most = None,
    no_browser: NoBrowser = False,
    _imports: Imports = None,
    **options: Any,
) -> None:
    """Open a page in the browser: write formulas, compare texts, and see why each token is there.

    Only this machine can reach the server, and the page may send formulas. Everything else is as
    for `marith serve`.
    """

    def ready(server: "Server", address: str) -> None:
        say_ready(server, address)
        typer.echo(f"{address}/")
        if not no_browser and not webbrowser.open(f"{address}/"):
            typer.echo("no browser was found; open this address yourself", err=True)

    settings = {"file": file, "model": model, "allow_formulas": True, "placement": options}
    with clear_errors():
        limits = {"tokens": max_tokens}
        run_server(settings, api_key_file, limits, (LOOPBACK, port), ready)


def run_server(
    arguments: Mapping[str, Any],
    keys: Path | None,
    limits: Mapping[str, Any],
    where: Sequence[Any],
    ready: "Callable[[Server, str], None]",
) -> None:
    """Serve until a signal ends the process. Raises MarithError.

    `arguments` are the settings of the server, `where` the fields of `Listening`. `ready` receives
    the server and its address.
    """
    from marith.serving.server_settings import ServerSettings, ServingLimits, read_keys

    file: Path | None = arguments["file"]
    if file is not None and (not file.exists() or file.is_dir() or file.suffix == ".gguf"):
        problem = f"there is no persona file at {str(file)!r}"
        raise RequestError(f"{problem}; a model is given by --model")
    settings = ServerSettings(**arguments, keys=read_keys(keys), limits=ServingLimits(**limits))
    model = arguments["file"] or arguments["model"] or "pocket"
    typer.echo(f"loading {str(model)!r} …", err=True)
    try:
        from marith.serving.process import Listening, serve
    except ModuleNotFoundError as error:
        needed = f"`pip install 'marith[serve]'`; there is no {error.name}"
        raise RequestError(f"a server needs {needed}") from None
    listening = Listening(*where)
    if (listening.certificate is None) != (listening.certificate_key is None):
        raise RequestError("--tls-certificate and --tls-key must be used together")
    _log_lines()
    serve(settings, listening, lambda server: ready(server, listening.address))


def _log_lines() -> None:
    """Write the server's log lines and uvicorn's warnings to standard error."""
    for name, level in (("marith.serving", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [logging.StreamHandler()]
        logger.setLevel(level)
        logger.propagate = False


def say_ready(server: "Server", address: str) -> None:
    """Print the models and the address of the server."""
    models = server.models
    for one in models.by_name.values():
        typer.echo(f"{one.name}: {one.options.formula}", err=True)
        for warning in Explanation.of(one.options.formula, one.options.terms).warnings:
            typer.echo(f"warning: {one.name}: {warning}", err=True)
    for engine in models.engines():
        typer.echo(repr(engine), err=True)
    keys = len(server.settings.keys)
    asked = f"API keys: {keys}" if keys else "no API key"
    typer.echo(f"marith serves {address}/v1 ({asked})", err=True)
