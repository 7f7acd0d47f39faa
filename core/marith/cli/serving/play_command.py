"""The command that opens the page: `marith play`."""

import webbrowser
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from marith.cli.own_modules import Imports
from marith.cli.serving.running_server import run_server, say_ready
from marith.cli.serving.serve_command import File, Keys, Model, Most, Port
from marith.cli.shared import app, clear_errors

if TYPE_CHECKING:
    from marith.serving.server import Server

LOOPBACK = "127.0.0.1"
NoBrowser = Annotated[
    bool, typer.Option("--no-browser", help="Print the page's address, and open no browser.")
]


@app.command("play")
def play(
    file: File = None,
    model: Model = None,
    port: Port = 8000,
    api_key_file: Keys = None,
    max_tokens: Most = None,
    no_browser: NoBrowser = False,
    _imports: Imports = None,
) -> None:
    """Open a page in the browser: write formulas, compare texts, and see why each token is there.

    Serves this machine alone, and takes formulas from the page; all else is as by `marith serve`.
    """
    from marith.serving.http import page_token

    def ready(server: "Server", address: str) -> None:
        say_ready(server, address)
        page = page_address(server, address)
        typer.echo(page)
        if server.settings.page_key is not None:
            typer.echo(f"(good once, for {page_token.SECONDS:.0f} seconds)", err=True)
        if not no_browser and not webbrowser.open(leading_to(page, Path(folder))):
            typer.echo("no browser was found here: open this address in one", err=True)

    settings = {"file": file, "model": model, "allow_formulas": True}
    with clear_errors(), TemporaryDirectory(prefix="marith-play-") as folder:
        bounds = {"tokens": max_tokens}
        run_server(settings, api_key_file, bounds, (LOOPBACK, port), ready, has_own_key=True)


def leading_to(page: str, folder: Path) -> str:
    """The address of a file in a private folder that leads to the page; without a token the page's.

    Others may read the command line of a browser, and so its address, but not the file.
    """
    if "#" not in page:
        return page
    address = escape(page)
    file = folder / "play.html"
    file.touch(mode=0o600)
    file.write_text(
        '<!doctype html><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="0; url={address}">'
        f'<title>marith</title><a href="{address}">The page of marith</a>\n',
        encoding="utf-8",
    )
    return file.as_uri()


def page_address(server: "Server", address: str) -> str:
    """Where the page is; the fragment, which no browser sends, has a token for a key."""
    token = server.page_token.offer()
    return f"{address}/" if token is None else f"{address}/#token={token}"
