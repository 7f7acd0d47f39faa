"""Names of models on a server, defaults of their files, and the log of probes."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from support.http_server import CHAT, client, served, wait_until

from marith import RequestError
from marith.scoring.weights.locate import WEIGHTS
from marith.serving.served_models import named_options, shown_name
from marith.serving.server_settings import ServerSettings, ServingLimits

SHORT = """
[model]
max_tokens = 3
[formulas]
brief = { formula = "M", max_tokens = 2 }
"""


def test_max_tokens_of_a_file_is_a_default_and_not_a_limit(tmp_path: Path) -> None:
    limits = ServingLimits(tokens=9)
    with served(tmp_path, limits, SHORT) as server, client(server) as web:
        for model, most, wanted in (
            ("pocket", None, 3), ("brief", None, 2), ("pocket", 6, 6), ("brief", 6, 6),
            ("brief", 1, 1), ("brief", 100_000, 9),
        ):  # fmt: skip
            body = {"model": model, "messages": CHAT, "ignore_eos": True}
            asked = {} if most is None else {"max_tokens": most}
            told = web.post("/v1/chat/completions", json={**body, **asked}).json()
            assert told["usage"]["completion_tokens"] == wanted
            assert ("marith" in told) is (most == 100_000)  # the server's own bound is said


@pytest.fixture
def model(tmp_path: Path) -> Path:
    shutil.copytree(WEIGHTS / "pocket", tmp_path / "models" / "my-model")
    return tmp_path / "models" / "my-model"


def test_a_model_of_a_directory_has_its_name_and_no_path(tmp_path: Path, model: Path) -> None:
    with served(tmp_path, model=str(model)) as server, client(server) as web:
        listed = web.get("/v1/models")
        assert str(tmp_path) not in listed.text
        assert [(one["id"], one["parent"]) for one in listed.json()["data"]] == [
            ("my-model", None), ("polite", "my-model"),
        ]  # fmt: skip
        body = {"model": "my-model", "messages": CHAT, "max_tokens": 1}
        assert web.post("/v1/chat/completions", json=body).json()["model"] == "my-model"


def test_a_name_can_be_given_to_the_model(tmp_path: Path, model: Path) -> None:
    file = tmp_path / "marith.toml"
    file.write_text('[formulas]\nloud = "2*M"\n', encoding="utf-8")
    found = named_options(ServerSettings(file, str(model), name="mine"))
    assert {name: parent for name, (_, parent) in found.items()} == {"mine": None, "loud": "mine"}
    with pytest.raises(RequestError, match=r"'loud' is the name of a formula.*--name"):
        named_options(ServerSettings(file, str(model), name="loud"))


def test_every_formula_of_a_file_runs_where_the_server_is_told(tmp_path: Path, model: Path) -> None:
    file = tmp_path / "marith.toml"
    file.write_text('[model]\ndtype = "float32"\n[formulas]\nloud = "2*M"\n', encoding="utf-8")
    placement = {"dtype": "bfloat16", "device": None, "revision": None, "over": "bytes"}
    found = named_options(ServerSettings(file, str(model), placement=placement))
    options = [each for each, _ in found.values()]
    assert [(each.dtype, each.over) for each in options] == [("bfloat16", "bytes")] * 2


def test_names_that_are_no_paths_stay() -> None:
    for name in ("pocket", "owner/model", "owner/model:file-Q4.gguf"):
        assert shown_name(name) == name
    assert shown_name("/data/models/model.Q4_K_M.gguf") == "model.Q4_K_M"


def test_probes_write_no_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        served(tmp_path) as server,
        client(server) as web,
        caplog.at_level(logging.INFO, "marith.serving"),
    ):
        for path in ("/health", "/ready", "/v1/models"):
            assert web.get(path).status_code == 200
        wait_until(lambda: "/v1/models" in caplog.text)
    assert "/health" not in caplog.text
    assert "/ready" not in caplog.text
