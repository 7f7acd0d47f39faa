"""A model over several devices, here the memory and the disk, is the model on one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marith import Engine, ModelError, Prompted, Sampling, Stop
from marith.options.options import Options
from marith.scoring.weights.locate import WEIGHTS
from marith.testing import passes_of

CHAT = [{"role": "user", "content": "Tell me of your day."}]
TERMS: dict[str, Any] = {
    "rude": "You are rude.",
    "polite": Prompted(adapter="pocket-polite"),
    "early": Prompted(exit_layer=3),
}
pytestmark = pytest.mark.filterwarnings("ignore")  # accelerate's own


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spread") / "pocket"
    shutil.copytree(WEIGHTS / "pocket", folder)
    return folder


@pytest.fixture(scope="module")
def spread(home: Path) -> Iterator[Engine]:
    with Engine.load(home, device="auto", dtype="float32", max_memory={"cpu": "18MB"}) as engine:
        passes: Any = passes_of(engine)
        assert {*map(str, passes.model.hf_device_map.values())} == {"cpu", "disk"}
        yield engine


@pytest.mark.parametrize(
    "formula", ["M", "M - 0.5*rude", "polite", "early", "2*M - early + polite"]
)
def test_every_term_is_as_on_one_device(spread: Engine, formula: str) -> None:
    rows = [one.next_logprobs(CHAT, formula, TERMS) for one in (spread, Engine.shared("pocket"))]
    assert float((rows[0] - rows[1]).abs().max()) <= 2e-4


def test_texts_are_as_on_one_device(spread: Engine) -> None:
    asked = ("M - 0.5*rude", TERMS, Sampling(temperature=0), Stop(12))
    texts = [one.generate(CHAT, *asked).tokens for one in (spread, Engine.shared("pocket"))]
    assert texts[0] == texts[1]
    futures = [spread.submit_scoring(CHAT, f"{i} dogs", *asked[:2]) for i in range(6)]
    wanted = [Engine.shared("pocket").score(CHAT, f"{i} dogs", *asked[:2]) for i in range(6)]
    for future, scores in zip(futures, wanted, strict=True):
        assert future.result().logprobs == pytest.approx(scores, abs=2e-4)


def test_options_carry_the_limits(home: Path) -> None:
    options = Options(
        model=str(home), device="auto", dtype="float32", max_memory={"cpu": "18MB"}, max_tokens=2
    )
    assert options.submit(CHAT).result().tokens
    assert options.model_dump()["max_memory"] == {"cpu": "18MB"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_memory": {"cpu": "18MB"}}, "max_memory limits what device='auto' may take"),
        ({"device": "auto", "max_memory": "18MB"}, "max_memory must be a table of devices"),
        ({"device": "auto", "max_memory": {"cpu": "much"}}, "not in a valid format"),
        ({"device": "auto", "backend": "llama.cpp"}, "backend='llama.cpp' computes on one device"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    options: Any, problem: str, home: Path
) -> None:
    with pytest.raises(ModelError, match=problem):
        Engine.load(home, **options)
