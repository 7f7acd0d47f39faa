"""Use a formula as the model of a LangChain chain. The rest of the chain does not change."""

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from langchain_marith import ChatMarith


def main() -> None:
    prompt = ChatPromptTemplate([("system", "You help with {topic}."), ("user", "{question}")])
    model = ChatMarith(
        model="pocket",
        formula="0.5*M + 0.5*formal",
        terms={"formal": "Write formally."},
        temperature=0.7,
        max_tokens=24,
        seed=1,
    )
    chain = prompt | model | StrOutputParser()
    for text in chain.stream({"topic": "cooking", "question": "How do I boil an egg?"}):
        print(text, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
