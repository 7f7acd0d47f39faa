"""A LlamaIndex query over two passages, by a formula that prefers what they say."""

from llama_index.core import PromptTemplate
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode

from llamaindex_marith import Marith

PASSAGES = ("The library opens at nine.", "The library is closed on Mondays.")
PROMPT = PromptTemplate("<context>{context_str}</context>\n{query_str}")


def main() -> None:
    model = Marith(
        model="pocket",
        formula="1.5*M - 0.5*blind",
        terms={"blind": r'prompted(hide="(?s)<context>.*?</context>")'},
        temperature=0.0,
        max_tokens=24,
    )
    synthesizer = get_response_synthesizer(llm=model, text_qa_template=PROMPT)
    found = [NodeWithScore(node=TextNode(text=passage), score=1.0) for passage in PASSAGES]
    print(synthesizer.synthesize("When does the library open?", nodes=found))


if __name__ == "__main__":
    main()
