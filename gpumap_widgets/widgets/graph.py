"""The drawing as one long-lived plotly figure, changed in place. The only module that imports plotly.

One figure an explorer: each new FigureWidget sends its whole five-megabyte bundle again. Frames and lines are layout
shapes, one path a GPU and style, so that a redraw is one small message whatever the number of GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import plotly.graph_objects as go  # noqa: TID251 - the one place

from ..views.drawing import MOST_ROWS, Chip, Expected, GraphSpec, Line, Stub
from ..views.palette import colour

_CHIP, _HALF, _BAR, _ROUND = 0.735, 0.405, 0.016, 0.016
_GREY, _WRONG = "#8a8a8a", "#C62828"
_INK, _FAINT = "rgba(60,60,60,1)", "rgba(60,60,60,0.5)"
_ROW_PX, _HEAD_PX = 54, 62
HIT, LEADS, LABELS = range(3)


def _frame(chip: Chip) -> str:
    """A rounded rectangle as an SVG path in data coordinates."""
    x0, x1, y0, y1 = chip.column, chip.column + _CHIP, -chip.row - _HALF, -chip.row + _HALF
    r, s = _ROUND, _ROUND * 3
    return (
        f"M {x0 + r:g},{y0:g} L {x1 - r:g},{y0:g} Q {x1:g},{y0:g} {x1:g},{y0 + s:g} L {x1:g},{y1 - s:g} "
        f"Q {x1:g},{y1:g} {x1 - r:g},{y1:g} L {x0 + r:g},{y1:g} Q {x0:g},{y1:g} {x0:g},{y1 - s:g} "
        f"L {x0:g},{y0 + s:g} Q {x0:g},{y0:g} {x0 + r:g},{y0:g} Z"
    )


def _bar(chip: Chip) -> str:
    """The coloured edge on the left of a chip."""
    x0, y0, y1 = chip.column, -chip.row - _HALF, -chip.row + _HALF
    return f"M {x0:g},{y0:g} L {x0 + _BAR:g},{y0:g} L {x0 + _BAR:g},{y1:g} L {x0:g},{y1:g} Z"


def _curve(line: Line) -> str:
    x0, x1 = line.column + _CHIP, line.column + 1
    mid = (x0 + x1) / 2
    return f"M {x0:g},{-line.row} C {mid:g},{-line.row} {mid:g},{-line.to_row} {x1:g},{-line.to_row}"


def _stub(stub: Stub) -> str:
    x0 = stub.column + _CHIP
    return f"M {x0:g},{-stub.row} L {x0 + 0.06:g},{-stub.row}"


def _thought(one: Expected) -> str:
    """A line over several columns, in a bow above what lies between."""
    x0, x1, y0, y1 = _CHIP, float(one.column), -one.row + 0.25, -one.to_row + 0.25
    third = (x1 - x0) / 3
    return f"M {x0:g},{y0:g} C {x0 + third:g},{y0 + 0.35:g} {x1 - third:g},{y1 + 0.35:g} {x1:g},{y1:g}"


def _shape(paths: Iterable[str], line: dict[str, Any], opacity: float, fill: str | None = None) -> dict[str, Any]:
    path = " ".join(paths)
    return {
        "type": "path",
        "path": path or "M 0,0",
        "line": line,
        "opacity": opacity,
        "fillcolor": fill or "rgba(0,0,0,0)",
        "layer": "below",
    }


def _shapes(spec: GraphSpec) -> list[dict[str, Any]]:
    """Frames, bars, solid and dashed lines of every GPU, then what belongs to none."""
    shapes = []
    positions = sorted({c.position for c in spec.chips if c.position is not None})
    for position in positions:
        own = colour(position)
        for faded in (True, False):
            chips = [c for c in spec.chips if c.position == position and c.faded is faded]
            lines = [x for x in spec.lines if x.position == position and x.faded is faded]
            opacity = 0.35 if faded else 1.0
            if chips:
                shapes.append(_shape(map(_frame, chips), {"color": own, "width": 1.5}, opacity))
                shapes.append(_shape(map(_bar, chips), {"color": own, "width": 1}, opacity, own))
            for certain in (True, False):
                curves = [_curve(x) for x in lines if x.certain is certain]
                if curves:
                    dash = "solid" if certain else "dash"
                    shapes.append(_shape(curves, {"color": own, "width": 2.5, "dash": dash}, opacity))
    loose = [c for c in spec.chips if c.position is None]
    wrong = [c for c in loose if not c.faded]
    if wrong:
        shapes.append(_shape(map(_frame, wrong), {"color": _WRONG, "width": 1.5, "dash": "dot"}, 1.0))
    rest = [c for c in loose if c.faded and c.sub]
    if rest:
        shapes.append(_shape(map(_frame, rest), {"color": _GREY, "width": 1, "dash": "dot"}, 0.7))
    if spec.expected:
        shapes.append(_shape(map(_thought, spec.expected), {"color": _GREY, "width": 1.5, "dash": "dot"}, 0.55))
    if spec.stubs:
        shapes.append(_shape(map(_stub, spec.stubs), {"color": _GREY, "width": 1.5}, 0.8))
    return shapes


def _small(text: str) -> str:
    return f'<br><span style="font-size:11px">{escape(text)}</span>' if text else ""


def _texts(spec: GraphSpec) -> list[dict[str, Any]]:
    """The three traces: what can be pointed at, the numbers in front, the labels."""
    chips = spec.chips
    hit = {
        "x": [c.column + _CHIP / 2 for c in chips],
        "y": [-c.row for c in chips],
        "hovertext": ["<br>".join(map(escape, c.hover.split("\n"))) for c in chips],
        "customdata": [-1 if c.position is None else c.position for c in chips],
    }
    led = [c for c in chips if c.lead]
    leads = {
        "x": [c.column + 0.035 for c in led],
        "y": [-c.row for c in led],
        "text": [f"<b>{escape(c.lead)}</b>" for c in led],
        "textfont.color": [_FAINT if c.faded else _INK for c in led],
    }
    labels = {
        "x": [c.column + (0.14 if c.lead else 0.05) for c in chips]
        + [float(i) for i in range(len(spec.heads))]
        + [s.column + _CHIP + 0.07 for s in spec.stubs],
        "y": [-c.row for c in chips] + [1.0] * len(spec.heads) + [-s.row for s in spec.stubs],
        "text": [f"<b>{escape(c.title)}</b>{_small(c.sub)}" for c in chips]
        + [f"<b>{escape(title)}</b>{_small(sub)}" for title, sub in spec.heads]
        + [f'<span style="font-size:11px">{escape(s.label)}</span>' for s in spec.stubs],
        "textfont.color": [_FAINT if c.faded else _INK for c in chips]
        + [_INK] * len(spec.heads)
        + [_FAINT] * len(spec.stubs),
    }
    return [hit, leads, labels]


def _height(spec: GraphSpec) -> int:
    return _HEAD_PX + _ROW_PX * max(1, min(spec.rows, MOST_ROWS + 1))


def _layout(spec: GraphSpec) -> dict[str, Any]:
    return {
        "shapes": _shapes(spec),
        "height": _height(spec),
        "yaxis": {"range": [-max(1, spec.rows) + 0.45, 1.6]},
        "xaxis": {"range": [-0.01, spec.columns.width - 0.24]},
    }


def figure_widget(spec: GraphSpec) -> Any:
    """The figure of an explorer, made once; see `redraw`."""
    fixed = {"fixedrange": True, "visible": False}
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "marker": {"size": 40, "symbol": "square", "opacity": 0},
            "hovertemplate": "%{hovertext}<extra></extra>",
        },
        *(
            {
                "type": "scatter",
                "mode": "text",
                "textposition": "middle right",
                "textfont": {"size": size},
                "hoverinfo": "skip",
                "cliponaxis": False,
            }
            for size in (16, 13)
        ),
    ]
    figure = empty_figure(traces, {"xaxis": fixed, "yaxis": fixed, "height": _height(spec)})
    redraw(figure, spec)
    return figure


def empty_figure(traces: list[dict[str, Any]], layout: dict[str, Any]) -> Any:
    """A figure without tools, legend and background, for what a drawing puts into it."""
    base = {
        "autosize": True,
        "margin": {"l": 4, "r": 4, "t": 0, "b": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "hoverdistance": 70,
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif", "color": _INK},
    }
    figure = go.FigureWidget({"data": traces, "layout": base | layout})
    figure._config = {**figure._config, "displayModeBar": False, "responsive": True}  # noqa: SLF001 - no public way
    return figure


def redraw(figure: Any, spec: GraphSpec) -> None:
    """Show another drawing in the same figure, in one message."""
    layout = _layout(spec)
    with figure.batch_update():
        for trace, values in zip(figure.data, _texts(spec), strict=True):
            for name, value in values.items():
                trace[name] = value
        figure.layout.shapes = layout["shapes"]  # as a whole: a merge would keep what is gone
        figure.layout.height = layout["height"]
        figure.layout.yaxis.range = layout["yaxis"]["range"]
        figure.layout.xaxis.range = layout["xaxis"]["range"]


def on_gpu_click(figure: Any, callback: Callable[[int], None]) -> None:
    """Call back with the position of the GPU whose chip was clicked."""

    def clicked(trace: Any, points: Any, _state: Any) -> None:
        for index in points.point_inds[:1]:
            position = int(trace.customdata[index])
            if position >= 0:
                callback(position)

    figure.data[HIT].on_click(clicked)
