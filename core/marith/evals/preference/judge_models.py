"""A judge: any chat model that is asked as LangChain's are, or one of those by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from marith.errors import ModelError
from marith.scoring.checkpoints.locate import locate

OURS = "marith"
NO_LANGCHAIN = "a judge by name needs LangChain: pip install langchain"


class JudgeModel(Protocol):
    """A chat model; LangChain's are such, and have `batch` too."""

    def invoke(self, messages: Sequence[Mapping[str, str]], /) -> Any:
        """The answer to messages, which has a `content`."""


def load(name: str) -> JudgeModel:
    """LangChain's chat model PROVIDER:MODEL, at temperature 0; marith:MODEL is our own.

    Raises ModelError for one that cannot be had, with what its package says.
    """
    provider, _, model = name.partition(":")
    # By name: nothing here may depend on a framework, and the framework does not know our adapter.
    if provider == OURS and model:
        locate(model)
    try:
        if provider == OURS and model:
            chat_model = import_module("langchain_marith").ChatMarith(model=model, temperature=0)
        else:
            chat_model = import_module("langchain.chat_models").init_chat_model(name, temperature=0)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in ("langchain", "langchain_core"):
            raise ModelError(NO_LANGCHAIN) from None
        raise _unavailable(name, error) from None
    except Exception as error:  # a provider's package raises errors of its own
        raise _unavailable(name, error) from None
    judge: JudgeModel = chat_model
    return judge


def answers_of(
    judge: JudgeModel, conversations: Sequence[Sequence[Mapping[str, str]]]
) -> list[str]:
    """The judge's answers as text; several at once where it has a `batch`.

    Raises ModelError with what went wrong.
    """
    batch = getattr(judge, "batch", None)
    try:
        if batch is None or len(conversations) == 1:
            answers = [judge.invoke(messages) for messages in conversations]
        else:
            limit = {"max_concurrency": len(conversations)}
            answers = batch([list(messages) for messages in conversations], config=limit)
    except Exception as error:  # a provider's package raises errors of its own
        message = next(iter(str(error).strip().splitlines()), "")
        raise ModelError(f"the judge gave no answer: {type(error).__name__}: {message}") from error
    return [_text(answer) for answer in answers]


def _text(answer: Any) -> str:
    """The text of an answer, whose content may come in blocks."""
    content = getattr(answer, "content", answer)
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = [part if isinstance(part, str) else part.get("text", "") for part in parts]
    return "".join(map(str, texts))


def _unavailable(name: str, error: Exception) -> ModelError:
    message = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return ModelError(f"the judge {name!r} cannot be had: {message}")
