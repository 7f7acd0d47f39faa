"""Make a control vector from two prompts, and use it as terms of a formula in a LangChain chain."""

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from langchain_marith import ChatMarith
from marith import Prompted
from marith.training import VectorSettings, train_vector

QUESTION = "How was your day?"
FORMULAS = "M", "happy", "M + 0.5*(happy - sad)"


def main() -> None:
    settings = VectorSettings("pocket", "You are very happy.", "You are rude and sad.")
    train_vector(settings).save("happy.gguf")
    terms = {
        "happy": Prompted(vectors={"happy.gguf": 2.0}),
        "sad": Prompted(vectors={"happy.gguf": -2.0}),
    }
    prompt = ChatPromptTemplate.from_messages([("user", "{question}")])
    for formula in FORMULAS:
        model = ChatMarith(
            model="pocket", formula=formula, terms=terms, temperature=0, max_tokens=16
        )
        print(
            f"{formula:<22} {(prompt | model | StrOutputParser()).invoke({'question': QUESTION})}"
        )


if __name__ == "__main__":
    main()
