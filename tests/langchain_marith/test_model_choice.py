"""A model that is chosen when it is called, in place of `init_chat_model`."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import ConfigurableField
from support.speaking_model import Make


async def test_a_call_chooses_among_models_and_providers(make: Make) -> None:
    chosen = (
        make()
        .configurable_fields(model=ConfigurableField("model"), seed=ConfigurableField("seed"))
        .configurable_alternatives(
            ConfigurableField("model_provider"),
            default_key="marith",
            fake=FakeListChatModel(responses=["Hello."]),
        )
    )
    plain = chosen.invoke("k l").text
    assert plain == make().invoke("k l").text
    other = await chosen.ainvoke("k l", {"configurable": {"seed": 7}})
    assert other.text == make(seed=7).invoke("k l").text != plain
    pocket = chosen.invoke("Hi", {"configurable": {"model": "pocket"}})
    assert pocket.response_metadata["model_name"] == "pocket"
    fake = chosen.invoke("Hi", {"configurable": {"model_provider": "fake"}})
    assert fake.text == "Hello."


def test_an_agent_takes_the_model_itself(scripted: Make) -> None:
    agent = create_agent(scripted(), [])
    (_, answer) = agent.invoke({"messages": [("user", "Hello!")]})["messages"]
    assert answer.text == scripted().invoke("Hello!").text
