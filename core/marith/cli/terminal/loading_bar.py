"""One quiet bar while models load, in place of a bar of transformers' for each checkpoint."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marith.errors import ModelError

REFRESHES = 4  # a second: loading has the processor for itself
HUB = "huggingface_hub"  # the name of the hub's own bars, those of downloads


@contextmanager
def loading(model: str) -> Iterator[None]:
    """Show that a model is loaded, and for how long: on standard error, if that is a terminal.

    The bar is removed at the end. A model that has to be downloaded first has the hub's own bars,
    and where loading is logged there is none.
    """
    logged = logging.getLogger("marith").isEnabledFor(logging.INFO)
    if logged or not sys.stderr.isatty() or not _is_local(model):
        yield
        return
    from rich.console import Console  # what a pipe does not need
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("loading {task.description}"), BarColumn(20), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, refresh_per_second=REFRESHES
    ) as progress:
        progress.add_task(model[-40:], total=None)
        yield


def hide_bars_of_transformers() -> None:
    """Turn off the bars of transformers, which reads the hub's setting when it is imported.

    The hub's own bars are left on where standard error is a terminal. The environment variable
    HF_HUB_DISABLE_PROGRESS_BARS has priority over both.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

    if constants.HF_HUB_DISABLE_PROGRESS_BARS is None:
        disable_progress_bars()
        if sys.stderr.isatty():
            enable_progress_bars(HUB)


def _is_local(model: str) -> bool:
    """Whether the files of a model are on this machine."""
    from marith.scoring.weights.locate import downloaded, gguf_file, locate

    try:
        where = locate(model)
    except ModelError:  # the loader raises it too
        return False
    return Path(where).is_dir() or any(found(where) for found in (gguf_file, downloaded))
