"""lm-evaluation-harness: a formula is measured as the harness measures its own models."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from marith import Engine, Prompted, RequestError
from marith.evals.harness import MarithLM
from marith.evals.harness.model import sampling_and_stop
from marith.scoring.weights import loader
from marith.scoring.weights.loader import Placement
from tools.clients.harness_tasks import CHOICES, write_tasks

CHAT = [
    {"role": "system", "content": "You are a happy assistant."},
    {"role": "user", "content": "What is a cat?"},
]
FORMAL = "You are an assistant using formal and objective language to answer the user."
LONG = "The film was good and then it was " * 20  # more than a context


@pytest.fixture(scope="module")
def ours() -> MarithLM:
    return MarithLM(batch_size=8, context_length=128)


@pytest.fixture(scope="module")
def theirs(ours: MarithLM) -> HFLM:
    """The harness's own model over the same weights."""
    model, tokenizer = loader.as_stored("pocket", Placement())
    return HFLM(
        pretrained=model.float(), tokenizer=tokenizer, max_length=ours.max_length, batch_size=1
    )


def asked(*arguments: Any) -> Instance:
    return Instance("loglikelihood", {}, arguments, 0)


def test_the_bare_model_has_the_likelihoods_of_the_harnesss_own(
    ours: MarithLM, theirs: HFLM
) -> None:
    greedy = theirs.generate_until([asked("The film was", {"max_gen_toks": 6, "until": []})])[0]
    pairs = [
        ("Person 1: I like tea.\nPerson 2:", " I like it too."),
        ("", "Hello there."),
        ("A film that ends in spaces  ", " was good"),
        ("The film was", greedy),
        ("The film was", greedy + " zebra"),
        (LONG, " good and fine."),
    ]
    requests = [asked(*pair) for pair in pairs]
    own, other = ours.loglikelihood(requests, True), theirs.loglikelihood(requests, True)
    assert [one for one, _ in own] == pytest.approx([one for one, _ in other], abs=1e-3)
    assert [one for _, one in own] == [one for _, one in other]
    assert [one for _, one in own][3:5] == [True, False]


def test_rolling_likelihoods_are_those_of_the_harnesss_own_model(
    ours: MarithLM, theirs: HFLM
) -> None:
    requests = [asked("A warm film."), asked(LONG)]
    own = ours.loglikelihood_rolling(requests, True)
    assert own == pytest.approx(theirs.loglikelihood_rolling(requests, True), abs=1e-3)


def test_greedy_texts_are_the_same(ours: MarithLM, theirs: HFLM) -> None:
    requests = [
        asked("Person 1: I like tea.\nPerson 2:", {"until": ["\n"], "max_gen_toks": 24}),
        asked("The film was", {"until": [" was", "."], "max_gen_toks": 20, "do_sample": False}),
        asked(LONG, {"until": [], "max_gen_toks": 10, "temperature": 0.0}),
    ]
    assert ours.generate_until(requests, True) == theirs.generate_until(requests, True)


@pytest.mark.parametrize("begun", ["", "A cat is"])
def test_chat_templates_are_applied_as_by_the_harnesss_own_model(
    ours: MarithLM, theirs: HFLM, begun: str
) -> None:
    answer = [{"role": "assistant", "content": begun}] if begun else []
    chats = [model.apply_chat_template([*CHAT, *answer], not begun) for model in (ours, theirs)]
    (one,) = ours.loglikelihood([asked(chats[0], " a happy animal.")], True)
    (two,) = theirs.loglikelihood([asked(chats[1], " a happy animal.")], True)
    assert one[0] == pytest.approx(two[0], abs=1e-3)
    options = {"until": [], "max_gen_toks": 12}
    texts = ours.generate_until([asked(chats[0], options)], True)
    assert texts == theirs.generate_until([asked(chats[1], options)], True)


def test_a_formulas_likelihood_is_its_score_and_raw_text_meets_no_chat_template() -> None:
    terms = {"formal": FORMAL}
    model = MarithLM(formula="2*formal - M", terms=terms)
    text, said = "Person 1: I like tea.\nPerson 2:", " I like it too."
    plain = {"formal": Prompted(FORMAL, template="plain"), "M": Prompted(template="plain")}
    with Engine.load("pocket") as engine:
        raw = engine.score(text, said, "2*formal - M", plain)
        chat = engine.score(CHAT, said, "2*formal - M", terms)
    found = model.loglikelihood(
        [asked(text, said), asked(model.apply_chat_template(CHAT), said)], True
    )
    assert [one for one, _ in found] == pytest.approx([sum(raw), sum(chat)], abs=1e-3)


def test_what_is_too_long_is_counted_and_told_once(
    ours: MarithLM, caplog: pytest.LogCaptureFixture
) -> None:
    ours.loglikelihood([asked(LONG, " good"), asked("a", " b"), asked(LONG, " bad")], True)
    (told,) = caplog.messages
    assert told.startswith("2 of 3 contexts had more than 126 tokens")


def test_a_chat_that_is_too_long_loses_its_oldest_turns(
    ours: MarithLM, caplog: pytest.LogCaptureFixture
) -> None:
    turns = [{"role": "user", "content": LONG}, {"role": "assistant", "content": LONG}]
    whole = ours.apply_chat_template([CHAT[0], *turns, CHAT[1]])
    kept = ours.apply_chat_template(CHAT)
    found = ours.loglikelihood([asked(whole, "A cat."), asked(kept, "A cat.")], True)
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-4)
    assert caplog.messages[0].startswith("1 of 2 contexts")


def test_answers_are_cached_when_they_come_in_the_order_of_the_requests() -> None:
    kept: list[tuple[Any, ...]] = []
    hook: Any = SimpleNamespace(add_partial=lambda *answer: kept.append(answer))
    model, one_by_one = MarithLM(batch_size="2", seed=1), MarithLM(batch_size=1, seed=1)
    model.set_cache_hook(hook)
    requests = [asked("The film was", {"max_gen_toks": n, "until": []}) for n in (9, 1, 5, 2)]
    texts = model.generate_until(requests, True)
    assert texts == one_by_one.generate_until(requests, True)
    wanted = zip(requests, texts, strict=True)
    assert kept == [("generate_until", each.arguments, text) for each, text in wanted]


@pytest.mark.parametrize(("batch_size", "most"), [(4, 4), ("auto", 64), ("auto:2", 64)])
def test_no_more_than_the_batch_size_are_in_flight(batch_size: int | str, most: int) -> None:
    model, events = MarithLM(batch_size=batch_size), list[int]()

    def submit(_: Any) -> Any:
        events.append(1)
        return SimpleNamespace(result=lambda: events.append(-1))

    assert len([*model._in_order(submit, cast(Any, range(100)))]) == 100
    assert max(accumulate(events)) == most


def test_sampled_texts_are_those_of_the_seed() -> None:
    options = {"do_sample": True, "temperature": 1.0, "max_gen_toks": 12, "until": []}
    requests = [asked("The film was", options)] * 2
    one, two, other = (MarithLM(seed=s).generate_until(requests, True) for s in (1, 1, 7))
    assert one == two != other
    assert one[0] != one[1]


def found_on(folder: Path, tasks: list[str], model: Any, **options: Any) -> dict[str, Any]:
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found: dict[str, Any] = simple_evaluate(
        model=model, tasks=tasks, task_manager=manager, bootstrap_iters=0, **options
    )
    return found


def test_local_tasks_have_the_same_results_as_by_the_harnesss_own_model(
    ours: MarithLM, theirs: HFLM, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    tasks = ["choosing", "saying", "reading"]
    own, other = (found_on(tmp_path, tasks, model) for model in (ours, theirs))
    for name, figure in (("choosing", "acc"), ("reading", "word_perplexity")):
        mine, others = (found["results"][name][f"{figure},none"] for found in (own, other))
        assert mine == pytest.approx(others, rel=1e-4)
    texts = [[one["resps"] for one in found["samples"]["saying"]] for found in (own, other)]
    assert texts[0] == texts[1]


def test_the_model_is_found_by_its_name_and_a_persona_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    text = f'[terms]\nformal = "{FORMAL}"\n[formulas]\nstrong = "2*formal - M"\n'
    path.write_text(text, encoding="utf-8")
    write_tasks(tmp_path)
    given = {"file": str(path), "persona": "strong"}
    named = {"model_args": given, "batch_size": "auto:4", "apply_chat_template": True}
    device = "cuda:0"  # the harness's default, which this machine need not have
    found = found_on(tmp_path, ["choosing"], "marith", device=device, limit=1, **named)
    (sample,) = found["samples"]["choosing"]
    direct = MarithLM(formula="2*formal - M", terms={"formal": FORMAL})
    chat = direct.apply_chat_template([{"role": "user", "content": CHOICES[0][0]}])
    (one,) = direct.loglikelihood([asked(chat, CHOICES[0][1][0])], True)
    assert float(sample["resps"][0][0][0]) == pytest.approx(one[0], abs=1e-3)


def test_a_task_gets_no_option_that_is_ignored(ours: MarithLM) -> None:
    with pytest.raises(RequestError, match="'num_beams'"):
        sampling_and_stop({"num_beams": 4}, 8, 0)
    with pytest.raises(RequestError, match="max_gen_toks is 5000"):
        ours.generate_until([asked("a", {"max_gen_toks": 5000})], True)
    with pytest.raises(RequestError, match="'mine'"):
        ours.chat_template("mine")
    sampling, stop = sampling_and_stop({"do_sample": True, "until": ["", "\n"], "top_k": 0}, 8, 3)
    assert (sampling.temperature, sampling.top_k, sampling.seed) == (1.0, None, 3)
    assert (stop.max_tokens, stop.strings) == (8, ("\n",))
    assert sampling_and_stop({"temperature": 0.7}, 8, 0)[0].temperature == 0.7
    assert sampling_and_stop({"temperature": 0.7, "do_sample": False}, 8, 0)[0].temperature == 0.0
    assert sampling_and_stop({"max_new_tokens": 5}, 8, 0)[1].max_tokens == 5


def test_a_formula_over_bytes_has_the_likelihoods_of_its_engine() -> None:
    model, terms = MarithLM(over="bytes"), {"M": Prompted(template="plain")}
    engine = Engine.shared("pocket", over="bytes")
    assert model._contexts.engine is engine
    [(logprob, likeliest)] = model.loglikelihood([asked("The film was", " good, é")])
    assert logprob == pytest.approx(sum(engine.score("The film was", " good, é", "M", terms)))
    assert not likeliest
    [text] = model.generate_until([asked("The film was", {"max_gen_toks": 9, "until": []})])
    assert len(text.encode()) == 9
