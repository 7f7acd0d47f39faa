"""LLMs that are wrong in one way each, in what they read, or in what options do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from conformance_altered import Altered, breaks, with_text
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms.llm import ToolSelection

from llamaindex_marith import Marith
from llamaindex_marith.testing.ways import text_of


@breaks("a_call_may_say_where_to_stop", "a_call_may_say_how_long", way="complete")
@breaks("a_call_may_say_how_warm", "a_call_may_say_its_seed", way="chat")
@breaks("an_unknown_option_of_a_call_is_refused", way="stream_chat")
@breaks("a_calls_options_win_for_an_object", way="structured_predict")
class Careless(Altered):
    """Drops the text beside a call."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {name: options[name] for name in ("grammar",) if name in options}


@breaks("an_llm_may_be_made_to_stop", way="stream_chat")
class Leaking(Altered):
    """Lets the beginning of what should stop it through."""

    def answered(self, answer: Any, way: str) -> Any:
        if answer.raw is None or answer.raw["finish_reason"] != "stop":
            return answer
        return with_text(answer, text_of(answer) + self.stop[-1][:1])


@breaks("an_llm_with_a_seed_repeats_itself", way="chat")
class Unseeded(Altered):
    """Has no use for seeds."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {**options, "seed": None}


@breaks("a_calls_options_are_forgotten_after_it", way="chat")
class Sticky(Altered):
    """Keeps the options of a call."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        self.max_tokens = options.get("max_tokens", self.max_tokens)
        return question, options


@breaks("what_is_given_is_not_changed", way="chat")
@breaks("tools_and_history_are_not_changed", way="chat_with_tools")
class Appending(Altered):
    """Writes its answer into the list that it was given, and a question into a history."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        asked = list(question)
        question.append(ChatMessage(role="assistant", content=""))
        return asked, options

    def _prepare_chat_with_tools(self, tools: Any, **given: Any) -> Any:
        for message in given.get("chat_history") or ():
            message.additional_kwargs["seen"] = True
        return super()._prepare_chat_with_tools(tools, **given)


@breaks("the_blocks_of_a_message_are_one_text", way="chat")
@breaks("an_image_is_refused_by_who_reads_none", way="chat")
class Skimming(Altered):
    """Reads the first block of a message."""

    def asked(self, question: Sequence[ChatMessage], options: dict[str, Any]) -> Any:
        first = [m.model_copy(update={"blocks": m.blocks[:1]}) for m in question]
        return first, options


@breaks("a_system_message_is_read", "a_conversation_is_read_whole", way="chat")
@breaks("what_a_tool_said_is_read", way="chat_with_tools")
@breaks("a_chat_engine_reads_what_was_said")
class Forgetful(Altered):
    """Reads the user's first message alone."""

    def asked(self, question: Sequence[ChatMessage], options: dict[str, Any]) -> Any:
        first = next(message for message in question if message.role == "user")
        return [first], options


@breaks("the_system_prompt_is_read_by_completions", way="complete")
@breaks("completions_with_a_system_prompt_agree", way="acomplete")
@breaks("the_system_prompt_is_read_for_an_object", way="astructured_predict")
class Unprompted(Marith):
    """Has no system prompt for those who wait, nor for completions."""

    def complete(self, *given: Any, **options: Any) -> Any:
        return super().complete(*given, formatted=True, **options)

    async def acomplete(self, *given: Any, **options: Any) -> Any:
        return await super().acomplete("\n\n".join([self.system_prompt, *given]), formatted=True)

    async def astructured_predict(self, *given: Any, **options: Any) -> Any:
        plain = self.model_copy(update={"system_prompt": None})
        return await Marith.astructured_predict(plain, *given, **options)


@breaks("the_system_prompt_is_read_once_by_templates", way="predict")
@breaks("a_template_of_messages_is_read_as_they_are", way="astream")
@breaks("a_template_is_answered_as_its_words_are", way="stream")
class Repeating(Marith):
    """Reads a template five times over: twice is answered by pocket as once is, but for a tie."""

    def _get_messages(self, *given: Any, **options: Any) -> Any:
        messages = super()._get_messages(*given, **options)
        return [*messages] * 5


@breaks("a_completions_wrapper_is_what_is_read", way="complete")
@breaks("a_formatted_prompt_is_left_alone", way="stream_complete")
@breaks("a_conversations_wrapper_is_what_is_read", way="chat")
@breaks("an_output_parser_reads_the_answer", way="predict")
class Unwrapped(Marith):
    """Neither wraps nor parses, but for what is wrapped already."""

    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        return super().complete(prompt, formatted=True, **options)

    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        return super().stream_complete(prompt, formatted=False, **options)

    def chat(self, messages: Any, **options: Any) -> Any:
        plain = self.model_copy(update={"messages_to_prompt": None})
        return Marith.chat(plain, messages, **options)

    def _parse_output(self, output: str) -> str:
        return output


@breaks("a_required_call_is_made_and_valid", way="chat_with_tools")
@breaks("a_tool_may_be_chosen_by_name", way="chat_with_tools", name="sail")
@breaks("a_function_agent_runs_its_first_tool", streaming=True)
@breaks("a_function_agent_answers_twice", "a_workflow_of_agents_runs")
class Unwilling(Altered):
    """Calls no tool, whoever requires it."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {**options, "tool_choice": "none"}


@breaks("no_tool_is_called_where_none_is_chosen", way="chat_with_tools")
class Eager(Altered):
    """Calls a tool, whatever is chosen."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        return question, {**options, "tool_choice": "required"}


@breaks("every_call_has_an_id_of_its_own", "every_way_calls_the_same", way="achat_with_tools")
@breaks("one_tool_is_called_where_one_is_allowed", way="chat_with_tools")
class Muddled(Marith):
    """Calls each tool twice, by its name for an id, and never with the same arguments."""

    count: ClassVar[list[int]] = [0]

    def get_tool_calls_from_response(self, *given: Any, **options: Any) -> Any:
        self.count[0] += 1
        calls = super().get_tool_calls_from_response(*given, **options)
        other = {"tool_kwargs": {"river": str(self.count)}}
        return [c.model_copy(update={"tool_id": c.tool_name, **other}) for c in calls] * 2


@breaks("a_message_with_calls_survives_json", way="chat_with_tools")
class Clinging(Altered):
    """Keeps an object of its client's in what it says."""

    def answered(self, answer: Any, way: str) -> Any:
        calls = {"tool_calls": [object()]}
        message = answer.message.model_copy(update={"additional_kwargs": calls})
        return answer.model_copy(update={"message": message})


@breaks("a_history_that_was_stored_is_read", way="chat_with_tools")
class Personal(Altered):
    """Knows messages by who they are, not by what they say."""

    def asked(self, question: Any, options: dict[str, Any]) -> Any:
        blocks = question[1].blocks if len(question) > 1 else []
        if any(getattr(block, "tool_name", None) and id(block) not in _MADE for block in blocks):
            raise ValueError("a call that is not mine")
        return question, options

    def answered(self, answer: Any, way: str) -> Any:
        _MADE.update({id(block): block for block in answer.message.blocks})
        return answer


_MADE: dict[int, Any] = {}


@breaks("a_question_follows_its_history", way="chat_with_tools")
class Impatient(Marith):
    """Puts the question first."""

    def _prepare_chat_with_tools(self, tools: Any, **given: Any) -> Any:
        if given.get("user_msg") and given.get("chat_history"):
            asked = ChatMessage(role="user", content=given.pop("user_msg"))
            given["chat_history"] = [asked, *given["chat_history"]]
        return super()._prepare_chat_with_tools(tools, **given)


@breaks("a_call_that_was_cut_off_is_not_run", way="chat_with_tools")
class Trusting(Marith):
    """Takes what it has of a call for all of it."""

    def get_tool_calls_from_response(self, *given: Any, **options: Any) -> Any:
        try:
            return super().get_tool_calls_from_response(*given, **options)
        except ValueError:
            return [ToolSelection(tool_id="1", tool_name="sail", tool_kwargs={})]


@breaks("a_tool_that_is_called_runs", "a_tool_that_fails_is_told_or_raised", way="predict_and_call")
@breaks("a_tool_that_waits_runs")
class Idle(Marith):
    """Asks which tool to call, and leaves it at that."""

    def get_tool_calls_from_response(self, *given: Any, **options: Any) -> Any:
        return []


@breaks("what_an_object_cost_is_counted", way="structured_predict")
class Generous(Marith):
    """Objects are on the house."""

    def structured_predict(self, *given: Any, **options: Any) -> Any:
        silent = self.model_copy(update={"callback_manager": CallbackManager([])})
        return Marith.structured_predict(silent, *given, **options)
