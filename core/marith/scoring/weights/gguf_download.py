"""A GGUF file on this machine: the one that is named, or one of the hub's, downloaded once."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError

from marith.errors import ModelError
from marith.scoring.weights import hub_lookup
from marith.scoring.weights.gguf_header import file_parts
from marith.scoring.weights.locate import hub_file


def require_file(name: str, where: str, revision: str | None = None) -> None:
    """Raises ModelError for a file of the hub's that is nowhere, and for a file with a revision."""
    on_hub = hub_file(where)
    if on_hub is not None:
        hub_lookup.require(on_hub[0], revision, on_hub[1])
    elif revision is not None:
        problem = f"revision={revision!r} is of a model on the hub"
        raise ModelError(f"{problem}, and {name!r} is a file; leave out revision")


def local_file(name: str, where: str, revision: str | None = None) -> Path:
    """The file on this machine, of several the first. Raises ModelError where it cannot be had."""
    require_file(name, where, revision)
    on_hub = hub_file(where)
    if on_hub is None:
        return Path(where)
    repository, file = on_hub
    try:
        found = [
            huggingface_hub.hf_hub_download(repository, part, revision=revision)
            for part in file_parts(file)
        ]
    except (OSError, ValueError, HfHubHTTPError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"cannot find {name!r} on the hub: {first}") from error
    return Path(found[0])
