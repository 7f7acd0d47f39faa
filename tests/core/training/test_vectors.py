"""Control vectors: differences of means, the held-out measure, the layers, files, the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFReader
from support.ggml_files import write_pocket
from torch import Tensor
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)
from typer.testing import CliRunner

from marith.cli import app
from marith.errors import RequestError, UnknownOption
from marith.testing import CHAT_TEMPLATE, LETTERS, tiny_tokenizer
from marith.training import LayerLine, Settings, VectorReport, VectorSettings, train_vector
from marith.training.directions import choose, measure

WORDS = ("user", "assistant", ":", *LETTERS)
SIZES = {"vocab_size": len(WORDS) + 2, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}
LLAMA = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4}
KINDS: dict[str, Any] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, **LLAMA, num_attention_heads=4)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**SIZES, n_embd=32, n_layer=4, n_head=4)),
    "gpt_neox": lambda: GPTNeoXForCausalLM(
        GPTNeoXConfig(**SIZES, **LLAMA, num_attention_heads=4)
    ),
}  # fmt: skip
TEXTS = ("a b", "c d e f g h i j", "k", "l m n", "o p q r s", "t u v w x y z a b")
ALL = (1, 3)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp(request.param)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = KINDS[request.param]()
        for weight in model.parameters():
            if weight.ndim == 2:
                torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(path)
    tiny_tokenizer(WORDS, CHAT_TEMPLATE).save_pretrained(path)
    return str(path)


def settings(folder: str, **changes: Any) -> VectorSettings:
    named = {"continuations": TEXTS, "layers": ALL, "device": "cpu", "dtype": "float32"}
    return VectorSettings(folder, "x", "y", **{**named, **changes})


def by_hand(folder: str, heads: str, texts: tuple[str, ...], cuts_from: int = 1) -> Tensor:
    """The mean state [layers, width] of the last token of every cut, each read alone."""
    model = {"gpt2": GPT2LMHeadModel, "gpt_": GPTNeoXForCausalLM}.get(
        Path(folder).name[:4], LlamaForCausalLM
    ).from_pretrained(folder)
    tokenizer, states = tiny_tokenizer(WORDS), []
    for text in texts:
        words = text.split()
        for length in range(cuts_from, len(words) + 1):
            ids = tokenizer(f"{heads} {' '.join(words[:length])}", return_tensors="pt").input_ids
            with torch.no_grad():
                out = model.base_model(input_ids=ids, output_hidden_states=True)
            # The last of transformers' states is normed, so the vector's last layer is left out.
            states.append(torch.stack([one[0, -1] for one in out.hidden_states[1:-1]]))
    return torch.stack(states).double().mean(dim=0)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_directions_are_differences_of_the_means_of_cut_texts(folder: str, batch_size: int) -> None:
    asked = settings(folder, held_out=0.2, batch_size=batch_size)
    found = train_vector(asked)
    # The one text that is held out is the text whose absence gives the same direction.
    distances = {}
    for held in TEXTS:
        learned = tuple(text for text in TEXTS if text != held)
        means = [by_hand(folder, f"user : {side} assistant :", learned) for side in "xy"]
        expected = means[0] - means[1]
        distances[held] = max(
            float((found.directions[layer] - expected[layer]).abs().max()) for layer in (1, 2)
        )
    assert found.report.held_out == 2
    assert sorted(distances.values())[0] < 1e-5
    assert sorted(distances.values())[1] > 1e-3
    assert found.layers == (1, 2, 3)


def test_example_texts_are_read_alone_and_need_not_be_as_many(folder: str) -> None:
    ours, theirs = ("a b c", "a b c", "a b c"), ("d e", "d e")
    asked = replace(settings(folder), positive=ours, negative=theirs)
    found = train_vector(asked)
    # Equal texts: it does not matter which ones are held out. The first token is never counted.
    expected = by_hand(folder, "", ours[:1], 2) - by_hand(folder, "", theirs[:1], 2)
    for layer in (1, 2):
        assert torch.allclose(found.directions[layer].double(), expected[layer], atol=1e-5)
    assert (found.report.learned, found.report.held_out) == (3, 2)


def test_held_out_texts_do_not_change_the_directions(folder: str) -> None:
    before = train_vector(settings(folder))
    held_out = 0
    for i in range(len(TEXTS)):
        texts = (*TEXTS[:i], "h g f e", *TEXTS[i + 1 :])
        after = train_vector(settings(folder, continuations=texts))
        # Every text counts: for the directions, or else for the measure.
        assert after.report.lines != before.report.lines
        held_out += torch.equal(after.directions[1], before.directions[1])
    assert 2 * held_out == before.report.held_out


def test_the_measure_is_auc_and_cohens_d() -> None:
    far, near = torch.tensor([[4.0], [5.0], [6.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    [apart] = measure(far, near, [0.5])
    assert (apart.layer, apart.auc, apart.effect, apart.size) == (0, 1.0, 3.0, 0.5)
    [turned] = measure(near, far, [0.5])
    assert (turned.auc, turned.effect) == (0.0, -3.0)
    draws = torch.randn(2, 4000, 2, generator=torch.Generator().manual_seed(0))
    none, half = measure(draws[0] + torch.tensor([0.0, 0.5]), draws[1], [0.1, 0.1])
    assert abs(none.effect) < 0.06
    assert abs(none.auc - 0.5) < 0.02
    assert abs(half.effect - 0.5) < 0.06
    # Two normal distributions at the distance d are in order with probability Φ(d / √2).
    assert abs(half.auc - 0.638) < 0.02


@pytest.mark.parametrize(
    ("aucs", "layers"),
    [
        ([0.5, 0.6, 0.7, 0.9, 0.88, 0.7, 0.68, 0.6, 0.6, 1, 1, 1], (4, 5)),  # none of the last
        ([1, 1, 1, 1, 0.6, 0.7, 0.61, 0.59, 0.5, 0.5, 0.5, 0.5], (4, 6)),  # and none of the first
        ([0.5] * 12, (4, 8)),
        ([0.9, 0.5], (1, 1)),
        ([0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.6, 0.8, 0.6, 0.5, 0.5, 0.5], (5, 7)),  # one layer may dip
        ([0.4, 0.3, 0.2, 0.3], (1, 1)),  # worse than chance
    ],
)
def test_the_layers_are_those_in_the_middle_that_separate(
    aucs: list[float], layers: tuple[int, int]
) -> None:
    assert choose(aucs) == layers


def test_the_file_has_a_direction_for_each_layer(folder: str, tmp_path: Path) -> None:
    vector = train_vector(settings(folder, layers=(2, 3)))
    vector.save(tmp_path / "happy.gguf")
    read = GGUFReader(tmp_path / "happy.gguf")
    stated = {name: read.get_field(name).contents() for name in read.fields if "." in name[3:]}
    assert stated["general.architecture"] == "controlvector"
    assert stated["controlvector.model_hint"] in Path(folder).name
    assert stated["controlvector.layer_count"] == 2
    assert {one.name for one in read.tensors} == {"direction.2", "direction.3"}
    for one in read.tensors:
        layer = int(one.name.removeprefix("direction."))
        assert torch.equal(torch.from_numpy(one.data.copy()), vector.directions[layer])
    with pytest.raises(RequestError, match="cannot write"):
        vector.save(tmp_path / "none" / "happy.gguf")
    vector.save(str(tmp_path / "happy.gguf"))  # in place of a vector
    for name, problem in (("happy.txt", r"must end in \.gguf"), ("model.gguf", "is not a control")):
        (tmp_path / name).write_bytes(b"precious")
        with pytest.raises(RequestError, match=problem):
            vector.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"precious"


def test_layers_that_the_model_lacks_are_refused(folder: str) -> None:
    with pytest.raises(RequestError, match=r"are 1 to 3, not to 4"):
        train_vector(settings(folder, layers=(1, 4)))


def test_a_vector_in_python_prints_briefly_and_shows_its_table(
    folder: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    vector = train_vector(settings(folder, layers=(2, 2)))
    assert repr(vector) == f"<TrainedVector of {folder!r}: layer 2>"
    assert TEXTS[1] not in repr(vector.report)
    vector.show()
    printed = capsys.readouterr().out
    assert "chosen: layer 2\nthe table rests on 4 held-out texts" in printed
    assert "in a formula" not in printed
    vector.show(str(tmp_path / "v.gguf"), str(tmp_path / "v.svg"))
    strength = vector.report.first_strength
    assert capsys.readouterr().out.endswith(f'v.gguf": {strength}}})\n')
    assert (tmp_path / "v.svg").exists()


def test_the_first_strength_is_small_where_the_direction_is_long() -> None:
    asked = VectorSettings("pocket", "Hot.", "Cold.")
    for size, strength in ((0.18, 0.2), (0.085, 0.4), (0.3, 0.1), (0.01, 1.0), (0.0, 1.0)):
        sizes = enumerate((0.5, size, 0.5))
        lines = [LayerLine(i, 0.9, 1.0, each, chosen=i < 2) for i, each in sizes]
        assert VectorReport(asked, 60, 20, 1.0, (*lines,)).first_strength == strength


def test_a_weak_table_has_one_warning() -> None:
    asked = VectorSettings("pocket", "Hot.", "Cold.")

    def warning(held_out: int, *aucs: float) -> str:
        lines = [LayerLine(i, one, 1.0, 0.1, chosen=0 < i < 3) for i, one in enumerate(aucs)]
        return VectorReport(asked, 60, held_out, 1.0, (*lines,)).warning

    assert warning(8, 0.5, 0.8, 0.6, 0.5) == ""
    assert "best AUC-ROC is 0.790; make" in warning(8, 0.9, 0.6, 0.79, 0.9)
    assert "rests on 7 held-out texts: give more" in warning(7, 0.9, 0.6, 0.9, 0.9)


def test_a_misspelt_setting_has_advice() -> None:
    wrong: Any = {"positve": "Hot."}
    with pytest.raises(UnknownOption, match="no 'positve'; did you mean 'positive'"):
        VectorSettings("pocket", negative="Cold.", **wrong)
    with pytest.raises(UnknownOption, match="Settings takes no 'epoch'; did you mean 'epochs'"):
        Settings("pocket", Path("data.csv"), Path("out"), epoch=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"positive": "same", "negative": "same"}, "positive and negative are both 'same'"),
        ({"positive": ""}, "positive must be a non-empty text"),
        ({"positive": ("a", "b")}, "two prompts or two lists of texts, not one of each"),
        ({"positive": ("a",), "negative": ("b", "c")}, "positive must be at least two texts"),
        ({"continuations": ("a",)}, "continuations must be at least two texts"),
        ({"layers": (0, 3)}, r"begin at 1 or later, not \(0, 3\): llama.cpp refuses a file"),
        ({"layers": ("a", 3)}, "the first of layers must be a whole number of at least 0, not 'a'"),
        ({"layers": (5, 3)}, "the last of layers must be a whole number of at least 5, not 3"),
        ({"layers": 5}, r"layers must be a pair such as \(10, 21\), not 5"),
        ({"held_out": 1.0}, "held_out must be a number above 0 and below 1"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        VectorSettings(**{"model": "pocket", "positive": "Hot.", "negative": "Cold.", **wrong})


def cli(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["train-vector", *arguments])
    return done.exit_code, done.stdout, done.stderr


HAPPY = ("--positive", "Act as if you are extremely happy.")
SAD = ("--negative", "Act as if you are extremely sad.")


def test_the_command_writes_a_vector_of_two_prompts(tmp_path: Path) -> None:
    out, plot, texts = tmp_path / "happy.gguf", tmp_path / "layers.svg", tmp_path / "texts.txt"
    texts.write_text("I went to the shop today.\n\nThe dog is in the garden.\nWe had a talk.\n")
    more = ("--continuations", str(texts), "--plot", str(plot), "--device", "cpu")
    code, printed, _ = cli(*HAPPY, *SAD, "--out", str(out), *more)
    assert code == 0
    assert "pocket: learned from 4 texts, held out 2 texts, read in" in printed
    assert "│     0 │" in printed
    assert "chosen: layers 2 to 3\nthe table rests on 2 held-out texts: give more" in printed
    assert f'in a formula: prompted(vectors={{"{out}": 0.1}})\n' in printed
    assert {one.name for one in GGUFReader(out).tensors} == {"direction.2", "direction.3"}
    assert plot.read_text().startswith("<?xml")


def test_the_command_reads_example_texts_and_layers(tmp_path: Path) -> None:
    for name, line in (("up", "I am so glad that you came!"), ("down", "I miss you and I cry.")):
        (tmp_path / name).write_text(f"{line}\n{line}\n")
    out = tmp_path / "glad.gguf"
    sides = ("--positive-texts", str(tmp_path / "up"), "--negative-texts", str(tmp_path / "down"))
    code, printed, _ = cli(*sides, "--out", str(out), "--layers", "3")
    assert code == 0
    assert "chosen: layer 3\n" in printed
    assert [one.name for one in GGUFReader(out).tensors] == ["direction.3"]


def test_the_command_replaces_a_vector_but_not_a_model(tmp_path: Path) -> None:
    write_pocket(tmp_path, ["f16"])
    model, link, out = (tmp_path / f"{name}.gguf" for name in ("f16", "link", "out"))
    link.symlink_to(model)
    before = model.read_bytes()
    for path in (model, link):
        code, printed, said = cli(*HAPPY, *SAD, "-m", str(model), "--out", str(path))
        assert (code, printed) == (2, "")
        assert f"{str(path)!r} exists and is not a control vector" in said
        assert model.read_bytes() == before
    code, _, said = cli(*HAPPY, *SAD, "--out", str(out), "--layers", "2")
    assert (code, "is replaced" in said) == (0, False)
    code, _, said = cli(*HAPPY, *SAD, "--out", str(out), "--layers", "3")
    assert (code, said) == (0, f"the control vector that was in {str(out)!r} is replaced\n")
    assert [one.name for one in GGUFReader(out).tensors] == ["direction.3"]


def test_too_few_lines_are_refused_by_option_and_file(tmp_path: Path) -> None:
    few, many = tmp_path / "few.txt", tmp_path / "many.txt"
    few.write_text("One line.\n\n")
    many.write_text("One line.\nAnother.\n")
    sides = ("--positive-texts", str(many), "--negative-texts", str(few))
    for given, option in ((sides, "--negative-texts"), ((*HAPPY, *SAD), "--continuations")):
        more = ("--continuations", str(few)) if option == "--continuations" else ()
        code, _, said = cli("--out", str(tmp_path / "out.gguf"), *given, *more)
        assert code == 2
        assert f"the file of {option} must have at least two lines of text" in said
        assert f"; {str(few)!r} has 1\n" in said


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (HAPPY, "write either --negative or --negative-texts"),
        ((*HAPPY, *SAD, "--positive-texts", "x"), "write either --positive or --positive-texts"),
        ((*HAPPY, *SAD, "--layers", "3-"), "--layers is written as 10-21 or 15, not '3-'"),
        ((*HAPPY, *SAD, "--layers", "2-9"), "the layers of 'pocket' are 1 to 5, not to 9"),
        ((*HAPPY, *SAD, "--out", "o.txt"), "must end in .gguf, not 'o.txt'"),
        ((*HAPPY, *SAD, "--plot", "x.txt"), "the file of a plot must end in"),
        ((*HAPPY, *SAD, "--continuations", "nowhere"), "cannot read 'nowhere'"),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(
    given: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    code, printed, said = cli("--out", str(tmp_path / "out.gguf"), *given)
    assert (code, printed) == (2, "")
    assert problem in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out.gguf").exists()
