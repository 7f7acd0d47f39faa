"""Asks the hub once whether it has a model, so that a mistyped name is found out at once."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi, constants
from huggingface_hub.errors import (
    GatedRepoError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from marith.errors import ModelError
from marith.scoring.weights.locate import downloaded, meant

SECONDS = 5.0  # for one answer of the hub; a download may take longer


def require(name: str, revision: str | None = None, file: str = "config.json") -> None:
    """Raise ModelError for a name of no directory, and of no model on the hub or in its cache.

    transformers would try again for a minute. A model is in the cache where `file` of it is.
    Nothing is asked where the hub must not be asked (HF_HUB_OFFLINE).
    """
    if Path(name).is_dir() or downloaded(name, revision, file) is not None:
        return
    nowhere = f"there is no directory {name!r}, and nothing of this name in the hub's cache"
    if constants.HF_HUB_OFFLINE:
        raise ModelError(f"{nowhere}; HF_HUB_OFFLINE is set{meant(name)}")
    try:
        HfApi().model_info(name, revision=revision, timeout=SECONDS)
    except GatedRepoError:
        return  # the download says what has to be done
    except RevisionNotFoundError:
        raise ModelError(f"the hub's model {name!r} has no revision {revision!r}") from None
    except RepositoryNotFoundError:
        raise ModelError(
            f"there is no directory {name!r}, and no model {name!r} on the hub, or it is private "
            f"and HF_TOKEN is not set{meant(name)}"
        ) from None
    except Exception as error:  # no connection, no answer in time, or an answer that is none
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ModelError(f"{nowhere}; the hub cannot be asked: {reason}{meant(name)}") from None
