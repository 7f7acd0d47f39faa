"""Run an agent with two tools: the formula sets the tone, and the bare model fills the calls."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph

from langchain_marith import ChatMarith

PRICES = {"lamp": 39, "kettle": 25, "violin": 480}
WEATHER = {"Lisbon": "sunny", "Oslo": "cold", "Porto": "windy"}
TERMS = {"happy": "You are a happy assistant."}
MANNER = "2*happy - M"
QUESTIONS = ("What is the price of the kettle?", "Can you check the weather in Porto?")


@tool
def get_price(item: str) -> str:
    """Get the price of an item."""
    return str(PRICES.get(item, 12))


@tool
def check_weather(city: str) -> str:
    """Check the weather in a city."""
    return WEATHER.get(city, "dry")


def agent(formula: str = MANNER, temperature: float = 0.3) -> CompiledStateGraph:
    """Return an agent of LangChain. With `steer_tools=False` the bare model fills the calls."""
    model = ChatMarith(
        formula=formula,
        terms=TERMS,
        temperature=temperature,
        max_tokens=64,
        seed=1,
        steer_tools=False,
    )
    return create_agent(model, [get_price, check_weather])


def main() -> None:
    cheerful = agent()
    for question in QUESTIONS:
        state = cheerful.invoke({"messages": [("user", question)]}, {"recursion_limit": 12})
        for message in state["messages"]:
            message.pretty_print()


if __name__ == "__main__":
    main()
