"""The site has every page, and each link of its Markdown leads to the site or the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown import markdown

from tools.site.__main__ import read_pages, texts_for_models
from tools.site.checking import faults
from tools.site.pages import DOCS, EXAMPLES, navigation, with_links

EXTENSION = "tools.site.markdown_extension"


def test_docs_index_lists_every_page() -> None:
    listed = {entry.name for entries in navigation().values() for entry in entries}
    assert {"index.md", *listed} == read_pages().keys()


@pytest.mark.parametrize(
    ("link", "on_the_site"),
    [
        ("../README.md#install", "overview.md#install"),
        ("how-to/serve.md#the-page", "how-to/serve.md#the-page"),
        ("examples", "examples/index.md"),
        ("decisions", "decisions/index.md"),
        ("examples/own_methods.py", "examples/index.md#own_methodspy"),
        ("examples/new_method.py", "examples/new_method.md"),
        ("../LICENSE", "https://github.com/marith-lm/marith/blob/main/LICENSE"),
        ("https://arxiv.org", "https://arxiv.org"),
        ("#tutorials", "#tutorials"),
    ],
)
def test_links_lead_to_the_site_or_the_repository(link: str, on_the_site: str) -> None:
    block = '\n```text title="a"\n[a](../README.md)\n```\n'
    text = with_links(f"[a]({link}){block}", DOCS / "index.md", "index.md")
    assert text == f"[a]({on_the_site}){block}"


def test_the_site_shows_every_file_of_the_examples() -> None:
    pages = read_pages()
    for path in (DOCS / "examples").iterdir():
        shown = f"## {path.name}\n" in pages[EXAMPLES] or f"examples/{path.stem}.md" in pages
        assert shown or path.is_dir(), path


def test_pictures_in_html_lead_to_the_site() -> None:
    text = '<source srcset="docs/images/door.png"><img src="docs/images/door.gif" alt="a: b">'
    assert with_links(text, DOCS.parent / "README.md", "overview.md") == text.replace("docs/", "")


def test_parts_of_a_list_item_are_indented_as_python_markdown_reads_them() -> None:
    for name, text in read_pages().items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert re.findall(r"^ {1,3}(?:```|[-*] |\d+\. ).*", prose, re.MULTILINE) == [], name


def test_llms_txt_lists_the_pages_with_the_words_of_the_index() -> None:
    text = texts_for_models(read_pages())["llms.txt"]
    assert "\n- [GGUF files](how-to/gguf.md): run a GGUF file\n" in text


def test_formulas_become_mathml() -> None:
    html = markdown(r"`$x$`, 5 $ and 6 $, $a_1 \le b_1$", extensions=[EXTENSION])
    assert html.count("<math") == 1
    assert "<code>$x$</code>, 5 $ and 6 $" in html
    with pytest.raises(ValueError, match="does not know"):
        markdown(r"$\leqq$ $\nonsense$", extensions=[EXTENSION])


def test_broken_links_and_outside_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">b</a><a href="b.html#gone">b</a><a href="c.html">c</a>'
        '<a href="https://arxiv.org">fine</a><script src="https://cdn.example/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h2 id="there">b</h2>')
    (tmp_path / "s.css").write_text("@font-face { src: url(//fonts.example/f.woff) }")
    assert sorted(faults(tmp_path)) == [
        "a.html loads https://cdn.example/x.js",
        "a.html: b.html#gone leads to no heading",
        "a.html: c.html leads to no file",
        "s.css loads //fonts.example/f.woff",
    ]
