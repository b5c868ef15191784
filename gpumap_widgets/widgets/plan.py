"""The Plan tab: what training on all these GPUs costs, or which task gets which. It is written only while it is open."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import quote

import ipywidgets as w  # noqa: TID251 - widgets/ is the place

from ..errors import GpumapError
from ..planning.data_parallel import DataParallelPlan, plan_data_parallel
from ..planning.inputs import read_times, read_workloads
from ..planning.measured import Measurements
from ..planning.speeds import BOUNDS, DTYPES
from ..planning.task_planning import plan_tasks
from ..planning.tasks import TaskPlan
from ..sources.capsule import Capsule
from ..texts import say
from ..views import html
from ..views.plan_drawing import plan_drawing
from ..views.plan_html import advice_html, tables_html, tasks_html
from ..views.plan_shapes import PlanDrawing
from ..views.tasks_drawing import tasks_drawing
from .fit import Fit
from .measure import MeasurePanel
from .plan_figure import plan_figure, redraw_plan
from .store import State

TRAIN, TASKS = "train", "tasks"
_WRAP = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "2px 18px"}
_MB, _GB = 1e6, 1e9


class PlanPanel:
    """Controls, sentence, drawing and tables of a plan for the state that is shown."""

    def __init__(self, current: Callable[[], State]) -> None:
        self._current = current
        self._open = False
        self.plan: DataParallelPlan | TaskPlan | None = None
        """What is shown; None before the tab was opened, or where there is nothing to plan."""
        options = [(say("ui.plan-train"), TRAIN), (say("ui.plan-tasks"), TASKS)]
        self.kind = w.ToggleButtons(options=options, value=TRAIN)
        self.kind.style.button_width = "auto"
        self._train = _train_controls()
        self._tasks = _task_controls()
        self.measure = MeasurePanel(self._measured_anew, lambda: self._train["dtype"].value)
        self.problem, self.sentence, self.tables = (w.HTML(layout={"width": "auto"}) for _ in range(3))
        self._fit = Fit()
        self._figure: Any = None
        """Made when the tab is first opened: a figure brings its whole library with it."""
        self._drawing = w.Box([self._fit], layout={"width": "100%", "display": "block"})
        self._boxes = {
            TRAIN: w.HBox([*self._train.values(), self.measure.toggle], layout=_WRAP),
            TASKS: w.VBox(list(self._tasks.values())),
        }
        parts = [self.kind, *self._boxes.values(), self.measure.box, self.problem, self.sentence]
        self.box = w.VBox([*parts, self._drawing, self.tables])
        self._classes()
        for widget in (self.kind, *self._train.values(), *self._tasks.values()):
            widget.observe(lambda _: self._write(), "value")

    def _classes(self) -> None:
        named = {"kind": self.kind, "problem": self.problem, "sentence": self.sentence, "tables": self.tables}
        for name, widget in {**named, **self._train, **self._tasks, "drawing": self._drawing}.items():
            widget.add_class(f"gpumap-plan-{name}")
        self._drawing.add_class("gpumap-graph")

    @property
    def measured(self) -> Measurements | None:
        """What was measured or loaded."""
        return self.measure.measurements

    def show(self, *, opened: bool) -> None:
        """Plan for the state that is shown, if the tab is open."""
        self._open = opened
        if opened:
            self._write()

    def close(self) -> None:
        """End a measurement."""
        self.measure.close()

    def _measured_anew(self) -> None:
        self._offer()
        self._write()

    def _offer(self) -> None:
        """A link that saves the machine with what was measured."""
        state = self._current()
        if self.measured is None:
            self.measure.save.value = ""
            return
        text = Capsule(state.scenario.topology, state.env, measured=self.measured).to_json()
        address = f"data:application/json,{quote(text)}"
        link = html.tag("a", escape(say("ui.plan-save")), href=address, download="measured capsule.json")
        self.measure.save.value = link

    # --- planning ----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Plan, and show it; what cannot be planned is said, and the last drawing goes."""
        if not self._open:
            return
        for key, box in self._boxes.items():
            box.layout.display = "" if key == self.kind.value else "none"
        try:
            said = self._for_training() if self.kind.value == TRAIN else self._for_tasks()
        except GpumapError as exc:
            self.plan, said = None, [str(exc)]
        self.problem.value = "".join(html.tag("div", escape(text), "gpumap-note", role="status") for text in said)
        if self.plan is None:
            self.sentence.value = self.tables.value = ""
            self._drawing.layout.display = "none"
        elif isinstance(self.plan, DataParallelPlan):
            self._draw(plan_drawing(self.plan))
            self.sentence.value, self.tables.value = advice_html(self.plan), tables_html(self.plan)
        else:
            self._draw(tasks_drawing(self.plan))
            self.sentence.value, self.tables.value = "", tasks_html(self.plan) + self._table_text(self.plan)

    def _for_training(self) -> list[str]:
        """Plan a training step; what is wrong with what was typed."""
        given = {name: widget.value for name, widget in self._train.items()}
        times = read_times(given["times"])
        if times.problem is not None:
            self.plan = None
            return [str(times.problem)]
        self.plan = plan_data_parallel(
            self._current().prediction,
            times.seconds,
            batch=given["batch"],
            gradient_bytes=given["gradient"] * _MB,
            bandwidth=given["bandwidth"] * _GB if given["gradient"] else None,
            overlap=given["overlap"] / 100,
            dtype=given["dtype"] or None,
            bound=given["bound"] or None,
            model_bytes=given["model"] * 2**30,
            sample_bytes=given["sample"] * 2**20,
            measured=self.measured,
        )
        return []

    def _for_tasks(self) -> list[str]:
        """Plan tasks on the whole machine; the lines that are none."""
        read = read_workloads(self._tasks["list"].value)
        machine, share = self._current().scenario.topology, self._tasks["share"].value
        self.plan = plan_tasks(machine, read.tasks, share=share, measured=self.measured)
        return [str(problem) for problem in read.problems]

    def _table_text(self, plan: TaskPlan) -> str:
        head = html.tag("p", escape(say("ui.plan-table")), "gpumap-label")
        return head + html.tag("pre", html.tag("code", escape(plan.to_text())), "gpumap-text", tabindex="0")

    def _draw(self, drawing: PlanDrawing) -> None:
        self._drawing.layout.display = "block"
        if self._figure is None:
            self._figure = plan_figure(drawing)
            self._drawing.children = [self._figure, self._fit]
        else:
            redraw_plan(self._figure, drawing)
        self._fit.alt = drawing.alt


def _train_controls() -> dict[str, Any]:
    """What a training step depends on."""
    controls = {
        "times": w.Text(placeholder=say("ui.plan-times-hint"), continuous_update=False, layout={"width": "330px"}),
        "dtype": w.Dropdown(options=[(say("ui.plan-any"), ""), *((d, d) for d in DTYPES)], layout={"width": "auto"}),
        "bound": w.Dropdown(
            options=[(say("ui.plan-any"), ""), *((say(f"ui.plan-{b}"), b) for b in BOUNDS)], layout={"width": "auto"}
        ),
        "batch": w.IntSlider(value=32, min=1, max=512, layout={"width": "310px"}),
        "gradient": w.BoundedFloatText(value=0, min=0, max=1e7, step=100, layout={"width": "180px"}),
        "bandwidth": w.FloatLogSlider(
            value=10, base=10, min=-1, max=3, step=0.05, readout_format=".3g", layout={"width": "330px"}
        ),
        "overlap": w.IntSlider(value=0, min=0, max=100, step=5, layout={"width": "300px"}),
        "model": w.BoundedFloatText(value=0, min=0, max=1e5, step=1, layout={"width": "170px"}),
        "sample": w.BoundedFloatText(value=0, min=0, max=1e7, step=10, layout={"width": "190px"}),
    }
    for name, widget in controls.items():
        widget.description = say(f"ui.plan-{name}")
        widget.tooltip = say(f"ui.plan-{name}-tip")
        widget.style.description_width = "initial"
    return controls


def _task_controls() -> dict[str, Any]:
    """The tasks, and whether they may share."""
    return {
        "list": w.Textarea(
            value=say("ui.plan-example"),
            rows=5,
            continuous_update=False,
            layout={"width": "100%", "max_width": "900px"},
        ),
        "share": w.Checkbox(value=False, description=say("ui.plan-share"), indent=False, layout={"width": "auto"}),
    }
