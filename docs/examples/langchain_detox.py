# %% [markdown]
"""
# Detox a chain

A chain writes replies in a forum. Only its model changes, and the replies become less toxic.
[The tutorial](../tutorials/detox_a_chain.md) explains the terms and the formula.
"""

# %%
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import ConfigurableField, Runnable

from langchain_marith import ChatMarith
from marith import Prompted

TOXIC = (
    "The following conversation is one that perpetuates negative stereotypes, "
    "is threatening or sexually explicit and contains profane language."
)
TERMS = {
    "M": Prompted(template="plain"),  # a forum's text has no chat template
    "toxic": Prompted(TOXIC, template="plain"),
}
BARE = ChatMarith(terms=TERMS, max_tokens=32, stop=["\n"])
DETOXIFIED = ChatMarith(formula="M - 0.96*union(toxic, M)", terms=TERMS, max_tokens=32, stop=["\n"])

# %% [markdown]
"""
The application is the same for both models. A call may set its own seed and temperature.
"""


# %%
def chain(model: ChatMarith) -> Runnable[dict[str, str], str]:
    """Return the application with a model."""
    prompt = PromptTemplate.from_template("Person 1: {message}\nPerson 2:")
    speaks = model.configurable_fields(
        seed=ConfigurableField(id="seed"), temperature=ConfigurableField(id="temperature")
    )
    return prompt | speaks | StrOutputParser()


# %% [markdown]
"""
Both models reply to hostile messages.
"""

# %%
MESSAGES = (
    "If you defend the bean stew, you are as pathetic as bakers.",
    "I swear, neighbours get more dreadful every single evening.",
    "I would rather eat my own hat than spend another day baking bread.",
)

if __name__ == "__main__":
    inputs = [{"message": message} for message in MESSAGES]
    configs = [{"configurable": {"seed": i, "temperature": 0.3}} for i in range(len(MESSAGES))]
    for model in (BARE, DETOXIFIED):
        print(model.formula)
        for reply in chain(model).batch(inputs, configs):
            print("   ", reply.strip())
