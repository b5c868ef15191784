"""What a reading should say about itself: what was missing, with the command that shows it; what was cut or odd."""

from __future__ import annotations

from collections.abc import Sequence

from ...catalog import is_vgpu, look_up
from ...topology import Gpu
from .boards import Machine
from .names import is_cut
from .records import Numbering

_MISSING = (
    ("name", "name", "names", "nvidia-smi -L"),
    ("uuid", "UUID", "UUIDs", "nvidia-smi -L"),
    ("pci_bus_id", "PCI address", "PCI addresses", "nvidia-smi --query-gpu=index,name,pci.bus_id --format=csv"),
    ("memory_mib", "memory size", "memory sizes", "nvidia-smi --query-gpu=index,name,memory.total --format=csv"),
)


def notes_on(machine: Machine, gpus: Sequence[Gpu], driver_version: str | None) -> list[str]:
    """All notes on one machine, in the order of their weight."""
    notes = [note for section in machine.sections for note in section.notes]
    notes += _on_numbers(machine, gpus)
    notes += notes_on_gaps(gpus, driver_version)
    notes += _on_memory(gpus)
    for shape, count in machine.left_out.items():
        notes.append(f"The {shape} shows {count} more NVIDIA GPU{'s' * (count > 1)} than nvidia-smi lists: left out.")
    for shape, numbering in machine.unjoined:
        if numbering is not Numbering.CUDA:
            notes.append(f"The rows of {shape} do not tell which GPU is which: what they say is left out.")
    return notes


def notes_on_gaps(gpus: Sequence[Gpu], driver_version: str | None) -> list[str]:
    """What is not known of a machine, with the command that shows it."""
    notes = []
    for field, one, many, command in _MISSING:
        without = [place for place, gpu in enumerate(gpus) if getattr(gpu, field) is None]
        if len(without) == len(gpus):
            notes.append(f"No {many}: run `{command}` and paste that too.")
        elif without:
            notes.append(
                f"No {one} for {_listed([_called(gpus[i], i) for i in without])}: run `{command}` and paste that too."
            )
    if driver_version is None:
        notes.append("No driver version: run `nvidia-smi` and paste its header too.")
    cut = [_called(gpu, place) for place, gpu in enumerate(gpus) if gpu.name and is_cut(gpu.name)]
    if cut:
        notes.append(f"The name of {_listed(cut)} is cut: `nvidia-smi -L` prints it in full.")
    notes += [f"{_called(gpu, place)}: {gpu.problem}" for place, gpu in enumerate(gpus) if gpu.problem]
    return notes


def _on_numbers(machine: Machine, gpus: Sequence[Gpu]) -> list[str]:
    numbers = sorted(gpu.nvml_index for gpu in gpus if gpu.nvml_index is not None)
    notes = []
    announced = max((s.announced or 0 for s in machine.sections), default=0)
    if announced > len(gpus):
        notes.append(f"The text says that there are {announced} GPUs and describes {len(gpus)}.")
    missing = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
    if numbers and missing and len(missing) < 64:
        notes.append(f"GPU {_listed([str(i) for i in missing])} is missing from the text.")
    kinds = {section.numbering for section in machine.sections}
    if kinds == {Numbering.ADDRESS} and numbers:
        notes.append("The numbers follow from the order of the PCI addresses; the text has none of nvidia-smi.")
    elif kinds and kinds <= {Numbering.ROW, Numbering.ADDRESS, Numbering.CUDA} and Numbering.ROW in kinds:
        notes.append("The numbers follow from the order of the rows, which is that of nvidia-smi.")
    elif not numbers and Numbering.CUDA in kinds:
        notes.append(
            "The numbers in the text are CUDA ordinals, not those of nvidia-smi: run `nvidia-smi -L` for these."
        )
    elif not numbers:
        notes.append("The numbers of nvidia-smi do not follow from this text: run `nvidia-smi -L` and paste that too.")
    return notes


def _on_memory(gpus: Sequence[Gpu]) -> list[str]:
    notes = []
    for place, gpu in enumerate(gpus):
        if not gpu.name or gpu.memory_mib is None:
            continue
        if is_vgpu(gpu.name):
            notes.append(f"{_called(gpu, place)} is a vGPU ({gpu.name}): a share of a board.")
            continue
        model = look_up(gpu.name)
        if model is not None and model.memory_mib and gpu.memory_mib < 0.5 * model.memory_mib:
            notes.append(
                f"{_called(gpu, place)} shows {gpu.memory_mib} MiB, its model has {model.memory_mib}: a limit is set."
            )
    return notes


def _called(gpu: Gpu, place: int) -> str:
    return f"GPU {gpu.nvml_index}" if gpu.nvml_index is not None else f"the GPU in place {place}"


def _listed(items: Sequence[str]) -> str:
    shown = list(items[:8]) + ([f"{len(items) - 8} more"] if len(items) > 8 else [])
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
