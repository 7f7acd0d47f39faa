"""A program that ends while it reads an answer ends without a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

LONG = {"max_tokens": 900, "ignore_eos": True}
# Each opens answers, reads their beginnings, and keeps the rest until the interpreter ends. A chain
# of LangChain's is not among them: what it runs at its own end fails in the same way.
READERS = {
    "engine": """
import marith
engine = marith.Engine.load("pocket")
left = engine.stream("Hi.", **LONG), iter(engine.submit(marith.Request("Hi.")))
for each in left: next(each)
""",
    "langchain": """
from langchain_marith import ChatMarith, MarithLLM
chat, text = ChatMarith(**LONG), MarithLLM(**LONG)
tool = {"name": "sing", "parameters": {"type": "object", "properties": {}}}
calls = ChatMarith().bind_tools([tool], tool_choice="any")
left = [chat.stream("Hi."), text.stream("Hi."), calls.stream("Hi.")]
for each in left: next(each)
""",
    "llamaindex": """
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel
from llamaindex_marith import Marith
class Song(BaseModel):
    lines: list[str]
model = Marith(**LONG)
left = [model.stream_complete("Hi."), model.stream_chat([ChatMessage("Hi.")]),
        Marith().stream_structured_predict(Song, PromptTemplate("Sing."))]
for each in left: next(each)
""",
    "asyncio": """
import asyncio
import marith
from langchain_marith import ChatMarith, MarithLLM
from llamaindex_marith import Marith
left = []
async def main():
    left.extend([marith.Engine.shared().astream("Hi.", **LONG), ChatMarith(**LONG).astream("Hi."),
                 MarithLLM(**LONG).astream("Hi."), await Marith(**LONG).astream_complete("Hi.")])
    for each in left: await anext(each)
loop = asyncio.new_event_loop()  # not `run`, which would close the generators
loop.run_until_complete(main())
""",
}


@pytest.mark.parametrize("name", READERS)
def test_an_answer_that_is_not_read_to_its_end_leaves_no_traceback(name: str) -> None:
    program = f"LONG = {LONG}\n{READERS[name]}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
