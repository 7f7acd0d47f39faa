"""Untrusted text: hostile formulas are refused, and harmless formulas are answered."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from support.hostile_formulas import corpus

import marith
from marith import Engine, FormulaError, MarithError, Prompted, Request, Sampling, Stop
from marith.formula.text.calls import CALLS as CALLABLE
from marith.recipes import RECIPES

HOSTILE = list(corpus())
SCORING = Path(marith.__file__).parent / "scoring"
LOADING = {str(path) for path in SCORING.glob("*.py")}  # the only room with models in it
OWN = {
    **dict.fromkeys(("a", "kind", "expert"), Prompted("You are kind and polite.")),
    **dict.fromkeys(("b", "rude", "anti"), Prompted("You are rude. Insult everyone.")),
    "blind": Prompted(hide="cake"),
    "polite": Prompted(adapter="pocket-polite"),
    "C": marith.Classifier("pocket-toxicity", label="civil", candidates=5),
    "A": marith.NGram(order=3, online=True),
}
CALLS = {
    "adaptive_context_aware": "adaptive_context_aware(M, blind)",
    "cfg": "cfg(a, b, 1.5)",
    "cocoa": "cocoa(M, blind)",
    "cognac": "cognac(M, a, b)",
    "context_aware": "context_aware(M, blind, 0.5)",
    "contrastive": "contrastive(M, b)",
    "cp_fused": "cp_fused(a, b)",
    "dexperts": "dexperts(M, expert, anti, 2)",
    "dola": "dola(M, 0, 1)",
    "ensemble": "ensemble(M, a, b)",
    "fudge": "fudge(M, C)",
    "gedi": "gedi(M, a, b)",
    "genarm": "genarm(M, polite)",
    "in_context_mixture": "in_context_mixture(M, a, b)",
    "negative_prompt": "negative_prompt(M, rude)",
    "nudged": "nudged(M, a)",
    "preadd": "preadd(M, rude)",
    "proxy_tuned": "proxy_tuned(M, polite, M, 0.5)",
    "reward_guided": "reward_guided(M, C)",
    "safe_decoded": "safe_decoded(M, a)",
    "self_debiased": "self_debiased(M, rude)",
    "system_strength": "system_strength(M, a, 1.5)",
    "union_detox": "union_detox(M, rude)",
    "unlearned": "unlearned(M, b)",
}
AROUND = (
    "{}", "0.5*{} + 0.5*M", "M + 0.2*({} - a)", "({}).top_k(50)", "where(first(2), {}, M)",
    "({})/2", "mixture(0.5, {}, 0.5, uniform())", '{} + 0.3*prompted("You are brief.")',
)  # fmt: skip
PLAIN = (
    "M", "t", "M + 0.5*t", "M - 0.9*union(rude, t)", "intersection(a, t)", "supersede(A, M + t)",
    "M + jsd(M, a)*(a - M)", "M + decay(8)*(kind - M)", 'prompted("Be brief.", mode="replace")',
    "M.top_p(0.9) + polite", "M + uniform()", "M + 0.04*C",
)  # fmt: skip
HARMLESS = [*PLAIN, *(around.format(call) for call in CALLS.values() for around in AROUND)]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.shared("pocket")


def ways(engine: Engine, allowed: Collection[str] = ()) -> list[Callable[[Any, Any], Any]]:
    """Every way to ask, with text that is not trusted."""
    no: dict[str, Any] = {"trusted": False, "allowed": allowed}
    return [
        lambda formula, terms: marith.parse(formula, terms, **no),
        lambda formula, terms: engine.generate("Hi", formula, terms, **no),
        lambda formula, terms: engine.stream("Hi", formula, terms, **no),
        lambda formula, terms: engine.next_logprobs("Hi", formula, terms, **no),
        lambda formula, terms: engine.score("Hi", "a", formula, terms, **no),
        lambda formula, terms: engine.submit_scoring("Hi", "a", formula, terms, **no),
        lambda formula, terms: engine.submit(Request("Hi", formula, terms, **no)),
    ]


WATCHED: list[str] = []
watching = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if watching and (event == "open" or event.startswith(("socket", "os.listdir", "os.scandir"))):
        WATCHED.append(f"{event} {arguments}")


@pytest.fixture
def watched() -> Iterator[list[str]]:
    """What is opened, asked of the system, or entered of what locates and loads, meanwhile."""
    global watching

    def enter(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename in LOADING:
            WATCHED.append(f"{frame.f_code.co_filename}: {frame.f_code.co_name}")

    with pytest.raises(MarithError):
        marith.parse("x y", {}, trusted=False)  # all that is needed is imported
    sys.addaudithook(_audit)
    WATCHED.clear()
    watching = True
    sys.setprofile(enter)
    yield WATCHED
    sys.setprofile(None)
    watching = False


def test_hostile_text_is_refused_and_nothing_is_opened(engine: Engine, watched: list[str]) -> None:
    assert len(HOSTILE) >= 300
    asked = ways(engine)
    for i, (formula, terms) in enumerate(HOSTILE):
        with pytest.raises(MarithError) as refused:
            asked[i % len(asked)](formula, terms)
        problem, *caret = str(refused.value).split("\n")
        assert problem, formula
        assert not caret or set(caret[-1]) <= {" ", "^"}, formula
    assert watched == []


@pytest.mark.parametrize("ask", ["agenerate", "astream"])
async def test_hostile_text_is_refused_where_it_is_awaited(engine: Engine, ask: str) -> None:
    for formula, terms in HOSTILE[::40]:
        answer = getattr(engine, ask)("Hi", formula, terms, trusted=False)
        with pytest.raises(MarithError):
            await (answer if asyncio.iscoroutine(answer) else anext(answer))


def test_hostile_text_is_refused_in_milliseconds(
    engine: Engine, request: pytest.FixtureRequest
) -> None:
    gc.collect()
    gc.disable()  # a search through all that the other tests have loaded is no text's fault
    request.addfinalizer(gc.enable)
    for formula, terms in HOSTILE:
        started = time.thread_time()
        with pytest.raises(MarithError):
            Request("Hi", formula, terms, trusted=False)
        assert time.thread_time() - started < 0.05, (formula, terms)


def test_every_recipe_is_tested_as_harmless_text() -> None:
    assert CALLS.keys() == RECIPES.keys()
    assert len(HARMLESS) >= 200


def test_harmless_text_is_answered(engine: Engine) -> None:
    """All of it is taken, and a third of it is computed."""
    terms = {**OWN, "t": "You are a pirate."}
    for formula in HARMLESS:
        Request("Do you like my cake?", formula, terms, trusted=False)
    for formula in HARMLESS[::3]:
        told = engine.next_logprobs("Do you like my cake?", formula, terms, trusted=False)
        assert float(told.exp().sum()) == pytest.approx(1, abs=1e-3), formula


def test_untrusted_text_gives_the_same_answer_as_trusted_text(engine: Engine) -> None:
    for formula in ("M + 0.5*t", "cfg(t, rude)", 'prompted("Be brief.") + M'):
        given = {"formula": formula, "terms": {**OWN, "t": "You are a pirate."}, "stop": Stop(4)}
        given["sampling"] = Sampling(seed=1)
        one, other = (engine.generate("Hi", **given, trusted=told) for told in (True, False))
        assert one.tokens == other.tokens


@pytest.mark.parametrize(
    ("formula", "terms", "caret"),
    [
        ('M + ngram("/etc/passwd")', {}, 'ngram("/etc/passwd")'),
        ('M + prompted("x", model="/m")', {}, '"/m"'),
        ('M + prompted("x", "append", "h")', {}, '"h"'),
    ],
)
def test_the_caret_is_under_the_forbidden_part(
    formula: str, terms: dict[str, str], caret: str
) -> None:
    with pytest.raises(FormulaError) as refused:
        marith.parse(formula, terms, trusted=False)
    _, quoted, marks = str(refused.value).split("\n")
    assert quoted[marks.index("^") :][: marks.count("^")] == caret


def test_a_refusal_does_not_reveal_whether_a_file_exists() -> None:
    def told(path: str) -> str:
        with pytest.raises(FormulaError) as refused:
            marith.parse(f'ngram("{path}")', {}, trusted=False)
        return refused.value.problem

    assert told("/etc/passwd") == told("/no/such") == told("/etc")


def test_objects_and_the_names_of_the_application_are_not_restricted(engine: Engine) -> None:
    formula = 0.5 * marith.Prompted(template="plain") + marith.parse("blind + t")
    engine.next_logprobs("Hi", formula, {**OWN, "t": "Be kind."}, trusted=False)
    with pytest.raises(FormulaError, match="name 'M' belongs to the application"):
        engine.next_logprobs("Hi", "M", {"M": "Be rude."}, trusted=False)


def test_every_way_to_ask_takes_a_list_of_what_text_may_call(engine: Engine) -> None:
    def thirds(model: marith.Formula, other: marith.Formula) -> marith.Formula:
        return (2 * model + other) / 3

    with patch.dict(CALLABLE):
        marith.define("thirds", thirds)
        for ask, refuse in zip(ways(engine, ["thirds"]), ways(engine), strict=True):
            assert ask("thirds(M, t)", {"t": "Be kind."}) is not None
            with pytest.raises(FormulaError, match="untrusted formulas may not use thirds"):
                refuse("thirds(M, t)", {"t": "Be kind."})


@pytest.mark.parametrize(
    "terms",
    [{1: "x"}, {"a b": "x"}, {"x": 10**5000}, 10**5000],
    ids=["a number for a name", "two words for a name", "a number for a term", "a number"],
)
def test_invalid_terms_are_refused(engine: Engine, terms: Any) -> None:
    with pytest.raises(FormulaError):
        engine.generate("Hi", "M", terms, trusted=False)
    for trusted in (True, False):
        with pytest.raises(FormulaError):
            marith.parse("M", terms, trusted=trusted)
