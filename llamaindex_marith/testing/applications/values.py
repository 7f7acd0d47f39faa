"""Can an LLM be stored, copied and shown without its weights or its secrets?"""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import LLMMetadata, MessageRole
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM
from llama_index.core.node_parser import SentenceSplitter

from llamaindex_marith.testing.llm_under_test import LLMUnderTest
from llamaindex_marith.testing.methods import answer_text

SMALL = 100_000  # bytes, too few for any weights
COPIES = ("dict", "json", "pickle", "deepcopy", "copy")


def copy_of(llm: Any, how: str) -> Any:
    """A copy of an LLM, as applications and agents make them."""
    match how:
        case "dict":
            return type(llm).from_dict(llm.to_dict())
        case "json":
            return type(llm).from_json(llm.to_json())
        case "pickle":
            return pickle.loads(pickle.dumps(llm))
        case "deepcopy":
            return copy.deepcopy(llm)
        case _:
            return llm.model_copy()


class Values(LLMUnderTest):
    """What an application stores, copies and reads of an LLM."""

    def test_it_is_an_llm_of_llama_index(self) -> None:
        llm = self.llm()
        assert isinstance(llm, LLM)
        assert BaseLLM.__name__ in [kind.__name__ for kind in type(llm).__mro__]

    @pytest.mark.parametrize("how", COPIES)
    async def test_a_copy_says_the_same(self, how: str) -> None:
        llm = self.llm(max_tokens=12, system_prompt=self.system_prompts[0])
        llm_copy = copy_of(llm, how)
        assert type(llm_copy) is type(llm)
        assert llm_copy.to_dict() == llm.to_dict()
        expected = await answer_text(llm, "complete", self.question)
        assert await answer_text(llm_copy, "complete", self.question) == expected

    def test_what_is_stored_is_small(self) -> None:
        llm = self.llm()
        assert len(json.dumps(llm.to_dict())) < SMALL
        assert len(pickle.dumps(llm)) < SMALL

    def test_the_name_of_the_class_is_its_own(self) -> None:
        llm = self.llm()
        name = type(llm).class_name()
        assert name not in names_of_bases(type(llm))
        assert llm.to_dict()["class_name"] == llm.to_payload()["class_name"] == name

    def test_observers_are_told_no_secrets(self) -> None:
        llm = self.llm()
        payload = json.dumps(llm.to_payload())
        assert not [secret for secret in self.secrets if secret in payload]
        for name in ("api_key", "password", "authorization", "secret_key", "access_token"):
            assert name not in payload.lower()

    def test_an_llm_is_shown_and_stored_without_its_weights(self) -> None:
        llm: Any = self.unloaded()
        self.offered(llm is not None, "an LLM before its weights are loaded")
        json.dumps([llm.to_payload(), llm.to_dict()])

    def test_metadata_tells_the_truth(self) -> None:
        llm = self.llm(max_tokens=17)
        metadata = llm.metadata
        assert isinstance(metadata, LLMMetadata)
        assert metadata.num_output == 17, f"num_output is {metadata.num_output}, and not 17"
        window, expected = metadata.context_window, self.context_window
        assert window > metadata.num_output
        assert window == expected if expected else window != default_window()
        assert metadata.model_name not in ("", "unknown")
        assert metadata.system_role in set(MessageRole)

    def test_metadata_can_be_written_as_json(self) -> None:
        metadata = self.llm().metadata
        assert LLMMetadata.model_validate_json(metadata.model_dump_json()) == metadata

    def test_settings_take_it_as_it_is(self) -> None:
        llm, before = self.llm(), Settings._llm
        try:
            Settings.llm = llm
            assert Settings.llm is llm
        finally:
            Settings._llm = before

    def test_its_tokenizer_cuts_texts(self) -> None:
        tokenizer: Any = self.tokenizer(self.llm())
        self.offered(tokenizer is not None, "a tokenizer")
        before: Any = Settings._tokenizer
        try:
            Settings.tokenizer = tokenizer
            assert len(Settings.tokenizer(self.question * 3)) > len(tokenizer(self.question)) > 1
            text = " ".join(f"{self.question} ({count})" for count in range(40))
            pieces = SentenceSplitter(chunk_size=60, chunk_overlap=0).split_text(text)
            assert len(pieces) > 3
            assert all(len(tokenizer(piece)) <= 60 for piece in pieces)
        finally:
            Settings.tokenizer = before


def default_window() -> int:
    """The context window that LlamaIndex assumes for an LLM that states none."""
    return DEFAULT_CONTEXT_WINDOW


def names_of_bases(kind: type) -> set[str]:
    """The names under which LlamaIndex stores the bases of a class."""
    bases: list[Any] = [base for base in kind.__mro__[1:] if hasattr(base, "class_name")]
    return {base.class_name() for base in bases}
