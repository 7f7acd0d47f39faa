"""A file of a data set on the hub, brought here once."""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download

from marith.errors import RequestError
from marith.tables import FORMATS

MARK = "hub:"
KINDS = tuple(FORMATS)
_NAME = re.compile(r"[\w.-]+/[\w.-]+(/.+)?")
_MOST = 8  # files that are named


def names_dataset(data: str) -> bool:
    """Whether a text names a data set, or a file of one: `hub:owner/name/file` or without `hub:`.

    A file in a folder that is not there looks like one; what names a path does not.
    """
    if data.startswith(MARK):
        return True
    parts = data.count("/") + 1
    local = data.startswith((".", "/", "~")) or (parts == 2 and data.lower().endswith(KINDS))
    return not local and _NAME.fullmatch(data) is not None


def download(data: str) -> Path:
    """The file, downloaded unless it was before. Raises RequestError where it cannot be had."""
    name = data.removeprefix(MARK)
    if not _NAME.fullmatch(name):
        raise RequestError(f"a data set of the hub is {MARK}owner/name/file, not {data!r}")
    owner, dataset, *inner = name.split("/", 2)
    repository = f"{owner}/{dataset}"
    try:
        file = inner[0] if inner else _only(repository)
        return Path(hf_hub_download(repository, file, repo_type="dataset"))
    except RequestError:
        raise
    except Exception as error:  # the errors of its HTTP client are of many kinds
        message = next(iter(str(error).strip().splitlines()), type(error).__name__)
        problem = f"{data!r} is no file here, and cannot be had from the hub"
        raise RequestError(f"{problem}: {message}") from None


def _only(repository: str) -> str:
    """The data file of a data set that has one."""
    files = HfApi().list_repo_files(repository, repo_type="dataset")
    data = sorted(file for file in files if file.lower().endswith(KINDS))
    if len(data) != 1:
        named = ", ".join(data[:_MOST]) + (", …" if len(data) > _MOST else "") or "none"
        raise RequestError(f"name a data file of {repository!r}: {MARK}{repository}/FILE; {named}")
    return data[0]
