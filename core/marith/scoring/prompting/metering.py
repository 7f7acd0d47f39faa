"""What the code of a chat template pays for: its bodies, and what Jinja asks no environment for.

Each body of a loop, a macro or a condition pays for its nodes when it is entered; comparisons,
slices, keys and operators go through the budget of the rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.visitor import NodeTransformer

from marith.errors import RequestError
from marith.scoring.prompting.budget import HOLDING, check_number, refuse

MOST_NODES = 10_000  # of a template
_NODE = 2  # letters that a node of a body costs
_ATTRIBUTE = 8  # letters that an attribute costs beside its node
_SHORT = 64  # letters of a constant that is compared at no cost
_BODIES: dict[type[nodes.Node], tuple[str, ...]] = {
    nodes.Template: ("body",),
    nodes.For: ("body", "else_"),
    nodes.If: ("body", "else_"),
    nodes.Macro: ("body",),
    nodes.CallBlock: ("body",),
}
_FRAMES = {kind: fields for kind, fields in _BODIES.items() if kind is not nodes.If}
_OTHER_TEMPLATES = (nodes.Block, nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)


def metered(template: nodes.Template) -> nodes.Template:
    """A template that pays for what it does. Raises RequestError for one that is too large."""
    if sum(1 for _ in _within([template], {})) > MOST_NODES:
        raise RequestError(f"a chat template of more than {MOST_NODES:,} parts is not read")
    paying: nodes.Template = _Paying().visit(template)
    return paying


class _Paying(NodeTransformer):
    """Lets a template pay wherever Jinja itself would not ask its environment."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if isinstance(node, _OTHER_TEMPLATES):
            refuse("{% block %}" if isinstance(node, nodes.Block) else "{% include %}")
        for field in _BODIES.get(type(node), ()):
            body = getattr(node, field)
            if body or field == "body":
                cost = _cost([*body, *getattr(node, "defaults", ())])  # of a macro's arguments
                cost += _names(body) if type(node) in _FRAMES else 0
                setattr(node, field, [nodes.ExprStmt(_spending(cost)), *body])
        return super().visit(node, *args, **kwargs)

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802 (as Jinja names it)
        check_number(node.value)
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        cost = _cost([node.test]) if node.test is not None else 0
        self.generic_visit(node)
        if node.test is not None:  # which items that enter no body are put to
            node.test = nodes.Or(_spending(cost), node.test)
            node.iter = _call("turns", node.iter)  # type: ignore[arg-type]  # an expression
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        first, *more = node.ops
        if more:
            node.expr = _call("looked_up", node.expr)
            for each in node.ops:
                each.expr = _call("looked_up", each.expr)
        elif not _is_short(first.expr) and (first.op in HOLDING or not _is_short(node.expr)):
            return _call("operated", nodes.Const(first.op), node.expr, first.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            cut = node.arg
            bounds = (each or nodes.Const(None) for each in (cut.start, cut.stop, cut.step))
            return _call("sliced", node.node, *bounds)
        if not _is_short(node.arg):
            node.arg = _call("looked_up", node.arg)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.key, nodes.Const):
            node.key = _call("looked_up", node.key)
        return node

    def visit_Add(self, node: nodes.Add) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("added", node.left, node.right)

    def _operated(self, node: nodes.BinExpr) -> nodes.Node:
        self.generic_visit(node)
        return _call("operated", nodes.Const(node.operator), node.left, node.right)

    def visit_Sub(self, node: nodes.Sub) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("subtracted", node.left, node.right)

    visit_Mul = visit_Pow = visit_Mod = _operated  # noqa: N815

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_call("text", each) for each in node.nodes]
        return node


class Metered(CodeGenerator):
    """Jinja's compiler. Its code holds the budget of the rendering, and pays for what it writes."""

    def write_commons(self) -> None:
        """What every template begins with."""
        super().write_commons()
        self.writeline("budget = environment.budget()")

    def visit_Call(  # noqa: N802
        self, node: nodes.Call, frame: Frame, forward_caller: bool = False
    ) -> None:
        """A call, which is the budget's own where this module has written it."""
        if not isinstance(node.node, nodes.EnvironmentAttribute):
            super().visit_Call(node, frame, forward_caller=forward_caller)
            return
        self.write(f"budget.{node.node.name}(")
        for each in node.args:
            self.visit(each, frame)
            self.write(", ")
        self.write(")")

    def _make_finalize(self) -> CodeGenerator._FinalizeInfo:
        return self._FinalizeInfo(None, "budget.text(")


def _call(name: str, *arguments: nodes.Expr) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), [*arguments], [], None, None)


def _spending(letters: int) -> nodes.Call:
    return _call("spend", nodes.Const(letters))


def _cost(body: Sequence[nodes.Node]) -> int:
    """The letters of a body's own text and nodes, without the bodies inside it."""
    cost = _NODE
    for node in _within(body, _BODIES):
        cost += len(node.data) if isinstance(node, nodes.TemplateData) else _NODE
        cost += _ATTRIBUTE if isinstance(node, nodes.Getattr) else 0
    return cost


def _names(body: Sequence[nodes.Node]) -> int:
    """How many names Jinja looks up whenever a body is entered, whether they are used or not."""
    inside = _within(body, _FRAMES)
    return len({each.name for each in inside if isinstance(each, nodes.Name)})


def _within(
    waiting: Sequence[nodes.Node], bodies: Mapping[type[nodes.Node], Sequence[str]]
) -> Iterator[nodes.Node]:
    """These nodes and those inside them, but for what is in those fields that are `bodies`."""
    waiting = [*waiting]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.iter_child_nodes(exclude=bodies.get(type(node))))


def _is_short(node: nodes.Node) -> bool:
    """Whether this is a constant that costs nothing to compare, or a list of such."""
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(map(_is_short, node.items))
    if isinstance(node, nodes.Neg):
        return _is_short(node.node)
    return isinstance(node, nodes.Const) and len(str(node.value)) <= _SHORT
