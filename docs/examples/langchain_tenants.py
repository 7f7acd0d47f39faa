"""Serve two tenants by one engine. Neither tenant learns from timing what the other has asked."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_marith import ChatMarith

TERMS = {"formal": "You are an assistant using formal and objective language to answer the user."}
ASKED = [
    SystemMessage("You are the assistant of a company that sells kettles, cups and plates. " * 4),
    HumanMessage("How do I boil an egg?"),
]


def model(salt: str | None = None) -> ChatMarith:
    """Return a model that shares cached prefixes only with models of the same `salt`."""
    return ChatMarith(
        formula="1.5*formal - 0.5*M",
        terms=TERMS,
        temperature=0.5,
        max_tokens=16,
        seed=1,
        cache_salt=salt,
    )


def cached(answer: object) -> int:
    """Return the number of prompt tokens that came from the cache."""
    assert isinstance(answer, AIMessage)
    assert answer.usage_metadata is not None
    return answer.usage_metadata.get("input_token_details", {}).get("cache_read", 0)


def main() -> None:
    first, second = model("tenant 1"), model("tenant 2")
    print("asked first:", cached(first.invoke(ASKED)), "tokens from the cache")
    print("asked again:", cached(first.invoke(ASKED)), "tokens from the cache")
    print("another tenant:", cached(second.invoke(ASKED)), "tokens from the cache")

    shared = model()  # one model for all tenants; each call sets the tenant
    for tenant in ("tenant 3", "tenant 3", "tenant 4"):
        answer = shared.bind(cache_salt=tenant).invoke(ASKED)
        print(f"{tenant}, bound to a call:", cached(answer), "tokens from the cache")


if __name__ == "__main__":
    main()
