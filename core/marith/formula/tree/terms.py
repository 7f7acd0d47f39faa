"""The leaves of a formula: terms that name a distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Literal, TypeAlias

from marith.errors import FormulaError, names_checked, shown
from marith.formula.patterns import compile_pattern
from marith.formula.tree.factors import is_number, number, plain
from marith.formula.tree.node import printed_length
from marith.formula.tree.nodes import MOST_TOKENS, Formula

Option: TypeAlias = "str | int | float | bool | None"

MODES = ("append", "prepend", "replace", "whole")
TEMPLATES = ("chat", "plain")
POSITIONS = ("all", "answer")
SCALES = ("log", "probability", "logit")
# An upper bound on the number of characters of `classifier(…)` besides its guide and its texts.
GUIDED = 120
LARGEST_OPTION = 10**100
# Arguments of a chat template that the engine sets, or that would change how it reads prompts.
RESERVED = frozenset(
    (
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "documents",
        "max_length",
        "messages",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "sanitize_control_tokens",
        "tokenize",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    )
)
# An n-gram of order n counts each token of a text n times.
MAX_ORDER = 32


class Term(Formula):
    """A leaf that names a distribution over the next token."""

    __slots__ = ()
    leaf = True


@printed_length.register
def _bound_length_of_term(term: Term) -> int:
    """Return 1 for a term, plus the length of each guide in it: a guide counts like any formula."""
    return sum((GUIDED + part.letters for part in term.inner), 1)


class Observation(Term):
    """A leaf whose value is one number about the text so far. Factors are computed from it.

    An observation is scored like a term, but its scores have one column instead of one for each
    token of the vocabulary. It occurs only in factors, and never in formula text.
    """

    __slots__ = ()


# Names that users write by mistake, each with the field of `Prompted` that they mean.
SPELLED: Mapping[str, str] = {
    **dict.fromkeys(("prompt", "system_prompt", "text", "content", "instructions"), "system"),
    **dict.fromkeys(("lora", "lora_path", "adapter_path", "peft"), "adapter"),
    **dict.fromkeys(("vector", "control_vector", "control_vectors", "cvec"), "vectors"),
    **dict.fromkeys(("steering", "steering_vector"), "vectors"),
}


@names_checked({name: f"write {field}=…" for name, field in SPELLED.items()})
@dataclass(frozen=True, slots=True, eq=False)
class Prompted(Term):
    """A language model with a system prompt and its own way to read the request's messages.

    - `system`: the system prompt; `mode`: how it is joined to the application's system message.
      With "whole", this text is the whole prompt of the term, without a chat template.
    - `hide`: a regular expression in RE2's syntax. Its matches are removed from the messages; if
      named groups took part in a match, only the text of these groups is removed.
    - `model`: another checkpoint with the same vocabulary, but for a few special tokens. In an
      engine over bytes, it may have any vocabulary. `device` and `dtype` are by default those of
      the base model.
    - `template`: "chat" or "plain"; by default "chat" if the tokenizer has a chat template.
    - `options`: keyword arguments of the chat template.
    - `adapter`: a LoRA adapter of the model. It is computed in the model's own forward pass.
    - `vectors`: control vectors of the model, by file, each with its strength of either sign, such
      as `{"happy.gguf": 1.2, "formal.gguf": -0.5}`. Their directions, times their strengths, are
      added to the hidden states.
    - `positions`: the tokens at which vectors are added: "all", or "answer", which begins at the
      last token of the prompt.
    - `exit_layer`: read the log-probabilities after this number of layers, through the model's last
      norm and head. The term shares the lane of the whole model.
    """

    system: str = ""
    mode: Literal["append", "prepend", "replace", "whole"] = "append"
    hide: str | None = None
    model: str | None = None
    template: Literal["chat", "plain"] | None = None
    options: tuple[tuple[str, Option], ...] = ()
    adapter: str | None = None
    vectors: tuple[tuple[str, float], ...] = ()
    positions: Literal["all", "answer"] = "all"
    exit_layer: int | None = None
    device: str | None = None
    dtype: str | None = None
    # The types of the options, because a template distinguishes 1 from True.
    _kinds: tuple[str, ...] = field(init=False, repr=False)

    def _validate(self) -> None:
        _check_text("a system prompt", self.system)
        if self.mode not in MODES:
            raise FormulaError(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if self.mode == "whole":
            _check_whole(hide=self.hide, template=self.template, options=self.options or None)
        if self.template is not None and self.template not in TEMPLATES:
            raise FormulaError(f"template is one of {', '.join(TEMPLATES)}, not {self.template!r}")
        if isinstance(self.model, PathLike):
            object.__setattr__(self, "model", fspath(self.model))
        if self.model is not None:
            _check_text("a model", self.model)
        if self.adapter is not None:
            _check_text("an adapter", self.adapter)
        object.__setattr__(self, "vectors", _frozen_vectors(self.vectors))
        if self.positions not in POSITIONS:
            choices = ", ".join(POSITIONS)
            raise FormulaError(f"positions is one of {choices}, not {shown(self.positions)}")
        if self.positions != "all" and not self.vectors:
            problem = f"positions={self.positions!r} is only for a term with vectors"
            raise FormulaError(f"{problem}; write vectors={{…}} too, or leave positions out")
        for name in ("device", "dtype"):
            _check_placed(name, getattr(self, name), self.model)
        if self.hide is not None:
            _check_text("hide", self.hide)
            compile_pattern(self.hide)
        _take_number(self, "exit_layer")
        if self.exit_layer is not None and not _is_whole_number(self.exit_layer, 0):
            raise FormulaError(f"exit_layer is a whole number from 0, not {shown(self.exit_layer)}")
        object.__setattr__(self, "options", _frozen_options(self.options))
        kinds = tuple(type(value).__name__ for _, value in self.options)
        object.__setattr__(self, "_kinds", kinds)


@names_checked()
@dataclass(frozen=True, slots=True, eq=False)
class Classifier(Term):
    """A classifier that guides a formula. It has weight zero.

    The score of a token x_k is log C(x₁..x_k) − log C(x₁..x_{k−1}), where C is the probability of
    `label`.

    - `label`: a class by name or index.
    - `guide`: the formula whose likeliest tokens are judged. By default it is the formula around
      the classifier, without classifiers.
    - `candidates`: the maximum number of tokens that are judged at a position. All other tokens,
      and tokens to which the guide gives no probability, have the score 0 (paper, section 3).
    - `coverage`: judge only the fewest candidates whose probabilities under the guide add up to
      this share.
    - `read_prompt`: judge the prompt together with the continuation, not the continuation alone.
    - `scale`: take differences of log C ("log"), of C itself ("probability"), or of the output of
      the model's head ("logit"). Reward models need one of the last two.
    """

    model: str
    label: str | int = 1
    candidates: int = 50
    guide: Formula | None = None
    read_prompt: bool = False
    coverage: float | None = None
    scale: Literal["log", "probability", "logit"] = "log"

    def _validate(self) -> None:
        _check_label(self.model, self.label)
        if self.scale not in SCALES:
            raise FormulaError(f"scale is one of {', '.join(SCALES)}, not {self.scale!r}")
        _take_number(self, "candidates")
        if not _is_whole_number(self.candidates, 1):
            raise FormulaError(f"candidates is a whole number from 1, not {shown(self.candidates)}")
        if self.guide is not None and not isinstance(self.guide, Formula):
            raise FormulaError(f"guide is a formula, not {self.guide!r}")
        if not isinstance(self.read_prompt, bool):
            raise FormulaError(f"read_prompt is True or False, not {self.read_prompt!r}")
        if self.coverage is not None:
            if not is_number(self.coverage) or not 0 < self.coverage <= 1:
                raise FormulaError(
                    f"coverage is a number above 0 and at most 1, not {shown(self.coverage)}"
                )
            object.__setattr__(self, "coverage", float(self.coverage))


@names_checked()
@dataclass(frozen=True, slots=True, eq=False)
class NGram(Term):
    """A smoothed n-gram model of the tokens of a text. Order 2 is the paper's model A.

    It is fitted from the text file `path`, or from `texts`. With `online` it also counts the
    request's prompt, as the bare model reads it, and the continuation so far. An online n-gram
    without `path` and `texts` is prompt lookup.
    """

    path: str | None = None
    order: int = 2
    texts: tuple[str, ...] = ()
    online: bool = False

    def _validate(self) -> None:
        if self.path is not None:
            _check_text("an n-gram's path", self.path)
        if isinstance(self.texts, str) or not isinstance(self.texts, Iterable):
            raise FormulaError(f"texts is a list of texts, not {self.texts!r}")
        object.__setattr__(self, "texts", tuple(self.texts))
        for text in self.texts:
            _check_text("a text of an n-gram", text)
        if not isinstance(self.online, bool):
            raise FormulaError(f"online is True or False, not {self.online!r}")
        if self.path is not None and self.texts:
            raise FormulaError(
                f"an n-gram is fitted from either a path or texts, not from {self.path!r} and texts"
            )
        if self.path is None and not self.texts and not self.online:
            raise FormulaError(
                "an n-gram is fitted from either a path or texts, unless it is online"
            )
        _take_number(self, "order")
        if isinstance(self.order, bool) or not isinstance(self.order, int) or self.order < 1:
            raise FormulaError(f"order is a whole number of at least 1, not {shown(self.order)}")
        if self.order > MAX_ORDER:
            raise FormulaError(f"order is at most {MAX_ORDER}, not {shown(self.order)}")


@dataclass(frozen=True, slots=True, eq=False)
class Uniform(Term):
    """The uniform distribution over all tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class Position(Observation):
    """The number of tokens of the continuation before this token."""


@dataclass(frozen=True, slots=True, eq=False)
class Reasoning(Observation):
    """The number 1 if this token is inside the reasoning, else 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Calling(Observation):
    """The number 1 if this token is inside a tool call, else 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Judgement(Observation):
    """The log-probability that a classifier gives to `label` for the text so far."""

    model: str
    label: str | int = 1
    read_prompt: bool = False

    def _validate(self) -> None:
        _check_label(self.model, self.label)


@dataclass(frozen=True, slots=True, eq=False)
class Likelihood(Observation):
    """The log-probability of the whole continuation so far under a prompted model."""

    of: Term


def check_template_options(names: Iterable[str]) -> None:
    """Raise FormulaError for an option of a chat template that only the engine may set."""
    for name in sorted(RESERVED.intersection(names)):
        raise FormulaError(f"the template option {name!r} is set by the engine")


def _take_number(term: Term, name: str) -> None:
    """Replace a scalar of numpy or torch in a field with a number of Python."""
    object.__setattr__(term, name, plain(getattr(term, name)))


def _is_whole_number(value: object, least: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return least <= value <= MOST_TOKENS


def _check_label(model: object, label: object) -> None:
    _check_text("a classifier's model", model)
    if not (isinstance(label, str) or _is_whole_number(label, -MOST_TOKENS)):
        raise FormulaError(f"label is a class's name or index, not {shown(label)}")


def _check_placed(name: str, value: object, model: str | None) -> None:
    if value is not None:
        _check_text(f"a {name}", value)
        if model is None:
            problem = f"{name}={value!r} is only for a term with model=; this term runs in the base"
            raise FormulaError(f"{problem} model, so leave {name} out")


def _check_whole(**fields: object) -> None:
    for name, value in fields.items():
        if value is not None:
            problem = f"a term with mode='whole' reads no message, so {name}={shown(value)}"
            raise FormulaError(f"{problem} has no effect; leave {name} or the mode out")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise FormulaError(f"{name} is a text, not {shown(value)}")


def _frozen_vectors(vectors: Any) -> tuple[tuple[str, float], ...]:
    """Return vectors from a mapping or from pairs: files and their strengths, in the same order."""
    pairs = vectors.items() if isinstance(vectors, Mapping) else vectors
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise _not_vectors(vectors)
    if isinstance(vectors, Mapping) and not vectors:
        raise FormulaError("vectors names no file; leave vectors out for a term without vectors")
    strengths: dict[str, float] = {}
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise _not_vectors(vectors)
        name, strength = pair
        if isinstance(name, PathLike):
            name = fspath(name)
        if not isinstance(name, str) or not name:
            raise FormulaError(f"a vector is named by its file, not by {shown(name)}")
        if name in strengths:
            problem = f"the vector {shown(name)} is named twice"
            raise FormulaError(f"{problem}; name it once, with the sum of its strengths")
        subject = f"the strength of the vector {shown(name)}"
        if not is_number(strength):
            # TOML reads {happy.gguf = 1} as a table in a table.
            quoted = isinstance(strength, Mapping)
            advice = "; write the whole name of the file in quotes" if quoted else ""
            raise FormulaError(f"{subject} is a number, not {shown(strength)}{advice}")
        strengths[name] = number(strength, subject)
    return tuple(strengths.items())


def _not_vectors(vectors: object) -> FormulaError:
    problem = "vectors maps files to strengths"
    return FormulaError(f'{problem}, such as {{"happy.gguf": 1.2}}, not {shown(vectors)}')


def _frozen_options(options: Any) -> tuple[tuple[str, Option], ...]:
    """Return template options from a mapping or from pairs, sorted by name."""
    pairs = options.items() if isinstance(options, Mapping) else options
    try:
        frozen = tuple(sorted((key, value) for key, value in pairs))
    except (TypeError, ValueError):
        raise FormulaError(f"options maps names to values, not {options!r}") from None
    if len({key for key, _ in frozen}) < len(frozen):
        raise FormulaError(f"an option is named twice in {options!r}")
    for key, value in frozen:
        plain = value is None or isinstance(value, str)
        plain = plain or (isinstance(value, int) and abs(value) <= LARGEST_OPTION)
        plain = plain or (isinstance(value, float) and math.isfinite(value))
        if not isinstance(key, str) or not plain:
            problem = "an option is a name with a plain value"
            raise FormulaError(f"{problem}, not {shown(key)}: {shown(value)}")
    check_template_options(key for key, _ in frozen)
    return frozen
