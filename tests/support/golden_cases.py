"""Seeded requests over all features, as data: `golden.py` records and compares their results.

Only public names of marith are used, so that the same file runs on any commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

from marith import Ban, Classifier, Grammar, NGram, Plan, Prompted, Request, Sampling, Stop, Tools

TERMS: dict[str, Any] = {
    "kind": "You are kind and helpful.",
    "curt": "You answer in as few words as you can.",
    "toxic": "You are rude and insult everybody.",
    "without": Prompted(hide=r"Passage:.*"),
    "polite": Prompted(adapter="pocket-polite"),
    "rude": Prompted(adapter="pocket-rude"),
    "small": Prompted(model="pocket-draft"),
    "C": Classifier("pocket-toxicity", label="civil"),
    "S": Classifier("pocket-sentiment", candidates=9, read_prompt=True),
    "counted": NGram(texts=("Once upon a time there was a cat.", "The cat sat on the mat.")),
    "copied": NGram(order=4, online=True),
}
PROMPTS = (
    "Tell me a story about a cat.",
    "Passage: The cat sat on the mat.\n\nWhere did the cat sit?",
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who are you?"}],
    [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Good morning to you."},
        {"role": "user", "content": "What is a comet?"},
    ],
)
# One for each kind of node, factor and recipe; no classifier in those up to `CLASSIFIED`.
FORMULAS = (
    "M", "kind", "0.5*M + 0.5*kind", "M - 0.96*union(toxic, M)", "intersection(kind, curt)",
    "2*kind - M", "M + kind - 0.5*curt", "unscaled(kind + 0.5*curt)", "supersede(small, M)",
    "supersede(small, M + 0.5*kind)", "M.top_k(5)", "kind.top_p(0.8) + 0.2*M",
    "(M + kind).min_p(0.1)", "M.temperature(0.7) + 0.5*curt", "M + 0.1*relu(kind - M)",
    "M + indicator(kind - M)*(kind - M)", "mixture(0.7, M, 0.3, kind)",
    "where(entropy(M) > 2, kind, M)", "where(first(3), curt, M)",
    "M + jsd(M, kind)*(kind - M)", "M + renyi(M, curt)*0.2*kind", "M + 0.2*max_prob(kind)*kind",
    "M + 0.1*margin(M)*kind", "M + decay(8)*(kind - M)", "M + balance(kind, curt)*(kind - M)",
    "M + maximum(0.1, minimum(max_prob(M), 0.5))*kind", "M + sigmoid(entropy(M))*(curt - M)",
    "M + 3*posterior(kind, toxic)", "self_debias(M, toxic)", "M + agreed(M, kind)",
    "M + uniform()", "M + 0.2*counted", "M + 0.2*copied", "prompted(\"Be odd.\", \"prepend\")",
    "prompted(\"Be odd.\", \"replace\", template=\"plain\")", "1.5*M - 0.5*without",
    "polite", "M + 0.5*rude - 0.2*polite", "dola(M, 1)", "prompted(exit_layer=1) + M",
    "cfg(kind, M)", "context_aware(M, without)", "adaptive_context_aware(M, without)",
    "contrastive(M, small)", "dexperts(M, polite, rude)", "proxy_tuned(M, kind, curt)",
    "preadd(M, toxic)", "cocoa(M, without)", "cp_fused(kind, curt)", "nudged(M, kind)",
    "unlearned(M, toxic)", "genarm(M, kind, curt)", "ensemble(M, kind, curt)",
    "in_context_mixture(kind, curt)", "self_debiased(M, toxic)", "cognac(M, kind, toxic)",
    "gedi(M, kind, toxic)", "safe_decoded(M, kind)", "negative_prompt(M, toxic)",
    "system_strength(M, kind)",
    "M + 0.5*C", "M - 0.96*union(toxic, M) + 0.04*C", "fudge(M, C)", "M + 0.3*C + 0.2*S",
    "reward_guided(M, C)", "M + class_prob(C)*(kind - M)", "union_detox(M, toxic, C)",
    'M + classifier("pocket-toxicity", guide=kind, coverage=0.9, scale="logit")',
)  # fmt: skip
CLASSIFIED = FORMULAS.index("M + 0.5*C")
STEERED = ("M", "0.5*M + 0.5*kind", "M - 0.96*union(toxic, M)", "M + 0.5*C", "polite + 0.2*M")
PLANS = (
    Plan.factors({"kind": 3}),
    Plan.factors({"toxic": 4}),
    Plan.drafts("small"),
    Plan.drafts("small", length=8),
    Plan.drafts("small.top_k(3)", length=2),
    Plan.drafts(NGram(order=4, online=True)),
    Plan.drafts("counted", "small"),
    Plan.drafts("M"),
    Plan(every=(("C", 4),), drafted_by=("small",), length=3),
)
SAMPLINGS = (
    Sampling(temperature=0.0),
    Sampling(temperature=0.6, top_k=12),
    Sampling(temperature=1.7, top_p=0.8),
    Sampling(min_p=0.05, repetition_penalty=1.3),
)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
GRAMMARS = (
    Grammar.regex(r"(yes|no), [a-z]{3,9}( [a-z]{2,9}){2,6}\."),
    Grammar.json_schema(SCHEMA),
    Grammar.json_object(),
    Grammar.lark('start: "The " /[a-z]+/ (" and " /[a-z]+/)* "."'),
)
TOOL = {
    "type": "function",
    "function": {"name": "look_up", "description": "Looks a word up.", "parameters": SCHEMA},
}
OTHER = {"type": "function", "function": {"name": "wait", "parameters": {"type": "object"}}}
TOOLS = (
    Tools((TOOL,), choice="required"),
    Tools((TOOL, OTHER), choice="look_up", parallel=False),
    Tools((TOOL, OTHER), choice="auto", strict=True),
    Tools((OTHER,), choice="none"),
)
BANS = (
    Ban(("the", "cat", "story")),
    Ban(("a", "e"), whole_words=False),
    Ban(("The", "I"), case_sensitive=True),
)
STOPS = (Stop(24, (".",)), Stop(24, ("e", " the")), Stop(3))


@dataclass(frozen=True, slots=True)
class Case:
    """A named request. Requests of one `batch` run at the same time."""

    name: str
    request: Request
    batch: str | None = None


def cases() -> list[Case]:
    """Return every case, in the order in which they are asked. Each has its own seed."""
    seeded = []
    for seed, (case, prompt) in enumerate(zip(_cases(), cycle(PROMPTS), strict=False)):
        request = case.request
        sampling = replace(request.sampling, seed=1000 + seed)
        seeded.append(replace(case, request=replace(request, prompt=prompt, sampling=sampling)))
    return seeded


def _case(name: str, formula: str = "0.5*M + 0.5*kind", **options: Any) -> Case:
    given = {"stop": Stop(20), "speculation": None, **options}
    return Case(name, Request("", formula, TERMS, **given))


def _cases() -> Iterator[Case]:
    for formula in FORMULAS:
        yield _case(f"alone {formula}", formula)
    for formula in FORMULAS[::4]:
        yield _case(f"auto {formula}", formula, speculation="auto")
    for formula in STEERED:
        for i, plan in enumerate(PLANS):
            if _fits(plan, formula):
                yield _case(f"plan {i} {formula}", formula, speculation=plan)
    for speculation in (None, Plan.drafts("small"), "auto"):
        yield from _featured(speculation)
    for i, formula in enumerate(FORMULAS[3::5]):
        case = _case(f"together {formula}", formula, speculation="auto" if i % 2 else None)
        yield replace(case, batch="together")


def _fits(plan: Plan, formula: str) -> bool:
    """Return True if the formula has every term that the plan names."""
    return all(name in formula for name, _ in plan.every)


def _featured(speculation: Any) -> Iterator[Case]:
    """Yield cases with every option that a request has beside its formula."""
    given = {"speculation": speculation}
    for i, sampling in enumerate(SAMPLINGS):
        yield _case(f"sampling {i} {speculation}", sampling=sampling, **given)
    for i, grammar in enumerate(GRAMMARS):
        yield _case(f"grammar {i} {speculation}", grammar=grammar, stop=Stop(40), **given)
    for i, tools in enumerate(TOOLS):
        yield _case(f"tools {i} {speculation}", tools=tools, stop=Stop(40), **given)
    for i, ban in enumerate(BANS):
        yield _case(f"ban {i} {speculation}", ban=ban, **given)
    for i, stop in enumerate(STOPS):
        yield _case(f"stop {i} {speculation}", stop=stop, **given)
    yield _case(f"logprobs {speculation}", logprobs=3, **given)
    yield _case(f"logprobs of C {speculation}", "M + 0.5*C", logprobs=2, **given)
    yield _case(f"ban in JSON {speculation}", ban=BANS[0], grammar=GRAMMARS[1], **given)
    yield _case(f"stop and ban {speculation}", ban=BANS[0], stop=STOPS[1], logprobs=0, **given)
