"""A program that ends while it reads an answer ends without a traceback."""

from __future__ import annotations

import subprocess
import sys

LONG = {"max_tokens": 900, "ignore_eos": True}
# Each opens answers, reads their beginnings, and keeps the rest until the interpreter ends. Streams
# of LlamaIndex's, chains of LangChain's, and asynchronous generators of a loop that was not closed
# run code of others at their own ends, which may fail in the same way: they are not among them.
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
}


def test_answers_that_are_not_read_to_their_ends_leave_no_traceback() -> None:
    readers = [text.replace("left", f"left_{name}") for name, text in READERS.items()]
    program = "\n".join([f"LONG = {LONG}", *readers])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
