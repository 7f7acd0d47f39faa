"""Paths in a file of terms and formulas: they count from the folder of the file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from marith.formula.tree.node import Node, rebuilt
from marith.formula.tree.terms import Classifier, NGram, Prompted


def path_in(folder: Path, name: Any, always: bool = False) -> Any:
    """The path of a model, adapter or text that a file in `folder` names.

    An absolute path stays, and so does the name of a model on the hub or in the package: anything
    that neither looks like a path nor exists in the folder. With `always` the name is a path.
    """
    if not isinstance(name, str) or folder == Path() or name.startswith(("/", "~")):
        return name
    is_gguf = name.lower().endswith(".gguf") and ":" not in name
    looks_like_path = always or is_gguf or name.startswith(("./", "../"))
    path = os.path.join(folder, name)
    return os.path.normpath(path) if looks_like_path or os.path.exists(path) else name


def with_paths_in(folder: Path, node: Any) -> Any:
    """A formula whose terms read the files that its names mean in `folder`."""
    match node:
        case Prompted():
            model, adapter = (path_in(folder, name) for name in (node.model, node.adapter))
            return replace(node, model=model, adapter=adapter)
        case Classifier():
            guide = with_paths_in(folder, node.guide)
            return replace(node, model=path_in(folder, node.model), guide=guide)
        case NGram():
            return replace(node, path=path_in(folder, node.path, always=True))
        case Node():
            return rebuilt(node, lambda part: with_paths_in(folder, part))
    return node
