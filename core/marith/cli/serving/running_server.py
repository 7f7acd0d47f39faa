"""Runs a server until a signal ends it, and says on standard error what it serves."""

import errno
import logging
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from marith.errors import RequestError

if TYPE_CHECKING:
    from marith.serving.server import Server


def run_server(
    given: Mapping[str, Any],
    keys: Path | None,
    bounds: Mapping[str, Any],
    where: Sequence[Any],
    ready: "Callable[[Server, str], None]",
    has_own_key: bool = False,
) -> None:
    """Serve until a signal ends it; `ready` gets the server and its address. Raises MarithError.

    `given` are settings of the server, `where` the fields of `Listening`. With `has_own_key` the
    page of a server that asks for keys gets one of its own.
    """
    from marith.serving.server_settings import (
        Bounds,
        ServerSettings,
        read_keys,
        require_key,
        with_page_key,
    )

    host, port, unix_socket = (*where, None)[:3]
    settings = ServerSettings(**given, keys=read_keys(keys), bounds=Bounds(**bounds))
    if unix_socket is None:
        require_key(host, settings.keys)
        require_free(host, port)
    model = given["file"] or given["model"] or "pocket"
    typer.echo(f"loading {str(model)!r} …", err=True)
    try:
        from marith.serving.process import Listening, serve
    except ModuleNotFoundError as error:
        needed = f"`pip install 'marith[serve]'`; there is no {error.name}"
        raise RequestError(f"a server needs {needed}") from None
    listening = Listening(*where)
    if (listening.certificate is None) != (listening.certificate_key is None):
        raise RequestError("--tls-certificate and --tls-key come together")
    if has_own_key:
        settings = with_page_key(settings)
    _log_lines()
    serve(settings, listening, lambda server: ready(server, listening.address))


def require_free(host: str, port: int) -> None:
    """Raise RequestError for a port that cannot be had, before seconds go into loading."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = f"port {port} of {host} is taken; write another as --port"
        else:
            problem = f"port {port} of {host} cannot be had: {error.strerror or error}"
        raise RequestError(problem) from None


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


def say_ready(server: "Server", address: str) -> None:
    """What is served, and where."""
    from marith import Explanation

    models = server.models
    for one in models.by_name.values():
        alias = one.name in server.settings.aliases
        of = f", the same as {one.parent}" if alias else ""
        typer.echo(f"{one.name}: {one.options.formula}{of}", err=True)
        for warning in Explanation.of(one.options.formula, one.options.terms).warnings:
            typer.echo(f"warning: {one.name}: {warning}", err=True)
    for engine in models.engines():
        typer.echo(repr(engine), err=True)
    keys = len(server.settings.keys) - (server.settings.page_key is not None)
    asked = f"{keys} API keys" if keys else "no API key"
    typer.echo(f"marith serves {address}/v1 ({asked})", err=True)
