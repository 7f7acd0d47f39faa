"""The command that serves over HTTP: `marith serve`."""

from pathlib import Path
from typing import Annotated

import typer

from marith.cli.own_modules import Imports
from marith.cli.serving.running_server import run_server, say_ready
from marith.cli.shared import app, clear_errors, completed_models, pairs

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="A persona file: each formula is a model, run as [model] says."
    ),
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
OwnName = Annotated[
    str | None,
    typer.Option("--name", help="What clients call the model itself.  [default: its own name]"),
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
    name: OwnName = None,
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
    bounds = {"tokens": max_tokens, "seconds": max_seconds}
    given = {
        "file": file, "model": model, "name": name, "strict": strict,
        "hosts": tuple(host_name or ()), "origins": tuple(origin or ()),
        "allow_formulas": allow_formulas, "log_texts": log_texts, "page": not no_page,
    }  # fmt: skip
    with clear_errors():
        aliases = pairs("--alias", "NAME=MODEL", alias)
        run_server({**given, "aliases": aliases}, api_key_file, bounds, where, say_ready)
