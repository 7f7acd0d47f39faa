"""The program `marith`, which `python -m marith` and `python -m marith.cli` run too."""

from __future__ import annotations

import atexit
import os
import sys

from marith.cli import app


def main(name: str | None = None) -> None:
    """Run the command line, and end the process with its exit code.

    The modules of torch and transformers are not taken down one by one, which takes a second.
    """
    if not sys.stderr.isatty():  # no bars of the hub and of transformers
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    codes: list[int] = []
    atexit.register(_leave, codes)  # the first that is registered is the last that is called
    try:
        app(prog_name=name)
    except SystemExit as end:
        codes += [end.code] if isinstance(end.code, int) else []
        raise


def _leave(codes: list[int]) -> None:
    """End the process at once, after an exit code; other errors are Python's to print."""
    if not codes:
        return
    try:
        if logging := sys.modules.get("logging"):
            logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        codes = [1]  # what the rest was written to reads no more, as `head` does
    os._exit(codes[0])


if __name__ == "__main__":
    main()
