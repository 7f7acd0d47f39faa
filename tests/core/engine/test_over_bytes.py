"""An engine over bytes samples texts as the formula says, of models with other vocabularies."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from support.byte_models import END, END_OF_BYTES, KINDS, ByteModel, byte_model, saved

from marith import Engine, Grammar, NGram, Plan, Prompted, Request, Sampling, Stop
from marith.decoding.evaluate import evaluate
from marith.formula.meaning.binding import bind, resolve
from marith.formula.text.trust import parse
from marith.formula.tree.signals import likelihood_of
from marith.formula.tree.terms import Term
from marith.scoring.terms.ngram_counts import NGramCounts

PROMPT, LENGTH, FEW = "the cat sat", 3, 5
LETTERS = Grammar.regex("[ a-z\\n]*"), [*b"\n abcdefghijklmnopqrstuvwxyz", END_OF_BYTES]
Law = Callable[[bytes], np.ndarray]
TermLaw = Callable[[bytes, bytes], np.ndarray]


@dataclass(frozen=True)
class Pair:
    """An engine over two models of different vocabularies, and the law of each term's bytes."""

    engine: Engine
    terms: dict[str, Term]
    laws: dict[str, TermLaw]

    def composed(self, weights: dict[str, float], prompt: str) -> Law:
        """Return the law of a weighted sum of terms: theorem 1, over bytes."""

        def law(data: bytes) -> np.ndarray:
            rows = {name: np.log(self.laws[name](prompt.encode(), data)) for name in weights}
            score = sum(weight * rows[name] for name, weight in weights.items())
            mass = np.exp((score - score.max()) / sum(weights.values()))
            return np.asarray(mass / mass.sum())

        return cache(law)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    base, other = byte_model("byte level"), byte_model("pieces after a space", seed=5)
    terms = {
        "b": Prompted(model=saved(other, tmp_path_factory.mktemp("other"))),
        "x": Prompted("the  th"),
        "A": NGram(texts=("the cat a e i o", "a e i"), order=2),
    }
    spoken = [[*text.encode(), END_OF_BYTES] for text in terms["A"].texts]
    counts = NGramCounts(2, END_OF_BYTES + 1, spoken)
    laws = {
        "M": cache(lambda prompt, data: base.law(prompt + data)),
        "b": cache(lambda prompt, data: other.law(b" " + prompt + data)),
        "x": cache(lambda prompt, data: base.law(b"the  th\n" + prompt + data)),
        "A": lambda prompt, data: counts.logprobs([*data]).double().exp().numpy(),
    }
    with Engine.load(
        base.model, tokenizer=base.tokenizer, over="bytes", max_lanes=64, max_queue=4096
    ) as engine:
        yield Pair(engine, terms, laws)


def probabilities(pair: Pair, formula: str, data: bytes, prompt: str = PROMPT) -> np.ndarray:
    row = pair.engine.next_logprobs(prompt, formula, pair.terms, [*data])
    return np.asarray(row.double().exp().numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_one_model_has_the_law_of_its_bytes(kind: str) -> None:
    model = byte_model(kind)
    first = b" " if "after a space" in kind else b""
    with Engine.load(model.model, tokenizer=model.tokenizer, over="bytes") as engine:
        for prompt in (
            "the cat sat  ",
            "",
            "it's a th",
            "12",
            "東東def that",
            "HIthat",
            "(. the  ",
        ):
            data = "at\n\n1 é東".encode()
            for end in range(len(data) + 1):
                row = engine.next_logprobs(prompt, continuation=[*data[:end]]).double().exp()
                space = first if prompt else b""
                expected = model.law(space + prompt.encode() + data[:end])
                np.testing.assert_allclose(row.numpy(), expected, atol=1e-5, rtol=1e-3)


def test_a_model_without_a_first_token_may_begin_with_a_part_of_a_word() -> None:
    """The model reads the token that stands for an empty text, and then the bytes."""
    model = byte_model("no first token")
    assert model.vocabulary().encode("th", start=True) == model.encode("th")
    with Engine.load(model.model, tokenizer=model.tokenizer, over="bytes") as engine:
        for prompt, data in (("", "the"), ("th", "e"), ("the", "")):
            row = engine.next_logprobs(prompt, continuation=data).double().exp()
            expected = model.law(b"the", start=[END])
            np.testing.assert_allclose(row.numpy(), expected, atol=1e-5, rtol=1e-3)


THREE = "M + 0.5*b - 0.7*A"
FORMULAS = {
    "0.3*M + 0.7*b": {"M": 0.3, "b": 0.7},
    "M - 0.4*b": {"M": 1.0, "b": -0.4},
    "b": {"b": 1.0},
    THREE: {"M": 1.0, "b": 0.5, "A": -0.7},
    "M + x": {"M": 1.0, "x": 1.0},
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_composes_the_bytes_of_models_of_other_vocabularies(
    pair: Pair, formula: str
) -> None:
    for prompt in (PROMPT, "12 a"):
        law = pair.composed(FORMULAS[formula], prompt)
        data = " the\n é 東".encode()
        for end in range(len(data) + 1):
            row = probabilities(pair, formula, data[:end], prompt)
            np.testing.assert_allclose(row, law(data[:end]), atol=1e-5, rtol=1e-3)


@dataclass
class Texts:
    """The likely texts of a law: their probabilities, and those of the others, by beginning.

    Only the bytes of `LETTERS` are in texts.
    """

    law: Law
    draws: int
    whole: dict[tuple[int, ...], float] = field(default_factory=dict)
    others: dict[tuple[int, ...], float] = field(default_factory=dict)

    def visit(self, text: tuple[int, ...] = (), chance: float = 1.0) -> None:
        if len(text) == LENGTH or END_OF_BYTES in text:
            self.whole[text] = chance
            return
        rest = chance
        _, allowed = LETTERS
        row = self.law(bytes(text))[allowed]
        for byte, share in zip(allowed, (row / row.sum()).tolist(), strict=True):
            if chance * share * self.draws >= FEW:
                self.visit((*text, byte), chance * share)
                rest -= chance * share
        self.others[text] = rest

    def cell(self, text: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        if text in self.whole:
            return "whole", text
        return "others", max((text[:n] for n in range(LENGTH) if text[:n] in self.others), key=len)

    def p_value(self, texts: Sequence[tuple[int, ...]]) -> float:
        """Return the p-value of a chi-square test. Cells that are expected seldom are one cell."""
        chances = {("whole", text): chance for text, chance in self.whole.items()}
        chances |= {("others", text): chance for text, chance in self.others.items()}
        seen = Counter(map(self.cell, texts))
        large = [cell for cell, chance in chances.items() if chance * self.draws >= FEW]
        pairs = [(seen[cell], chances[cell] * self.draws) for cell in large]
        seen_small = len(texts) - sum(count for count, _ in pairs)
        pairs.append((seen_small, max(1e-9, self.draws - sum(wanted for _, wanted in pairs))))
        total = sum((count - wanted) ** 2 / wanted for count, wanted in pairs)
        return float(chi2.sf(total, len(pairs) - 1))


def test_whole_texts_have_the_probability_of_the_formula(pair: Pair) -> None:
    draws = 300
    requests = [
        Request(PROMPT, THREE, pair.terms, Sampling(seed=i), Stop(LENGTH), grammar=LETTERS[0])
        for i in range(draws)
    ]
    done = [ticket.result(120) for ticket in map(pair.engine.submit, requests)]
    texts = [(*one.tokens, *[END_OF_BYTES] * (one.finish_reason == "stop")) for one in done]
    right = Texts(pair.composed(FORMULAS[THREE], PROMPT), draws)
    right.visit()
    assert len(right.whole) + len(right.others) > 15
    assert right.p_value(texts) > 1e-3
    wrong = Texts(pair.composed({"M": 1.0, "b": 0.5}, PROMPT), draws)
    wrong.visit()
    assert wrong.p_value(texts) < 1e-6


def test_drafts_change_no_text_at_temperature_zero(pair: Pair) -> None:
    """Several positions of a text are asked at once, after bytes that may be rejected."""
    for formula in (THREE, "0.3*M + 0.7*b"):
        texts = {
            pair.engine.generate(
                PROMPT, formula, pair.terms, Sampling(0.0), Stop(16), plan, grammar=LETTERS[0]
            ).text
            for plan in (None, Plan.factors({"M": 1, "b": 3}), Plan.drafts("b", length=3))
        }
        assert len(texts) == 1


def test_no_byte_is_drafted_by_itself(pair: Pair) -> None:
    auto, none = (
        pair.engine.open(Request(PROMPT, THREE, pair.terms, speculation=plan)).plan
        for plan in ("auto", None)
    )
    assert not none.drafts
    assert (auto.drafts, auto.factors, auto.chooses_lengths) == ((), {}, False)


def test_a_prompt_may_end_inside_a_word(pair: Pair) -> None:
    """Where a prompt ends changes no distribution: its last bytes are read as if generated."""
    whole = "the cat and then"
    for formula in ("M", "b", "0.3*M + 0.7*b"):
        for cut in (4, 9, 13, 14, 15):
            begun, rest = whole[:cut], whole[cut:].encode()
            got = probabilities(pair, formula, rest, begun)
            np.testing.assert_allclose(got, probabilities(pair, formula, b"", whole), atol=1e-5)


def test_prefixes_and_scores_are_of_the_same_bytes(pair: Pair) -> None:
    formula, text = "0.3*M + 0.7*b", "at é 12"
    data = text.encode()
    law = pair.composed(FORMULAS[formula], PROMPT)
    expected = [float(np.log(law(data[:i])[byte])) for i, byte in enumerate(data)]
    scores = pair.engine.score(PROMPT, text, formula, pair.terms)
    assert scores == pytest.approx(expected, abs=1e-3)
    some = [Request(PROMPT, formula, pair.terms, Sampling(seed=7), Stop(9))]
    [whole] = [pair.engine.submit(one).result(60) for one in some]
    for cut in range(1, 6):
        rest = pair.engine.generate(
            PROMPT, formula, pair.terms, Sampling(seed=7), Stop(9 - cut), prefix=whole.tokens[:cut]
        )
        assert rest.tokens == whole.tokens[cut:]


def test_factors_observe_the_likelihood_of_the_bytes_after_the_prompt(pair: Pair) -> None:
    """The prompt ends inside a word, whose bytes are no part of the text."""
    formula = bind(parse("M + balance(M, b)*b"), resolve(pair.terms, parse("M + balance(M, b)*b")))
    data = b" at the"
    for end in range(len(data) + 1):
        rows, likelihoods = {}, {}
        for name, term in (("M", Prompted()), ("b", pair.terms["b"])):
            law = pair.composed({name: 1.0}, PROMPT)
            rows[term] = torch.from_numpy(law(data[:end])).log()[None]
            said = sum(np.log(law(data[:i])[data[i]]) for i in range(end))
            likelihoods[likelihood_of(term)] = torch.tensor([[said]])
        expected = evaluate(formula, {**rows, **likelihoods})[0].exp()
        got = probabilities(pair, "M + balance(M, b)*b", data[:end])
        np.testing.assert_allclose(got, expected.numpy(), atol=1e-5, rtol=1e-3)


def test_an_early_exit_has_the_bytes_of_the_layers_before_it(pair: Pair) -> None:
    whole = byte_model("byte level")
    shallow = copy.deepcopy(whole.model)
    shallow.model.layers = shallow.model.layers[:1]
    law = ByteModel(whole.kind, shallow).law
    terms = {**pair.terms, "e": Prompted(exit_layer=1)}
    for formula, weights in (("e", (0.0, 1.0)), ("M - 0.5*e", (1.0, -0.5))):
        for data in (b"", b" ", b" th", "é東".encode()[:4]):
            score = sum(
                weight * np.log(of(PROMPT.encode() + data))
                for of, weight in zip((whole.law, law), weights, strict=True)
            )
            mass = np.exp((score - score.max()) / sum(weights))
            row = pair.engine.next_logprobs(PROMPT, formula, terms, [*data]).double().exp()
            np.testing.assert_allclose(row.numpy(), mass / mass.sum(), atol=1e-5, rtol=1e-3)
