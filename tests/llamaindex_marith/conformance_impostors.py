"""LLMs with one fault each, as values or in the objects they make, and the checks that find it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from conformance_altered import breaks
from conformance_pocket import Pocket
from llama_index.core.base.llms.types import LLMMetadata

from llamaindex_marith import Marith


@breaks("an_object_is_made", method="structured_predict")
@breaks("a_structured_llm_answers_in_json", method="chat")
@breaks("a_structured_llm_predicts_in_json")
@breaks("a_query_is_answered_by_an_object", "an_agent_answers_by_an_object")
class Textual(Marith):
    """Objects as plain data."""

    def structured_predict(self, *given: Any, **options: Any) -> Any:
        return super().structured_predict(*given, **options).model_dump()

    async def astructured_predict(self, *given: Any, **options: Any) -> Any:
        return (await super().astructured_predict(*given, **options)).model_dump()


@breaks("every_way_makes_the_same_object", method="astructured_predict")
class Fickle(Marith):
    """The async method returns another object."""

    async def astructured_predict(self, *given: Any, **options: Any) -> Any:
        answer = await super().astructured_predict(*given, **options)
        return answer.model_copy(update={"days": 100})


@breaks("who_calls_tools_is_known_by_type", "an_agent_is_of_the_kind_that_was_claimed")
class Modest(Marith):
    """Calls tools, but does not claim them in its metadata."""

    @property
    def metadata(self) -> LLMMetadata:
        return super().metadata.model_copy(update={"is_function_calling_model": False})


@breaks("a_copy_says_the_same", how="dict")
class Forgotten(Marith):
    """A copy keeps the class and loses the fields."""

    @classmethod
    def from_dict(cls, data: dict[str, Any], **options: Any) -> Any:
        return cls()


@breaks("what_is_stored_is_small")
class Heavy(Marith):
    """Stores its weights."""

    def to_dict(self, **options: Any) -> Any:
        return {**super().to_dict(**options), "weights": [0.5] * 100_000}


@breaks("the_name_of_the_class_is_its_own")
class Nameless(Marith):
    """Has the name of its base."""


@breaks("observers_are_told_no_secrets")
class Indiscreet(Marith):
    """Publishes its key."""

    def to_payload(self) -> dict[str, Any]:
        return {**super().to_payload(), "api_key": "sesame"}


@breaks("an_llm_is_shown_and_stored_without_its_weights")
class Hasty(Marith):
    """Loads its weights to build its payload."""

    def to_payload(self) -> dict[str, Any]:
        return {**super().to_payload(), "vocabulary": len(self.encode("all of it"))}


@breaks("metadata_tells_the_truth", "metadata_can_be_written_as_json")
class Boastful(Marith):
    """Claims a longer context than it has, and a model name that is no string."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata.model_construct(context_window=3900, num_output=17, model_name=object())


@breaks("it_is_an_llm_of_llama_index", "settings_take_it_as_it_is")
class Impostor(Pocket):
    """No LLM at all."""

    def make(self, **options: Any) -> Any:
        return SimpleNamespace(chat=Marith(**options).chat)


@breaks("an_unknown_option_of_the_llm_is_refused")
class Tolerant(Pocket):
    """Ignores unknown options of its constructor."""

    def make(self, **options: Any) -> Any:
        return Marith(**{k: v for k, v in options.items() if k in Marith.model_fields})


@breaks("its_tokenizer_cuts_texts")
class Blunt(Pocket):
    """Takes every text for one token."""

    def tokenizer(self, llm: Any) -> Callable[[str], list[Any]]:
        return lambda text: [text]
