"""List the generated pages of docs/reference, and the names that each page documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import langchain_marith
import llamaindex_marith
import marith
import marith.testing
import marith.training
from marith.engine.call import CallOptions, Stops
from marith.errors import MarithError
from marith.formula.meaning import binding
from marith.inspection.formula_numbers import FormulaNumber
from marith.inspection.inspected_position import (
    Contribution,
    InspectedPart,
    InspectedPosition,
    InspectedTerm,
    LikelyToken,
    PushedToken,
    TermView,
    TokenRun,
    VectorPush,
)
from marith.request import completion, prompt, request
from marith.request.limits import Limits
from tools.reference import sections
from tools.reference.command_line import command_page
from tools.reference.formula_language import CLASSES as OF_FORMULAS
from tools.reference.formula_language import FUNCTIONS as ON_FORMULAS
from tools.reference.formula_language import calls, language_page
from tools.reference.signatures import Links, documented, table

INSPECTING = (
    "inspect", "submit_inspection", "submit_with_inspection", "rendered_prompts", "what_if",
    "submit_what_if",
)  # fmt: skip
FOLDER = Path(__file__).parents[2] / "docs" / "reference"
GENERATED_NOTICE = "*This page is written from the code by `make reference`.*"
CLASSES: dict[str, tuple[str, tuple[type, ...]]] = {
    "engine.md": ("Engine", (marith.Engine, marith.Ticket, marith.EngineStatus, Limits)),
    "request.md": (
        "Request",
        (
            marith.Request, marith.Sampling, marith.Stop, marith.Ban, marith.Grammar, marith.Tools,
        ),
    ),
    "plan.md": ("Plan", (marith.Plan,)),
    "completion.md": (
        "Completion",
        (marith.Completion, marith.Chunk, marith.Usage, marith.Stats, marith.TermStats,
         completion.StageStats, marith.TokenLogprob, marith.TopLogprob, marith.ToolCall,
         marith.CallChunk, marith.Ranking),
    ),
    "inspection.md": (
        "Inspection",
        (marith.Inspection, InspectedPosition, InspectedTerm, TermView,
         VectorPush, PushedToken, InspectedPart, Contribution, LikelyToken, TokenRun,
         marith.WhatIf, marith.Redrawn,
         marith.NumberedFormula, FormulaNumber),
    ),
}  # fmt: skip
ABOUT = {
    "engine.md": "An engine holds one base model and answers requests from any number of threads "
    "and tasks. [The life of a request](../explanation/life_of_a_request.md) describes its steps.",
    "request.md": "`Engine.generate` and similar methods take these values by name. "
    "`Engine.submit` takes a `Request`. A prompt "
    "is a text, tokens, or messages such as "
    '`[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi!"}]`; roles are '
    "`system`, `developer`, `user`, `assistant` and `tool`. "
    "A template that knows no `developer` reads it as `system`.",
    "plan.md": "A `Plan` is one possible value of `speculation`. "
    "[Speculation](../explanation/speculation.md) explains when a plan pays.",
    "completion.md": "`Engine.generate` returns a `Completion`. `Engine.stream` yields values of "
    "`Chunk`, and `Engine.rank` returns a `Ranking`.",
    "inspection.md": "`marith.inspect` returns an `Inspection`, and `marith.what_if` a `WhatIf`. A "
    "ticket of `marith.submit_with_inspection` has the inspection in its completion. "
    "[Why this token?](../how-to/inspecting.md) shows how to read them.",
}
# Functions of the front door that stand on the pages of classes.
FUNCTIONS = {
    "engine.md": ("free_memory",),
    "completion.md": ("escape_control_chars",),
    "inspection.md": INSPECTING,
}
MODULES: dict[str, tuple[ModuleType, str]] = {
    "marith_models.md": (
        marith.models,
        "`marith models` prints these figures ([the command line](command_line.md)).",
    ),
    "marith_testing.md": (
        marith.testing,
        "A scripted model is a checkpoint like others: "
        "`ChatMarith(model=save_scripted(directory, script))` answers from the script.",
    ),
    "marith_training.md": (
        marith.training,
        "[Training a classifier](../how-to/training.md) and "
        "[control vectors](../how-to/vectors.md) have the data and the commands.",
    ),
}
ADAPTERS = {
    "langchain_marith.md": (langchain_marith, "LangChain"),
    "llamaindex_marith.md": (llamaindex_marith, "LlamaIndex"),
}
# Names of types in the annotations of requests and answers.
ALIASES = {
    "AnyPrompt": prompt.AnyPrompt,
    "Message": prompt.Message,
    "Terms": binding.Terms,
    "Speculation": request.Speculation,
    "Stops": Stops,
    "FinishReason": completion.FinishReason,
}
OPTIONAL = "request.md#options-of-a-call"
LANGUAGE, OPTIONS, ERRORS, COMMANDS = (
    "formula_language.md", "options.md", "errors.md", "command_line.md",
)  # fmt: skip


def places() -> dict[str, str]:
    """Return the page and the heading of each documented name."""
    named = {kind.__name__: page for page, (_, kinds) in CLASSES.items() for kind in kinds}
    named |= {error.__name__: ERRORS for error in errors()}
    named |= {"Options": OPTIONS, "Formula": LANGUAGE}
    named |= dict.fromkeys(ON_FORMULAS, LANGUAGE)
    named |= {name: page for page, names in FUNCTIONS.items() for name in names}
    named |= {kind.__name__: LANGUAGE for kind in OF_FORMULAS}
    named |= {name: LANGUAGE for kind in calls().values() for name in kind}
    named |= {name: page for page, (package, _) in ADAPTERS.items() for name in package.__all__}
    links = {name: f"{page}#{name.lower()}" for name, page in named.items()}
    links |= dict.fromkeys(ALIASES, "request.md#names-of-types") | dict.fromkeys(
        ("RequestOptions", "CallOptions"), OPTIONAL
    )
    terms = {term.__name__: name for name, term in calls()["terms"].items()}
    return links | {kind: f"{LANGUAGE}#{name}" for kind, name in terms.items()}


def errors(root: type[MarithError] = MarithError) -> Iterator[type[MarithError]]:
    """Yield the errors of marith, each before its subclasses."""
    yield root
    for kind in root.__subclasses__():
        if kind.__module__.startswith("marith."):
            yield from errors(kind)


def errors_page(links: Links) -> list[str]:
    parts = [
        "Every error of marith is a `MarithError`. The errors of `ChatMarith` and `MarithLLM` are "
        "also LangChain's, so an `except` clause for either class matches them.",
    ]
    rows = []
    for error in errors():
        others = [base for base in error.__bases__ if base.__module__ == "builtins"]
        kinds = [base.__name__ for base in error.__bases__ if issubclass(base, MarithError)]
        of = [f"[{name}]({links[name]})" for name in kinds] + [f"`{b.__name__}`" for b in others]
        theirs = [
            f"`{base.__name__}`"
            for subclass in error.__subclasses__()
            if subclass.__module__.startswith("langchain_marith")
            for base in subclass.__bases__
            if not issubclass(base, MarithError)
        ]
        name = error.__name__
        rows.append((f"[{name}]({links[name]})", ", ".join(of), ", ".join(theirs)))
    parts.append(table(("error", "is also", "in LangChain"), rows))
    for error in errors():
        parts += [f"## {error.__name__}", documented(error, links, error.__name__)]
    return parts


def options_page(links: Links) -> list[str]:
    text = (
        "`ChatMarith`, `MarithLLM` and `Marith` inherit these options. A call may set every option "
        "except `file` and `engine`. [The adapters](adapters.md) describes what they share "
        "besides. A checkpoint's `generation_config.json` changes no default."
    )
    table_of_all = sections.options_table(marith.Options, links)
    parts = [text, table_of_all, "## Options", documented(marith.Options, links, "Options")]
    parts += sections.property_section([marith.Options], links)
    return parts + sections.methods_section(marith.Options, links, [marith.Options])


def adapter_page(package: ModuleType, name: str, links: Links) -> list[str]:
    exported = {each: getattr(package, each) for each in package.__all__}
    parts = [
        f"[How to use {name}](../how-to/{name.lower()}.md) has tasks and programs; "
        "[options](options.md) explains each option."
    ]
    shared_fields = marith.Options.model_fields
    for kind in (value for value in exported.values() if isinstance(value, type)):
        shared = marith.Options.__mro__
        defined = [each for each in reversed(kind.__mro__) if each not in shared]
        parts += sections.class_section(kind, links, defined)
        others = [
            f"`{field}`"
            for field in getattr(kind, "model_fields", ())
            if field not in shared_fields
        ]
        parts.append(f"It has [the options](options.md) and these fields: {', '.join(others)}.")
    for each, value in exported.items():
        if not isinstance(value, type) and callable(value):
            parts += sections.function_section(each, value, links)
    return parts


def module_page(page: str, links: Links) -> list[str]:
    """Return the public names of a module in the order of `__all__`; links to them are its own."""
    module, about = MODULES[page]
    links = {**links, **{name: f"{page}#{name.lower()}" for name in module.__all__}}
    parts = [documented(module, links).partition("\n\n")[0], about]
    for name in module.__all__:
        parts += sections.value_section(name, getattr(module, name), links)
    return parts


def request_types(links: Links) -> list[str]:
    names = ", ".join(f"`{name}`" for name in CallOptions.__annotations__)
    parts = ["## Options of a call"]
    parts.append(
        "`Engine.generate` and similar methods take fields of `Request`, `Sampling` and `Stop` by "
        f"name: {names}. `stop_token_ids` is `Stop.token_ids`. For a field of `Sampling`, `None` "
        "means the default."
    )
    parts.append("## Names of types")
    return [*parts, sections.aliases_table(ALIASES, links)]


def pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    links = places()
    made = {
        page: (
            title,
            [ABOUT[page], *(p for kind in kinds for p in sections.class_section(kind, links))],
        )
        for page, (title, kinds) in CLASSES.items()
    }
    made["request.md"][1].extend(request_types(links))
    for page, names in FUNCTIONS.items():
        for name in names:
            made[page][1].extend(sections.function_section(name, getattr(marith, name), links))
    made[LANGUAGE] = "The formula language", language_page(links)
    made[OPTIONS] = "Options", options_page(links)
    made[ERRORS] = "Errors", errors_page(links)
    made[COMMANDS] = "The command line", command_page()
    for page, (module, _) in MODULES.items():
        made[page] = module.__name__, module_page(page, links)
    for page, (package, name) in ADAPTERS.items():
        made[page] = package.__name__, adapter_page(package, name, links)
    return {page: whole(page, title, parts) for page, (title, parts) in made.items()}


def whole(page: str, title: str, parts: list[str]) -> str:
    text = "\n\n".join(part for part in [f"# {title}", GENERATED_NOTICE, *parts] if part) + "\n"
    # Links within a page do not name the page.
    return text.replace(f"]({page}#", "](#")
