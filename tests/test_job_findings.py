"""What is said of several processes at once, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from gpumap_widgets.job_findings import RULES, Seat, crowded, listed, named, numbered, shared, unselected
from gpumap_widgets.mapping import SEVERITIES, Prediction
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from gpumap_widgets.topology import Topology
from tests.conftest import MIXED, SLICES, UUIDS, equal, split

CODES = {rule.code for rule in RULES}


def of(command: str, machine: Topology = MIXED, env: Mapping[str, str] | None = None, **assume: Any) -> Prediction:
    return resolve(Scenario.from_command(machine, command, env or {}, assume))


class Row(NamedTuple):
    """A command and what is said of its workers together."""

    prediction: Prediction
    codes: tuple[str, ...]
    said: tuple[str, ...] = ()
    """What must stand in the sentences."""


ROWS: Mapping[str, Row] = {
    "one GPU each": Row(of("torchrun --nproc-per-node=4 t.py"), ()),
    "a list for each": Row(of("torchrun --virtual-local-rank --nproc-per-node=4 t.py"), ()),
    "one process": Row(of("python t.py"), ()),
    "nobody selects": Row(
        of("torchrun --nproc-per-node=4 t.py", set_device=False),
        ("no-set-device", "gpus-nobody-uses"),
        (
            "ranks 0–3 on the RTX 4090 at 86:00.0",
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
            "nvidia-smi 3",
        ),
    ),
    "more workers than GPUs": Row(
        of("torchrun --nproc-per-node=3 t.py", equal(2)),
        ("ordinal-missing",),
        ("rank 2 wants cuda:2 of 2", "at most 2 workers"),
    ),
    "an offset": Row(  # tutorials: cuda:{local_rank + 3}
        of("torchrun --nproc-per-node=2 t.py", device_offset=3),
        ("ordinal-missing", "gpus-nobody-uses"),
        ("rank 1 wants cuda:4 of 4", "without an offset"),
    ),
    "an offset that fits": Row(
        of("torchrun --nproc-per-node=2 t.py", device_offset=2), ("gpus-nobody-uses",), ("nvidia-smi 0", "nvidia-smi 1")
    ),
    "fewer workers than GPUs": Row(of("torchrun --nproc-per-node=2 t.py"), ("gpus-nobody-uses",), ("nvidia-smi 2",)),
    "one list, one GPU": Row(
        of("CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=0 python b.py"),
        ("workers-on-one-gpu",),
        ("job 1, job 2 on the RTX 4090", "NCCL"),
    ),
    "by UUID and by number": Row(
        of(f"CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES={UUIDS[0]} python b.py", equal(2)),
        ("workers-on-one-gpu",),
    ),
    "the same by default": Row(
        of("python a.py & python b.py"), ("shared-by-default",), ("selects no device", "job 1, job 2 on the RTX 4090")
    ),
    "two orders, two GPUs": Row(of("CUDA_VISIBLE_DEVICES=0,1 python a.py & CUDA_VISIBLE_DEVICES=1,0 python b.py"), ()),
    "two slices of one GPU": Row(
        of(f"CUDA_VISIBLE_DEVICES={SLICES[0]} python a.py & CUDA_VISIBLE_DEVICES={SLICES[1]} python b.py", split()), ()
    ),
    "one slice twice": Row(
        of(f"CUDA_VISIBLE_DEVICES={SLICES[0]} python a.py & CUDA_VISIBLE_DEVICES={SLICES[0]} python b.py", split()),
        ("workers-on-one-gpu",),
        ("MIG 3g.20gb",),
    ),
    "two nodes, one machine each": Row(of("torchrun --nproc-per-node=4 --nnodes=2 t.py", node_rank="all"), ()),
    "what does not start": Row(of("torchrun --nproc-per-node=two t.py"), ()),
    "no GPU": Row(of("torchrun --nproc-per-node=2 t.py", Topology()), ("ordinal-missing",), ("of 0",)),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_said(name: str) -> None:
    row = ROWS[name]
    found = [one for one in row.prediction.findings if one.code in CODES]
    assert tuple(one.code for one in found) == row.codes
    told = " ".join(f"{one.message} {one.remedy or ''}" for one in found)
    assert [text for text in row.said if text not in told] == []
    assert all(one.source for one in found)


def test_every_rule_speaks_somewhere() -> None:
    assert {code for row in ROWS.values() for code in row.codes} == CODES


def test_the_most_harmful_comes_first() -> None:
    for row in ROWS.values():
        severities = [SEVERITIES.index(one.severity) for one in row.prediction.findings]
        assert severities == sorted(severities)


def test_a_shown_worker_has_the_findings_of_all() -> None:
    prediction = ROWS["nobody selects"].prediction
    assert prediction.focus(2).findings == prediction.findings


# ---- in words ----


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1], "0, 1"),
        ([2, 0, 1, 3], "0–3"),
        ([0, 1, 2, 8], "0–2, 8"),
        ([0, 8, 16], "0, 8, 16"),
        (range(0, 64, 8), "0, 8 … 56"),
        ([*range(0, 40, 2), 99], "0, 2, 4 … 99 (21)"),
    ],
)
def test_numbers(numbers: list[int], text: str) -> None:
    assert numbered(numbers) == text


@pytest.mark.parametrize(
    ("workers", "text"),
    [
        (["rank 3"], "rank 3"),
        (["rank 3", "rank 1", "rank 2"], "ranks 1–3"),
        (["actor 0", "actor 1"], "actor 0, actor 1"),
        (["rank 0", "rank x"], "rank 0, rank x"),
        ([f"w{k}" for k in range(10)], "w0, w1, w2, w3, w4, w5, w6, w7 and 2 more"),
    ],
)
def test_workers(workers: list[str], text: str) -> None:
    assert named(workers) == text


def test_lists() -> None:
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed([]) == ""


# ---- seats ----


def seat(worker: str, gpu: object, ordinal: int = 0, sees: int | None = 4) -> Seat:
    return Seat(worker, gpu, f"GPU {gpu}", ordinal, sees)  # type: ignore[arg-type]


def test_seats_that_nothing_is_known_of_are_shared_with_nobody() -> None:
    assert shared([seat("a", None), seat("b", None)]) == []
    assert shared([seat("a", 1), seat("a", 1)]) == [], "one worker twice"


def test_sharing_by_selecting_nothing_is_told_from_sharing() -> None:
    lazy = [seat("a", 1), seat("b", 1)]
    meant = [seat("c", 2, 2), seat("d", 2, 2)]
    boxed = [seat("e", 3, 0, 1), seat("f", 3, 0, 1)]
    assert unselected(lazy) is not None
    assert crowded(lazy) is None
    assert unselected([*meant, *boxed]) is None
    assert str((crowded([*meant, *boxed]) or {})["groups"]) == "c, d on the GPU 2; e, f on the GPU 3"
    many = [seat(f"{w}{k}", k, 1) for k in range(5) for w in "ab"]
    assert str((crowded(many) or {})["groups"]).endswith("; 2 more such groups")
