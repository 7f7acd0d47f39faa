"""The log of `--verbose` on standard error, which breaks no line of an answer."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import MemoryHandler


class _BetweenLines(MemoryHandler):
    """Prints records at once, or, while a line of an answer is incomplete, after that line."""

    def __init__(self) -> None:
        printed = logging.StreamHandler()
        printed.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        super().__init__(capacity=0, target=printed)
        self.waits = False

    def shouldFlush(self, record: logging.LogRecord) -> bool:  # noqa: N802 (a name of logging's)
        """Whether to print what is kept, now that this record has come."""
        return not self.waits


def log_to_stderr() -> None:
    """Print all records of marith."""
    logging.basicConfig(handlers=[_BetweenLines()])
    logging.getLogger("marith").setLevel(logging.DEBUG)


@contextmanager
def line_of_answer() -> Iterator[None]:
    """Records wait in here where answers and the log are on terminals; the end prints them."""
    handlers = [each for each in logging.getLogger().handlers if isinstance(each, _BetweenLines)]
    for handler in handlers:
        handler.waits = sys.stdout.isatty() and sys.stderr.isatty()
    try:
        yield
    finally:
        for handler in handlers:
            handler.waits = False
            handler.flush()
