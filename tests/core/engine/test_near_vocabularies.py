"""Terms whose vocabularies nearly agree: silent where they lack a token, and with one end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from support.distributions import close
from support.near_models import CLOSE, END, OPEN, STOP, build
from support.small_engine import Draws, SmallEngine, answers, draws, share_of_rejected
from support.what_if_cases import first_difference
from torch import Tensor

import marith
from marith import Completion, Plan, Request, Sampling, Stop

PROMPTS = ("a b", "c", "a b c c a b", "b b")
# One of the models has no row for the token that ends a text.
TEXTS = ((), (2,), (2, STOP, OPEN, 4), (OPEN, 2, CLOSE, 3, 3))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallEngine]:
    yield from build(tmp_path_factory.mktemp("near"))


def own_row(small: SmallEngine, name: str, prompt: str, text: tuple[int, ...]) -> Tensor:
    """Return a term's log-probabilities over its own tokens, in float64."""
    term = small.terms[name] if name != "M" else None
    model, words = small.reference.models[None if term is None else term.model]
    asked = f"{term.system}\n{prompt}" if term is not None and term.system else prompt
    ids = [*words.encode(asked, start=True), *(t if t < words.width else 0 for t in text)]
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), dim=-1)


def test_renamed_tokens_are_composed_by_hand(small: SmallEngine) -> None:
    for prompt in PROMPTS:
        for text in TEXTS:
            m, q = (own_row(small, name, prompt, text) for name in ("M", "q"))
            m_ends, q_ends = (torch.logaddexp(row[END], row[STOP]) for row in (m, q))
            want = 1.7 * m - 0.7 * q
            want[END] = 1.7 * m_ends - 0.7 * q_ends
            # Only M knows these two tokens, so its log-probability is not multiplied.
            want[OPEN], want[CLOSE], want[STOP] = m[OPEN], m[CLOSE], -math.inf
            got = small.engine.next_logprobs(prompt, "M + 0.7*(M - q)", small.terms, text)
            close(got, torch.log_softmax(want, dim=-1).float())


def test_a_formula_of_one_near_term_is_its_distribution_over_shared_tokens(
    small: SmallEngine,
) -> None:
    for text in TEXTS:
        row = own_row(small, "q", "a b", text)
        want = row.clone()
        want[END] = torch.logaddexp(row[END], row[STOP])
        want[[OPEN, CLOSE, STOP]] = -math.inf
        got = small.engine.next_logprobs("a b", "q", small.terms, text)
        close(got, torch.log_softmax(want, dim=-1).float())


def test_a_token_that_a_term_lacks_keeps_the_other_terms_opinion(small: SmallEngine) -> None:
    """The law: `</think>` of `M + a*(M - q)` is M's, but for one constant."""
    for text in TEXTS:
        m = own_row(small, "M", "a b", text)
        for a in (0.5, 1.0, 3.0):
            got = small.engine.next_logprobs("a b", f"M + {a}*(M - q)", small.terms, text)
            constants = [got[token] - m[token] for token in (OPEN, CLOSE)]
            assert abs(float(constants[0] - constants[1])) < 1e-4
            # The constant is the one of all other tokens: a score that is not divided.
            ab = own_row(small, "q", "a b", text)
            other = got[2] - (m[2] + a * (m[2] - ab[2]))
            assert abs(float(constants[0] - other)) < 1e-4


FORMULAS = (
    "M + q",
    "q",
    "few",
    "q + 0.5*few",
    "M + 0.5*(M - q)",
    "q + x - 0.5*M",
    "q - 0.5*M",
    "q + (r - M)",
    "r + 0.8*(q - p)",
    "union(q, M)",
    "M - 0.9*union(q, M)",
    "intersection(M, q) + r",
    "M + union(q, p)",
    "M + 2*relu(q - M)",
    "M + indicator(q - M)*(x - M)",
    "unscaled(M + 0.5*q - 0.5*r)",
    "unscaled(q - few) + M",
    "(M + q).min_p(0.1)",
    "M + q.top_k(2)",
    "M.top_k(3) + q.temperature(2)",
    "mixture(0.5, M, 0.5, q)",
    "where(entropy(M) > 1, M + q, q)",
    "M + where(entropy(M) > 1, q, r)",
    "M + where(entropy(M) > 1, q, p)",
    "first(2)*M + q + 0.1*r",
    "cp_fused(M, q)",
    "M + jsd(M, q)*q",
    "M + 0.5*A + q",
    "M + q + 2*C",
    "q + uniform()",
    "self_debias(q, M) + r",
    "agreed(M, q) + M",
    "posterior(M, q) + M",
    "supersede(q, 2*M - q)",
)


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_formula_is_composed_as_by_the_reference_decoder(
    small: SmallEngine, formula: str
) -> None:
    for i, text in enumerate(TEXTS):
        request = Request(PROMPTS[i], formula, small.terms)
        got = small.engine.next_logprobs(PROMPTS[i], formula, small.terms, text)
        close(got, small.reference.distribution(request, [*text])[0])
        assert got[STOP] == -math.inf


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("speculation", [None, "auto"])
def test_texts_are_the_reference_decoders(
    small: SmallEngine, formula: str, speculation: str | None
) -> None:
    requests = [
        Request(PROMPTS[seed % 4], formula, small.terms, Sampling(seed=seed), Stop(12), speculation)
        for seed in range(3)
    ]
    for request, done in zip(requests, answers(small, requests), strict=True):
        text, tokens, reason = small.reference.decode(request)
        assert (done.text, done.tokens, done.finish_reason) == (text, tokens, reason)


def test_at_temperature_zero_no_draft_changes_a_text(small: SmallEngine) -> None:
    greedy = Sampling(temperature=0.0)
    for formula in ("M + 0.7*(M - q)", "q + 0.5*r", "x + 0.5*M"):
        for prompt in PROMPTS:
            texts = {
                small.engine.generate(prompt, formula, small.terms, greedy, Stop(16), plan).text
                for plan in (None, "auto", Plan.drafts("q", length=3), Plan.drafts("few", length=2))
            }
            assert len(texts) == 1


def test_either_end_ends_a_text_with_the_probability_of_both(small: SmallEngine) -> None:
    row = own_row(small, "M", "a b", ())
    q = own_row(small, "q", "a b", ())
    got = small.engine.next_logprobs("a b", "mixture(0.5, M, 0.5, q)", small.terms).double()
    shared_q = torch.logsumexp(q[[0, 1, 2, 3, 4, STOP]], dim=0)
    ends = [torch.logaddexp(of[END], of[STOP]) for of in (row, q - shared_q)]
    close(got[END], torch.logaddexp(*ends) - math.log(2))
    assert got[STOP] == -math.inf
    asked = [Request("a b", "M + q", small.terms, Sampling(seed=i), Stop(20)) for i in range(200)]
    reasons = [done.finish_reason for done in answers(small, asked)]
    assert reasons.count("stop") > 20


def test_other_requests_of_the_batch_keep_their_texts(small: SmallEngine) -> None:
    """Their ends are two tokens, and no token of theirs is forbidden."""
    plain = [
        Request(PROMPTS[i % 4], formula, small.terms, Sampling(seed=i), Stop(16))
        for i, formula in enumerate(("M", "x", "M + 0.5*r", "2*x - M") * 10)
    ]
    near = [
        Request(PROMPTS[i % 4], "M + 0.7*(M - q)", small.terms, Sampling(seed=i), Stop(16))
        for i in range(40)
    ]
    alone = [(done.text, done.tokens) for done in answers(small, plain)]
    mixed = answers(small, [one for pair in zip(plain, near, strict=True) for one in pair])
    assert [(done.text, done.tokens) for done in mixed[::2]] == alone
    rows = [small.engine.next_logprobs("a b", f, small.terms) for f in ("M", "M + r")]
    assert all(bool(row[STOP] > -math.inf) for row in rows)


PLANNED = {
    "the near term verifies last": Plan.factors({"x": 1, "M": 2, "q": 4}),
    "the near term drafts": Plan.factors({"q": 1, "x": 2, "M": 3}),
    "a near model drafts": Plan.drafts("p", length=3),
    "a near model that lacks an end drafts": Plan.drafts("few", length=3),
}


def drawn_with_one_end(small: SmallEngine, asked: list[Request], done: list[Completion]) -> Draws:
    """Return every token with its distribution. A completion does not say by which end it ends."""
    drawn = draws(small, asked, done)
    truths = drawn.truths.clone()
    truths[:, END] += truths[:, STOP]
    truths[:, STOP] = 0
    return replace(drawn, truths=truths)


NEAR, FULL = "M + 0.8*q - 0.6*x", "x + 0.5*M - 0.4*r"


@pytest.mark.parametrize(
    ("formula", "name"),
    [*((NEAR, name) for name in PLANNED), (FULL, "a near model that lacks an end drafts")],
)
def test_drafts_leave_the_distribution(small: SmallEngine, name: str, formula: str) -> None:
    plan = PLANNED[name]
    named = {key: small.terms[key] for key in ("x", "q", "p", "few", "r")}
    asked = [
        Request(PROMPTS[i % 4], formula, named, Sampling(seed=i), Stop(12 - i % 4), plan)
        for i in range(240)
    ]
    done = answers(small, asked)
    drawn = drawn_with_one_end(small, asked, done)
    assert sum(one.stats.accepted for one in done) > 60
    assert share_of_rejected(done) > 0.05
    assert drawn.of_marginals() > 1e-3
    assert drawn.of_pairs() > 1e-3
    others = [Request(one.prompt, "x", named, one.sampling, one.stop, plan) for one in asked]
    assert drawn_with_one_end(small, others, done).of_pairs() < 1e-6


def test_an_inspection_adds_up_on_tokens_that_a_term_lacks(small: SmallEngine) -> None:
    for formula in ("M + 0.7*(M - q)", "q + 0.5*x + r"):
        text = (2, OPEN, 3, CLOSE)
        inspection = marith.inspect(small.engine, "a b", text, formula, small.terms, top=3)
        assert not [part.text for part in inspection.parts if part.kind == "leave_one_out"]
        for place, position in enumerate(inspection.positions):
            row = small.engine.next_logprobs("a b", formula, small.terms, text[:place])
            odds = float(row[position.token] - row[position.reference.token])
            assert position.log_odds == pytest.approx(odds, abs=1e-4)
            terms = dict(
                zip([term.names[0] for term in inspection.terms], position.terms, strict=True)
            )
            lacked = position.token in (OPEN, CLOSE)
            assert (terms["q"].logprob is None) == lacked
    weights = {"q": 1.0, "x": 0.5, "r": 1.0}
    assert {name: term.weight for name, term in terms.items()} == weights


def test_another_number_redraws_the_text_that_it_would_give(small: SmallEngine) -> None:
    for seed in range(8):
        request = Request("a b", "M + 0.7*(M - q)", small.terms, Sampling(seed=seed), Stop(12))
        completion = small.engine.submit(request).result()
        kept = marith.what_if(small.engine, request, completion)
        assert kept.at(0, [0.7]).first_flip == (None,)
        for value, foreseen in zip([0.1, 2.0], kept.at(0, [0.1, 2.0]).first_flip, strict=True):
            changed = replace(request, formula=kept.changed(0, value))
            assert first_difference(completion, small.engine.submit(changed).result()) == foreseen


def test_calibrate_measures_a_plan(small: SmallEngine) -> None:
    plan = small.engine.calibrate("supersede(few, M + 0.7*(M - q))", ["a b"], small.terms, "calls")
    done = small.engine.generate(
        "a b", "M + 0.7*(M - q)", small.terms, speculation=plan, min_tokens=3
    )
    assert done.tokens
