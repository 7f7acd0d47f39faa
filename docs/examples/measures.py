"""Define measures for `marith eval --measure measures:grade`: functions from a text to a number."""

import re
from threading import Lock

# TextBlob loads its lexicon at the first call, which is not safe in several threads.
_TAGGING = Lock()
# TextBlob does not know contractions. A word with 's may be a possessive, which has no verb.
_CONTRACTIONS = {
    "’": "'", "an't": "an not", "won't": "will not", "n't": " not", "'m": " am", "'re": " are",
    "'ll": " will", "'ve": " have", "'d": " would", "'s": "",
}  # fmt: skip


def grade(text: str) -> float | None:
    """Return the school grade that a reader of the text needs (Flesch and Kincaid, 1975)."""
    words = re.findall(r"[a-z']+", text.lower())
    if not words:
        return None  # a text without a number is left out of the mean
    sentences = max(1, len(re.findall(r"[.!?]+(?=\s|$)", text)))
    syllables = sum(
        max(1, len(re.findall(r"[aeiouy]+", re.sub(r"(?<=[^l])e$", "", word)))) for word in words
    )
    return 0.39 * len(words) / sentences + 11.8 * syllables / len(words) - 15.59


def pirate(text: str) -> int:
    """Return 1 for a text with a word of pirates in films, such as "Ahoy", and 0 for others."""
    return int(
        re.search(r"\b(ahoy|arr+|avast|aye|cap'?n|matey|ye|yer)\b", text.lower()) is not None
    )


def profanity(text: str) -> float:
    """Return the probability that a text is offensive (pip install alt-profanity-check)."""
    from profanity_check import predict_prob

    return float(predict_prob([text])[0])


def formality(text: str) -> float | None:
    """Return the F-score of a text (Heylighen and Dewaele, 1999; pip install textblob).

    The score is between 0 and 100. Nouns, adjectives, prepositions and articles raise it; pronouns,
    verbs, adverbs and interjections lower it.
    """
    from textblob import en

    for short, long in _CONTRACTIONS.items():
        text = text.replace(short, long)
    with _TAGGING:
        tagged = [(word, tag) for word, tag in en.tag(text) if tag[0].isalpha()]
    if not tagged:
        return None
    points = sum(_formal(word, tag) for word, tag in tagged)
    return 50 * (1 + points / len(tagged))


def _formal(word: str, tag: str) -> int:
    if tag.startswith(("NN", "JJ", "IN")) or word.lower() in ("a", "an", "the"):
        return 1
    return -tag.startswith(("PRP", "WP", "VB", "MD", "RB", "UH"))


def repetition(text: str) -> float | None:
    """Return the share of sequences of four words that the text had before (Welleck, 2020)."""
    words = text.lower().split()
    fours = [*zip(words, words[1:], words[2:], words[3:], strict=False)]
    return 1 - len({*fours}) / len(fours) if fours else None


if __name__ == "__main__":
    print(f"{grade('A bee is an insect. It makes honey.'):.1f}")
