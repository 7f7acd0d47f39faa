"""LLMs with one fault each, in what they read or in how they treat options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from conformance_altered import Altered, breaks, with_text
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms.llm import ToolSelection

from llamaindex_marith import Marith
from llamaindex_marith.testing.methods import text_of


@breaks("a_call_may_say_where_to_stop", "a_call_may_say_how_long", method="complete")
@breaks("a_call_may_say_how_warm", "a_call_may_say_its_seed", method="chat")
@breaks("an_unknown_option_of_a_call_is_refused", method="stream_chat")
@breaks("a_calls_options_win_for_an_object", method="structured_predict")
class Careless(Altered):
    """Ignores the options of a call, except `grammar`."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {name: options[name] for name in ("grammar",) if name in options}


@breaks("an_llm_may_be_made_to_stop", method="stream_chat")
class Leaking(Altered):
    """Returns the first character of the stop string too."""

    def answered(self, answer: Any, method: str) -> Any:
        if answer.raw is None or answer.raw["finish_reason"] != "stop":
            return answer
        return with_text(answer, text_of(answer) + self.stop[-1][:1])


@breaks("an_llm_with_a_seed_repeats_itself", method="chat")
class Unseeded(Altered):
    """Ignores seeds."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {**options, "seed": None}


@breaks("a_calls_options_are_forgotten_after_it", method="chat")
class Sticky(Altered):
    """Keeps the options of a call."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        self.max_tokens = options.get("max_tokens", self.max_tokens)
        return question, options


@breaks("what_is_given_is_not_changed", method="chat")
@breaks("tools_and_history_are_not_changed", method="chat_with_tools")
class Appending(Altered):
    """Appends to the list of messages, and marks the messages of a history."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        asked = list(question)
        question.append(ChatMessage(role="assistant", content=""))
        return asked, options

    def _prepare_chat_with_tools(self, tools: Any, **given: Any) -> Any:
        for message in given.get("chat_history") or ():
            message.additional_kwargs["seen"] = True
        return super()._prepare_chat_with_tools(tools, **given)


@breaks("the_blocks_of_a_message_are_one_text", method="chat")
@breaks("an_image_is_refused_by_who_reads_none", method="chat")
class Skimming(Altered):
    """Reads only the first block of a message."""

    def asked(self, question: Sequence[ChatMessage], options: dict[str, Any]) -> Any:
        first = [m.model_copy(update={"blocks": m.blocks[:1]}) for m in question]
        return first, options


@breaks("a_system_message_is_read", "a_conversation_is_read_whole", method="chat")
@breaks("what_a_tool_said_is_read", method="chat_with_tools")
@breaks("a_chat_engine_reads_what_was_said")
class Forgetful(Altered):
    """Reads only the first user message."""

    def asked(self, question: Sequence[ChatMessage], options: dict[str, Any]) -> Any:
        first = next(message for message in question if message.role == "user")
        return [first], options


@breaks("the_system_prompt_is_read_by_completions", method="complete")
@breaks("completions_with_a_system_prompt_agree", method="acomplete")
@breaks("the_system_prompt_is_read_for_an_object", method="astructured_predict")
class Unprompted(Marith):
    """Ignores the system prompt in completions and in async objects."""

    def complete(self, *given: Any, **options: Any) -> Any:
        return super().complete(*given, formatted=True, **options)

    async def acomplete(self, *given: Any, **options: Any) -> Any:
        return await super().acomplete("\n\n".join([self.system_prompt, *given]), formatted=True)

    async def astructured_predict(self, *given: Any, **options: Any) -> Any:
        plain = self.model_copy(update={"system_prompt": None})
        return await Marith.astructured_predict(plain, *given, **options)


@breaks("the_system_prompt_is_read_once_by_templates", method="predict")
@breaks("a_template_of_messages_is_read_as_they_are", method="astream")
@breaks("a_template_is_answered_as_its_words_are", method="stream")
class Repeating(Marith):
    """Reads a template five times: twice would not change pocket's answer, but for a tie."""

    def _get_messages(self, *given: Any, **options: Any) -> Any:
        messages = super()._get_messages(*given, **options)
        return [*messages] * 5


@breaks("a_completions_wrapper_is_what_is_read", method="complete")
@breaks("a_formatted_prompt_is_left_alone", method="stream_complete")
@breaks("a_conversations_wrapper_is_what_is_read", method="chat")
@breaks("an_output_parser_reads_the_answer", method="predict")
class Unwrapped(Marith):
    """Neither wraps nor parses, except for prompts that are formatted already."""

    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        return super().complete(prompt, formatted=True, **options)

    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        return super().stream_complete(prompt, formatted=False, **options)

    def chat(self, messages: Any, **options: Any) -> Any:
        plain = self.model_copy(update={"messages_to_prompt": None})
        return Marith.chat(plain, messages, **options)

    def _parse_output(self, output: str) -> str:
        return output


@breaks("a_required_call_is_made_and_valid", method="chat_with_tools")
@breaks("a_tool_may_be_chosen_by_name", method="chat_with_tools", name="sail")
@breaks("a_function_agent_runs_its_first_tool", streaming=True)
@breaks("a_function_agent_answers_twice", "a_workflow_of_agents_runs")
class Unwilling(Altered):
    """Calls no tool, even where one is required."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {**options, "tool_choice": "none"}


@breaks("no_tool_is_called_where_none_is_chosen", method="chat_with_tools")
class Eager(Altered):
    """Calls a tool, even where none may be called."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {**options, "tool_choice": "required"}


@breaks("every_call_has_an_id_of_its_own", "every_way_calls_the_same", method="achat_with_tools")
@breaks("one_tool_is_called_where_one_is_allowed", method="chat_with_tools")
class Muddled(Marith):
    """Calls each tool twice, with its name as the id, and with new arguments each time."""

    count: ClassVar[list[int]] = [0]

    def get_tool_calls_from_response(self, *given: Any, **options: Any) -> Any:
        self.count[0] += 1
        calls = super().get_tool_calls_from_response(*given, **options)
        other = {"tool_kwargs": {"river": str(self.count)}}
        return [c.model_copy(update={"tool_id": c.tool_name, **other}) for c in calls] * 2


@breaks("a_message_with_calls_survives_json", method="chat_with_tools")
class Clinging(Altered):
    """Keeps an object that JSON cannot hold in its message."""

    def answered(self, answer: Any, method: str) -> Any:
        calls = {"tool_calls": [object()]}
        message = answer.message.model_copy(update={"additional_kwargs": calls})
        return answer.model_copy(update={"message": message})


@breaks("a_history_that_was_stored_is_read", method="chat_with_tools")
class Personal(Altered):
    """Recognises the blocks of its messages by identity, not by content."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        blocks = question[1].blocks if len(question) > 1 else []
        if any(getattr(block, "tool_name", None) and id(block) not in _MADE for block in blocks):
            raise ValueError("a block from another message")
        return question, options

    def answered(self, answer: Any, method: str) -> Any:
        _MADE.update({id(block): block for block in answer.message.blocks})
        return answer


_MADE: dict[int, Any] = {}


@breaks("a_question_follows_its_history", method="chat_with_tools")
class Impatient(Marith):
    """Puts the question before its history."""

    def _prepare_chat_with_tools(self, tools: Any, **given: Any) -> Any:
        if given.get("user_msg") and given.get("chat_history"):
            asked = ChatMessage(role="user", content=given.pop("user_msg"))
            given["chat_history"] = [asked, *given["chat_history"]]
        return super()._prepare_chat_with_tools(tools, **given)


@breaks("a_call_that_was_cut_off_is_not_run", method="chat_with_tools")
class Trusting(Marith):
    """Takes a truncated call for a whole one."""

    def get_tool_calls_from_response(self, *given: Any, **options: Any) -> Any:
        try:
            return super().get_tool_calls_from_response(*given, **options)
        except ValueError:
            return [ToolSelection(tool_id="1", tool_name="sail", tool_kwargs={})]


@breaks("a_tool_that_is_called_runs", method="predict_and_call")
@breaks("a_tool_that_fails_is_told_or_raised", method="predict_and_call")
@breaks("a_tool_that_waits_runs")
class Idle(Marith):
    """Finds no call in any answer."""

    def get_tool_calls_from_response(self, *given: Any, **options: Any) -> Any:
        return []


@breaks("what_an_object_cost_is_counted", method="structured_predict")
class Generous(Marith):
    """Does not report the tokens of an object."""

    def structured_predict(self, *given: Any, **options: Any) -> Any:
        uncounted = self.model_copy(update={"callback_manager": CallbackManager([])})
        return Marith.structured_predict(uncounted, *given, **options)
