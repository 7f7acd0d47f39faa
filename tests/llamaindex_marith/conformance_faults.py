"""LLMs with one fault each, in answers or in events, and the checks that must find it."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from conformance_altered import Altered, breaks, with_text
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.tools.function_tool import sync_to_async

from llamaindex_marith import Marith
from llamaindex_marith.testing.methods import text_of


@breaks("a_call_starts_and_ends_once", "the_rate_limiter_is_passed_once", method="achat")
@breaks("a_callback_manager_hears_each_call_once", method="achat")
@breaks("a_callback_manager_hears_each_failure_once", method="achat")
@breaks("a_failed_call_starts_once_and_does_not_end", method="achat")
@breaks("a_token_counter_counts_what_usage_says", method="achat")
@breaks("the_loop_turns_while_an_answer_is_made", method="achat")
@breaks("a_task_that_is_cancelled_stops", method="achat")
@breaks("a_call_with_tools_starts_and_ends_once", method="achat_with_tools")
@breaks("a_call_with_tools_passes_the_rate_limiter_once", method="achat_with_tools")
@breaks("the_loop_turns_while_tools_are_called", method="achat_with_tools")
@breaks("a_token_counter_counts_calls_of_tools", method="achat_with_tools")
@breaks("the_loop_turns_while_an_object_is_made", method="astructured_predict")
@breaks("a_template_is_asked_once", "a_token_counter_counts_templates", method="apredict")
class Delegating(Marith):
    """An async method calls the sync one and is recorded twice, as in core's `CustomLLM`."""

    @llm_chat_callback()
    async def achat(self, messages: Any, **options: Any) -> Any:
        return self.chat(messages, **options)

    async def astructured_predict(self, *given: Any, **options: Any) -> Any:
        return self.structured_predict(*given, **options)


@breaks("an_object_starts_and_ends_once", method="structured_predict")
class Twice(Marith):
    """A chat that is recorded twice."""

    @llm_chat_callback()
    def chat(self, messages: Any, **options: Any) -> Any:
        return super().chat(messages, **options)


@breaks("every_part_of_a_stream_is_heard", "a_stream_comes_in_parts", method="stream_chat")
@breaks("a_stream_comes_as_it_is_made", method="stream_chat")
@breaks("a_stream_comes_as_it_is_made_to_who_waits", method="astream_chat")
@breaks("calls_may_be_asked_for_before_they_are_whole", method="stream_chat_with_tools")
@breaks("an_object_grows", method="stream_structured_predict")
@breaks("a_function_agent_streams_what_it_says")
class AtOnce(Marith):
    """A stream of one part, at the end of the answer."""

    def stream_chat(self, messages: Any, **options: Any) -> Any:
        yield self.chat(messages, **options)

    async def astream_chat(self, messages: Any, **options: Any) -> Any:
        async def parts() -> Any:
            yield await self.achat(messages, **options)

        return parts()


@breaks("the_span_of_a_call_is_closed", "the_span_of_a_failed_call_is_closed", method="chat")
class Unspanned(Marith):
    """A method that no dispatcher has wrapped."""


def _unspanned(llm: Any, messages: Any, **options: Any) -> Any:
    return llm.complete(str(messages[-1].content), **options)


Unspanned.chat = _unspanned


@breaks("what_is_heard_can_be_written_as_json", "an_answer_survives_json", method="chat")
@breaks("a_raw_answer_can_be_written_as_json", method="complete")
class Opaque(Marith):
    """A raw answer that is no plain data, such as a tensor."""

    def complete(self, *given: Any, **options: Any) -> Any:
        return super().complete(*given, **options).model_copy(update={"raw": {"all": object()}})

    @llm_chat_callback()
    def chat(self, messages: Any, **options: Any) -> Any:
        return super().chat(messages, **options).model_copy(update={"raw": {"all": object()}})


@breaks("usage_adds_up_and_is_told_twice_alike", method="chat")
class Uncounted(Altered):
    """Usage where LlamaIndex's counter looks, and nowhere else."""

    def answered(self, answer: Any, method: str) -> Any:
        return answer.model_copy(update={"additional_kwargs": {}})


@breaks("every_way_costs_the_same", method="stream_chat")
@breaks("a_longer_prompt_costs_more", method="stream_chat")
class Flat(Altered):
    """Every prompt of a stream costs one token."""

    def answered(self, answer: Any, method: str) -> Any:
        if answer.raw is None or "stream" not in method:
            return answer
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return answer.model_copy(update={"raw": {"usage": usage}, "additional_kwargs": usage})


@breaks("each_token_is_told_with_its_likelihood", method="chat")
class Likeliest(Altered):
    """The token of the answer comes last at its position, not first."""

    def answered(self, answer: Any, method: str) -> Any:
        rotated = [tokens[1:] + tokens[:1] for tokens in answer.logprobs]
        return answer.model_copy(update={"logprobs": rotated})


@breaks("logprobs_do_not_change_the_text", method="chat")
class Telling(Altered):
    """Logprobs whether asked for or not."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {"logprobs": 0, **options}


@breaks("thoughts_are_told_apart", method="chat")
class Loud(Altered):
    """Reasoning in the text."""

    def answered(self, answer: Any, method: str) -> Any:
        return with_text(answer, f"{answer.additional_kwargs['reasoning']} {text_of(answer)}")


@breaks("every_way_says_the_same", method="stream_chat")
@breaks("every_way_to_chat_says_the_same", kind="simple")
@breaks("a_query_is_answered_in_a_stream", mode="compact")
class Stuttering(Altered):
    """Another text in streams."""

    def answered(self, answer: Any, method: str) -> Any:
        if "stream" not in method:
            return answer
        altered = with_text(answer, text_of(answer) + "!")
        return altered.model_copy(update={"delta": f"{answer.delta}!"})


@breaks("a_stream_holds_all_that_came", method="stream_chat")
class Piecemeal(Altered):
    """A stream whose parts contain only the new text."""

    def answered(self, answer: Any, method: str) -> Any:
        return with_text(answer, answer.delta or "")


@breaks("the_assistant_speaks", method="chat")
class Puppet(Altered):
    """Answers in the name of the user."""

    def answered(self, answer: Any, method: str) -> Any:
        message = answer.message.model_copy(update={"role": MessageRole.USER})
        return answer.model_copy(update={"message": message})


@breaks("an_answer_does_not_repeat_its_prompt", method="complete")
class Echo(Altered):
    """The prompt, and the answer after it."""

    question: ClassVar[str] = ""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        type(self).question = question
        return question, options

    def answered(self, answer: Any, method: str) -> Any:
        return with_text(answer, f"{type(self).question} {text_of(answer)}")


@breaks("a_query_is_answered", mode="refine")
@breaks("a_store_of_vectors_is_queried")
@breaks("a_chat_engine_holds_two_turns", kind="context", method="chat")
@breaks("a_react_agent_makes_a_step", streaming=False)
class Silent(Altered):
    """Every answer is empty."""

    def answered(self, answer: Any, method: str) -> Any:
        return with_text(answer, "")


@breaks("an_error_is_raised_and_nothing_hangs", method="stream_chat")
class Hanging(Marith):
    """A stream that waits for ever where its model failed."""

    def stream_chat(self, messages: Any, **options: Any) -> Any:
        try:
            yield from super().stream_chat(messages, **options)
        except Exception:
            threading.Event().wait()


@breaks("a_prompt_beyond_the_context_is_refused", method="complete")
class Cutting(Altered):
    """Cuts a prompt to what it can read."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question[:1000], options


@breaks("an_error_harms_no_later_call", method="chat")
class Poisoned(Marith):
    """After one error every call fails."""

    harmed: ClassVar[list[Exception]] = []

    def chat(self, messages: Any, **options: Any) -> Any:
        if self.harmed:
            raise self.harmed[0]
        try:
            return super().chat(messages, **options)
        except Exception as error:
            self.harmed.append(error)
            raise


@breaks("many_at_once_hear_what_each_hears_alone", method="achat")
@breaks("many_threads_hear_what_each_hears_alone", method="chat")
class Mixing(Marith):
    """All callers share one slot for their messages."""

    slot: ClassVar[list[Any]] = []

    def chat(self, messages: Any, **options: Any) -> Any:
        self.slot[:] = [messages]
        threading.Event().wait(0.05)
        return super().chat(self.slot[0], **options)

    async def achat(self, messages: Any, **options: Any) -> Any:
        return await sync_to_async(self.chat)(messages, **options)


@breaks("a_stream_that_is_closed_stops", method="stream_chat")
@breaks("a_stream_that_is_closed_by_who_waited_stops", method="astream_chat")
class Deaf(Marith):
    """Generates in another thread, and goes on after the caller has closed the stream."""

    @llm_chat_callback()
    def stream_chat(self, messages: Any, **options: Any) -> Any:
        return self._never_cancelled(messages, options)

    def _never_cancelled(self, messages: Any, options: dict[str, Any]) -> Any:
        again = ChatMessage(role="user", content=str(messages[-1].content))
        threading.Thread(target=self.chat, args=([again],), kwargs=options, daemon=True).start()
        yield from super().stream_chat(messages, **options)

    @llm_chat_callback()
    async def astream_chat(self, messages: Any, **options: Any) -> Any:
        async def parts() -> Any:
            for answer in self._never_cancelled(messages, options):
                yield answer

        return parts()
