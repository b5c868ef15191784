"""The drawing of a plan as one plotly figure, made when it is first wanted and changed in place."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby
from typing import Any

from ..views.palette import colour
from ..views.plan_shapes import HALF, Box, Label, PlanDrawing, Rule
from .graph import empty_figure

_GREY, _WRONG, _ACCENT = "#8a8a8a", "#C62828", "#5c6bc0"
_ROW_PX, _PAD_PX = 34, 8
_STYLES: dict[str, dict[str, Any]] = {
    # style → opacity of the whole, whether it is filled, width and dash of its line, its colour where no GPU gives one
    "busy": {"opacity": 0.95, "fill": True, "width": 0},
    "wait": {"opacity": 0.3, "fill": False, "width": 1.5, "dash": "dot"},
    "exchange": {"opacity": 0.75, "fill": True, "width": 0, "colour": _GREY},
    "bar": {"opacity": 0.9, "fill": True, "width": 0, "colour": _ACCENT},
    "frame": {"opacity": 0.9, "fill": False, "width": 1.5},
    "task": {"opacity": 0.35, "fill": True, "width": 1.5},
    "missing": {"opacity": 0.8, "fill": False, "width": 1.5, "dash": "dot", "colour": _WRONG},
}
_TEXT = {"left": "middle right", "middle": "middle center", "right": "middle left"}
_SIZES = (13, 12)
_POINT_EVERY = 2.5
"""How far apart the points are that can be pointed at, in hundredths of the width."""


def _rectangle(box: Box) -> str:
    y0, y1 = -box.row - HALF, -box.row + HALF
    return f"M {box.x0:.4g},{y0:g} L {box.x1:.4g},{y0:g} L {box.x1:.4g},{y1:g} L {box.x0:.4g},{y1:g} Z"


def _line(rule: Rule) -> str:
    path = f"M {rule.x0:.4g},{-rule.row0:g} L {rule.x1:.4g},{-rule.row1:g}"
    if rule.style == "range":  # with an end on either side
        for x in (rule.x0, rule.x1):
            path += f" M {x:.4g},{-rule.row0 - 0.13:g} L {x:.4g},{-rule.row0 + 0.13:g}"
    return path


def _path(paths: Iterable[str], line: dict[str, Any], fill: str | None, opacity: float, layer: str) -> dict[str, Any]:
    return {
        "type": "path",
        "path": " ".join(paths),
        "line": line,
        "fillcolor": fill or "rgba(0,0,0,0)",
        "opacity": opacity,
        "layer": layer,
    }


def _shapes(drawing: PlanDrawing) -> list[dict[str, Any]]:
    """One path for all boxes of a GPU and style, one for all lines of a style: few shapes, however many GPUs."""
    shapes = []
    grid = [rule for rule in drawing.rules if rule.style == "grid"]
    if grid:
        shapes.append(_path(map(_line, grid), {"color": _GREY, "width": 1, "dash": "dot"}, None, 0.45, "below"))
    order = sorted(drawing.boxes, key=lambda box: (box.style != "frame", box.style, box.position or 0))
    for (style, position), boxes in groupby(order, key=lambda box: (box.style, box.position)):
        look = _STYLES[style]
        own = look.get("colour") if style == "exchange" or position is None else colour(position)
        own = own or _GREY
        line = {"color": own, "width": look["width"], "dash": look.get("dash", "solid")}
        shapes.append(_path(map(_rectangle, boxes), line, own if look["fill"] else None, look["opacity"], "below"))
    ranges = [rule for rule in drawing.rules if rule.style == "range"]
    if ranges:
        shapes.append(_path(map(_line, ranges), {"color": _GREY, "width": 2}, None, 1.0, "above"))
    return shapes


def _markup(label: Label) -> str:
    first, *more = label.text.split("\n")
    head = f"<b>{escape(first)}</b>" if label.strong else escape(first)
    return head + "".join(f'<br><span style="font-size:11px">{escape(line)}</span>' for line in more if line)


def _traces(drawing: PlanDrawing) -> list[dict[str, Any]]:
    """What can be pointed at, then the labels."""
    points = [(x, box) for box in drawing.boxes if box.hover for x in _points(box)]
    hit = {
        "x": [x for x, _ in points],
        "y": [-box.row for _, box in points],
        "hovertext": ["<br>".join(map(escape, box.hover.split("\n"))) for _, box in points],
    }
    labels = drawing.labels
    text = {
        "x": [label.x for label in labels],
        "y": [-label.row for label in labels],
        "text": [_markup(label) for label in labels],
        "textposition": [_TEXT[label.anchor] for label in labels],
        "textfont.size": [_SIZES[label.small] for label in labels],
    }
    return [hit, text]


def _points(box: Box) -> list[float]:
    count = max(1, int((box.x1 - box.x0) / _POINT_EVERY))
    return [box.x0 + (box.x1 - box.x0) * (i + 0.5) / count for i in range(count)]


def plan_figure(drawing: PlanDrawing) -> Any:
    """The figure, made once; see `redraw_plan`."""
    fixed = {"fixedrange": True, "visible": False}
    hit = {
        "type": "scatter",
        "mode": "markers",
        "marker": {"size": 18, "symbol": "square", "opacity": 0},
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
    text = {"type": "scatter", "mode": "text", "hoverinfo": "skip", "cliponaxis": False}
    layout = {"xaxis": {**fixed, "range": [-0.3, 100.3]}, "yaxis": fixed, "hoverdistance": 24}
    figure = empty_figure([hit, text], layout)
    redraw_plan(figure, drawing)
    return figure


def redraw_plan(figure: Any, drawing: PlanDrawing) -> None:
    """Show another drawing in the same figure, in one message."""
    rows = max(1.0, drawing.rows)
    with figure.batch_update():
        for trace, values in zip(figure.data, _traces(drawing), strict=True):
            for name, value in values.items():
                trace[name] = value
        figure.layout.shapes = _shapes(drawing)  # as a whole: a merge would keep what is gone
        figure.layout.height = int(_ROW_PX * (rows + 0.4) + _PAD_PX)
        figure.layout.yaxis.range = [-rows + 0.35, 0.75]
