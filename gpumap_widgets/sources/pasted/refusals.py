"""Why a text has no usable list of GPUs, and what to paste instead: a table of recognised kinds of text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import UnreadableTopology
from .cleaning import Text
from .context import Failure

LIST = "Run `nvidia-smi -L` on the machine and paste what it prints."
_TABLE = "Run `nvidia-smi` on the machine and paste the whole table."


class Reason(NamedTuple):
    """A kind of text without a list: the words that show it, what to say of it."""

    signs: re.Pattern[str]
    message: str
    remedy: str


def _reason(signs: str, message: str, remedy: str = LIST) -> Reason:
    return Reason(re.compile(signs, re.IGNORECASE), message, remedy)


REASONS = (
    _reason(
        r"couldn't communicate with the NVIDIA driver|NVIDIA-SMI has failed",
        "nvidia-smi did not reach the driver, so it lists no GPU.",
        "Check that the kernel module is loaded (`lsmod | grep nvidia`, `dmesg | grep NVRM`); `lspci | grep -i nvidia` lists "
        "the boards without a driver and can be pasted.",
    ),
    _reason(
        r"Driver/library version mismatch",
        "The NVIDIA library and the loaded kernel module have different versions, so nvidia-smi lists nothing.",
        "Reboot or reload the module after a driver update, then run `nvidia-smi -L`.",
    ),
    _reason(
        r"Failed to initialize NVML: Insufficient Permissions",
        "nvidia-smi may not open the devices.",
        "Run it as a user who may, or look at the permissions of /dev/nvidia*; then paste `nvidia-smi -L`.",
    ),
    _reason(
        r"Failed to initialize NVML",
        "NVML did not start, so nvidia-smi lists no GPU (in a container, often because the device cgroup changed).",
        "Run `nvidia-smi -L` on the host, or restart the container and run it there.",
    ),
    _reason(
        r"couldn't find libnvidia-ml|libnvidia-ml\.so[^\n]{0,60}(?:not found|no such file|cannot open)|NVML Shared Library Not Found",
        "The library that nvidia-smi needs was not found, so it lists no GPU.",
        "Install the driver's libraries (in a container: start it with `--gpus all`), then run `nvidia-smi -L`.",
    ),
    _reason(
        r"No devices (?:were )?found|no NVIDIA GPU (?:was )?(?:found|detected)|No supported gpu",
        "nvidia-smi found no GPU.",
        "If there should be one, look for it with `lspci | grep -i nvidia` and paste that.",
    ),
    _reason(
        r"nvidia-smi[\"'`]?(?:: |' ?)(?:command )?not found|nvidia-smi[\"']?,? (?:is not recognized|not installed)"
        r"|command not found:? nvidia-smi|No such file or directory:? [\"']?nvidia-smi|wird nicht erkannt|不是内部或外部命令",
        "nvidia-smi is not installed or not on the path there.",
        "On Linux paste `lspci | grep -i nvidia`; on Windows look in C:\\Windows\\System32 for nvidia-smi.exe.",
    ),
    _reason(
        r"could not select device driver|nvidia-container-cli: |unknown or invalid runtime name: nvidia",
        "The container was not started with GPUs, so nothing was listed.",
        "Run `nvidia-smi -L` on the host and paste that.",
    ),
    _reason(
        r"No CUDA GPUs are available|no CUDA-capable device is detected|Found no NVIDIA driver|CUDA unknown error"
        r"|cudaGetDeviceCount (?:failed|returned)|CUDA_ERROR_NO_DEVICE|CUDA error: ",
        "This is an error message of CUDA or of a framework; it describes no GPU.",
    ),
    _reason(
        r"gpu models and configuration: ?(?:could not collect|no cuda)",
        "collect_env could not ask nvidia-smi: it lists no GPU.",
    ),
    _reason(
        r"gpu_?uuid, ?pid|pid, ?process_name|process_name, ?pid|#\s{0,9}gpu\s{1,20}pid\s|gpu\s{1,20}pid\s{1,20}type\s|compute processes:"
        r"|Processes:[^\n]{0,120}|\|\s{0,9}GPU\s{1,9}(?:GI\s{1,9}CI\s{1,20})?PID\s",
        "This is a list of processes: it names GPU numbers, but describes no GPU.",
        _TABLE,
    ),
    _reason(
        r"gpu\s{1,20}pwr\s{1,20}|gpu\s{1,20}sm\s{1,20}mem\s|#\s{0,9}idx\s",
        "This is nvidia-smi's monitoring (dmon): it names GPU numbers and readings, but describes no GPU.",
        LIST,
    ),
    _reason(
        r"GPU instances?:|Compute instances:|GPU instance profiles",
        "This lists MIG slices or profiles, but not their GPUs.",
    ),
    _reason(r"NVIDIA-SMI version\s{0,9}:|NVML version\s{0,9}:", "This shows versions only: no GPU is listed."),
    _reason(
        r"release \d{1,2}\.\d, V\d|nvcc: NVIDIA",
        "This is the version of the CUDA compiler: it says nothing about GPUs.",
    ),
    _reason(
        r"ROCm System Management|rocm-smi|amd-smi|Card (?:series|model):|gfx\d{3,4}",
        "This describes AMD GPUs: CUDA_VISIBLE_DEVICES and CUDA ordinals are NVIDIA's.",
        "Paste the output of a machine with NVIDIA GPUs.",
    ),
    _reason(
        r"NVIDIA-SMI\s{1,99}\d[\d.]{2,14}\s|Bus-Id\s{1,99}Disp",
        "The text has the head of nvidia-smi's table but no row of a GPU: it is cut.",
        _TABLE,
    ),
    _reason(
        r"NVSMI LOG",
        "The report of nvidia-smi -q is cut before its first GPU.",
        "Paste it whole, or run `nvidia-smi -L`.",
    ),
    _reason(
        r"<nvidia_smi_log",
        "The XML of nvidia-smi is cut before its first GPU.",
        "Paste it whole, or run `nvidia-smi -L`.",
    ),
    _reason(r"\A\s{0,9}\{", "This is JSON without a list of GPUs that is known here."),
    _reason(
        r"nvidia-smi[^\n]{0,200}\s{0,9}\Z",
        "The text has the command but not what it printed.",
        "Run it and paste its output.",
    ),
)
"""The most telling first."""

_LOOKED_AT = 50_000
"""Characters at the beginning and at the end of a text in which its kind is looked for."""
_GPU_NUMBER = re.compile(
    r"(?:^|\n)\|?\s{0,9}(\d{1,3})\s{1,40}(?:N/A\s{1,9}N/A\s{1,40}|\d{1,3}\s{1,9}\d{1,3}\s{1,40})?\d{1,9}\s{1,20}[CGM+-]{1,5}\s"
)


def refuse(texts: Sequence[Text], failures: Sequence[Failure]) -> UnreadableTopology:
    """The error for a text without a usable list, with the most telling reason."""
    whole = "\n".join(text.joined for text in texts)
    if len(whole) > 2 * _LOOKED_AT:
        whole = whole[:_LOOKED_AT] + "\n" + whole[-_LOOKED_AT:]
    if not whole.strip():
        return UnreadableTopology("The text is empty.", remedy=LIST)
    if failures:
        places = ", ".join(f"{failure.place} ({failure.reason})" for failure in failures[:8])
        return UnreadableTopology(
            f"The text says which GPU does not answer, {places}, but lists none.",
            remedy="Reset or reboot, run `nvidia-smi -L`, and paste that too: this names the others.",
        )
    for reason in REASONS:
        if reason.signs.search(whole):
            numbers = sorted({int(n) for n in _GPU_NUMBER.findall(whole)}) if "processes" in reason.message else []
            named = f" (It names GPU {', '.join(map(str, numbers[:16]))}.)" if numbers else ""
            return UnreadableTopology(reason.message + named, remedy=reason.remedy)
    return UnreadableTopology("The text has no list of GPUs that is known here.", remedy=LIST)
