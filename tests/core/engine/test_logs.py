"""What the loggers of marith record: models, threads, refusals and costs, and never a text."""

from __future__ import annotations

import logging

import pytest
from support.held_passes import hold_passes, tiny_engine

import marith
from marith import Ban, Busy, Classifier, Engine, Grammar, Plan, Request, Stop

SECRET = ("cucumber", "umbrella", "walrus", "zeppelin", "accordion")


def test_no_text_is_ever_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Prompts, system prompts, formulas' own texts, bans, grammars, errors and answers."""
    caplog.set_level(logging.DEBUG)  # of every logger there is
    terms = {
        "x": f"You are a {SECRET[0]}.",
        "C": Classifier("pocket-toxicity", label="civil"),
    }
    prompt = [
        {"role": "system", "content": f"Speak of the {SECRET[1]}."},
        {"role": "user", "content": f"Where is my {SECRET[2]}?"},
    ]
    own = f'0.6*M + 0.4*prompted("Be a {SECRET[3]}.") + 0*ngram(texts=["{SECRET[4]}"])'
    answers = []
    with Engine.load("pocket") as engine:
        answers += engine.generate([prompt, prompt], "2*x - M + 0.1*C", terms, n=2, max_tokens=6)[0]
        answers.append(engine.generate(prompt, own, max_tokens=6, logprobs=2, seed=1))
        answers.append(engine.generate(prompt, ban=Ban([SECRET[0]]), max_tokens=6, timeout=60))
        answers.append(engine.generate(prompt, grammar=Grammar.choice(list(SECRET))))
        plan = Plan.drafts("ngram(online=True)")
        answers.append(engine.generate(prompt, speculation=plan, max_tokens=6, stop=SECRET[1]))
        engine.score(prompt, SECRET[3], own)
        engine.rank(prompt, SECRET, own)
        next(iter(engine.stream(prompt, own, max_tokens=50)))
        for bad in (f"M + {SECRET[0]}", f'M + prompted("{SECRET[1]}", mode="no")'):
            with pytest.raises(marith.FormulaError):
                engine.generate(prompt, bad)
        with pytest.raises(marith.ContextOverflow):
            engine.generate(f"{SECRET[4]} " * 2000)
        with hold_passes(engine), pytest.raises(marith.DeadlineExceeded):
            engine.generate(prompt, own, timeout=0.05)
    ours = [record for record in caplog.records if record.name.partition(".")[0] == "marith"]
    assert len(ours) > 10
    texts = [*SECRET, *(answer.text.strip() for answer in answers if len(answer.text) > 3)]
    for record in ours:
        shown = logging.Formatter().format(record)  # a traceback is part of it
        assert not [text for text in texts if text in shown], shown


def test_factors_that_are_too_large_are_logged_once_and_said_to_each_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    terms = {"loud": f"Be a {SECRET[0]}."}
    with caplog.at_level(logging.WARNING, "marith"), Engine.load("pocket") as engine:
        loud = [engine.generate("Hi.", "6*loud - 5*M", terms, max_tokens=1) for _ in range(3)]
        usual = engine.generate("Hi.", "2*loud - M", terms, max_tokens=1)
        own = f'5*prompted("Be a {SECRET[1]}.") - 4*M'
        quoted = engine.generate("Hi.", own, max_tokens=1)
    first, second = [record.getMessage() for record in caplog.records]
    assert [answer.warnings for answer in loud] == [(first,)] * 3, "each caller should know"
    assert (usual.warnings, quoted.warnings) == ((), (second,))
    assert first.startswith("6*loud - 5*M: loud counts 6 times; beyond 2.5 times texts often")
    assert '5*prompted("…") - 4*M: ' in second
    assert not [text for text in SECRET if text in first + second]


class Raising(logging.Filter):
    """A filter of the application's that fails at every record that has been formatted."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise ZeroDivisionError(record.getMessage())


def test_a_filter_that_raises_neither_ends_an_engine_nor_replaces_busy(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logger, refusing = logging.getLogger("marith.engine.loop"), Raising()
    caplog.set_level(logging.INFO, logger.name)
    logger.addFilter(refusing)
    try:
        with tiny_engine(max_lanes=1, max_queue=0) as engine:
            assert engine.generate("a", max_tokens=2, timeout=20).finish_reason
            with hold_passes(engine) as begun:
                running = engine.submit(Request("a", stop=Stop(2)))
                begun.wait(20)
                with pytest.raises(Busy):
                    engine.submit(Request("b", stop=Stop(2)))
                running.cancel()
    finally:
        logger.removeFilter(refusing)
    assert capfd.readouterr().err.count("ZeroDivisionError: ") == 2
