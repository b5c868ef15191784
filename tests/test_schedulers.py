"""Schedulers and MPI launchers, as a table; the sources say what was read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap_widgets.layers import flux, horovod, lsf, mpirun, openpbs, slurm, torchx
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests.conftest import MIXED
from tests.layer_cases import Case, Worker, check

ALL = [1, 0, 2, 3]
T4, GTX = "GPU-a0e15e00-0000-4000-8000-000000000000", "GPU-b1e18600-0000-4000-8000-000000000001"
SLURM = "Slurm 284c3b95, interfaces/gres.c, read"
FREE, HELD = {"allocated": (1, 2), "constrain_devices": False}, {"allocated": (0, 1), "constrain_devices": True}
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def cvd(value: str | None) -> dict[str, str | None]:
    return {"CUDA_VISIBLE_DEVICES": value}


CASES = (
    Case("slurm", "srun --gres=gpu:2", [Worker([0, 2], [0, 2], cvd("1,2") | {"SLURM_JOB_GPUS": "1,2"})], SLURM, assume=FREE),
    Case("slurm", "srun --gres=gpu:2 python t.py", [Worker([1, 2], None, cvd("1,2"))], SLURM, PCI, FREE, "certain"),
    Case("slurm", "srun --gres=gpu:2", [Worker([1, 0], [1, 0], cvd("0,1"), [0, 1])], SLURM, assume=HELD),
    Case("slurm", "srun -n2 --gpus-per-task=1", [Worker([k], [k], cvd("0") | {"SLURM_LOCALID": str(k)}, [k]) for k in (0, 1)], SLURM, assume=HELD),
    Case("slurm", "srun -n2 --gpus-per-task=1 --gres-flags=allow-task-sharing", [Worker([1], [1], cvd("0"), [0, 1]), Worker([0], [0], cvd("1"), [0, 1])], SLURM, assume=HELD),
    Case("slurm", "srun -n2 --gres=gpu:2 --gpu-bind=map:1,0", [Worker([1], None, cvd("0"), [1]), Worker([0], None, cvd("0"), [0])], "srun.1: map ids are relative to the job; documented", assume=HELD),
    Case("slurm", "srun -n2 --gres=gpu:2 --gpu-bind=single:1", [Worker([0], None, cvd("0")), Worker([1], None, cvd("0"))], "srun.1, documented", assume=HELD),
    Case("slurm", "srun -n2 --gres=gpu:2 --gpu-bind=closest", [Worker([1, 0]), Worker([1, 0])], "srun.1: depends on the node", assume=HELD, certainty="unknown"),
    Case("slurm", "srun --gres=gpu:2", [Worker([1, 0])], "which GPUs is not told", assume={"constrain_devices": True}, certainty="unknown"),
    Case("slurm", "srun --gres=gpu:2", [Worker([0, 2])], "ConstrainDevices is not told; cgroup.conf.5 says no by default", assume={"allocated": (1, 2)}, certainty="unknown"),
    Case("slurm", "CUDA_VISIBLE_DEVICES=3 srun --gres=gpu:1", [Worker([0], None, cvd("0"))], "Slurm overwrites a value of the user, read", PCI, {"allocated": (0,), "constrain_devices": True}, "certain"),
    Case("slurm", "srun python t.py", [Worker(ALL, None, cvd(None))], "unset without a GPU; without cgroups all are seen, read", cvd("1"), {"constrain_devices": False}),  # type: ignore[arg-type]
    Case("slurm", "srun python t.py", [Worker([], None, {}, [])], SLURM, assume={"constrain_devices": True}),
    Case("slurm", "srun --gres=gpu:9", [], SLURM, error="not available"),
    Case("slurm", (slurm(2, allocated=(0, 1), constrain_devices=True, env_uuid=True),), [Worker([0, 1], None, cvd(f"{T4},{GTX}"))], "Flags=env_uuid of gres.conf, documented"),
    Case("slurm", "sbatch --gres=gpu:1 --wrap='torchrun --nproc-per-node=1 t.py'", [Worker([1], [1], {"LOCAL_RANK": "0"}, [1])], SLURM, assume={"allocated": (1,), "constrain_devices": True}),
    Case("slurm", "srun -N2 --ntasks-per-node=1 --gres=gpu:4 torchrun --nnodes=2 --nproc-per-node=4 t.py", [Worker(ALL, [g]) for g in ALL], SLURM, assume={"constrain_devices": True}),
    Case("openpbs", "qsub -l select=1:ngpus=1", [Worker([1], [1], cvd(GTX) | PCI, [1])], "OpenPBS cd7ab5e, pbs_cgroups.PY, read", assume={"allocated": (1,), "constrain_devices": True}),
    Case("openpbs", (openpbs(0),), [Worker([], None, cvd(""))], "OpenPBS cd7ab5e, read"),
    Case("flux", "flux run -n2 -g1 -o gpu-affinity=per-task t", [Worker([k], [k], cvd(str(k)) | PCI) for k in (0, 1)], "Flux v0.88.0-59, shell/gpubind.c, read", assume={"allocated": (0, 1)}),
    Case("flux", "flux run -n2 -g1 t", [Worker([0, 1], None, cvd("0,1"))] * 2, "Flux, read", assume={"allocated": (0, 1)}),
    Case("flux", (flux(0),), [Worker([], None, cvd("-1"))], "Flux sets -1 first, so that jobs without GPUs see none; read"),
    Case("flux", "flux run -n3 -g2 t", [], "Flux, read", error="6 GPUs"),
    Case("lsf", 'bsub -gpu "num=2" python t.py', [Worker([1, 2], None, cvd("0,1"), [1, 2])], "LSF: ids are reallocated beginning with 0, documented", assume={"allocated": (1, 2), "constrain_devices": True}),
    Case("lsf", (lsf(1, allocated=(2,)),), [Worker([2], None, cvd("2"))], "enforcement is not told", certainty="unknown"),
    Case("mpirun", "mpirun -np 4 sh -c 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK exec python t.py'", [Worker([g], [g], cvd(str(k))) for k, g in enumerate(ALL)], "wrapper scripts, documented", {"CUDA_VISIBLE_DEVICES": "3,1"}),
    Case("mpirun", "mpirun -n 2 -x CUDA_VISIBLE_DEVICES=2 python t.py", [Worker([2], None, {"OMPI_COMM_WORLD_LOCAL_RANK": str(k)}) for k in (0, 1)], "Open MPI, -x, documented"),
    Case("mpirun", "mpiexec -n 2 python t.py", [Worker(ALL, None, {"PMI_RANK": str(k)}) for k in (0, 1)], "MPICH Hydra, reported", assume={"mpi": "mpich"}),
    Case("mpirun", (mpirun(2),), [Worker(ALL), Worker(ALL)], "Open MPI sets no GPU variable, documented"),
    Case("mpirun", "mpirun python t.py", [Worker(ALL)], "the number of slots is not told", certainty="unknown"),
    Case("horovod", "horovodrun -np 2 python t.py", [Worker(ALL, [1], {"HOROVOD_LOCAL_RANK": "0"}), Worker(ALL, [0], {"HOROVOD_LOCAL_RANK": "1"})], "Horovod 0.28.1, read"),
    Case("horovod", (horovod(1),), [Worker(ALL, [1])], "Horovod 0.28.1, read"),
    Case("torchx", "torchx run -s local_cwd -cfg auto_set_cuda_visible_devices=True dist.ddp -j 2x2 --gpu 2", [Worker([1, 0], [1], cvd("0,1")), Worker([1, 0], [0], cvd("0,1")), Worker([2, 3], [2], cvd("2,3")), Worker([2, 3], [3], cvd("2,3"))], "TorchX cafea3f, local_scheduler.py, read"),
    Case("torchx", (torchx(1, 2, gpus=2),), [Worker(ALL, [1]), Worker(ALL, [0])], "only with auto_set_cuda_visible_devices, read"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_schedulers(case: Case) -> None:
    check(case)


words = st.sampled_from(
    ["srun", "qsub", "flux", "run", "bsub", "mpirun", "horovodrun", "torchx", "-n", "-np", "-g", "2", "99999999", "--gres=gpu:x", "--gpu-bind=map:", "-j", "x", "-gpu", "num=", "--", "'", "-x", "A", "$X", "--gpus-per-task=3", "-l"]
)  # fmt: skip


@given(
    st.lists(words, max_size=9),
    st.dictionaries(
        st.sampled_from(["allocated", "constrain_devices", "mpi"]),
        st.sampled_from([(0,), (9,), True, False]),
        max_size=2,
    ),
)
def test_any_words_are_read(given_words: list[str], assume: dict[str, object]) -> None:
    prediction = resolve(Scenario.from_command(MIXED, " ".join(given_words), {}, assume))
    assert prediction.error or prediction.processes
