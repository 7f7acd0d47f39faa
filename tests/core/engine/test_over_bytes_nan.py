"""Over bytes too, NaN ends the request from which it came, and no other request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.byte_models import byte_model
from support.held_passes import beside_nan, model_of, nan_at_token, scorer_of

from marith import Engine, Request, Sampling, Stop
from marith.errors import ModelError

# The token of the byte "Q", which no other token has.
FATAL = byte_model("byte level").data.index(b"Q")
GOOD = Request("the cat sat", "M", {}, Sampling(seed=4), Stop(8))
SPOILED = Request("the Q th", "M", {}, Sampling(seed=4), Stop(8))


@pytest.fixture
def engine() -> Iterator[Engine]:
    model = byte_model("byte level")
    with Engine.load(model.model, tokenizer=model.tokenizer, over="bytes") as engine:
        yield engine


def test_nan_of_one_text_ends_its_request_only(engine: Engine) -> None:
    alone, wanted = (engine.submit(one).result(30).tokens for one in (GOOD, SPOILED))
    scorer_of(engine).forget()
    hook = nan_at_token(engine, FATAL)
    assert beside_nan(engine, SPOILED, GOOD).tokens == alone
    hook.remove()
    assert engine.submit(SPOILED).result(30).tokens == wanted


@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_text_is_read_again_after_another_text_of_a_pass_with_nan(
    engine: Engine, at: int
) -> None:
    """The first text that is found to have NaN fails. For the other one, nothing is kept of it."""
    alone = engine.submit(GOOD).result(30).tokens
    scorer_of(engine).forget()
    passes = 0

    def spoil(_: Any, __: Any, embedded: torch.Tensor) -> torch.Tensor:
        nonlocal passes
        passes += 1
        return embedded * torch.nan if passes == at else embedded

    hook = model_of(engine).get_input_embeddings().register_forward_hook(spoil)
    assert beside_nan(engine, GOOD, GOOD).tokens == alone
    hook.remove()


def test_nan_of_a_query_is_an_error(engine: Engine) -> None:
    nan_at_token(engine, FATAL)
    with pytest.raises(ModelError, match="NaN"):
        engine.submit_scoring("the cat", " sat Q then").result(30)
    assert (
        torch.tensor(engine.submit_scoring("the cat", " sat").result(30).logprobs).isfinite().all()
    )
