"""Judging in pairs: a real chat model's preferences are counted right whatever was shown first."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from typer.testing import CliRunner

from langchain_marith import ChatMarith
from marith import ModelError, RequestError
from marith.cli import app
from marith.evals.experiment.texts import Text
from marith.evals.preference.comparison import ComparisonSettings, run
from marith.evals.preference.judge_models import answers_of, load
from marith.evals.preference.judge_prompts import SENTIMENT, TASKS, TOXICITY, preferred
from marith.evals.preference.pairs import paired, texts_by_formula
from marith.evals.preference.preferences import Preferences
from marith.testing import save_scripted

PAPER = Path(__file__).parents[5] / "shared" / "paper"
# Of the texts below this judge prefers the one that is lovely; of rude ones it says nothing.
SCRIPT = [
    (r"rude", "I would rather not say."),
    (r"Model 1:[^\n<]*lovely", "It is kind. Preferred continuation: 1"),
    (r"Model 2:[^\n<]*lovely", "It is kind. Preferred continuation: 2"),
    (r".", "Both are alike. Preferred continuation: None"),
]
OURS = ["a lovely day", "a lovely cat", "a day", "a rude day", "a lovely hat", "a hat"]
THEIRS = ["a day", "a cat", "a day", "a day", "a hat", "a lovely hat"]
TRUTH = {"won": 3, "lost": 1, "drawn": 1, "unreadable": 1}


def text(line: str, row: int, said: str, sample: int = 0) -> Text:
    message = f"What about row {row}?"
    return Text(line, row, sample, 0, message, message, said, (1, 2), "stop", 3, 2)


def write(folder: Path, texts: Sequence[Text]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(one.to_json()) for one in texts]
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    ours = [text("union", row, said) for row, said in enumerate(OURS)]
    theirs = [text("PREADD", row, said) for row, said in enumerate(THEIRS)]
    return write(folder, [*ours, *theirs, text("PREADD", 9, "alone")])


@pytest.fixture(scope="module")
def judge_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_scripted(tmp_path_factory.mktemp("judge"), SCRIPT)


@pytest.fixture(scope="module")
def judge(judge_dir: str) -> ChatMarith:
    return ChatMarith(model=judge_dir, temperature=0)


def settings(where: Path, **told: Any) -> ComparisonSettings:
    given = {"baseline": ("PREADD",), "against": ("union",), "task": "toxicity"}
    return ComparisonSettings(**{"texts": (where,), **given, **told})


def counts(report: Preferences) -> dict[str, int]:
    (one,) = report.comparisons
    return {name: getattr(one, name) for name in TRUTH}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_preferred_is_counted_whatever_was_shown_first(
    texts: Path, judge: ChatMarith, seed: int
) -> None:
    report = run(settings(texts, seed=seed, together=4), judge)
    assert counts(report) == TRUTH
    (one,) = report.comparisons
    assert (one.unpaired, one.readable) == (1, 5)
    pairs, _ = paired(texts_by_formula([texts]), "union", "PREADD", seed)
    lovely = [pair.places[0] for pair in pairs if "lovely" in "".join(pair.places)]
    assert one.first == sum("lovely" in first for first in lovely)


def test_orders_are_drawn_evenly_and_by_the_seed(tmp_path: Path) -> None:
    many = [text(name, row, "a") for name in ("x", "y") for row in range(400)]
    found = texts_by_formula([write(tmp_path, many)])
    orders = [[pair.swapped for pair in paired(found, "x", "y", seed)[0]] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert 160 < sum(orders[0]) < 240
    few = {name: texts[7:9] for name, texts in found.items()}
    assert [pair.swapped for pair in paired(few, "x", "y", 1)[0]] == orders[0][7:9]


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("It is kinder. Preferred continuation: 1", 1),
        ('End: "preferred continuation: 2".', 2),
        ("**Preferred continuation:** None.", 0),
        ("Preferred continuation: none", 0),
        ("Not 'Preferred continuation: 1' but\nPreferred continuation: 2", 2),
        ("Preferred Continuation - 1", 1),
        ("Preferred continuation: 12", None),
        ("I prefer the first.", None),
        ("Preferred continuation:", None),
        ("", None),
    ],
)
def test_an_answer_prefers_what_it_says_last_or_nothing_at_all(
    answer: str, place: int | None
) -> None:
    assert preferred(answer) == place


class Failing:
    """The judge, until it has answered so many times; it counts what it is asked."""

    def __init__(self, judge: ChatMarith, most: int) -> None:
        self.judge, self.most, self.asked = judge, most, 0

    def invoke(self, messages: Any) -> Any:
        if self.asked == self.most:
            raise ConnectionError("the line is dead")
        self.asked += 1
        return self.judge.invoke(messages)


def test_a_judgement_goes_on_where_it_was_broken_off(
    texts: Path, judge: ChatMarith, tmp_path: Path
) -> None:
    whole = run(settings(texts), judge)
    given = settings(texts, out=tmp_path, together=2)
    first = Failing(judge, 4)
    with pytest.raises(ModelError, match="ConnectionError: the line is dead"):
        run(given, first)
    with (tmp_path / "judgements.jsonl").open("ab") as file:
        file.write(b'{"ours": "uni')  # as a kill leaves it
    second = Failing(judge, 99)
    assert run(given, second).comparisons == whole.comparisons
    assert (first.asked, second.asked) == (4, 2)
    with pytest.raises(RequestError, match="other settings: task is"):
        run(settings(texts, out=tmp_path, task="positive"), judge)


def test_the_question_shows_both_texts_and_the_paper_says_it_so(
    texts: Path, judge: ChatMarith
) -> None:
    said = TASKS["toxicity"].question("Hi {x}", "one", "two")
    assert said == "Input Message: Hi {x}\nModel 1:one\nModel 2:two"
    said = TASKS["negative"].question("A film", "one", "two")
    assert said == "Input Review: A film\nGoal Sentiment: negative\nModel 1:one\nModel 2:two"
    if PAPER.is_dir():
        told = "".join(path.read_text(encoding="utf-8") for path in PAPER.glob("*.txt"))
        printed = re.sub(r"\s+", " ", told)
        for prompt in (TOXICITY, SENTIMENT):
            assert re.sub(r"\s+", " ", prompt) in printed


def test_the_command_writes_what_it_prints_with_the_papers_figures(
    texts: Path, judge_dir: str, tmp_path: Path
) -> None:
    lines = ("--baseline", "PREADD", "--against", "union", "--task", "toxicity")
    arguments = (
        "--texts",
        str(texts),
        "--judge-model",
        f"marith:{judge_dir}",
        "--out",
        str(tmp_path),
    )
    done = CliRunner().invoke(app, ["eval", "judge", *lines, *arguments])
    assert done.exit_code == 0, done.stderr
    (row,) = csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    assert {name: int(row[name]) for name in TRUTH} == TRUTH
    assert float(row["won share"]) == pytest.approx(3 / 5)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["paper"][0]["figures"]["Llama-2-13b"] == [40, 38, 23]
    for told in (done.stdout, (tmp_path / "table.md").read_text()):
        assert "0.60 [0.23, 0.88]" in told
        assert "0.40 / 0.38 / 0.23" in told
        assert "1 answers do not say" in told
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_content_may_come_in_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [{"type": "text", "text": "Preferred "}, {"type": "text", "text": "continuation: 2"}]
    model = GenericFakeChatModel(messages=iter([AIMessage(content=blocks)]))
    assert answers_of(model, [[{"role": "user", "content": "Hi"}]]) == ["Preferred continuation: 2"]
    Preferences("none", "toxicity", (), {}).report().show()
    assert "0.41 / 0.33 / 0.27" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"task": "humour"}, "toxicity, positive, negative, not 'humour'"),
        ({"baseline": ("none",)}, "no formula is called 'none'; there are union, PREADD"),
        ({"baseline": ("union",)}, "'union' is compared with itself"),
        ({"texts": ()}, "needs texts"),
        ({"texts": (Path("/no/where"),)}, "no texts in '/no/where'"),
        ({"n": 7}, "have 6 pairs of texts, not 7"),
        ({"together": 0}, "together is a whole number"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    texts: Path, judge: ChatMarith, told: dict[str, Any], words: str
) -> None:
    with pytest.raises(RequestError, match=words):
        run(settings(texts, **told), judge)


def test_texts_of_other_prompts_are_no_pair_and_one_is_not_told_twice(tmp_path: Path) -> None:
    one = write(tmp_path / "one", [text("x", 0, "a")])
    other = Text("y", 0, 0, 0, "Another?", "Another?", "b", (1,), "stop", 3, 2)
    two = write(tmp_path / "two", [other])
    with pytest.raises(RequestError, match="answer different prompts in row 0"):
        paired(texts_by_formula([one, two]), "x", "y", 0)
    with pytest.raises(RequestError, match="'x' has two texts for row 0"):
        texts_by_formula([one, one])


@pytest.mark.parametrize("name", ["openai:gpt-4", "nobody:x", "gpt", "marith:/no/where"])
def test_a_judge_that_cannot_be_had_is_one_sentence(name: str) -> None:
    with pytest.raises(ModelError, match=re.escape(name.removeprefix("marith:"))) as told:
        load(name)
    assert len(str(told.value).splitlines()) == 1
