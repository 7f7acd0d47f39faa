"""Define measures for `marith eval --measure measures:grade`: functions from a text to a number."""

import re


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


def profanity(text: str) -> float:
    """Return the probability that a text is offensive (pip install alt-profanity-check)."""
    from profanity_check import predict_prob

    return float(predict_prob([text])[0])


if __name__ == "__main__":
    print(f"{grade('A bee is an insect. It makes honey.'):.1f}")
