"""Find the files of a checkpoint, read its context length, and ask the hub for a model.

torch is not imported, except for GGUF files. Only `require_on_hub` and its callers need the
network.
"""

from __future__ import annotations

import json
import re
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import huggingface_hub
from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from marith.errors import ModelError, suggestion
from marith.scoring.weights.gguf.gguf_header import file_parts, read_header

WEIGHTS = Path(__file__).parents[2] / "pocket" / "weights"
EMBEDDED = {
    "pocket": "pocket",
    "pocket-draft": "pocket-draft",
    "pocket-toxicity": "toxicity",
    "pocket-sentiment": "sentiment",
    "pocket-formality": "formality",
    "pocket-education": "education",
}
ADAPTERS = {"pocket-polite": "polite", "pocket-rude": "rude"}
ADAPTER_CONFIG = "adapter_config.json"
GGUF = ".gguf"
# A tokenizer is the one file of `tokenizers`, or files of older kinds.
_TOKENIZERS = ("tokenizer.json", "*.model", "vocab*", "merges.txt", "tekken.json", "*.tiktoken")
FileTimes: TypeAlias = "tuple[tuple[str, int, int], ...]"
HUB_ID = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
HUB_FILE = re.compile(r"([\w.-]+/[\w.-]+):([\w./-]+\.gguf)")
_NAMES = (
    "a model is named by a directory, a GGUF file, a hub id such as 'owner/name', or a GGUF file "
    "on the hub such as 'owner/name:file.gguf'"
)
# GPT-2 and similar models have the second key.
_CONTEXT = ("max_position_embeddings", "n_positions")
# The hub may take this number of seconds for one answer. A download may take longer.
SECONDS = 5.0


def file_times(name: str | None) -> FileTimes:
    """Return the name, the modification time and the size of each file at a path.

    The path is a file, or the folder of a model or an adapter. If a file is written again, the
    result differs. Return () for a name that is not a path, and for files that cannot be examined,
    such as files that another program replaces just now: reading them raises its own error.
    """
    if name is None or name in EMBEDDED or name in ADAPTERS:
        return ()
    try:
        path = Path(name).expanduser()
        files = path.iterdir() if path.is_dir() else [path]
        found = [(file.name, file.stat()) for file in files]
    # The path may have a broken link, a null character, or the home of an unknown user.
    except (OSError, ValueError, RuntimeError):
        return ()
    return tuple(sorted((file, seen.st_mtime_ns, seen.st_size) for file, seen in found))


def locate(name: str | PathLike[str]) -> str:
    """Return the directory, GGUF file or hub id behind a name.

    "owner/name:file.gguf" is a GGUF file on the hub. Raises ModelError before anything is loaded.
    """
    if isinstance(name, PathLike):
        name = str(Path(name).absolute())
    if not isinstance(name, str) or not name:
        raise ModelError(f"a model is a name, a directory or a hub id, not {name!r}")
    path = WEIGHTS / EMBEDDED[name] if name in EMBEDDED else Path(name).expanduser()
    if name in ADAPTERS and not path.is_dir():
        raise _is_adapter(name)
    # Different paths of one folder or file name the same checkpoint, so the result is resolved.
    if path.is_dir():
        _require_model(path)
        return str(path.resolve())
    is_gguf = path.suffix.lower() == GGUF
    if is_gguf and path.is_file():
        return str(path.resolve())
    may_be_on_hub = HUB_FILE if is_gguf else HUB_ID
    if path.is_file() or not may_be_on_hub.fullmatch(name):
        raise ModelError(f"there is no model {name!r}; {_NAMES}")
    return name


def gguf_file(where: str, revision: str | None = None) -> Path | None:
    """Return the GGUF file on this machine behind a result of `locate`, or None.

    A file of the hub is looked up in the hub's cache only: the loader has downloaded it before.
    """
    if not where.lower().endswith(GGUF):
        return None
    if match := HUB_FILE.fullmatch(where):
        return downloaded(match[1], revision, match[2])
    path = Path(where).expanduser()
    return path if path.is_file() else None


def _require_model(path: Path) -> None:
    """Raise ModelError for a directory without a model that can be loaded."""
    if not (path / "config.json").is_file():
        if (path / ADAPTER_CONFIG).is_file():
            raise _is_adapter(str(path))
        files = sorted(path.glob(f"*{GGUF}"))
        instead = f"; a GGUF file in it is {str(files[0])!r}" if files else ""
        problem = f"the directory {str(path)!r} holds no model: it has no config.json"
        raise ModelError(problem + instead)
    if not list(path.glob("*.safetensors")):
        pickled = next(path.glob("*.bin"), None)
        advice = "marith reads no pickles, and transformers' save_pretrained writes safetensors"
        reason = f"; {pickled.name} is a pickle: {advice}" if pickled else ""
        raise ModelError(f"the directory {str(path)!r} holds no weights as safetensors{reason}")


def _is_adapter(name: str) -> ModelError:
    use = f"in formulas over its base model it is prompted(adapter={name!r})"
    return ModelError(f"{name!r} is a LoRA adapter, not a model; {use}")


def tokenizer_home(where: str) -> str:
    """Return the place of a located model's tokenizer. Embedded classifiers use pocket's."""
    inside = Path(where).parent == WEIGHTS.resolve()
    has_own = not inside or (Path(where) / "tokenizer.json").is_file()
    return where if has_own else str(WEIGHTS / EMBEDDED["pocket"])


def require_tokenizer(name: str, path: Path) -> None:
    """Raise ModelError for a directory without a tokenizer file."""
    if path.is_dir() and not any(found for kind in _TOKENIZERS for found in path.glob(kind)):
        saved = f"tokenizer.save_pretrained({name!r})"
        raise ModelError(f"the directory {name!r} has no tokenizer; {saved} writes one")


def is_here(name: str) -> bool:
    """Return True if a name is an embedded model, a local path, or a model in the hub's cache."""
    if name.lower().endswith(GGUF) and gguf_file(name) is not None:
        return True
    return name in EMBEDDED or Path(name).expanduser().is_dir() or downloaded(name) is not None


def context_length_of(name: str, revision: str | None = None) -> int | None:
    """Return the context length of a model, from its files on this machine.

    Return None if there are no files, or if they do not state the length.
    """
    try:
        where = locate(name)
        if where.lower().endswith(GGUF):
            stated = (found := gguf_file(where, revision)) and read_header(found)
            return None if not stated else stated.number("context_length")
        home = Path(where)
        file = home / "config.json" if home.is_dir() else downloaded(where, revision)
        config = {} if file is None else json.loads(file.read_text(encoding="utf-8"))
    # The loader reports the problem.
    except (OSError, ValueError, RecursionError):
        return None
    return _context(config)


def downloaded(name: str, revision: str | None = None, file: str = "config.json") -> Path | None:
    """Return the path of a hub model's file in the hub's cache, or None."""
    try:
        path = try_to_load_from_cache(name, file, revision=revision)
    except HFValidationError:
        return None
    return Path(path) if isinstance(path, str) else None


def _context(config: Any) -> int | None:
    """Return the context length of a configuration, or None.

    For a model that also reads images, the configuration of its text part has the length.
    """
    if not isinstance(config, dict):
        return None
    text = config.get("text_config")
    source = text if isinstance(text, dict) else config
    lengths = [source[key] for key in _CONTEXT if isinstance(source.get(key), int)]
    return int(lengths[0]) if lengths and lengths[0] > 0 else None


def require_on_hub(name: str, revision: str | None = None, file: str = "config.json") -> None:
    """Raise ModelError unless a name is a path, or a model on the hub or in its cache.

    Without this check transformers would try again for a minute. A model is in the cache if its
    `file` is there. The hub is not asked if HF_HUB_OFFLINE is set, or if the name resembles the
    name of an embedded model. Also raises ModelError for a path with a revision.
    """
    path = Path(name)
    if path.is_dir() or (path.is_file() and name.lower().endswith(GGUF)):
        if revision is not None:
            problem = f"revision={revision!r} applies to models on the hub"
            raise ModelError(f"{problem}, and {name!r} is on this machine; leave out revision")
        return
    if downloaded(name, revision, file) is not None:
        return
    nowhere = f"there is no directory {name!r}, and nothing of this name in the hub's cache"
    offline = "; HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
    hint = suggestion(name, EMBEDDED if file == "config.json" else ADAPTERS, cutoff=0.75)
    if offline or (hint and "/" not in name):
        raise ModelError(f"{nowhere}{offline}{hint}")
    try:
        HfApi().model_info(name, revision=revision, timeout=SECONDS)
    except GatedRepoError:
        # The error of the download says what to do.
        return
    except RevisionNotFoundError:
        raise ModelError(f"the hub's model {name!r} has no revision {revision!r}") from None
    except RepositoryNotFoundError:
        raise ModelError(
            f"there is no directory {name!r}, and no model {name!r} on the hub, or it is private "
            f"and HF_TOKEN is not set{hint}"
        ) from None
    # There is no connection, or the answer is late or invalid.
    except Exception as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ModelError(f"{nowhere}; the hub cannot be reached: {reason}{hint}") from None


def local_file(name: str, where: str, revision: str | None = None) -> Path:
    """Return the path of a file on this machine, or of the first file of a model in several files.

    A file on the hub is downloaded. Raises ModelError if that fails.
    """
    on_hub = HUB_FILE.fullmatch(where)
    if on_hub is None:
        require_on_hub(where, revision)
        return Path(where)
    repository, file = on_hub.groups()
    require_on_hub(repository, revision, file)
    try:
        found = [
            huggingface_hub.hf_hub_download(repository, part, revision=revision)
            for part in file_parts(file)
        ]
    except (OSError, ValueError, HfHubHTTPError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"cannot find {name!r} on the hub: {first}") from error
    # The reader finds the other parts by the name of the first.
    return Path(found[0])
