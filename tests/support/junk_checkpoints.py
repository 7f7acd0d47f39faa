"""Checkpoints with random faults in their JSON: loading one works or raises a ModelError, at once.

`PYTHONPATH=tests .venv/bin/python -m support.junk_checkpoints [count] [seed]` tries `count` of
them; the test suite tries a sample.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.chat_families import speaker
from transformers.utils import logging

from marith.errors import ModelError
from marith.scoring.notices import collecting
from marith.scoring.registry import Registry
from marith.scoring.weights import loader
from marith.scoring.weights.loader import Placement
from marith.testing import tiny_model

FILES = ("config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json",
         "model.safetensors.index.json")  # fmt: skip
JUNK: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 10**6, 10**9, 2**63, 1e308, 0.5, "", "many", "sys", "\0", "é",
    [], [0], ["a"], [None, -1], {}, {"a": 1}, {"rope_type": "yarn"}, {"__class__": "x"}, "x" * 999,
    "float32", "llama", "gpt2", "t5", [[["global"], 3]], {"": {}}, "../../etc", "nan", float("nan"),
)  # fmt: skip


def saved(home: Path) -> None:
    """Write a valid checkpoint with two files of weights and every file that is changed."""
    model = tiny_model(vocab=258)
    model.save_pretrained(home, max_shard_size="20KB")
    speaker("none").tokenizer.save_pretrained(home)
    missing = [name for name in FILES if not (home / name).is_file()]
    assert not missing, missing


def mutated(value: Any, draw: random.Random) -> Any:
    """Return the value with one of its parts, or all of it, replaced, removed or doubled."""
    if draw.random() < 0.04 or not isinstance(value, (dict, list)) or not value:
        return draw.choice(JUNK)
    if isinstance(value, list):
        at = draw.randrange(len(value))
        return [*value[:at], mutated(value[at], draw), *value[at + draw.randint(0, 1) :]]
    key = draw.choice(list(value))
    rest = {k: v for k, v in value.items() if k != key}
    match draw.randrange(6):
        case 0:
            return rest
        case 1:
            return {**value, draw.choice(KEYS): draw.choice(JUNK)}
        case 2:
            return {**rest, key: draw.choice(list(value.values()))}
    return {**rest, key: mutated(value[key], draw)}


KEYS = (
    "rope_scaling", "rope_parameters", "layer_types", "sliding_window", "num_hidden_layers",
    "auto_map", "quantization_config", "text_config", "eos_token_id", "dtype", "torch_dtype",
    "max_position_embeddings", "attention_types", "window_size", "id2label", "chat_template",
    "added_tokens_decoder", "model_max_length", "tokenizer_class", "architectures", "use_cache",
    "_attn_implementation", "is_encoder_decoder", "tie_word_embeddings", "extra_special_tokens",
    "vocab_size", "head_dim", "transformers_version", "post_processor", "normalizer", "decoder",
)  # fmt: skip


def load(home: Path) -> None:
    """Do everything that an engine does to load a model."""
    with collecting():
        Registry(loader.language_model(str(home), Placement("cpu")))


def attempt(home: Path, draw: random.Random, use: Callable[[Path], None] = load) -> str:
    """Load a checkpoint with one to three faults. Return its error, or "" if it loads."""
    for _ in range(draw.randint(1, 3)):
        path = home / draw.choice(FILES)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        text = json.dumps(mutated(content, draw))
        if draw.random() < 0.03:
            text = text[: draw.randrange(len(text) + 1)]
        path.write_text(text, encoding="utf-8")
    try:
        use(home)
    except ModelError as error:
        assert str(error)
        assert "\n" not in str(error)
        return str(error)
    return ""


def main(count: int = 2000, seed: int = 0) -> int:
    """Try `count` checkpoints, and return how many raise another error than ModelError."""
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    wrong, slowest, refused = 0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder) / "sound"
        saved(sound)
        for number in range(seed, seed + count):
            home = Path(folder) / str(number)
            shutil.copytree(sound, home)
            started = time.perf_counter()
            try:
                refused += bool(attempt(home, random.Random(number)))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                wrong += 1
                print(f"{number}: {type(error).__name__}: {error}"[:300])
                print("".join(traceback.format_tb(error.__traceback__)[-3:]))
            took = time.perf_counter() - started
            if took > max(1.0, slowest):
                print(f"{number}: {took:.1f} s", flush=True)
            slowest = max(slowest, took)
            shutil.rmtree(home)
    print(f"{count} tried, {refused} refused, {wrong} wrong, slowest {slowest:.1f} s")
    return wrong


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
