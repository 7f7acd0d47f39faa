"""How much of long texts is read beside texts that go on, which shall not wait for long."""

from __future__ import annotations

SHARE = 0.25  # by so much longer a call may take where texts go on
FEWEST = 16  # tokens of long texts in a call: they shall not wait for long either
UNKNOWN = 64  # tokens, where nothing is known of what they take
_NEW = 0.3  # how much the last measurement counts


class PrefillBudget:
    """How many tokens of long texts a call reads beside texts that go on by a few tokens each.

    So many as make the call a quarter longer, by what calls have taken. Changes when a text is
    read, and its answers by no more than other shapes of a pass do: by rounding.
    """

    def __init__(self) -> None:
        self._texts = 0
        self._step = 0.0  # seconds of a call in which so many texts go on, and no other is read
        self._token = 0.0  # seconds that each further token takes

    def most(self, texts: int) -> int | None:
        """Tokens of long texts in a call in which so many texts go on; None where nobody waits."""
        if not texts or not self._step:
            return None
        if not self._token:
            return UNKNOWN
        return max(FEWEST, int(SHARE * self._alone(texts) / self._token))

    def learn(self, texts: int, tokens: int, seconds: float) -> None:
        """Take in a call in which so many texts went on, and so many tokens of others were read."""
        if tokens:
            each = (seconds - self._alone(texts)) / tokens
            if tokens >= FEWEST and each > 0:
                self._token = _mixed(self._token, each)
        elif texts:
            alike = abs(texts - self._texts) <= self._texts // 4
            self._step = _mixed(self._step, seconds) if alike else seconds
            self._texts = texts

    def _alone(self, texts: int) -> float:
        """The seconds of a call in which so many texts go on, and no other is read."""
        return self._step * max(1.0, texts / self._texts) if texts and self._texts else 0.0


def _mixed(before: float, now: float) -> float:
    return before + _NEW * (now - before) if before else now
