"""Build the site of the documentation from docs/, whose Markdown stays plain.

- `__main__`: `python -m tools.site`, which is `make site`.
- `pages`: the pages in the order of docs/index.md, and where their links lead.
- `examples`: the pages of docs/examples.
- `markdown_extension`: sets `$…$` as MathML, and lets keys scroll tables.
- `checking`: finds broken links and outside hosts in the site.
- `zensical.toml`, `site.css`: the configuration and the style.
"""
