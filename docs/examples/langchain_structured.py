"""Run agents that answer with an object: decoding follows the schema while the formula steers."""

from collections.abc import Callable
from enum import StrEnum

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, ModelResponse, wrap_model_call
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field

from langchain_marith import ChatMarith

TERMS = {"formal": "You are an assistant using formal and objective language to answer the user."}
TEXTS = ("Ana Ruiz is a painter from Lisbon, aged 41.", "Tomas Berg from Oslo is a cook. He is 29.")


class Trade(StrEnum):
    """The trade of a person."""

    PAINTER = "painter"
    COOK = "cook"
    TEACHER = "teacher"


class Person(BaseModel):
    """A person that a text tells of."""

    name: str = Field(pattern=r"^\w{1,20} \w{1,20}$")
    city: str | None = Field(pattern=r"^\w{1,20}$")
    trade: Trade
    age: int = Field(ge=0, le=120)


@tool
def save_note(text: str) -> str:
    """Save a note."""
    return f"saved {len(text)} characters"


@wrap_model_call
def once(request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
    """Offer no tools after a tool has answered, because small models may repeat calls forever."""
    called = any(isinstance(message, ToolMessage) for message in request.messages)
    return handler(request.override(tools=[]) if called else request)


def agent(tools: bool = False) -> CompiledStateGraph:
    """Return an agent whose last answer is a valid `Person`: decoding follows the schema."""
    model = ChatMarith(
        formula="0.5*M + 0.5*formal", terms=TERMS, temperature=0.3, max_tokens=160, seed=1
    )
    offered = [save_note] if tools else []
    return create_agent(model, offered, response_format=ProviderStrategy(Person), middleware=[once])


def main() -> None:
    reader = agent()
    for text in TEXTS:
        state = reader.invoke({"messages": [("user", text)]})
        print(repr(state["structured_response"]))


if __name__ == "__main__":
    main()
