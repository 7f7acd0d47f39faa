"""The context length of a checkpoint before it is loaded: as after loading, or None."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marith.scoring.weights.loader import Placement, language_model
from marith.scoring.weights.locate import context_length_of
from marith.testing import FAMILIES, tiny_model


def test_the_known_context_length_is_that_of_the_loaded_model(tiny_dir: str) -> None:
    for name in ("pocket", "pocket-draft", tiny_dir):
        assert context_length_of(name) == language_model(name, Placement()).context_length


@pytest.mark.parametrize("family", FAMILIES)
def test_the_context_length_of_each_family_is_read_from_its_configuration(
    family: str, tmp_path: Path
) -> None:
    model = tiny_model(family)
    model.save_pretrained(tmp_path)
    known = getattr(model.config, "max_position_embeddings", None)
    assert context_length_of(str(tmp_path)) == known


@pytest.mark.parametrize(
    ("config", "known"),
    [
        ({"max_position_embeddings": 64}, 64),
        ({"n_positions": 32}, 32),
        ({"text_config": {"max_position_embeddings": 16}, "max_position_embeddings": 8}, 16),
        ({}, None),
        ({"max_position_embeddings": "64"}, None),
        ({"max_position_embeddings": -1}, None),
        ([64], None),
    ],
)
def test_a_configuration_is_read_as_it_is_written(
    tmp_path: Path, config: Any, known: int | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "model.safetensors").touch()
    assert context_length_of(str(tmp_path)) == known


def test_the_context_length_of_a_missing_model_is_unknown(tmp_path: Path) -> None:
    for name in ("/nowhere", "pocket-nobody", "", "nobody/has-this", "--", str(tmp_path)):
        assert context_length_of(name) is None
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    (tmp_path / "model.safetensors").touch()
    assert context_length_of(str(tmp_path)) is None


def test_a_model_of_the_hub_is_known_once_it_was_downloaded_and_without_torch(
    tmp_path: Path,
) -> None:
    home = tmp_path / "models--owner--name"
    for commit, length in (("a" * 40, 128), ("b" * 40, 256)):
        snapshot = home / "snapshots" / commit
        snapshot.mkdir(parents=True)
        config = json.dumps({"max_position_embeddings": length})
        (snapshot / "config.json").write_text(config, encoding="utf-8")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("a" * 40, encoding="utf-8")
    code = (
        "import sys, marith\n"
        "known = lambda **o: marith.Options(**o).known_context()\n"
        "assert known(model='owner/name') == 128\n"
        f"assert known(model='owner/name', revision={'b' * 40!r}) == 256\n"
        "assert known(model='owner/name', revision='c') is None\n"
        "assert known(model='owner/other') is None\n"
        "assert known(model='owner/other', context_length=9) == 9\n"
        "assert known(model='pocket') == 1024\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    place = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=place)
