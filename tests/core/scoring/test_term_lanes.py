"""Each text of a request has one lane, which its scorer opens once and which is released once."""

from __future__ import annotations

import pytest

from marith import Engine, Request
from marith.formula.tree.terms import NGram, Prompted, Term
from marith.scoring.passes.questions import RequestLane
from marith.scoring.term_lanes import TermLanes
from marith.testing import lanes_in_use

TERMS = {"angry": "You are angry.", "early": Prompted(exit_layer=1), "late": Prompted(exit_layer=3)}
FORMULA = "M + 0.5*angry - 0.2*early - 0.1*late"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load("pocket")


def lanes_of(engine: Engine, salt: str | None = None) -> TermLanes:
    request = Request("Hi", FORMULA, TERMS, speculation=None, cache_salt=salt)
    return engine.open(request).lanes


def test_a_model_and_its_early_exits_share_a_lane(engine: Engine) -> None:
    lanes = lanes_of(engine).lanes
    model, early, late = (lanes[term] for term in (Prompted(), TERMS["early"], TERMS["late"]))
    assert model is early is late
    assert model.exits == (1, 3)
    assert len({*lanes.values()}) == 2
    assert lanes[Prompted("You are angry.")].exits == ()


def test_terms_keep_the_order_of_the_formula(engine: Engine) -> None:
    """In which statistics list them."""
    terms = [Prompted(), Prompted("You are angry."), TERMS["early"], TERMS["late"]]
    assert [*lanes_of(engine).lanes] == terms


def test_each_lane_is_opened_once_and_each_request_has_lanes_of_its_own(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    [scorer] = {*lanes_of(engine).scorers.values()}
    opened: list[RequestLane] = []
    whole = type(scorer).open

    def watched(*arguments: object) -> RequestLane:
        opened.append(whole(*arguments))
        return opened[-1]

    monkeypatch.setattr(type(scorer), "open", watched)
    first, second = lanes_of(engine), lanes_of(engine)
    assert len(opened) == 4
    assert {*opened} == {*first.lanes.values(), *second.lanes.values()}


def test_lanes_share_prefixes_by_what_computes_them_and_by_the_salt(engine: Engine) -> None:
    bare, salted = lanes_of(engine), lanes_of(engine, "mine")
    assert bare.lanes[Prompted()].key == bare.lanes[Prompted("You are angry.")].key
    assert bare.lanes[Prompted()].key != salted.lanes[Prompted()].key
    polite = engine.open(Request("Hi", "polite", {"polite": Prompted(adapter="pocket-polite")}))
    assert all(lane.key != bare.lanes[Prompted()].key for lane in polite.lanes.lanes.values())


def test_a_draft_that_cannot_read_the_prompt_has_no_lane(engine: Engine) -> None:
    scorers = lanes_of(engine).scorers
    lookup: Term = NGram(order=2, online=True)
    loaded = dict.fromkeys((Prompted(), lookup))
    lanes = TermLanes.of(
        {**scorers, lookup: scorers[Prompted()]}, {Prompted(): (1, 2)}, loaded, None
    )
    assert [*lanes.lanes] == [Prompted()]
    assert [text.length for _, text in lanes.lane_texts(5)] == [2 + 5]


def test_all_lanes_are_released_even_if_one_cannot_be(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = lanes_of(engine)
    [scorer] = {*lanes.scorers.values()}
    released: list[RequestLane] = []

    def fails(_: object, lane: RequestLane) -> None:
        released.append(lane)
        raise MemoryError

    monkeypatch.setattr(type(scorer), "release", fails)
    lanes.release()
    assert {*released} == {*lanes.lanes.values()}
    assert lanes_in_use(engine) == 0
