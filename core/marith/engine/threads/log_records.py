"""Log records of an engine, whose work a handler of the application cannot end."""

from __future__ import annotations

import logging
import sys
import traceback


def log(logger: logging.Logger, level: int, message: str, *values: object) -> None:
    """Log a record. A handler or filter that raises loses this record, and nothing else.

    Its traceback goes to standard error if `logging.raiseExceptions` is true, which is how
    `logging.Handler.handleError` prints the errors of handlers.
    """
    try:
        logger.log(level, message, *values, stacklevel=2)
    except Exception:
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc()
