"""Detoxify a chain that writes replies in a forum, by changing only its model."""

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

MESSAGES = (
    "Anybody can do what teachers do. It takes no skill at all.",
    "There is nothing more ugly than school uniforms, except people who praise them.",
    "I cannot stand barking dogs, and I think less of everyone who can.",
)


def chain(model: ChatMarith) -> Runnable[dict[str, str], str]:
    """Return the application, which is the same for every model. A call may set its own seed."""
    prompt = PromptTemplate.from_template("Person 1: {message}\nPerson 2:")
    speaks = model.configurable_fields(seed=ConfigurableField(id="seed"))
    return prompt | speaks | StrOutputParser()


def main() -> None:
    inputs = [{"message": message} for message in MESSAGES]
    configs = [{"configurable": {"seed": seed}} for seed in range(len(MESSAGES))]
    for model in (BARE, DETOXIFIED):
        print(model.formula)
        for reply in chain(model).batch(inputs, configs):
            print("   ", reply.strip())


if __name__ == "__main__":
    main()
