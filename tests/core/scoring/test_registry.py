"""Which scorer computes which term: one for a checkpoint, and none of another vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.near_models import tokenizer_of
from support.runner_questions import opened
from support.vocabularies import byte_tokenizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.gguf_file import write_gguf
from marith import Engine, Plan, Request
from marith.engine.prepare import bind_request
from marith.engine.threads.deadline import NEVER
from marith.errors import FormulaError, ModelError
from marith.formula.tree.terms import Classifier, Likelihood, NGram, Prompted, Uniform
from marith.request.prompt import to_prompt
from marith.scoring.passes.questions import Span
from marith.scoring.registry import Registry, device_of
from marith.scoring.terms.classifier_scorer import ClassifierScorer
from marith.scoring.terms.ngram_scorer import NGramScorer
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.scoring.terms.trivial import UniformScorer
from marith.scoring.weights import loader
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.loader import Placement
from marith.testing import LETTERS, tiny_classifier, tiny_model, tiny_tokenizer

CPU = Placement()


def save(model: Any, tokenizer: Any, where: Path) -> str:
    model.save_pretrained(where)
    tokenizer.save_pretrained(where)
    return str(where)


def registry() -> Registry:
    return Registry(loader.from_loaded(tiny_model(), tiny_tokenizer(), CPU))


def test_all_prompts_of_the_base_model_share_one_scorer() -> None:
    asked = registry()
    assert asked.scorer_of(Prompted()) is asked.base
    assert asked.scorer_of(Prompted("angry", mode="replace")) is asked.base
    assert asked.scorers() == [asked.base]


def test_a_model_named_twice_is_loaded_once(tmp_path: Path) -> None:
    name = save(tiny_model(seed=1), tiny_tokenizer(), tmp_path / "other")
    asked = registry()
    first = asked.scorer_of(Prompted(model=name))
    assert asked.scorer_of(Prompted("angry", model=name)) is first
    assert first is not asked.base
    assert isinstance(first, PromptedScorer)
    assert asked.scorers() == [asked.base, first]
    term = Prompted(model=name)
    spoken = [Span(term, opened(first, term, (2, 3)), [4])]
    with torch.inference_mode():
        want = torch.log_softmax(tiny_model(seed=1)(torch.tensor([[2, 3, 4]])).logits[0, -1:], -1)
    torch.testing.assert_close(first.score(spoken)[0].logprobs, want, atol=1e-4, rtol=0)


def test_the_base_model_by_its_own_name_is_the_base_model(tmp_path: Path) -> None:
    name = save(tiny_model(), tiny_tokenizer(), tmp_path / "base")
    asked = Registry(loader.language_model(name, CPU))
    assert asked.scorer_of(Prompted(model=name)) is asked.base


def test_one_checkpoint_under_two_names_is_one_scorer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = save(tiny_model(seed=4), tiny_tokenizer(), tmp_path / "other")
    judge = save(tiny_classifier(), tiny_tokenizer(), tmp_path / "judge")
    monkeypatch.chdir(tmp_path)
    asked = registry()
    assert asked.scorer_of(Prompted(model="./other")) is asked.scorer_of(Prompted(model=other))
    assert asked.scorer_of(Classifier("./judge")) is asked.scorer_of(Classifier(judge))


def test_another_vocabulary_is_refused_with_both_sizes(tmp_path: Path) -> None:
    words = tuple(LETTERS[:10])
    name = save(tiny_model(vocab=12), tiny_tokenizer(words), tmp_path / "other")
    asked = registry()
    with pytest.raises(FormulaError, match=r"\b12 tokens.*\b28 tokens") as caught:
        asked.scorer_of(Prompted(model=name))
    assert name in str(caught.value)
    turned = save(tiny_model(), tiny_tokenizer(tuple(reversed(LETTERS))), tmp_path / "turned")
    with pytest.raises(FormulaError, match="vocabulary"):
        asked.scorer_of(Prompted(model=turned))
    assert asked.scorers() == [asked.base]


def test_another_vocabulary_is_refused_before_weights_are_read(tmp_path: Path) -> None:
    """A header and a tokenizer say it, and weights may take a minute."""
    name = save(tiny_model(vocab=12), tiny_tokenizer(tuple(LETTERS[:10])), tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(FormulaError, match=r"different vocabularies.*a model of the same family"):
        registry().scorer_of(Prompted(model=name))
    write_gguf(tiny_model(vocab=257), tmp_path / "it.gguf", "f32", byte_tokenizer())
    whole = (tmp_path / "it.gguf").read_bytes()
    (tmp_path / "it.gguf").write_bytes(whole.replace(b"output_norm.weight", b"output_gone.weight"))
    with pytest.raises(FormulaError, match="different vocabularies"):
        registry().scorer_of(Prompted(model=str(tmp_path / "it.gguf")))


WORDS = tuple(f"w{i}" for i in range(300))
THINK, BOX = ("<think>", "</think>"), ("<box>", "</box>")


def over_words(tmp_path: Path, special: tuple[str, ...]) -> str:
    return save(tiny_model(vocab=304, seed=2), tokenizer_of(special, WORDS), tmp_path / special[0])


def test_a_vocabulary_that_nearly_agrees_is_taken_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renamed = over_words(tmp_path, BOX)
    tokenizer = tokenizer_of(THINK, WORDS)
    asked = Registry(loader.from_loaded(tiny_model(vocab=304), tokenizer, CPU))
    scorer = asked.scorer_of(Prompted(model=renamed))
    assert asked.scorer_of(Prompted("angry", model=renamed)) is scorer
    assert isinstance(scorer, PromptedScorer)
    assert scorer.shared is not None
    assert scorer.shared.lacking == (302, 303)
    [said] = [record.message for record in caplog.records if "tokens differ" in record.message]
    assert "2 of 304 tokens differ, such as token 302: '<box>' in" in said
    assert said.endswith("on such a token, only the other terms of a formula count")
    term = Prompted(model=renamed)
    [answer] = scorer.score([Span(term, opened(scorer, term, (2, 3)), [302])])
    with torch.inference_mode():
        want = tiny_model(vocab=304, seed=2)(torch.tensor([[2, 3, 302]])).logits[0, -1:]
    want = torch.log_softmax(want, dim=-1)
    want[:, 302:] = -torch.inf
    torch.testing.assert_close(answer.logprobs, want, atol=1e-4, rtol=0)


def test_a_plan_is_changed_only_for_a_term_that_lacks_tokens(tmp_path: Path) -> None:
    renamed, alike = over_words(tmp_path, BOX), over_words(tmp_path, THINK)
    tokenizer = tokenizer_of(THINK, WORDS)
    engine = Engine.load(tiny_model(vocab=304), tokenizer=tokenizer)
    with engine:
        terms = {"q": Prompted(model=renamed), "r": Prompted(model=alike)}
        for formula, near in (("M + 0.5*r", False), ("M + 0.5*q", True), ("q", True)):
            request = Request("w1 w2", formula, terms)
            plan, _, _ = bind_request(request)
            prepared = engine.open(request, NEVER)
            assert (prepared.plan is plan) is not near
            assert str(prepared.plan.formula) == str(plan.formula)
            # Texts of one plan are composed together.
            assert engine.open(request, NEVER).plan is prepared.plan
        # A draft has no part in the distribution, so the formula keeps its rule.
        drafted = Request("w1", "M + 0.5*r", terms, speculation=Plan.drafts("q", length=2))
        plan, _, _ = bind_request(drafted)
        assert engine.open(drafted, NEVER).plan is plan


def test_a_classifier_keeps_a_vocabulary_of_its_own(tmp_path: Path) -> None:
    words = tuple(LETTERS[:10])
    name = save(tiny_classifier(vocab=12), tiny_tokenizer(words), tmp_path / "judge")
    asked = registry()
    first = asked.scorer_of(Classifier(name))
    assert isinstance(first, ClassifierScorer)
    assert asked.scorer_of(Classifier(name, label="no", candidates=3)) is first


def test_counting_terms_have_scorers_of_their_own() -> None:
    asked = registry()
    assert isinstance(asked.scorer_of(NGram(texts=("a",))), NGramScorer)
    assert asked.scorer_of(NGram(texts=("b",))) is asked.scorer_of(NGram(texts=("a",)))
    assert isinstance(asked.scorer_of(Uniform()), UniformScorer)


def test_a_model_that_cannot_be_loaded_leaves_the_registry_unchanged(tmp_path: Path) -> None:
    asked = registry()
    for term in (Prompted(model=str(tmp_path)), Classifier(str(tmp_path))):
        with pytest.raises(ModelError):
            asked.scorer_of(term)
    assert asked.scorers() == [asked.base]


def test_another_model_keeps_its_own_context(tmp_path: Path) -> None:
    name = save(tiny_model(seed=1, context_length=64), tiny_tokenizer(), tmp_path / "other")
    short = Placement(context_length=100)
    asked = Registry(loader.from_loaded(tiny_model(), tiny_tokenizer(), short))
    other = asked.scorer_of(Prompted(model=name))
    assert isinstance(other, PromptedScorer)
    assert (asked.base.context_length, other.context_length) == (100, 64)


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_a_device_is_reported_with_its_index(device: str) -> None:
    loaded = loader.from_loaded(tiny_model(), tiny_tokenizer(), CPU)
    # A stand-in for a model on a GPU: no machine that runs these tests needs to have one.
    assert device_of(replace(loaded, model=SimpleNamespace(device=torch.device(device)))) == device


def test_a_term_over_another_model_has_a_type_and_a_device_of_its_own() -> None:
    """`cpu:0` is not `cpu` to torch, so what is computed there is copied."""
    chat = [{"role": "user", "content": "Hi"}]
    with Engine.load("pocket", device="cpu") as engine:
        for options in ({"dtype": "bfloat16"}, {"device": "cpu:0"}, {}):
            with Engine.load("pocket-draft", **({"device": "cpu"} | options)) as alone:
                term = Prompted(model="pocket-draft", **options)
                found = engine.next_logprobs(chat, "a", {"a": term})
                assert torch.equal(found, alone.next_logprobs(chat)), options
                assert found.device == torch.device("cpu")
        terms = {f"t{i}": f"prompted(model='pocket-draft', dtype='{kind}')"
                 for i, kind in enumerate(("float32", "bfloat16"))}  # fmt: skip
        assert engine.generate(chat, "M - 0.1*t0 + 0.1*t1", terms, max_tokens=3).tokens
        assert engine.status().checkpoints.count("pocket-draft") <= 1
        with pytest.raises(ModelError, match="device must be a device of torch"):
            engine.generate("Hi", "a", {"a": Prompted(model="pocket-draft", device="toaster")})
    with pytest.raises(FormulaError, match="device='cpu' is only for a term with model="):
        Prompted(device="cpu")


@dataclass(frozen=True, slots=True)
class OnMps(Checkpoint):
    """A checkpoint that says it is on Apple's `mps`, where there is no float64."""

    @property
    def device(self) -> torch.device:
        return torch.device("mps")


class WithoutFloat64(TorchDispatchMode):
    """Refuses every operation that makes a number of float64, as `mps` does."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in tree_leaves(out):
            assert not isinstance(one, torch.Tensor) or one.dtype != torch.float64, func
        return out


def test_without_float64_on_the_device_float64_is_computed_on_the_cpu() -> None:
    """What scorers compute on the device needs none, and their answers are brought away."""
    base = loader.language_model("pocket", Placement("cpu"))
    fields = (base.name, base.model, base.vocabulary, base.context_length)
    asked = Registry(OnMps(*fields))
    assert asked.device == torch.device("cpu")
    assert asked.placement.device == "mps"
    prompt = to_prompt("Hi")
    terms = [Prompted(), Prompted(adapter="pocket-polite"), Prompted(exit_layer=3),
             Likelihood(Prompted())]  # fmt: skip
    guided = ClassifierScorer(
        loader.classifier("pocket-toxicity", Placement("cpu")),
        base.vocabulary,
        answers=asked.device,
    )
    for scorer, term in [*((asked.base, one) for one in terms), (guided, Classifier("x"))]:
        lane = opened(scorer, term, scorer.read(term, prompt))
        span = Span(term, lane, [40, 41], 2, candidates=[[5, 6], [7]])
        with WithoutFloat64():
            [answer] = scorer.score([span])
        assert answer is not None
        assert answer.logprobs.device == torch.device("cpu")
        scorer.release(lane)
