"""lm-evaluation-harness: a formula is measured as the harness measures its own models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from typer.testing import CliRunner

from marith import Engine, FormulaError, ModelError, Prompted, RequestError
from marith.cli import app
from marith.evals.harness import MarithLM
from marith.evals.harness.command_line import completed
from marith.evals.harness.in_flight import in_flight
from marith.evals.harness.sampling_options import requests_in_flight, sampling_and_stop
from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.loader import Placement

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


def test_whole_texts_are_as_likely_in_their_windows(ours: MarithLM, theirs: HFLM) -> None:
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


def test_a_chat_reads_as_its_template_says(ours: MarithLM, theirs: HFLM) -> None:
    own, other = (model.apply_chat_template(CHAT) for model in (ours, theirs))
    said = "A cat is a happy animal."
    (one,), (two,) = (
        model.loglikelihood([asked(chat, said)], True)
        for model, chat in ((ours, own), (theirs, other))
    )
    assert one[0] == pytest.approx(two[0], abs=1e-3)
    options = {"until": [], "max_gen_toks": 12}
    texts = ours.generate_until([asked(own, options)], True)
    assert texts == theirs.generate_until([asked(other, options)], True)


def test_an_answer_that_has_begun_is_continued_and_does_not_count(
    ours: MarithLM, theirs: HFLM
) -> None:
    begun = [*CHAT, {"role": "assistant", "content": "A cat is"}]
    chats = [model.apply_chat_template(begun, False) for model in (ours, theirs)]
    (one,) = ours.loglikelihood([asked(chats[0], " an animal.")], True)
    (two,) = theirs.loglikelihood([asked(chats[1], " an animal.")], True)
    assert one[0] == pytest.approx(two[0], abs=1e-3)
    with pytest.raises(RequestError, match="'A cat is'"):
        ours.generate_until([asked(chats[0], {"max_gen_toks": 4})], True)


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


@settings(max_examples=60)
@given(st.text("ab .\n", min_size=1).filter(str.strip), st.text("ab .\n"))
def test_contexts_and_continuations_are_divided_as_the_harness_divides_them(
    ours: MarithLM, theirs: HFLM, context: str, continuation: str
) -> None:
    question = ours._contexts.pair(context, continuation)
    before, after = theirs._encode_pair(context, continuation)
    assert list(question.tokens) == after
    assert ours._engine.encode(question.prompt) == before


def test_what_is_too_long_is_counted_and_told_once(
    ours: MarithLM, caplog: pytest.LogCaptureFixture
) -> None:
    ours.loglikelihood([asked(LONG, " good"), asked("a", " b"), asked(LONG, " bad")], True)
    (told,) = caplog.messages
    assert told.startswith("2 of 3 contexts had more than 126 tokens")


def test_a_chat_that_is_too_long_loses_its_oldest_turns(ours: MarithLM) -> None:
    turns = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "Yes."}]
    whole = ours.apply_chat_template([CHAT[0], *turns, CHAT[1]])
    kept = ours.apply_chat_template([CHAT[0], turns[1], CHAT[1]])
    found = ours.loglikelihood([asked(whole, "A cat."), asked(kept, "A cat.")], True)
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-4)


def test_sampled_texts_are_those_of_the_seed() -> None:
    options = {"do_sample": True, "temperature": 1.0, "max_gen_toks": 12, "until": []}
    requests = [asked("The film was", options)] * 2
    one, two, other = (MarithLM(seed=s).generate_until(requests, True) for s in (1, 1, 7))
    assert one == two != other
    assert one[0] != one[1]


def task(folder: Path, name: str, kind: str, rows: list[dict[str, Any]], **said: Any) -> None:
    data = folder / f"{name}.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    where = {"data_files": {"test": str(data)}, "cache_dir": str(folder / "cache")}
    written = {"task": name, "dataset_path": "json", "dataset_kwargs": where, "test_split": "test"}
    written |= {"output_type": kind, **said}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")


def measure(name: str, **told: Any) -> list[dict[str, Any]]:
    metric = {"aggregation": "mean", "higher_is_better": True}
    return [{"metric": name, **metric, **told}]


def test_local_tasks_have_the_same_results_as_by_the_harnesss_own_model(
    ours: MarithLM, theirs: HFLM, tmp_path: Path
) -> None:
    films = [
        {"q": "The film was", "c": ["great and warm", "a a a a"], "a": 0},
        {"q": "Person 1: I like tea.\nPerson 2: I", "c": ["the of", "like it too."], "a": 1},
    ]
    said = {"doc_to_text": "{{q}}", "doc_to_target": "{{a}}"}
    choices = {"doc_to_choice": "{{c}}", "metric_list": measure("acc")}
    task(tmp_path, "choosing", "multiple_choice", films, **said, **choices)
    drawing = {"generation_kwargs": {"until": ["."], "max_gen_toks": 16}}
    told = {"doc_to_text": "{{q}}", "doc_to_target": "{{c[a]}}"}
    matched = {"metric_list": measure("exact_match")}
    task(tmp_path, "saying", "generate_until", films, **told, **drawing, **matched)
    likely = measure("word_perplexity", aggregation="weighted_perplexity")
    whole = {"doc_to_text": "", "doc_to_target": "{{q}}", "metric_list": likely}
    task(tmp_path, "reading", "loglikelihood_rolling", films, **whole)
    tasks = TaskManager(include_path=str(tmp_path), include_defaults=False)
    own, other = (
        simple_evaluate(
            model=model,
            tasks=["choosing", "saying", "reading"],
            task_manager=tasks,
            bootstrap_iters=0,
        )
        for model in (ours, theirs)
    )
    for name, figure in (("choosing", "acc"), ("reading", "word_perplexity")):
        mine, others = (found["results"][name][f"{figure},none"] for found in (own, other))
        assert mine == pytest.approx(others, rel=1e-4)
    texts = [[one["resps"] for one in found["samples"]["saying"]] for found in (own, other)]
    assert texts[0] == texts[1]


def test_it_is_found_by_name_and_a_files_formula_by_its_own(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(
        f'[terms]\nformal = "{FORMAL}"\n[formulas]\nstrong = "2*formal - M"\n', encoding="utf-8"
    )
    films = [{"q": "The film was", "c": ["great", "of of"], "a": 0}]
    said = {"doc_to_text": "{{q}}", "doc_to_target": "{{a}}", "doc_to_choice": "{{c}}"}
    task(tmp_path, "choosing", "multiple_choice", films, **said, metric_list=measure("acc"))
    found = simple_evaluate(
        model="marith",
        model_args={"file": str(path), "formula": "strong"},
        batch_size="auto",
        device="cuda:0",  # the harness's default, which this machine need not have
        tasks=["choosing"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        apply_chat_template=True,
        bootstrap_iters=0,
    )
    (sample,) = found["samples"]["choosing"]
    direct = MarithLM(formula="2*formal - M", terms={"formal": FORMAL})
    chat = direct.apply_chat_template([{"role": "user", "content": "The film was"}])
    (one,) = direct.loglikelihood([asked(chat, "great")], True)
    assert float(sample["resps"][0][0][0]) == pytest.approx(one[0], abs=1e-3)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"formula": "2*x - M"}, FormulaError, "unknown term 'x'"),
        ({"model": "/no/where"}, ModelError, "'/no/where'"),
        ({"file": "/no/file.toml"}, FormulaError, "'/no/file.toml'"),
        ({"terms": "formal"}, FormulaError, "not 'formal'"),
        ({"batch_size": "many"}, RequestError, "not 'many'"),
        ({"batch_size": -1}, RequestError, "not -1"),
        ({"terms": {"x": "long " * 5000}, "formula": "x"}, RequestError, "leave no room"),
    ],
)
def test_what_means_nothing_is_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        MarithLM(**options)


def test_a_task_gets_no_option_that_is_ignored(ours: MarithLM) -> None:
    with pytest.raises(RequestError, match="num_beams=4"):
        sampling_and_stop({"num_beams": 4}, 8, 0)
    with pytest.raises(RequestError, match="max_gen_toks is 5000"):
        ours.generate_until([asked("a", {"max_gen_toks": 5000})], True)
    with pytest.raises(RequestError, match="'picture',"):
        ours.generate_until([asked("a", {}, "picture")], True)
    with pytest.raises(RequestError, match="'mine'"):
        ours.chat_template("mine")
    sampling, stop = sampling_and_stop({"do_sample": True, "until": ["", "\n"], "top_k": 0}, 8, 3)
    assert (sampling.temperature, sampling.top_k, sampling.seed) == (1.0, None, 3)
    assert (stop.max_tokens, stop.strings) == (8, ("\n",))
    assert sampling_and_stop({"temperature": 0.7}, 8, 0)[0].temperature == 0.7
    assert sampling_and_stop({"temperature": 0.7, "do_sample": False}, 8, 0)[0].temperature == 0.0


def test_answers_come_in_order_and_no_more_than_so_many_are_open() -> None:
    class Open:
        now = most = 0

        def __init__(self, number: int) -> None:
            self.number = number
            Open.now += 1
            Open.most = max(Open.most, Open.now)

        def result(self) -> int:
            Open.now -= 1
            return self.number

    assert list(in_flight(lambda number: Open(number).result, range(10), 4)) == list(range(10))
    assert (Open.now, Open.most) == (0, 4)
    assert (requests_in_flight("auto", None), requests_in_flight("auto:4", 8)) == (64, 8)
    assert (requests_in_flight(3, None), requests_in_flight(None, 9)) == (3, 1)


def test_the_harnesss_command_line_speaks_of_our_model_where_none_is_named() -> None:
    ours = ["--model", "marith", "--batch_size", "auto"]
    assert completed(["--tasks", "a"]) == ["run", "--tasks", "a", *ours]
    named = ["--model=hf", "-b", "4", "--tasks", "a"]
    assert completed(["run", *named]) == ["run", *named]
    assert completed(["ls", "tasks"]) == ["ls", "tasks"]
    assert completed(["run", "--config", "x.yaml"]) == ["run", "--config", "x.yaml"]
    refused = CliRunner().invoke(app, ["eval", "harness", "run", "--modell", "x", "--tasks", "a"])
    assert refused.exit_code == 2
