"""What Linux tells of a process, as far as this user may look: its environment at start, its container, its device files.

Nothing here needs rights that the user does not have. What may not be seen is None, with the reason in `unseen`.
Sources: proc(5), proc_pid_environ(5), cgroups(7), pid_namespaces(7), stat(2).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..explanation import clip
from ..frozen import FrozenDict
from ..mapping import Message, message
from ..scenario import is_relevant
from ..sources.capsule.value import SECRET

ROOT = Path("/")
_OF_JOBS = frozenset({"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
_MOST = 8 << 20
"""Most bytes read of a file: an environment may have 6 MB (execve(2))."""
_SHELLS = re.compile(
    r"(ba|z|da|k|mk|tc|c|fi|xon|pw)?sh|nu|tmux.*|screen|sshd.*|login|su|sudo|init|systemd|cron|node|code.*|(conmon|containerd-sh).*"
)
"""Names of what starts anything: shells, multiplexers, sessions, service managers, editors, container runtimes."""
_CARD = re.compile(r"/dev/nvidia(\d{1,4})", re.ASCII)
_UVM = "/dev/nvidia-uvm"
"""Opened by cuInit and not by NVML."""
_CONTAINERS: Mapping[str, re.Pattern[str]] = {
    "slurm": re.compile(r"/job_(\d{1,12})(?:/|$)"),
    "kubernetes": re.compile(r"kubepods.*?([0-9a-f]{12})[0-9a-f]{52}"),
    "docker": re.compile(r"docker[-/]([0-9a-f]{12})[0-9a-f]{52}"),
    "podman": re.compile(r"libpod-([0-9a-f]{12})[0-9a-f]{52}"),
    "lxc": re.compile(r"/lxc(?:\.payload)?[./]([\w.-]{1,64})"),
}
"""Who made a cgroup, by how it is named, and the part that names the container or job."""


@dataclass(frozen=True)
class SystemView:
    """A process as Linux shows it."""

    pid: int
    command: str | None = None
    """Its arguments, joined; None where they may not be seen."""
    user: str | None = None
    parent: int | None = None
    starter: int | None = None
    """The same, where it is no shell, session or server: those start things that have nothing to do with each other."""
    group: int | None = None
    """Process group: what a shell starts together."""
    environ: Mapping[str, str] | None = None
    """The variables that touch the numbering, as they were when the program was started; None where they cannot be read."""
    container: tuple[str, str] | None = None
    """What its cgroup is named after: ``("docker", "4f1c…")``, ``("slurm", "77")``; None outside of any."""
    own_pids: bool | None = None
    """Whether its process numbers are others than ours."""
    own_files: bool | None = None
    """Whether it has other files than we have, so that its /dev may lack GPUs."""
    minors: tuple[int, ...] | None = None
    """The N of each /dev/nvidiaN that it has before it; None where that cannot be seen."""
    opened: tuple[int, ...] | None = None
    """The N of each /dev/nvidiaN that it has opened: the driver opens all that it may, also those it does not use."""
    cuda_open: bool | None = None
    """Whether it has the file open that CUDA opens when it starts; None where that cannot be seen."""
    unseen: tuple[Message, ...] = ()
    """What could not be seen, each with its reason."""


def is_kept(name: str) -> bool:
    """Whether a variable is shown and logged: those that touch the numbering or name a job, and no secret."""
    return (is_relevant(name) or name in _OF_JOBS) and not SECRET.search(name)


def exists(pid: int, root: Path = ROOT) -> bool:
    """Whether a process of that number can be seen from here."""
    try:
        (root / "proc" / str(pid)).stat()
    except OSError:
        return False
    return True


def numbers_are_ours(root: Path = ROOT) -> bool:
    """Whether process numbers here are the host's, as NVML has them: so outside of any PID namespace but the first.

    Source: linux/proc_ns.h, PROC_PID_INIT_INO; NVIDIA/nvidia-docker issue 1483. True where there is no /proc to ask.
    """
    try:
        return (root / "proc/self/ns/pid").readlink().name == "pid:[4026531836]"
    except OSError:
        return True


def system_view(pid: int, root: Path = ROOT) -> SystemView:
    """What can be seen of a process. Never raises; of one that is gone nothing is known."""
    at, unseen = root / "proc" / str(pid), list[Message]()
    environ = start_environment(at, unseen)
    status = _status(at)
    opened, cuda_open = _opened(at, unseen)
    parent = _number(status.get("PPid"))
    own_files = _other_namespace(at, root, "mnt")
    return SystemView(
        pid,
        _command(at),
        _user(status.get("Uid", "")),
        parent,
        None if parent is None or _starts_anything(root / "proc" / str(parent)) else parent,
        _group(at),
        environ,
        _container(at, unseen),
        _other_namespace(at, root, "pid"),
        own_files,
        _minors(at, unseen) if own_files is not False else _minors_here(root),
        opened,
        cuda_open,
        tuple(unseen),
    )


def start_environment(at: Path, unseen: list[Message]) -> FrozenDict[str, str] | None:
    """The variables that touch the numbering as execve(2) got them; None where they cannot be read.

    What a program sets later does not show there. A program that renames itself may have written over them.
    """
    data = _bytes(at / "environ", "environ", unseen)
    if data is None:
        return None
    entries = [entry.partition(b"=") for entry in data.split(b"\0") if entry]
    if any(not equals for _, equals, _ in entries):
        unseen.append(message("inspect.unseen.overwritten"))
    pairs = [(os.fsdecode(name), os.fsdecode(value)) for name, equals, value in entries if equals]
    known: dict[str, str] = {}
    for name, value in pairs:
        if is_kept(name):
            known.setdefault(name, value)  # getenv(3) finds the first of two
    return FrozenDict(known)


def _bytes(path: Path, what: str, unseen: list[Message]) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_MOST)
    except OSError as exc:
        unseen.append(_why(what, exc))
        return None


def _why(what: str, error: OSError) -> Message:
    if isinstance(error, PermissionError):
        reason = message("inspect.refused")
    elif isinstance(error, FileNotFoundError | ProcessLookupError):
        reason = message("inspect.not-there")
    else:
        reason = message("inspect.os-error", error=error.strerror or type(error).__name__)
    return message(f"inspect.unseen.{what}", why=reason)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST).decode(errors="replace")
    except OSError:
        return ""


def _command(at: Path) -> str | None:
    words = _text(at / "cmdline").split("\0")
    return clip(" ".join(word for word in words if word), 200) or _text(at / "comm").strip() or None


def _status(at: Path) -> dict[str, str]:
    rows = (line.partition(":") for line in _text(at / "status").splitlines())
    return {name: value.strip() for name, _, value in rows}


def _user(uids: str) -> str | None:
    uid = _number(uids.split(maxsplit=1)[0] if uids else None)
    if uid is None:
        return None
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def _group(at: Path) -> int | None:
    fields = _text(at / "stat").rpartition(")")[2].split()
    return _number(fields[2]) if len(fields) > 2 else None


def _starts_anything(at: Path) -> bool:
    """Whether that process starts whatever somebody types or clicks: its children are no one job."""
    words = _text(at / "cmdline")
    return bool(_SHELLS.fullmatch(_text(at / "comm").strip())) or "jupyter" in words or not words


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,10}", text, re.ASCII) else None


def _other_namespace(at: Path, root: Path, kind: str) -> bool | None:
    try:
        return (at / "ns" / kind).readlink() != (root / "proc/self/ns" / kind).readlink()
    except OSError:
        return None


def _container(at: Path, unseen: list[Message]) -> tuple[str, str] | None:
    data = _bytes(at / "cgroup", "cgroup", unseen)
    for kind, pattern in _CONTAINERS.items() if data else ():
        if found := pattern.search((data or b"").decode(errors="replace").replace("\n", " ")):
            return kind, found[1]
    return None


def _minors(at: Path, unseen: list[Message]) -> tuple[int, ...] | None:
    """The device files in the process's own /dev. Looking through its root needs the right to trace it (proc_pid_root(5))."""
    try:
        names = os.listdir(at / "root/dev")  # noqa: PTH208 - a folder of another root: its names only
    except OSError as exc:
        unseen.append(_why("files", exc))
        return None
    return _cards(f"/dev/{name}" for name in names)


def _minors_here(root: Path) -> tuple[int, ...] | None:
    try:
        return _cards(f"/dev/{entry.name}" for entry in (root / "dev").iterdir())
    except OSError:
        return None


def _cards(paths: Iterable[str]) -> tuple[int, ...]:
    matches = (_CARD.fullmatch(path) for path in paths)
    return tuple(sorted({int(match[1]) for match in matches if match}))


def _opened(at: Path, unseen: list[Message]) -> tuple[tuple[int, ...] | None, bool | None]:
    """The device files that it has open."""
    try:
        numbers = os.listdir(at / "fd")  # noqa: PTH208 - they vanish while one looks
    except OSError as exc:
        unseen.append(_why("fd", exc))
        return None, None
    targets = set()
    for number in numbers:
        try:
            targets.add(os.readlink(at / "fd" / number))  # noqa: PTH115 - "pipe:[1]" is no path
        except OSError:
            continue
    return _cards(targets), _UVM in targets
