"""Values as plain text: what `print` shows, and what every richer view says too."""

from __future__ import annotations

from ..explanation import clip, stop_reason
from ..job_findings import named, worker_name
from ..mapping import Comparison, Prediction, Process
from ..scenario import CUDA_VISIBLE_DEVICES
from ..texts import one_line, say
from ..topology import Topology
from .matrix import matrix
from .matrix_text import matrix_text
from .plain import grid, printable
from .rows import Row, certainty_text, memory_text, prediction_rows, sentence

_SHORT_UUID = 12
_WIDTH = 100
_MOST_LISTS = 4


def short_uuid(uuid: str | None) -> str:
    """The beginning of a UUID, enough to tell GPUs apart by eye."""
    return "" if uuid is None else uuid if len(uuid) <= _SHORT_UUID else f"{uuid[:_SHORT_UUID]}…"


def number(value: int | None) -> str:
    """A number, or "" when it is not known."""
    return "" if value is None else str(value)


def topology_text(topology: Topology) -> str:
    """A machine as a table with a line of its source."""
    head = [say(f"column.{name}") for name in ("nvml_index", "name", "pci", "uuid", "memory", "problem")]
    problems = any(gpu.problem for gpu in topology.gpus)
    rows = [
        [
            number(gpu.nvml_index),
            gpu.label,
            gpu.pci.short if gpu.pci else "",
            gpu.uuid or "",
            memory_text(gpu.memory_mib),
            (gpu.problem or say("cell.usable")) if problems else "",
        ]
        for gpu in topology.gpus
    ]
    driver = f", driver {topology.driver_version}" if topology.driver_version else ""
    notes = "".join(f"\n{one_line(note)}" for note in topology.notes)
    title = f"{len(topology.gpus)} GPU{'' if len(topology.gpus) == 1 else 's'} ({one_line(topology.source + driver)})"
    return f"{title}\n{grid(head, rows)}{notes}" if rows else title + notes


def prediction_text(prediction: Prediction) -> str:
    """The sentence, how sure it is, and the table: of several processes the matrix workers × GPUs."""
    lines = [sentence(prediction)]
    if prediction.error is None:
        lines.append(certainty_text(prediction))
        if len(prediction.processes) > 1:
            lines += _marked_lists(prediction)
            lines.append(matrix_text(matrix(prediction)))
        else:
            lines += marked_list(prediction.processes[0])
            names = ("rank", "ordinal", "nvml_index", "name", "pci", "uuid", "memory", "certainty")
            rows = [_cells(row) for row in prediction_rows(prediction)]
            if rows:
                lines.append(grid([say(f"column.{name}") for name in names], rows))
    return printable(lines)


def _marked_lists(prediction: Prediction) -> list[str]:
    """The lists that end early, each once, and whose they are."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for number, process in enumerate(prediction.processes):
        marked = tuple(marked_list(process))
        if marked:
            groups.setdefault(marked, []).append(worker_name(process, number))
    return [line for marked, workers in list(groups.items())[:_MOST_LISTS] for line in (f"{named(workers)}:", *marked)]


def marked_list(process: Process) -> list[str]:
    """The value of CUDA_VISIBLE_DEVICES with a mark under the entry that ends or empties it; [] when all is well."""
    reading, stop = process.reading, process.reading.stop
    if stop is None or reading.value is None:
        return []
    token = reading.tokens[stop.token]
    head = f"{CUDA_VISIBLE_DEVICES}="
    start = max(0, token.start - _WIDTH // 2)  # a long value is shown from shortly before the mark
    shown = one_line(reading.value[start : start + _WIDTH])
    said = say("tokens.empties" if stop.empties else "tokens.stop", token=clip(token.text), why=stop_reason(process))
    under = " " * (len(head) + token.start - start) + "^" * max(1, min(len(token.text), _WIDTH // 2))
    return [head + shown, f"{under} {one_line(said)}"]


def _cells(row: Row) -> list[str]:
    return [
        number(row.rank),
        say("cell.none") if row.ordinal is None else f"cuda:{row.ordinal}",
        number(row.gpu.nvml_index),
        row.gpu.label,
        row.gpu.pci.short if row.gpu.pci else "",
        short_uuid(row.mig.uuid if row.mig else row.gpu.uuid),
        memory_text((row.mig.memory_mib if row.mig else None) or row.gpu.memory_mib),
        row.reason or str(row.certainty),
    ]


def comparison_text(comparison: Comparison) -> str:
    """The verdict, its reason, and foretold beside seen, with what each witness says of it."""
    names = tuple(dict.fromkeys(part.observation.witness for part in comparison.each))
    head = [say(f"column.{name}") for name in ("rank", "ordinal", "foretold", "seen")]
    head += [say(f"column.witness-{name}") for name in names]
    rows = []
    for edge in comparison.edges:
        foretold = edge.predicted.gpu.short_name if edge.predicted else say("cell.none")
        seen = (edge.observed.name or "?") if edge.observed else say("cell.none")
        own = edge.by or {names[0]: edge}
        said = [own[name].verdict if name in own else "" for name in names]
        rows.append([number(edge.rank), f"cuda:{edge.ordinal}", foretold, seen, *said])
    lines = [f"{comparison.verdict}: {comparison.reason}"]
    return printable([*lines, grid(head, rows)] if rows else lines)
