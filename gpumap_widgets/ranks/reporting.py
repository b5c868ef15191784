"""`report_ranks`: which GPU does every rank of this job use."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import GpumapError
from ..texts import say
from .asking import OddDevice, ask_process
from .exchange import Gathered, exchange
from .report import RanksReport
from .row import row_from_json
from .stores import NoJob, meet

if TYPE_CHECKING:
    import pandas as pd  # noqa: TID251 - for its type only


class RanksSilent(GpumapError, TimeoutError):
    """Some ranks never answered. ``report`` has the rows of those that did, ``silent`` the ranks of the others."""

    def __init__(
        self, message: str, report: RanksReport, silent: tuple[int, ...], *, remedy: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.report = report
        self.silent = silent


def report_ranks(
    device: object = None,
    *,
    start_cuda: bool = False,
    timeout: float = 120.0,
    port: int | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Which GPU does every rank of this torch.distributed job use? Call it in every rank, like a barrier.

    Works with a process group of any backend, and before ``init_process_group`` through the launcher's variables; a
    process that is alone reports itself. Rank 0 prints one table and what is wrong (unless ``quiet``); every rank gets
    the same DataFrame, a row a rank, with the findings as rows in ``.attrs["findings"]``: ranks on one GPU (by UUID, a
    MIG device being one of its own), ranks that share cuda:0 because none selects a device, GPUs of a host that nobody
    uses (by NVML), variables that differ, ranks without a GPU.

    ``device``: the one that this rank uses: 1, ``"cuda:1"``, a ``torch.device``. By default torch's current device, or
    the one that holds its tensors, once CUDA has started; before that cuda:LOCAL_RANK. Then the board behind it is
    foretold from NVML and the variables, and the column ``told_by`` says how sure that is, instead of ``torch``.
    ``start_cuda``: let torch start CUDA, so that the driver tells. ``timeout``: seconds to wait for the other ranks.
    ``port``: where rank 0 listens when there is neither a process group nor torchrun's agent; by default derived from
    MASTER_ADDR and MASTER_PORT, and never MASTER_PORT itself.

    Raises RanksSilent when a rank does not answer in time (rank 0 has then printed the rows of those that did), NoJob
    when the others cannot be found, OddDevice for a ``device`` that names none. The store of the process group is used,
    no collective: nothing is sent over NCCL, and CUDA is not started unless asked for.
    """
    deadline = time.monotonic() + timeout
    row = ask_process(device, start_cuda=start_cuda)
    meeting = meet(deadline, port=port)
    report = RanksReport((row,)) if meeting is None else report_of(exchange(meeting, row.to_json(), deadline))
    if (meeting is None or meeting.rank == 0) and not quiet:
        sys.stdout.write(f"{report}\n")
        sys.stdout.flush()
    if report.silent:
        raise _silence(report, timeout)
    frame: pd.DataFrame = report.to_frame()
    return frame


def report_of(gathered: Gathered) -> RanksReport:
    """The rows of those that answered, by rank."""
    world = len(gathered.texts)
    rows = [
        replace(row_from_json(text, rank=rank, world_size=world), rank=rank)
        for rank, text in enumerate(gathered.texts)
        if text is not None
    ]
    return RanksReport(tuple(rows), tuple(f"rank {rank}" for rank in gathered.silent))


def _silence(report: RanksReport, timeout: float) -> RanksSilent:
    found = report.findings[0]
    silent = tuple(int(label.removeprefix("rank ")) for label in report.silent)
    message = say("ranks.silent", seconds=f"{timeout:g}", what=found.message)
    return RanksSilent(message, report, silent, remedy=found.remedy)


__all__ = ["NoJob", "OddDevice", "RanksSilent", "report_ranks"]
