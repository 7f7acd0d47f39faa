"""Checks that `OpenAILike` does not pass over `marith serve`, and why; no fault is the server's."""

from __future__ import annotations

from collections.abc import Mapping

# Of each check: the cases that fail, or () for all, and the reason.
THEIRS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "test_a_call_may_say_how_long": (
        (),
        "`max_tokens` of the constructor replaces that of a call",
    ),
    "test_a_call_may_say_its_seed": (
        (),
        "`additional_kwargs` of the constructor, which alone have a seed, replace those of a call",
    ),
    "test_an_unknown_option_of_the_llm_is_refused": (
        (),
        "the constructor ignores an option that it does not know",
    ),
    "test_the_blocks_of_a_message_are_one_text": (
        (),
        "the texts of a message are sent as one without a space between them",
    ),
    "test_an_image_is_refused_by_who_reads_none": (
        (),
        "the server refuses the image, by the SDK's `BadRequestError`, which is no `ValueError`",
    ),
    "test_the_system_prompt_is_read_by_completions": (
        (),
        "a completion of a chat model is sent without `system_prompt`",
    ),
    "test_a_conversations_wrapper_is_what_is_read": (
        (),
        "a chat model's messages are sent as they are, and `messages_to_prompt` is not called",
    ),
    "test_each_token_is_told_with_its_likelihood": (
        (
            "complete", "stream_complete", "acomplete", "astream_complete",
            "stream_chat", "astream_chat",
        ),
        "completions and streams drop the log-probabilities that the answer has",
    ),
    "test_a_call_that_was_cut_off_is_not_run": (
        (),
        "a call whose JSON was cut off becomes a call without arguments",
    ),
    "test_a_message_with_calls_survives_json": (
        (),
        "`additional_kwargs` of a message hold objects of the SDK",
    ),
    "test_tools_and_history_are_not_changed": (
        (),
        "the question is appended to the caller's own list",
    ),
    "test_a_question_follows_its_history": (
        (),
        "the question is appended to the caller's own list, which is sent again",
    ),
    "test_the_system_prompt_is_read_for_an_object": (
        ("astructured_predict",),
        "LlamaIndex's own program leaves `system_prompt` out of this method",
    ),
}  # fmt: skip


def reason(check: str, case: str) -> str | None:
    """Why a case of a check fails; None where it has to pass."""
    cases, why = THEIRS.get(check, ((), ""))
    return why if why and (not cases or case in cases) else None
