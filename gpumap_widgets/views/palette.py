"""Colours and the one style sheet.

The eight hues are those of Okabe and Ito, distinguishable to colour-blind people; from the ninth GPU on they repeat,
and the number and the line itself tell the GPUs apart. Everything else follows the theme's own variables.
"""

from __future__ import annotations

HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A7A00", "#7F7F7F")
"""Okabe–Ito, its yellow darkened and its black made grey so that both read on light and dark."""


def colour(position: int) -> str:
    """The colour that the GPU at a position keeps everywhere."""
    return HUES[position % len(HUES)]


STYLE = """
.gpumap { --gm-fg: var(--jp-ui-font-color1, #1f1f1f); --gm-dim: var(--jp-ui-font-color2, #616161);
  --gm-line: var(--jp-border-color2, #e0e0e0); --gm-soft: var(--jp-layout-color2, #f5f5f5);
  --gm-ok: var(--jp-success-color1, #2e7d32); --gm-warn: #b26a00; --gm-bad: var(--jp-error-color1, #c62828);
  --gm-mono: var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace);
  color: var(--gm-fg); font-family: var(--jp-ui-font-family, system-ui, sans-serif); font-size: 13px; line-height: 1.45; }
[data-jp-theme-light="false"] .gpumap { --gm-warn: #ffb74d; --gm-ok: #81c784; --gm-bad: #ef9a9a; }
.gpumap .widget-html-content { line-height: 1.45; color: var(--gm-fg); }
.gpumap-scroll { overflow-x: auto; }
.gpumap table.gpumap-table { border-collapse: collapse; width: 100%; margin: 4px 0; font-size: 13px; }
.gpumap table.gpumap-table th, .gpumap table.gpumap-table td { text-align: left; padding: 5px 10px; white-space: nowrap;
  border-bottom: 1px solid var(--gm-line); vertical-align: top; background: none; color: inherit; }
.gpumap table.gpumap-table thead th { color: var(--gm-dim); font-weight: 600; }
.gpumap table.gpumap-table tr.gpumap-faded td, .gpumap table.gpumap-table tr.gpumap-faded th { color: var(--gm-dim); }
.gpumap-faded .gpumap-swatch { opacity: .35; }
.gpumap-swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 7px; }
.gpumap-code, .gpumap code { font-family: var(--gm-mono); font-size: 12px; }
.gpumap-badge { display: inline-block; border: 1px solid currentColor; border-radius: 9px; padding: 0 7px; font-size: 11px;
  line-height: 16px; white-space: nowrap; }
.gpumap-certain { color: var(--gm-ok); } .gpumap-likely { color: var(--gm-warn); border-style: dashed; }
.gpumap-guess { color: var(--gm-warn); border-style: dotted; } .gpumap-unknown { color: var(--gm-bad); border-style: dotted; }
.gpumap-sentence { border-left: 4px solid var(--gm-line); background: var(--gm-soft); padding: 8px 12px; margin: 4px 0;
  overflow-wrap: anywhere; min-height: 40px; box-sizing: border-box; }
.gpumap-edge-certain { border-color: var(--gm-ok); } .gpumap-edge-likely, .gpumap-edge-guess { border-color: var(--gm-warn); }
.gpumap-edge-unknown { border-color: var(--gm-bad); }
.gpumap-why { color: var(--gm-warn); font-weight: normal; } .gpumap-edge-certain .gpumap-why { color: var(--gm-ok); }
.gpumap-edge-unknown .gpumap-why { color: var(--gm-bad); }
.gpumap-tokens { padding: 2px 0; overflow-wrap: anywhere; }
.gpumap-tokens .gpumap-why { color: var(--gm-bad); }
.gpumap-tokens code { background: none; color: inherit; font-size: 13px; white-space: pre-wrap; }
.gpumap-tokens .gpumap-stop { color: var(--gm-bad); font-weight: 700; text-decoration: underline wavy; text-underline-offset: 3px; }
.gpumap-tokens .gpumap-unread { color: var(--gm-dim); text-decoration: line-through; }
.gpumap-note { color: var(--gm-dim); margin: 2px 0; overflow-wrap: anywhere; }
.gpumap ol.gpumap-steps { margin: 4px 0; padding-left: 26px; } .gpumap ol.gpumap-steps li { padding: 2px 0; overflow-wrap: anywhere; }
.gpumap .gpumap-stages h4 { margin: 10px 0 2px; font-size: 13px; color: var(--gm-dim); } .gpumap .gpumap-stages h4:first-child { margin-top: 0; }
.gpumap table.gpumap-table td.gpumap-wrap { white-space: normal; min-width: 140px; overflow-wrap: anywhere; }
.gpumap-missing { color: var(--gm-dim); font-style: italic; }
.gpumap-source { color: var(--gm-dim); font-size: 11px; } .gpumap-source::before { content: "— "; }
.gpumap ul.gpumap-findings { list-style: none; margin: 4px 0; padding: 0; }
.gpumap li.gpumap-finding { border-left: 4px solid var(--gm-warn); padding: 4px 10px; margin: 6px 0; overflow-wrap: anywhere; }
.gpumap li.gpumap-error { border-color: var(--gm-bad); } .gpumap-remedy { font-family: var(--gm-mono); font-size: 12px; margin-top: 2px; }
.gpumap-verdict { padding: 8px 12px; border: 1px solid var(--gm-line); border-left-width: 4px; margin: 4px 0; overflow-wrap: anywhere; }
.gpumap .gpumap-verdict p { margin: 0 0 3px; } .gpumap .gpumap-verdict p:last-child { margin: 0; }
.gpumap-rule { padding-left: 10px; border-left: 2px solid var(--gm-line); }
.gpumap .gpumap-view-live, .gpumap .gpumap-view-live > .widget-html { min-width: 0; max-width: 100%; }
.gpumap .gpumap-view-live .widget-html-content { min-width: 0; flex: 1 1 auto; width: 100%; }
.gpumap-time { min-width: 110px; } .gpumap table.gpumap-table td.gpumap-gpu { white-space: normal; }
.gpumap-gpu > span { white-space: nowrap; }
.gpumap table.gpumap-table td.gpumap-time, .gpumap table.gpumap-table td.gpumap-answer { white-space: normal; }
.gpumap-verdict-confirmed { border-left-color: var(--gm-ok); } .gpumap-verdict-refuted { border-left-color: var(--gm-bad); }
.gpumap table.gpumap-table td.gpumap-agrees { color: var(--gm-ok); } .gpumap table.gpumap-table td.gpumap-differs { color: var(--gm-bad); }
.gpumap table.gpumap-table td.gpumap-not-checked { color: var(--gm-dim); }
.gpumap-hidden-text { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.gpumap a { color: var(--jp-content-link-color, #1976d2); text-decoration: underline; }
.gpumap-label { color: var(--gm-dim); font-size: 12px; }
.gpumap pre.gpumap-text { background: var(--gm-soft); border: 1px solid var(--gm-line); padding: 8px 10px; margin: 2px 0;
  overflow-x: auto; user-select: all; } .gpumap pre.gpumap-text code { background: none; white-space: pre; }
.gpumap-remedies-list h4 { margin: 8px 0 2px; font-size: 13px; } .gpumap-remedies-list ul { margin: 2px 0; padding-left: 20px; }
.gpumap-graph { overflow-x: auto; } .gpumap-graph .js-plotly-plot { min-width: 900px; }
.gpumap-graph .js-plotly-plot text { fill: var(--gm-fg) !important; } .gpumap-graph .cursor-pointer { cursor: pointer; }
.gpumap .widget-radio-box { flex-direction: row; flex-wrap: wrap; gap: 0 14px; height: auto; margin: 0; }
.gpumap .widget-radio-box label { width: auto; height: 24px; line-height: 24px; white-space: nowrap; }
.gpumap .widget-radio { width: auto; }
.gpumap .jupyter-widget-tagsinput { border: 1px solid var(--gm-line); min-height: 30px; }
.gpumap .gpumap-raw input { font-family: var(--gm-mono); }
.gpumap .gpumap-paste textarea { font-family: var(--gm-mono); font-size: 12px; white-space: pre; }
"""
"""One sheet for every view. Themes come in through Jupyter's variables; a page without them gets readable defaults."""
