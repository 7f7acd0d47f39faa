"""If a step raises, only its requests fail, with an error that names it, and the engine goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.held_passes import becomes_true, hold_passes, raise_at_token, tiny_engine
from tokenizers import Regex, pre_tokenizers

import marith
from marith import Engine, Request, Sampling, Stop
from marith.engine import loop
from marith.engine.loop import EngineLoop
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

FATAL = 7  # the token "f"
LONG = Sampling(seed=3)  # draws a text of many tokens
PANIC = "a" * 60 + "b"  # what the regular expression of `panicking` gives up on


class Odd(BaseException):
    """What no `except Exception` catches."""


def panicking(**options: Any) -> Any:
    """A tokenizer whose library panics over some texts."""
    tokenizer = tiny_tokenizer(**options)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+c"), "isolated")
    return tokenizer


@pytest.mark.parametrize("error", [Odd("odd"), MemoryError("full"), SystemExit(3), OSError("gone")])
def test_an_error_of_any_kind_ends_one_request_and_no_other(error: BaseException) -> None:
    with tiny_engine() as engine:
        good = Request("a b c", "2*x - M", {"x": "q"}, Sampling(seed=4), Stop(12))
        alone = engine.submit(good).result(30).text
        hook = raise_at_token(engine, FATAL, error)
        with hold_passes(engine):
            futures = [engine.submit_scoring("a", "c f d"), engine.submit_scoring("a", "c d")]
            beside, bad = engine.submit(good), engine.submit(Request("f", stop=Stop(3)))
        for failed in (lambda: bad.result(30), lambda: futures[0].result(30)):
            with pytest.raises(marith.MarithError, match=type(error).__name__) as told:
                failed()
            assert str(error) in str(told.value)
            assert told.value.__cause__ is error
        assert beside.result(30).text == alone
        assert len(futures[1].result(30).logprobs) == 2
        hook.remove()
        assert not engine.closed
        assert engine.generate("f", sampling=Sampling(seed=1), stop=Stop(3), timeout=30).usage


def test_a_panic_of_a_classifiers_tokenizer_ends_its_own_request(tmp_path: Path) -> None:
    tiny_classifier(seed=3).save_pretrained(tmp_path)
    panicking().save_pretrained(tmp_path)
    formula = f'M + classifier("{tmp_path}", label=1, candidates=2, read_prompt=True)'
    with tiny_engine() as engine:
        beside = engine.submit(Request("a b", sampling=Sampling(seed=2), stop=Stop(300)))
        with pytest.raises(marith.MarithError, match="PanicException"):
            engine.generate(PANIC, formula, stop=Stop(2), timeout=30)
        assert beside.result(30).tokens
        assert engine.generate("a c", formula, stop=Stop(2), timeout=30).usage


@pytest.mark.parametrize(
    "ask",
    [
        lambda engine: engine.generate(PANIC, stop=Stop(2)),
        lambda engine: engine.score("a", PANIC),
        lambda engine: engine.encode(PANIC),
        lambda engine: engine.count_tokens(PANIC),
    ],
)
def test_a_panic_in_the_callers_thread_is_an_error_like_any(ask: Callable[[Engine], Any]) -> None:
    with (
        Engine.load(tiny_model(), tokenizer=panicking()) as engine,
        pytest.raises(marith.MarithError, match="PanicException"),
    ):
        ask(engine)


def test_keyboard_interrupt_is_not_turned_into_an_error_of_marith(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with tiny_engine() as engine:
        monkeypatch.setattr(PromptedScorer, "read", stop)
        with pytest.raises(KeyboardInterrupt):
            engine.generate("a")


@pytest.mark.parametrize("where", ["_sweep", "_step", "release"])
def test_a_fault_of_the_loop_itself_ends_what_runs_and_not_the_loop(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home: Any = loop if where == "release" else EngineLoop
    real, raised = getattr(home, where), threading.Event()

    def odd_once(*given: Any) -> Any:
        if raised.is_set():
            return real(*given)
        raised.set()
        raise Odd("of the loop")

    with tiny_engine() as engine:
        with hold_passes(engine) as begun:
            ticket = engine.submit(Request("a", sampling=LONG, stop=Stop(3000)))
            begun.wait(20)
            monkeypatch.setattr(home, where, odd_once)
        if where == "release":
            ticket.cancel()
        with pytest.raises(marith.MarithError, match=r"Odd: of the loop|cancelled"):
            ticket.result(30)
        assert raised.wait(20)
        assert becomes_true(lambda: engine.status().idle)
        assert engine.generate("a", sampling=Sampling(seed=1), stop=Stop(3), timeout=30).usage
        assert not engine.closed


def test_an_engine_whose_thread_ends_says_why_and_is_loaded_anew(
    tiny_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine.shared(tiny_dir, max_lanes=5)
    with hold_passes(engine) as begun:
        ticket = engine.submit(Request("a", sampling=LONG, stop=Stop(300)))
        begun.wait(20)
        monkeypatch.setattr(loop.Admission, "admit", _odd)
    with pytest.raises(marith.EngineClosed, match="Odd: of the loop"):
        ticket.result(30)
    assert becomes_true(lambda: engine.closed)
    monkeypatch.undo()
    for ask in (engine.generate, engine.next_logprobs):
        with pytest.raises(marith.EngineClosed, match="Odd: of the loop"):
            ask("a")
    with Engine.shared(tiny_dir, max_lanes=5) as anew:
        assert anew is not engine
        assert anew.generate("a", sampling=Sampling(seed=1), stop=Stop(2), timeout=30).usage


def _odd(*_: Any) -> None:
    raise Odd("of the loop")
