"""Terms and formulas in a TOML file: every kind of table, and every way to break one."""

from __future__ import annotations

from pathlib import Path

import pytest

from marith.errors import FormulaError
from marith.formula.text.trust import parse
from marith.formula.tree.factors import maximum
from marith.formula.tree.nodes import Name
from marith.formula.tree.operators import union
from marith.formula.tree.signals import class_prob, jsd
from marith.formula.tree.terms import Classifier, NGram, Prompted
from marith.options.persona_file import load_file

M, toxic, C = Name("M"), Name("toxic"), Name("C")
GOOD = """
[terms]
toxic = "You are toxic. “Really”."
strange = {system = "S", mode = "replace", hide = '<a>.*?</a>', model = "dir", template = "plain"}
thinking = {system = "T", options = {enable_thinking = false, budget = 3}}
C = {classifier = "dir/polite", label = "joy", candidates = 20, read_prompt = true}
guided = {classifier = "x", guide = "M - 0.5*toxic"}
english = {ngram = "corpus.txt", order = 3}
mild = {formula = "M - 0.5*toxic"}
bare = {}
kind_voice = {model = "dir", adapter = "dir/polite"}
early = {exit_layer = 3}
steered = {prompted = "S", vectors = {"happy.gguf" = 1.2, formal = -1}, positions = "answer"}
reward = {classifier = "x", scale = "logit"}
sure = {formula = "where(entropy(M) < 2, M, mixture(1, M, -0.5, toxic))"}

[formulas]
kind = "M - 0.96*union(toxic, M) + 0.04*C"
milder = "mild + M"
adaptive = "M + maximum(jsd(M, toxic), class_prob(C))*(M - toxic)"
"""


def _written(folder: Path, text: str) -> Path:
    path = folder / "voices.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_kind_of_table_is_read(tmp_path: Path) -> None:
    file = load_file(_written(tmp_path, GOOD))
    assert file.terms == {
        "toxic": Prompted("You are toxic. “Really”."),
        "strange": Prompted("S", "replace", "<a>.*?</a>", "dir", "plain"),
        "thinking": Prompted("T", options=(("budget", 3), ("enable_thinking", False))),
        "C": Classifier("dir/polite", "joy", 20, None, True),
        "guided": Classifier("x", guide=M - 0.5 * toxic),
        "english": NGram(str(tmp_path / "corpus.txt"), 3),
        "mild": M - 0.5 * toxic,
        "bare": Prompted(),
        "kind_voice": Prompted(model="dir", adapter="dir/polite"),
        "early": Prompted(exit_layer=3),
        "steered": Prompted(
            "S",
            vectors=((str(tmp_path / "happy.gguf"), 1.2), ("formal", -1.0)),
            positions="answer",
        ),
        "reward": Classifier("x", scale="logit"),
        "sure": parse("where(entropy(M) < 2, M, mixture(1, M, -0.5, toxic))"),
    }
    assert file.formulas == {
        "kind": M - 0.96 * union(toxic, M) + 0.04 * C,
        "milder": Name("mild") + M,
        "adaptive": M + maximum(jsd(M, toxic), class_prob(C)) * (M - toxic),
    }


def test_a_formula_may_be_a_table_with_options(tmp_path: Path) -> None:
    text = """
    [model]
    model = "dir"
    chat_template_kwargs = {thinking = false}
    [formulas]
    plain = "2*M"
    told = {formula = "2*M", description = "M itself.", temperature = 0.5}
    """
    file = load_file(_written(tmp_path, text))
    assert file.formulas == {"plain": 2 * M, "told": 2 * M}
    assert file.options == {"model": "dir", "chat_template_kwargs": {"thinking": False}}
    assert file.own_options == {"plain": {}, "told": {"temperature": 0.5}}
    assert file.descriptions == {"plain": "", "told": "M itself."}


BROKEN = [
    ("[terms", "is not TOML"),
    ("[formulas]\nf = M - a", "is not TOML: .*; put texts in quotes, also formulas"),
    ("[model]\nmodel = pocket", "is not TOML: .*; put texts in quotes, .* and names of models"),
    ('[model]\nmodel = "C:\\models\\a.gguf"', "is not TOML: .*; write a path .* in single quotes"),
    ('[model]\nmodel = "C:\\Users\\a.gguf"', "is not TOML: .*; write a path .* in single quotes"),
    (
        '[model]\nmodel = "C:\\new.gguf"',
        r"contains a control character: TOML .* escape; .* in single quotes",
    ),
    ("[formulas]\nf = 'prompted(adapter=\"a\\tb\")'", "escape; .* in single quotes"),
    (
        "[terms]\nx = {vectors = {happy.gguf = 1.2}}",
        "term 'x': the strength of the vector 'happy' is a number, not {'gguf': 1.2}; write the wh",
    ),
    ("[terms]\nx = {vectors = {'v.gguf' = 1, './v.gguf' = 2}}", "v.gguf' is named twice"),
    ("[term]\nx = 'X'", r"unknown table 'term'; did you mean 'terms'\?"),
    ("[other]\nx = 'X'", "unknown table 'other'; its tables are model, terms, formulas"),
    (
        "temperature = 1",
        r"option 'temperature' above its tables; write \[model\] above it",
    ),
    (
        'model = "pocket"',
        r"'model' above its tables; write \[model\], and below it model = 'pock",
    ),
    ("terms = 5", "'terms' .* must be a table, not 5"),
    ("[terms]\nx = 5", "term 'x' is a system prompt, .*, not 5"),
    ("[terms]\n'two words' = 'X'", "not 'two words'"),
    ("[terms]\nx = {sytem = 'X'}", "term 'x' has an unknown key 'sytem'"),
    ("[terms]\nx = {classifier = 'm', ngram = 'p'}", "term 'x' has both 'classifier' and 'ngram'"),
    ("[terms]\nx = {options = {when = 2020-01-01}}", "term 'x': .*when"),
    ("[formulas]\nf = 5", "not 5"),
    ("[formulas]\nf = {temperature = 0}", "formula 'f' is a text, or a table such as {formula = "),
    ("[formulas]\nf = {formula = 'M', description = 5}", "of formula 'f' is a text, not 5"),
]


@pytest.mark.parametrize(("text", "says"), BROKEN, ids=[text for text, _ in BROKEN])
def test_a_broken_file_is_one_clear_formula_error(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(FormulaError, match=says):
        load_file(_written(tmp_path, text))


@pytest.mark.parametrize("text", ["M +", "M - nope", "M - M", ""])
def test_a_formula_that_means_nothing_is_named_with_its_file(tmp_path: Path, text: str) -> None:
    path = _written(tmp_path, f"[formulas]\ngood = 'M'\nbad = '{text}'")
    with pytest.raises(FormulaError) as refused:
        load_file(path)
    assert str(refused.value).startswith(f"{str(path)!r}, formula 'bad': ")
    assert text in str(refused.value)  # quoted, as wherever a formula is refused


def test_a_term_that_means_nothing_is_named_with_its_file(tmp_path: Path) -> None:
    for text in ("x = 5", "x = {hide = '('}", "x = {formula = 'M +'}", "x = {formula = 'M + a'}"):
        path = _written(tmp_path, f"[terms]\n{text}")
        with pytest.raises(FormulaError) as refused:
            load_file(path)
        assert str(refused.value).removeprefix(f"{str(path)!r}: ").startswith(("term", "in term"))


def test_a_file_that_cannot_be_read_is_a_formula_error(tmp_path: Path) -> None:
    with pytest.raises(FormulaError, match="cannot read"):
        load_file(tmp_path / "missing.toml")
    with pytest.raises(FormulaError, match="cannot read"):
        load_file(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormulaError, match="is not TOML"):
        load_file(tmp_path / "binary.toml")


@pytest.mark.parametrize("text", ["x = " + "9" * 5000, "x = " + "[" * 3000 + "]" * 3000],
                         ids=["digits", "depth"])  # fmt: skip
def test_a_huge_or_deep_file_is_a_formula_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormulaError):
        load_file(_written(tmp_path, text))


def test_an_invalid_path_is_a_formula_error() -> None:
    with pytest.raises(FormulaError):
        load_file("voices\x00.toml")


PATHS = """
[model]
model = "models/base.gguf"
[terms]
counted = { ngram = "corpus.txt" }
guided = { classifier = "./judge", label = "toxic" }
other = { prompted = "", model = "near" }
adapted = { adapter = "../lora" }
steered = { vectors = { "happy.gguf" = 1, "../sad.gguf" = -1, "/data/v.gguf" = 0.5 } }
both = { formula = 'prompted(model="models/base.gguf") + ngram("corpus.txt")' }
hub = { prompted = "", model = "owner/model" }
ours = { classifier = "pocket-toxicity", label = "toxic" }
said = "Read corpus.txt and ./judge."
absolute = { ngram = "/data/corpus.txt" }
[formulas]
one = 'M + 0.1*ngram("corpus.txt")'
two = { formula = "M", model = "./own" }
"""


def test_paths_count_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "conf"
    (folder / "near").mkdir(parents=True)
    (folder / "marith.toml").write_text(PATHS, encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    file = load_file(folder / "marith.toml")
    assert file.options["model"] == str(folder / "models/base.gguf")
    assert file.own_options["two"]["model"] == str(folder / "own")
    assert file.terms == {
        "counted": NGram(path=str(folder / "corpus.txt")),
        "guided": Classifier(str(folder / "judge"), "toxic"),
        "other": Prompted(model=str(folder / "near")),
        "adapted": Prompted(adapter=str(tmp_path / "lora")),
        "steered": Prompted(
            vectors=(
                (str(folder / "happy.gguf"), 1.0),
                (str(tmp_path / "sad.gguf"), -1.0),
                ("/data/v.gguf", 0.5),
            )
        ),
        "both": (
            Prompted(model=str(folder / "models/base.gguf")) + NGram(str(folder / "corpus.txt"))
        ),
        "hub": Prompted(model="owner/model"),
        "ours": Classifier("pocket-toxicity", "toxic"),
        "said": Prompted("Read corpus.txt and ./judge."),
        "absolute": NGram(path="/data/corpus.txt"),
    }
    assert str(file.formulas["one"]) == f'M + 0.1*ngram("{folder / "corpus.txt"}")'
    monkeypatch.chdir(folder)
    assert load_file("marith.toml").terms["counted"] == NGram(path="corpus.txt")
