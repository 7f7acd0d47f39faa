"""Where the files of a checkpoint are, what its configuration says of it, and what the hub has.

Read without torch, but for GGUF files; only `require_on_hub`, and what uses it, needs the network.
"""

from __future__ import annotations

import json
import re
from os import PathLike
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from marith.errors import ModelError, similar
from marith.scoring.weights.gguf_header import file_parts, read_header

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
# What tokenizers are saved in: one file of `tokenizers`, or those of older kinds.
_TOKENIZERS = ("tokenizer.json", "*.model", "vocab*", "merges.txt", "tekken.json", "*.tiktoken")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_HUB_ADDRESS = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+).*")
_HUB_FILE = re.compile(r"([\w.-]+/[\w.-]+):([\w./-]+\.gguf)")
_HUB_TAG = re.compile(r"[\w.-]+/[\w.-]+:[\w.-]+")
_OLLAMA = re.compile(r"([\w.-]+/)?[\w.-]+:[\w.-]+")
_CONTEXT = ("max_position_embeddings", "n_positions")  # the second as GPT-2 and its kin write it
SECONDS = 5.0  # for one answer of the hub; a download may take longer


def locate(name: str | PathLike[str]) -> str:
    """The directory, GGUF file or hub id behind a name; "owner/name:file.gguf" is one on the hub.

    Raises ModelError before anything is loaded.
    """
    if isinstance(name, PathLike):
        name = str(Path(name).absolute())
    if not isinstance(name, str) or not name:
        raise ModelError(f"a model is a name, a directory or a hub id, not {name!r}")
    path = WEIGHTS / EMBEDDED[name] if name in EMBEDDED else Path(name).expanduser()
    if name in ADAPTERS and not path.is_dir():
        raise _is_adapter(name)
    ours = name.startswith("pocket") and not name.lower().endswith(GGUF)
    if ours and name not in EMBEDDED and not path.is_dir():
        raise ModelError(f"no model in the package is called {name!r}; there are {_listed()}")
    if path.is_dir():
        _require_model(path)
        return str(path.resolve())
    if path.suffix.lower() == GGUF and (path.is_file() or ":" not in name):
        if not path.is_file():
            raise ModelError(f"there is no file {name!r}{meant(name)}")
        return str(path.resolve())
    if path.is_file():
        raise ModelError(
            f"{name!r} names a file; a model is a directory with config.json and safetensors, "
            "a GGUF file, or the hub id of a model"
        )
    _require_id(name)
    return name


def _require_id(name: str) -> None:
    """Raises ModelError for what names neither a model on the hub nor a file there."""
    if _HUB_FILE.fullmatch(name):
        return
    if address := _HUB_ADDRESS.fullmatch(name):
        raise ModelError(f"a model on the hub is named by its id: write {address[1]!r}")
    if _HUB_TAG.fullmatch(name):
        raise ModelError(
            f"a GGUF file on the hub is named by its own name behind a colon, such as "
            f"'{name.partition(':')[0]}:model-Q4_K_M.gguf', not {name!r}"
        )
    if _OLLAMA.fullmatch(name):
        raise ModelError(
            f"{name!r} is a name of Ollama's; a hub id names the same model by its owner, such as "
            "'meta-llama/Llama-3.2-3B-Instruct'"
        )
    if name in EMBEDDED or name.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(name):
        raise ModelError(f"there is no model directory {name!r}{meant(name)}")
    if "/" not in name and downloaded(name) is None and (hint := meant(name)):
        raise ModelError(f"there is no model {name!r}{hint}")


def gguf_file(where: str, revision: str | None = None) -> Path | None:
    """The GGUF file on this machine behind what `locate` returned; None for what is no such file.

    Of the hub's cache where it is one of the hub's: whoever loads it downloads it before.
    """
    if not where.lower().endswith(GGUF):
        return None
    if match := _HUB_FILE.fullmatch(where):
        return downloaded(match[1], revision, match[2])
    path = Path(where).expanduser()
    return path if path.is_file() else None


def hub_file(where: str) -> tuple[str, str] | None:
    """The id and the file of a GGUF file on the hub."""
    match = _HUB_FILE.fullmatch(where)
    return (match[1], match[2]) if match else None


def _require_model(path: Path) -> None:
    """Raises ModelError for a directory without a model that can be loaded."""
    if not (path / "config.json").is_file():
        if (path / ADAPTER_CONFIG).is_file():
            raise _is_adapter(str(path))
        files = sorted(path.glob(f"*{GGUF}"))
        which = "its GGUF file" if len(files) == 1 else f"one of its {len(files)} GGUF files"
        instead = f"; {str(files[0])!r} names {which}" if files else ""
        problem = f"the directory {str(path)!r} holds no model: it has no config.json"
        raise ModelError(problem + instead)
    if not list(path.glob("*.safetensors")):
        pickled = next(path.glob("*.bin"), None)
        advice = "marith reads no pickles, and transformers' save_pretrained writes safetensors"
        reason = f"; {pickled.name} is a pickle: {advice}" if pickled else ""
        raise ModelError(f"the directory {str(path)!r} holds no weights as safetensors{reason}")


def _is_adapter(name: str) -> ModelError:
    use = f"in formulas over its base model it is prompted(adapter={name!r})"
    return ModelError(f"{name!r} is a LoRA adapter and no model; {use}")


def require_tokenizer(name: str, path: Path) -> None:
    """Raises ModelError for a directory without any file of a tokenizer."""
    if path.is_dir() and not any(found for kind in _TOKENIZERS for found in path.glob(kind)):
        saved = f"tokenizer.save_pretrained({name!r})"
        raise ModelError(f"the directory {name!r} has no tokenizer; {saved} writes one")


def meant(name: str) -> str:
    """The end of an error about a model's name: what is similar to it on this machine, if any."""
    near = _near(name)
    return f"; did you mean {near!r}?" if near else ""


def _near(name: str) -> str | None:
    """The embedded model, or the directory beside the one that is named, of a similar name."""
    path = Path(name).expanduser()
    try:
        folders = [str(p) for p in path.parent.iterdir() if (p / "config.json").is_file()]
    except OSError:
        folders = []
    return similar(name, EMBEDDED, 0.75) or similar(name, folders, 0.75)


def is_here(name: str) -> bool:
    """Whether a name is that of a model in the package, a path, or one in the hub's cache."""
    if name.lower().endswith(GGUF) and gguf_file(name) is not None:
        return True
    return name in EMBEDDED or Path(name).expanduser().is_dir() or downloaded(name) is not None


def context_length_of(name: str, revision: str | None = None) -> int | None:
    """How many tokens a model reads at most, as its files on this machine say.

    None where there are none, or where they do not say.
    """
    try:
        where = locate(name)
        if where.lower().endswith(GGUF):
            stated = (found := gguf_file(where, revision)) and read_header(found)
            return None if not stated else stated.number("context_length")
        home = Path(where)
        file = home / "config.json" if home.is_dir() else downloaded(where, revision)
        config = {} if file is None else json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the loader says what is wrong with it
        return None
    return _context(config)


def downloaded(name: str, revision: str | None = None, file: str = "config.json") -> Path | None:
    """A file of a hub model, if it was downloaded before."""
    try:
        path = try_to_load_from_cache(name, file, revision=revision)
    except HFValidationError:
        return None
    return Path(path) if isinstance(path, str) else None


def _context(config: Any) -> int | None:
    """The context in a configuration, or in that of its text where it reads images too."""
    if not isinstance(config, dict):
        return None
    text = config.get("text_config")
    source = text if isinstance(text, dict) else config
    lengths = [source[key] for key in _CONTEXT if isinstance(source.get(key), int)]
    return int(lengths[0]) if lengths and lengths[0] > 0 else None


def _listed() -> str:
    return ", ".join(EMBEDDED)


def require_on_hub(name: str, revision: str | None = None, file: str = "config.json") -> None:
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


def require_file(name: str, where: str, revision: str | None = None) -> None:
    """Raises ModelError for a file of the hub's that is nowhere, and for a file with a revision."""
    on_hub = hub_file(where)
    if on_hub is not None:
        require_on_hub(on_hub[0], revision, on_hub[1])
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
