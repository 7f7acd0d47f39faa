"""The program `marith`, also run by `python -m marith` and `python -m marith.cli`."""

from __future__ import annotations

import atexit
import errno
import os
import sys
from pathlib import Path

from marith.cli import app


def main(name: str | None = None) -> None:
    """Run the command line, and end the process with its exit code.

    The process ends without destroying the modules of torch and transformers, which would take a
    second.
    """
    _open_closed_streams()
    # The hub and transformers would write progress bars into a file.
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    codes: list[int] = []
    # `_leave` is registered first, so it is called last.
    atexit.register(_leave, codes)
    try:
        app(prog_name=name)
    except SystemExit as end:
        codes += [end.code] if isinstance(end.code, int) else []
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _say_full(error)
        codes += [1]
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (for the end)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that is closed, as under cron or a daemon.

    Python sets a closed stream to None. The null device also takes the stream's file descriptor,
    which the next opened file would otherwise get.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _leave(codes: list[int]) -> None:
    """End the process at once if there is an exit code.

    Without an exit code, the program ended with an error, which Python prints.
    """
    if not codes:
        return
    try:
        if logging := sys.modules.get("logging"):
            logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does.
        codes = [1]
    except OSError as error:
        _say_full(error)
        codes = [1]
    os._exit(codes[0])


def _say_full(error: OSError) -> None:
    print(f"marith: the output cannot be written: {error.strerror}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
