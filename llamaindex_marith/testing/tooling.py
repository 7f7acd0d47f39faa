"""The tools, schemas and templates that the checks use."""

from typing import Any, Literal

import pytest
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

# LlamaIndex core itself uses deprecated parts of pydantic and of its own workflows.
ignore_core_deprecations = pytest.mark.filterwarnings("ignore::DeprecationWarning")

River = Literal["Ebro", "Rhone", "Elbe"]


class Voyage(BaseModel):
    """A voyage on a river."""

    river: River
    days: int = Field(ge=1, le=9)
    upstream: bool


class RiverChoice(BaseModel):
    """The choice of a river."""

    river: River


class Fleet(BaseModel):
    """Some voyages."""

    voyages: list[Voyage] = Field(min_length=1, max_length=2)
    season: Literal["spring", "autumn"]


def depth(river: River) -> str:
    """How deep a river is."""
    return f"{river}: three metres"


def sail(river: River, days: Literal[1, 2, 3]) -> str:
    """Sail on a river for some days."""
    return f"sailed the {river} for {days} days"


async def adepth(river: River) -> str:
    """How deep a river is, asynchronously."""
    return depth(river)


def tool(function: Any, **options: Any) -> FunctionTool:
    """A tool that calls a function."""
    return FunctionTool.from_defaults(fn=function, **options)


DEPTH = tool(depth)
SAIL = tool(sail)
TOOLS = [DEPTH, SAIL]


def template(question: str) -> PromptTemplate:
    """A question as a template without variables."""
    return PromptTemplate(question.replace("{", "{{").replace("}", "}}"))
