"""HTML as a browser would read it: its elements, their attributes and its text."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br", "hr", "img", "meta", "input"}


class ParsedHtml(HTMLParser):
    """The elements of a fragment in order, with its text; raises for tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"{self._open} are not closed"

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def values(self, attribute: str) -> list[str]:
        """What every element that has this attribute says in it."""
        return [given[attribute] or "" for _, given in self.elements if attribute in given]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
