"""What plotly's figure does not do by itself in a notebook: fill the width of its box, and say in words what it shows.

FigureWidget draws itself before it has a place on the page, at 700 pixels, and listens to the window only. This
invisible widget watches the box and tells the window when its width changes; it also gives the drawing a role and a
text for screen readers.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

_ESM = """
function render({ model, el }) {
  el.style.display = "none";
  let box, observer, frame, last = -1;
  const say = () => {
    const plot = box?.querySelector(".js-plotly-plot");
    plot?.setAttribute("role", "img");
    plot?.setAttribute("aria-label", model.get("alt"));
  };
  const look = () => {
    box = el.closest(".gpumap-graph");
    if (!box) { frame = requestAnimationFrame(look); return; }
    observer = new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width === last || !width) return;
      last = width;
      frame = requestAnimationFrame(() => { window.dispatchEvent(new Event("resize")); say(); });
    });
    observer.observe(box);
    say();
  };
  look();
  model.on("change:alt", say);
  return () => { observer?.disconnect(); cancelAnimationFrame(frame); model.off("change:alt", say); };
}
export default { render };
"""


class Fit(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget's base has no types
    """Stands in the box of the drawing; ``alt`` is the text that a screen reader gets."""

    _esm = _ESM
    alt = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layout.display = "none"
