"""Tasks on GPUs: exact against brute force, the tutorials' rows 13 and 16, reasons, tables."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpumap_widgets as gm
from gpumap_widgets.planning.assignment import assign
from gpumap_widgets.planning.hungarian import cheapest
from gpumap_widgets.planning.inputs import read_workloads
from gpumap_widgets.planning.jobs import Job, Place, cost_of, fits, joins
from gpumap_widgets.planning.task_planning import _jobs, environment_for
from gpumap_widgets.planning.tasks import LATENCY, Copy
from gpumap_widgets.tasks import check_tasks, read_tasks

MIXED = gm.preset("mixed")


def where(plan: gm.TaskPlan) -> dict[str, int | None]:
    return {one.name: one.position for one in plan.placed}


# ---- rows 13 and 16 of the tutorials ----

ROW_13 = (
    gm.Workload("llm", 20_000, 10.0, command="python llm.py"),
    gm.Workload("light", 4_000, 1.0, copies=3, command="python serve.py --name 'a b'"),
)


def test_the_heavy_model_on_the_4090_and_a_light_service_on_each_t4() -> None:
    plan = gm.plan_tasks(MIXED, ROW_13)
    assert where(plan) == {"llm": 1, "light-0": 0, "light-1": 2, "light-2": 3}
    assert plan.proven
    assert plan.notes == ()
    for one in plan.placed:
        assert one.gpu is not None
        assert one.env == {"CUDA_VISIBLE_DEVICES": one.gpu.uuid}
        assert one.certainty == "certain"
        assert one.command == f"CUDA_VISIBLE_DEVICES={one.gpu.uuid} {one.copy.task.command}"
        prediction = gm.resolve(plan.scenario(one.name))
        assert [d.position for d in prediction.processes[0].devices] == [one.position]
    reasons = [str(one.reason) for one in plan.placed]
    assert "only one with room for 20000 MiB" in reasons[0]
    assert "leaves the faster RTX 4090 to llm" in reasons[1]


def test_without_a_need_of_memory_speed_decides() -> None:
    plan = gm.plan_tasks(MIXED, [replace(ROW_13[0], memory_mib=4_000), ROW_13[1]])
    assert where(plan)["llm"] == 1
    assert "the fastest of 4 that have room" in str(plan.placed[0].reason)
    urgent = gm.plan_tasks(MIXED, [replace(ROW_13[0], memory_mib=0), replace(ROW_13[1], latency="interactive")])
    assert where(urgent)["llm"] == 1  # ten times the work outweighs the class


def test_two_services_never_land_on_one_gpu_by_themselves() -> None:
    """Row 16: 120 requests a second became 15, as two services had one GPU and CUDA moved neither."""
    services = [gm.Workload("a", 2_000), gm.Workload("b", 2_000)]
    plan = gm.plan_tasks(MIXED, services)
    assert len(set(where(plan).values())) == 2
    one = gm.Topology(MIXED.gpus[1:2])
    alone = gm.plan_tasks(one, services)
    assert [x.name for x in alone.unplaced] == ["b"]
    assert "one task a GPU: a" in str(alone.unplaced[0].reason)
    shared = gm.plan_tasks(one, services, share=True)
    assert where(shared) == {"a": 0, "b": 0}
    assert shared.placed[0].shares_with == ("b",)
    assert "without any isolation" in str(shared.placed[0].reason)
    assert "take time from each other" in str(shared.notes[0])


def test_row_15_a_model_that_does_not_fit_is_said_beforehand() -> None:
    t4 = gm.Topology.of("Tesla T4")
    plan = gm.plan_tasks(t4, [gm.Workload("lora", 16_384)])
    assert plan.unplaced
    assert "needs 16384 MiB, and the largest, the Tesla T4, has room for 14336" in str(plan.unplaced[0].reason)


# ---- exactness ----


def _allowed(jobs: list[Job], places: list[Place], chosen: tuple[int | None, ...], *, share: bool) -> bool:
    for g, place in enumerate(places):
        held: list[Job] = []
        for job, own in zip(jobs, chosen, strict=True):
            if own == g:
                if not joins(job, held, place, share=share):
                    return False
                held.append(job)
    return True


@st.composite
def cases(draw: Any) -> tuple[list[Job], list[Place]]:
    works = st.sampled_from((1.0, 2.0, 3.5, 10.0))
    jobs: list[Job] = []
    for family in range(draw(st.integers(1, 4))):
        row = LATENCY[draw(st.sampled_from(list(LATENCY)))]
        job = Job(draw(works), row.weight, draw(st.integers(0, 12)) * 2, row.alone, 0.0, family)
        jobs += [job] * draw(st.integers(1, 2))
    jobs = jobs[:5]
    top = 100.0 * sum(job.work for job in jobs)
    jobs = [job._replace(penalty=top * 6 ** (job.weight - 1)) for job in jobs]
    speeds = st.sampled_from((1.0, 1.5, 4.0, 7.0))
    places = [Place(draw(speeds), draw(st.integers(0, 12)) * 2) for _ in range(draw(st.integers(0, 3)))]
    return jobs, places


@given(cases(), st.booleans())
def test_nothing_is_cheaper_than_what_is_found(case: tuple[list[Job], list[Place]], share: bool) -> None:
    jobs, places = case
    found = assign(jobs, places, share=share)
    assert found.proven
    assert _allowed(jobs, places, found.places, share=share)
    every = itertools.product([None, *range(len(places))], repeat=len(jobs))
    least = min(cost_of(jobs, places, chosen) for chosen in every if _allowed(jobs, places, chosen, share=share))
    assert cost_of(jobs, places, found.places) == pytest.approx(least, rel=1e-8)


@given(st.integers(1, 5), st.integers(0, 2), st.randoms(use_true_random=False))
def test_the_assignment_problem_against_all_permutations(rows: int, spare: int, rng: random.Random) -> None:
    table = [[float(rng.randint(0, 20)) for _ in range(rows + spare)] for _ in range(rows)]
    found = cheapest(table)
    assert len(set(found)) == rows
    least = min(
        sum(table[i][j] for i, j in enumerate(one)) for one in itertools.permutations(range(rows + spare), rows)
    )
    assert sum(table[i][j] for i, j in enumerate(found)) == pytest.approx(least)


@pytest.mark.parametrize("seed", range(6))
def test_sixteen_tasks_on_sixteen_gpus_are_proven(seed: int) -> None:
    """One task a GPU is the assignment problem: always proven, whatever the machine."""
    rng = random.Random(seed)
    names = ["RTX 4090", "Tesla T4", "RTX 3090", "A100-SXM4-80GB", "RTX A6000", "GTX 1080 Ti"]
    machine = gm.Topology.of(*rng.choices(names, k=16))
    tasks = [
        gm.Workload(
            f"t{i}",
            rng.choice([0, 2_000, 9_000, 14_000, 22_000, 40_000]),
            rng.uniform(0.5, 20),
            rng.choice(list(LATENCY)),
        )
        for i in range(16)
    ]
    plan = gm.plan_tasks(machine, tasks)
    assert plan.proven
    placed = [one.position for one in plan.placed if one.position is not None]
    assert len(set(placed)) == len(placed)
    for one in plan.placed:
        assert one.gpu is None or one.copy.task.memory_mib <= (one.gpu.memory_mib or 0)


def test_a_stopped_search_says_so() -> None:
    rng = random.Random(5)
    jobs = [Job(rng.uniform(1, 9), 1.0, rng.randint(3, 9), False, 1e6, i) for i in range(14)]
    places = [Place(rng.uniform(1, 5), 12) for _ in range(6)]
    found = assign(jobs, places, share=True, nodes=3)
    assert not found.proven
    assert _allowed(jobs, places, found.places, share=True)


@given(st.lists(st.sampled_from(list(LATENCY)), min_size=1, max_size=6), st.integers(1, 3))
def test_the_most_urgent_are_placed_first(classes: list[str], gpus: int) -> None:
    tasks = [gm.Workload(f"t{i}", 1_000, 1.0 + i, latency) for i, latency in enumerate(classes)]
    plan = gm.plan_tasks(gm.Topology.of(*["Tesla T4"] * gpus), tasks)
    order = list(LATENCY)
    placed = [order.index(one.copy.task.latency) for one in plan.placed if one.gpu]
    left = [order.index(one.copy.task.latency) for one in plan.unplaced]
    assert len(placed) == min(gpus, len(tasks))
    assert not left or not placed or max(placed) <= min(left)


def test_penalties_outweigh_whatever_a_placement_costs() -> None:
    copies = [Copy(gm.Workload(f"t{i}", 0, 1.0 + i, latency), 0) for i, latency in enumerate([*LATENCY] * 3)]
    jobs = _jobs(copies, [1.0, 9.0])
    worst = cost_of(jobs, [Place(1.0, 0)], [0] * len(jobs))
    assert min(job.penalty for job in jobs) > worst
    for lower, upper in (("batch", "service"), ("service", "interactive")):
        below = sum(j.penalty for j, c in zip(jobs, copies, strict=True) if c.task.latency == lower)
        above = min(j.penalty for j, c in zip(jobs, copies, strict=True) if c.task.latency == upper)
        assert above > below


# ---- rules ----


def test_copies_of_one_task_part_and_interactive_ones_stay_alone() -> None:
    machine = gm.Topology.of("A100-SXM4-80GB", "A100-SXM4-80GB")
    plan = gm.plan_tasks(
        machine, [gm.Workload("a", 1_000, copies=3), gm.Workload("b", 1_000, latency="batch")], share=True
    )
    placed = where(plan)
    assert {placed["a-0"], placed["a-1"]} == {0, 1}
    assert placed["a-2"] is None
    assert placed["b"] in (0, 1)
    alone = gm.plan_tasks(
        machine, [gm.Workload("i", 10, latency="interactive"), gm.Workload("x"), gm.Workload("y")], share=True
    )
    own = where(alone)
    assert own["x"] == own["y"] != own["i"]
    assert "nothing isolates processes" in str(alone.placed[0].reason)


def test_memory_counts_with_a_context_for_each_process() -> None:
    machine = gm.Topology.of("Tesla T4")  # 15360 MiB
    fits_ = gm.plan_tasks(machine, [gm.Workload("a", 7_000), gm.Workload("b", 6_800)], share=True)
    assert not fits_.unplaced
    over = gm.plan_tasks(machine, [gm.Workload("a", 7_000), gm.Workload("b", 7_000)], share=True)
    assert len(over.unplaced) == 1
    assert "are full" in str(over.unplaced[0].reason)


def test_what_is_not_known_is_handled_and_said() -> None:
    machine = gm.Topology.of("Tesla T4", "Mystery")
    plan = gm.plan_tasks(machine, [gm.Workload("a", 1_000), gm.Workload("b"), gm.Workload("c", 2_000)])
    assert where(plan)["b"] == 1  # no memory is known of the other
    assert "Speed not known" in str(plan.notes[0])
    assert plan.unplaced
    nothing = gm.plan_tasks(gm.Topology.of("Mystery"), [gm.Workload("a", 1)])
    assert "memory of no GPU is known" in str(nothing.unplaced[0].reason)
    assert "no GPU can be used" in str(gm.plan_tasks(gm.Topology(), [gm.Workload("a")]).unplaced[0].reason)


def test_gpus_in_mig_mode_or_lost_are_left_out() -> None:
    cut = replace(MIXED.gpus[1], mig_instances=(gm.MigInstance("MIG-x", "1g.5gb"),))
    lost = replace(MIXED.gpus[0], problem="lost")
    plan = gm.plan_tasks(replace(MIXED, gpus=(lost, cut, *MIXED.gpus[2:])), [gm.Workload("a", copies=4)])
    assert sorted(p for p in where(plan).values() if p is not None) == [2, 3]
    assert "MIG mode" in str(plan.notes[0])


def test_a_plan_that_hangs_on_what_limits_the_tasks_says_so() -> None:
    machine = gm.Topology.of("A100-SXM4-80GB", "RTX 4090")
    plan = gm.plan_tasks(machine, [gm.Workload("heavy", 0, 10.0), gm.Workload("light")])
    assert "another plan is better" in " ".join(map(str, plan.notes))
    assert not gm.plan_tasks(machine, [gm.Workload("heavy", 0, 10.0), gm.Workload("light")], bound="memory").notes


def test_without_a_uuid_the_number_is_used_with_its_order() -> None:
    machine = gm.Topology.of("Tesla T4", "RTX 4090", pci_bus_ids=["5E:00.0", "86:00.0"])
    env, certainty = environment_for(machine, 1)
    assert env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}
    assert certainty == "certain"
    nameless = gm.Topology((gm.Gpu(name="RTX 4090"),))
    plan = gm.plan_tasks(nameless, [gm.Workload("a", command="run")])
    assert plan.placed[0].env == {}
    assert plan.placed[0].certainty == "unknown"


@pytest.mark.parametrize(
    "odd",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "-rf"},
        {"name": "x" * 65},
        {"memory_mib": -1},
        {"memory_mib": 1.5},
        {"work": 0.0},
        {"work": float("nan")},
        {"latency": "now"},
        {"copies": 0},
        {"copies": 1000},
    ],
)
def test_tasks_that_cannot_be(odd: dict[str, Any]) -> None:
    with pytest.raises(gm.ImpossiblePlan):
        gm.Workload(**{"name": "a", **odd})


def test_plans_that_cannot_be() -> None:
    with pytest.raises(gm.ImpossiblePlan, match="Two tasks are called a-0"):
        gm.plan_tasks(MIXED, [gm.Workload("a", copies=2), gm.Workload("a-0")])
    with pytest.raises(gm.ImpossiblePlan, match="80 copies"):
        gm.plan_tasks(MIXED, [gm.Workload("a", copies=40), gm.Workload("b", copies=40)])


# ---- the table, and every view ----


def test_the_table_reads_back() -> None:
    plan = gm.plan_tasks(MIXED, [*ROW_13, gm.Workload("big", 90_000)])
    text = plan.to_text()
    assert text.splitlines()[0].split()[:4] == ["llm", "GPU-b1e18600-0000-4000-8000-000000000001", "#", "RTX"]
    assert text.splitlines()[-1].startswith("# big: needs 90000 MiB")
    table = read_tasks(text)
    assert {row.name: row.gpus for row in table.tasks} == {
        one.name: (one.gpu.uuid,) for one in plan.placed if one.gpu is not None
    }
    assert check_tasks(table, MIXED) == ()
    bare = gm.plan_tasks(gm.Topology.of("T4"), [gm.Workload("a")])
    assert bare.to_text() == "# a: the UUID of the T4 is not known\n"


def test_a_plan_as_layers() -> None:
    plan = gm.plan_tasks(MIXED, ROW_13)
    prediction = gm.resolve(plan.table.scenario(MIXED))
    assert [process.nvml_indices for process in prediction.processes] == [(1,), (0,), (2,), (3,)]


def test_names_of_hostile_gpus_break_no_line() -> None:
    gpu = gm.Gpu(0, "evil\ngpu # x GPU-1", "GPU-11111111-2222-3333-4444-555555555555", memory_mib=1000)
    plan = gm.plan_tasks(gm.Topology((gpu,)), [gm.Workload("a", command="run")])
    assert [row.name for row in read_tasks(plan.to_text()).tasks] == ["a"]


def test_every_view() -> None:
    plan = gm.plan_tasks(MIXED, [*ROW_13, gm.Workload("big", 90_000)])
    text, page = str(plan), plan._repr_html_()
    for word in ("llm", "RTX 4090 (nvidia-smi 1)", "leaves the faster RTX 4090 to llm"):
        assert word in text
        assert word in page
    frame = plan.to_frame()
    assert frame["copy"].tolist() == ["llm", "light-0", "light-1", "light-2", "big"]
    assert frame.nvml_index.tolist()[:4] == [1, 0, 2, 3]
    assert frame.nvml_index.isna().tolist() == [False] * 4 + [True]
    evil = gm.Topology.of("<img src=x>")
    assert "<img" not in gm.plan_tasks(evil, [gm.Workload("a")])._repr_html_()


def test_fits_is_about_one_gpu() -> None:
    assert fits(Job(1, 1, 0, False, 1, 0), Place(1, 0))
    assert not fits(Job(1, 1, 1, False, 1, 0), Place(1, 0))


# ---- what a person types ----


def test_typed_tasks() -> None:
    text = """
# the tutorials' row 13
llm    memory=20GB work=10 -- python llm.py --name '# x'
light  memory=4000MiB copies=3 class=interactive  # behind a router
bare
"""
    found = read_workloads(text)
    assert found.problems == ()
    assert found.tasks == (
        gm.Workload("llm", 20_480, 10.0, command="python llm.py --name '# x'"),
        gm.Workload("light", 4_000, latency="interactive", copies=3),
        gm.Workload("bare"),
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("a memory=big", "“memory=big” is not read"),
        ("a class=now", "class= one of interactive, service, batch"),
        ("a 5", "“5” is not read"),
        ("a copies=0", "cannot be"),
        ("$(rm)", "cannot be"),
        ("x", "Two tasks are called x"),
        ("a work=0", "cannot be"),
    ],
)
def test_lines_that_are_no_task(line: str, why: str) -> None:
    found = read_workloads(f"x\n{line}\n")
    assert [task.name for task in found.tasks] == ["x"]
    assert len(found.problems) == 1
    assert "Line 2" in str(found.problems[0])
    assert why in str(found.problems[0])


@given(st.text(max_size=300))
def test_any_text_is_tasks_or_says_why_not(text: str) -> None:
    found = read_workloads(text)
    assert all(str(problem) for problem in found.problems)
    assert len({task.name for task in found.tasks}) == len(found.tasks)
