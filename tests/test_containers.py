"""Docker, Podman, nerdctl and Apptainer, as a table: which GPUs a container has, under which numbers, in which environment."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumap_widgets import texts
from gpumap_widgets.frozen import FrozenDict
from gpumap_widgets.layers import LAYERS, View, apptainer, docker, docker_exec, environment, nerdctl, podman, torchrun
from gpumap_widgets.layers.containers_devices import named
from gpumap_widgets.layers.containers_flag import Refused, Request, read_gpus
from gpumap_widgets.layers.containers_images import env_file
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.texts.en import containers, kubernetes, mps
from gpumap_widgets.topology import Topology
from tests import test_kubernetes, test_manifests, test_mps
from tests.conftest import MIXED, SLICES, UUIDS, equal, predict, split
from tests.layer_cases import Case, Worker, check, predicted
from tests.test_texts import Recorder

RAN = "facts: docker CLI 28.2.2 run, daemon and toolkit read"
TOOLKIT = "nvidia-container-toolkit v1.20 and libnvidia-container src/cli/common.c, read"
DAEMON = "moby daemon/devices_nvidia_linux.go, read"
PODMAN = "podman c6580b4, read"
APPTAINER = "apptainer-userdocs gpu.rst, environment_and_metadata.rst"
NERDCTL = "nerdctl pkg/cmd/container/run_gpus.go, read"
CUDA, PCI = "CUDA_VISIBLE_DEVICES", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
NV = "NVIDIA_VISIBLE_DEVICES"
ALL = [1, 0, 2, 3]
"""CUDA's default order of the mixed machine."""
BIG = MIXED.gpus[1].uuid or ""
ENV_FILE = {"files": {"gpu.env": "CUDA_VISIBLE_DEVICES=1\nCUDA_DEVICE_ORDER\n# no\nOTHER=x\n"}}
EIGHT = equal(8)
WSL = replace(MIXED, platform="wsl")


def wide(*numbers: int) -> list[int]:
    return list(numbers)


CASES = (
    # --gpus in every spelling of the facts
    Case("docker", "docker run --gpus all img", [Worker(ALL, None, {NV: "all"}, [0, 1, 2, 3])], RAN),
    Case("docker", "docker run --gpus=2 img", [Worker([1, 0], None, {NV: "0,1"}, [0, 1])], RAN),
    Case("docker", "docker run --gpus 1 img", [Worker([0], None, {NV: "0"}, [0])], RAN, certainty="certain"),
    Case("docker", "docker run --gpus 0 img", [Worker([], None, {NV: None}, [])], RAN, certainty="likely"),
    Case("docker", "docker run --gpus -1 img", [Worker(ALL)], "docker 28.2.2 run: Count -1"),
    Case("docker", "docker run --gpus device=1 img", [Worker([1], None, {NV: "1", CUDA: None}, [1])], RAN, certainty="certain"),
    Case("docker", "docker run --gpus device=1 img", [Worker([1], None, {"CUDA_DEVICE_ORDER": None}, [1])], "the request is the same for every order of the host, ran", PCI),
    Case("docker", "docker run --gpus '\"device=0,2\"' img", [Worker([0, 2], None, {}, [0, 2])], RAN),
    Case("docker", 'docker run --gpus "\\"device=2,1\\"" img', [Worker([1, 2], None, {NV: "2,1"}, [1, 2])], "the order of the list is not carried inside, derived"),
    Case("docker", "docker run --gpus device=0,2 img", [], RAN, error="cannot set both Count and DeviceIDs"),
    Case("docker", "docker run --gpus device=2,0 img", [Worker([2], None, {}, [2])], RAN),
    Case("docker", "docker run --gpus 0,1 img", [Worker([0], None, {}, [0])], "docker 28.2.2 run: Count 1"),
    Case("docker", "docker run --gpus 1,2 img", [Worker([1, 0], None, {}, [0, 1])], "docker 28.2.2 run: Count 2"),
    Case("docker", "docker run --gpus 1,1 img", [], "docker 28.2.2 run", error="can be specified only once"),
    Case("docker", "docker run --gpus first img", [], "docker 28.2.2 run", error='must be either "all" or an integer'),
    Case("docker", "docker run --gpus '\"device=0,2' img", [], "docker 28.2.2 run", error="missing"),
    Case("docker", "docker run --gpus 6 img", [], TOOLKIT, error="4: unknown device"),
    Case("docker", "docker run --gpus '\"device=0,0,1\"' img", [Worker([1, 0], None, {}, [0, 1])], "legacy drops repeats; in CDI mode derived: no device", certainty="likely"),
    Case("docker", "docker run --gpus '\"device=0,0\"' img", [Worker([], None, {}, [])], "jit-cdi, derived", assume={"toolkit": "cdi"}, certainty="likely"),
    Case("docker", "docker run --gpus driver=amd img", [], DAEMON, error='could not select device driver "amd"'),
    Case("docker", "docker run --gpus 'all,capabilities=tpu' img", [], DAEMON, error="[[tpu gpu]]"),
    Case("docker", "docker run --gpus 'all,\"capabilities=compute,utility\"' img", [Worker(ALL)], DAEMON),
    Case("docker", "docker run --gpus 'all,capabilities=utility' img", [Worker([])], "without compute libcuda is not mounted", certainty="likely"),
    Case("docker", "docker run --gpus all --gpus device=3 img", [Worker([3], None, {}, [3])], "two variables, the last one wins", certainty="likely"),
    # identifiers
    Case("docker", f"docker run --gpus device={BIG} img", [Worker([1], None, {}, [1])], TOOLKIT, certainty="certain"),
    Case("docker", f"docker run --gpus device={BIG.upper()} img", [Worker([1])], TOOLKIT),
    Case("docker", f"docker run --gpus device={BIG[:12]} img", [], "the length must match in both", error="unknown device", certainty="certain"),
    Case("docker", "docker run --gpus device=00000000:86:00.0 img", [Worker([1])], "legacy yes, jit-cdi no", certainty="likely"),
    Case("docker", "docker run --gpus device=0000:86:00.0 img", [Worker([1])], TOOLKIT, assume={"toolkit": "legacy"}, certainty="certain"),
    Case("docker", "docker run --gpus device=0:86:0.0 img", [Worker([1])], "sscanf %x:%02x:%02x", assume={"toolkit": "legacy"}),
    Case("docker", "docker run --gpus device=86:00.0 img", [], "the domain is needed: sscanf gives two numbers", error="unknown device"),
    Case("docker", "docker run --gpus device=0000:86:00.0 img", [], TOOLKIT, assume={"toolkit": "cdi"}, error="unresolvable CDI devices"),
    Case("docker", "docker run --gpus device=0000:86:00.0 img", [Worker([1], None, {NV: "void"})], "dockerd from 29.2 on falls back to the hook", assume={"docker": "29.2.0"}, certainty="likely"),
    Case("docker", "docker run --gpus device=0000:86:00.0 img", [Worker([1], None, {NV: "0000:86:00.0"})], "dockerd before 29.2 uses the hook", assume={"docker": "28.2.2"}, certainty="certain"),
    Case("docker", "docker run --gpus device= img", [Worker([])], "an empty list is no request to the toolkit"),
    # CDI
    Case("docker", "docker run --device nvidia.com/gpu=1 img", [Worker([1], None, {NV: "void"}, [1])], RAN, certainty="certain"),
    Case("docker", "docker run --device=nvidia.com/gpu=3 --device nvidia.com/gpu=0 img", [Worker([0, 3], None, {}, [0, 3])], RAN),
    Case("docker", "docker run --device nvidia.com/gpu=all img", [Worker(ALL)], RAN),
    Case("docker", "docker run --gpus 'driver=cdi,\"device=nvidia.com/gpu=1\"' img", [Worker([1])], DAEMON),
    Case("docker", "docker run --device nvidia.com/gpu=7 img", [], TOOLKIT, error="nvidia.com/gpu=7"),
    Case("docker", "docker run --device nvidia.com/gpu img", [], "docker 28.2.2 run", error="is not an absolute path"),
    Case("docker", "docker run --device vendor.com/gpu=0 img", [], "no such kind in the specification", error="vendor.com/gpu=0"),
    Case("docker", "docker run --device /dev/nvidia2 img", [Worker([2], None, {}, [2])], "N is the minor number; it is not known here", certainty="unknown"),
    # the nvidia runtime and its variable
    Case("docker", "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=1,2 img", [Worker([1, 2], None, {NV: "void"}, [1, 2])], TOOLKIT, certainty="likely"),
    Case("docker", "docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=1 img", [Worker([1], None, {NV: "1"})], TOOLKIT, assume={"toolkit": "1.17.8"}, certainty="certain"),
    Case("docker", "docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=none img", [Worker([])], TOOLKIT),
    Case("docker", "docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=void img", [Worker([])], TOOLKIT),
    Case("docker", "docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES= img", [Worker([])], TOOLKIT),
    Case("docker", "docker run --runtime nvidia img", [Worker([])], "unset: nothing", assume={"image_env": {}}, certainty="certain"),
    Case("docker", "docker run --runtime nvidia img", [Worker(ALL)], "unset with a legacy image: all", assume={"image_env": {"CUDA_VERSION": "7.5"}}),
    Case("docker", "docker run --runtime nvidia img", [Worker([])], "no legacy image", assume={"image_env": {"CUDA_VERSION": "12.4", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}}),
    Case("docker", "docker run --runtime nvidia nvidia/cuda:12.4.1-base python t.py", [Worker(ALL)], "NVIDIA's own images set all, documented", certainty="likely"),
    Case("docker", "docker run --runtime nvidia img", [Worker(ALL)], "what the image sets is not told", certainty="unknown"),
    Case("docker", "docker run -e NVIDIA_VISIBLE_DEVICES=1 img", [Worker([], None, {NV: "1"}, [])], "runc does not read it", certainty="likely"),
    Case("docker", "docker run -e NVIDIA_VISIBLE_DEVICES=1 img", [Worker([1])], "nvidia as the daemon's default runtime", assume={"runtime": "nvidia"}),
    Case("docker", "docker run --gpus 0 img", [Worker(ALL)], "nvidia-docker issue 1506", assume={"runtime": "nvidia", "image_env": {NV: "all"}}),
    Case("docker", "docker run img", [Worker([], None, {}, [])], DAEMON, assume={"image_env": {}}, certainty="certain"),
    Case("docker", "docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=0000:86:00.0 img", [], TOOLKIT, error="0000:86:00.0", certainty="likely"),
    Case("docker", "docker run --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=0,0 img", [Worker([])], "jit-cdi, derived", certainty="likely"),
    Case("docker", "docker run --runtime nvidia -e 'NVIDIA_VISIBLE_DEVICES= 1 , 2' img", [Worker([1, 2])], "entries are trimmed: cuda_image.go"),
    Case("docker", "NV_GPU=1 nvidia-docker run img", [Worker([1])], "the wrapper of nvidia-docker 2"),
    Case("docker", "docker run --privileged --gpus device=1 img", [Worker(ALL, None, {}, [0, 1, 2, 3])], "nvidia-docker issue 764", certainty="likely"),
    Case("docker", "docker run --privileged=false --gpus device=1 img", [Worker([1])], "docker 28.2.2 run"),
    # the environment inside
    Case("docker", "docker run --gpus all img", [Worker(ALL, None, {CUDA: None, "CUDA_DEVICE_ORDER": None})], "a container's environment is its own", {CUDA: "2", **PCI}),
    Case("docker", "docker run --gpus all -e CUDA_VISIBLE_DEVICES img", [Worker([2], None, {CUDA: "2"})], RAN, {CUDA: "2"}),
    Case("docker", "docker run --gpus all -e CUDA_VISIBLE_DEVICES img", [Worker(ALL, None, {CUDA: None})], "a name without value that the CLI does not have takes the image's away", assume={"image_env": {CUDA: "3"}}),
    Case("docker", "docker run --gpus all --env-file gpu.env img", [Worker([0], None, {CUDA: "1"})], RAN, assume=ENV_FILE),
    Case("docker", "docker run --gpus all --env-file gpu.env -e CUDA_VISIBLE_DEVICES=0 img", [Worker([0], None, {CUDA: "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})], "-e comes behind the file, ran", PCI, ENV_FILE),
    Case("docker", "docker run --gpus all --env-file gpu.env img", [Worker(ALL)], "the file is not told", certainty="unknown"),
    Case("docker", "docker run --gpus all --env-file q img", [Worker([], None, {CUDA: '"0,1"'})], "docker 28.2.2 run: quotes stay in the value", assume={"files": {"q": 'CUDA_VISIBLE_DEVICES="0,1"'}}),
    Case("docker", "docker run --gpus all img", [Worker([0], None, {CUDA: "1"})], "ENV of the image", assume={"image_env": {CUDA: "1"}}),
    Case("docker", "docker run --gpus '\"device=1,3\"' -e CUDA_VISIBLE_DEVICES=1 img", [Worker([3], None, {CUDA: "1"}, [1, 3])], RAN),
    Case("docker", "docker run --gpus '\"device=2,3\"' -e CUDA_VISIBLE_DEVICES=2,3 img", [Worker([], None, {}, [2, 3])], "devito pull request 2710"),
    Case("docker", f"docker run --gpus device=2 -e CUDA_VISIBLE_DEVICES={BIG} img", [Worker([], None, {}, [2])], "the UUID of a GPU that is not there"),
    Case("docker", "docker run --gpus all -e CUDA_VISIBLE_DEVICES=$GPU img", [Worker([2])], "the shell fills it in", {"GPU": "2"}),
    Case("docker", "docker run --gpus all -e CUDA_VISIBLE_DEVICES=$(pick) img", [Worker(ALL)], "only a shell could tell", certainty="unknown"),
    Case("docker", "docker run --gpus device=$(pick) img", [Worker(ALL)], "only a shell could tell", certainty="unknown"),
    # what runs inside
    Case("docker", "docker run --rm -it --gpus '\"device=1,3\"' --ipc=host --shm-size 8g -v /a:/b -w /b img:1 torchrun --nproc-per-node=2 t.py", [Worker([1, 3], [1]), Worker([1, 3], [3])], RAN),
    Case("docker", "docker run --gpus all img bash -c 'export CUDA_VISIBLE_DEVICES=3; python t.py'", [Worker([3])], "the shell inside"),
    Case("docker", "docker run --gpus all --entrypoint torchrun img --nproc-per-node=2 t.py", [Worker(ALL, [1]), Worker(ALL, [0])], "the entry point comes first"),
    Case("docker", "docker run --gpus all img --nproc-per-node=2 t.py", [Worker(ALL, [1]), Worker(ALL, [0])], "entry point of the image", assume={"image_entrypoint": ["torchrun"]}),
    Case("docker", "docker run --gpus all img --model m", [Worker(ALL)], "arguments of an entry point that nobody told"),
    Case("docker", "docker container run --gpus device=3 img", [Worker([3])], "docker --help: an alias"),
    Case("docker", "docker -H ssh://big --log-level=debug run --gpus device=3 img", [Worker([3])], "docker --help: global options"),
    Case("docker", "docker pull img && docker run --gpus device=3 img", [Worker([3])], "docker pull starts nothing"),
    Case("docker", "docker run --gpus all $EXTRA img torchrun --nproc-per-node=2 t.py", [Worker(ALL, [1]), Worker(ALL, [0])], "an unset variable without quotes is no word"),
    Case("docker", "sudo docker run --gpus all -e CUDA_VISIBLE_DEVICES img", [Worker(ALL, None, {CUDA: None})], "sudoers, env_reset: sudo does not pass it on", {CUDA: "2"}),
    Case("docker", "sudo -E docker run --gpus all -e CUDA_VISIBLE_DEVICES img", [Worker([2])], "sudo -E", {CUDA: "2"}),
    Case("docker", "sudo --preserve-env=CUDA_VISIBLE_DEVICES docker run --gpus all -e CUDA_VISIBLE_DEVICES -e CUDA_DEVICE_ORDER img", [Worker([2], None, {"CUDA_DEVICE_ORDER": None})], "sudo --preserve-env=list", {CUDA: "2", **PCI}),
    Case("docker", "docker run --gpus device=3 vllm/vllm-openai:latest --model m", [Worker([3])], "an image that is run by its arguments"),
    # Windows and WSL: the driver does not filter
    Case("docker", "docker run --gpus device=1 img", [Worker([1, 0, 2, 3], None, {}, [0, 1, 2, 3])], "nvidia-container-toolkit issue 21, NVIDIA staff", machine=WSL, certainty="unknown"),
    Case("docker", "docker run img", [Worker([])], "nothing asks", machine=WSL, assume={"image_env": {}}),
    # layers around it
    Case("docker", (docker('"device=1,3"'), docker("device=1")), [Worker([3], None, {}, [3])], "NVML counts within what is left", certainty="likely"),
    Case("docker", (docker('"device=1,3"'), docker("device=1", daemon="host")), [Worker([1], None, {}, [1])], "a mounted docker.sock: the daemon of the host"),
    Case("docker", (docker('"device=1,3"'), docker("device=2")), [], "NVML counts within what is left", error="2: unknown device"),
    Case("docker", (docker('"device=1,3"'), environment({CUDA: "1"}), torchrun(1)), [Worker([3], [3])], RAN),
    # MIG
    Case("docker", (docker("device=0:1", set={CUDA: "0"}),), [Worker([0])], TOOLKIT, machine=split("535.1")),
    # exec
    Case("docker-exec", "docker exec -it -e CUDA_VISIBLE_DEVICES=1 c python t.py", [Worker([3], None, {CUDA: "1"}, [1, 3])], DAEMON, assume={"container": "docker run -d --gpus '\"device=1,3\"' img"}),
    Case("docker-exec", "docker exec c python t.py", [Worker(ALL)], "how it was started is not told", certainty="unknown"),
    Case("docker-exec", (docker_exec(docker("device=1"), set={CUDA: "0"}),), [Worker([1])], DAEMON),
    Case("docker-exec", (docker_exec(podman("2")),), [Worker([2])], PODMAN),
    Case("docker-exec", "podman exec c python t.py", [Worker([1])], PODMAN, assume={"container": {"devices": ("nvidia.com/gpu=1",)}}),
    # Podman
    Case("podman", "podman run --gpus 1 img", [Worker([1], None, {NV: "void"}, [1])], PODMAN, certainty="certain"),
    Case("podman", "podman run --gpus=all img", [Worker(ALL)], PODMAN),
    Case("podman", "podman run --gpus device=1 img", [], "the name device=1 does not exist, derived", error="nvidia.com/gpu=device=1"),
    Case("podman", "podman run --device nvidia.com/gpu=2 --security-opt=label=disable img", [Worker([2])], PODMAN),
    Case("podman", f"podman run --device nvidia.com/gpu={BIG} img", [Worker([1])], PODMAN),
    Case("podman", "podman run img", [Worker([], None, {}, [])], PODMAN, certainty="certain"),
    Case("podman", "podman run -e NVIDIA_VISIBLE_DEVICES=1 img", [Worker([1])], "the old OCI hook", assume={"toolkit": "legacy"}),
    Case("podman", "podman run --device nvidia.com/gpu=all -e 'CUDA_*' img", [Worker([2], None, {CUDA: "2"})], "podman options env.md", {CUDA: "2"}),
    Case("podman", "podman run --device nvidia.com/gpu=all --env-host img", [Worker([2])], "podman options env-host.md", {CUDA: "2"}),
    Case("podman", "podman run --device nvidia.com/gpu=all img", [Worker(ALL)], "nothing is inherited", {CUDA: "2"}),
    Case("podman", "podman run --device nvidia.com/gpu=all -e CUDA_VISIBLE_DEVICES img", [Worker([0])], "set only if it is set on the host: the image's own stays", assume={"image_env": {CUDA: "1"}}),
    Case("podman", "podman run --device nvidia.com/gpu=all --unsetenv CUDA_VISIBLE_DEVICES img", [Worker(ALL)], "podman-run --unsetenv", assume={"image_env": {CUDA: "1"}}),
    Case("podman", (docker('"device=1,3"'), podman("1")), [Worker([3])], "counted within what is left", certainty="likely"),
    Case("podman", "podman run --gpus 1 img", [Worker([])], "before 5 the option does nothing: nvidia-container-runtime issue 190", assume={"podman": "4.9.3"}, certainty="likely"),
    Case("podman", "podman run --device nvidia.com/gpu=0 img", [], "CDI from 4.1 on: nvidia-container-toolkit issue 63", assume={"podman": "3.0.1"}, error="Podman 4.1"),
    Case("podman", "podman run --gpus 1 img", [Worker([1])], PODMAN, assume={"podman": "5.3"}),
    # nerdctl
    Case("nerdctl", "nerdctl run --gpus '\"device=0,2\"' img", [Worker([0, 2])], NERDCTL),
    Case("nerdctl", "nerdctl run --gpus 2 img", [Worker([1, 0])], NERDCTL),
    Case("nerdctl", "nerdctl run --gpus device=0000:86:00.0 img", [Worker([1])], "before 2.3 by nvidia-container-cli", assume={"nerdctl": "2.2.0"}),
    Case("nerdctl", (nerdctl("device=0000:86:00.0"),), [], "from 2.3 on by CDI", error="0000:86:00.0"),
    # Apptainer
    Case("apptainer", "apptainer exec --nv img python t.py", [Worker([0], None, {CUDA: "1"}, [0, 1, 2, 3])], APPTAINER, {CUDA: "1"}),
    Case("apptainer", "singularity run --nv img.sif", [Worker(ALL)], APPTAINER),
    Case("apptainer", "apptainer exec --nv --cleanenv img python t.py", [Worker(ALL, None, {CUDA: None})], APPTAINER, {CUDA: "1"}),
    Case("apptainer", "apptainer exec --nv -e --env CUDA_VISIBLE_DEVICES=2,3 img python t.py", [Worker([2, 3])], APPTAINER, {CUDA: "1"}),
    Case("apptainer", "apptainer exec --nv --env A=1,CUDA_VISIBLE_DEVICES=2,3 img python t.py", [], "spf13/pflag stringToString", error="3 must be formatted as key=value"),
    Case("apptainer", "APPTAINERENV_CUDA_VISIBLE_DEVICES=2 apptainer exec --nv --cleanenv img python t.py", [Worker([2], None, {CUDA: "2", "APPTAINERENV_CUDA_VISIBLE_DEVICES": None})], APPTAINER, {CUDA: "1"}),
    Case("apptainer", "apptainer exec --nv img python t.py", [Worker([3])], "APPTAINERENV_ wins over SINGULARITYENV_", {"SINGULARITYENV_CUDA_VISIBLE_DEVICES": "2", "APPTAINERENV_CUDA_VISIBLE_DEVICES": "3"}),
    Case("apptainer", "apptainer exec --nv img python t.py", [Worker([0])], "what the image sets wins over the host", {CUDA: "2"}, {"image_env": {CUDA: "1"}}),
    Case("apptainer", "apptainer exec img python t.py", [Worker([])], "no driver libraries", certainty="likely"),
    Case("apptainer", "apptainer run -uwc --nvccli img", [Worker([1, 2], None, {NV: None}, [1, 2])], APPTAINER, {NV: "1,2"}),
    Case("apptainer", "apptainer run --nvccli img", [Worker(ALL)], "only --contain hides the rest", {NV: "1,2"}, certainty="likely"),
    Case("apptainer", "apptainer run --nvccli -c img", [Worker([])], APPTAINER),
    Case("apptainer", "apptainer exec --nv img torchrun --nproc-per-node=2 t.py", [Worker([2, 3], [2]), Worker([2, 3], [3])], APPTAINER, {CUDA: "2,3"}),
    Case("apptainer", "apptainer build x.sif docker://y; apptainer exec --nv x.sif python t.py", [Worker(ALL)], "building starts nothing"),
    Case("apptainer", (apptainer(image_env={CUDA: "1"}),), [Worker([0])], APPTAINER, {CUDA: "3"}),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_containers(case: Case) -> None:
    check(case)


# ---- rows of the tutorials ----


@pytest.mark.parametrize(
    ("command", "assume", "shown"),
    [
        ("docker run --gpus device=1 img", {}, [1]),
        ("docker run --gpus '\"device=0,2\"' img", {}, [0, 2]),
        (f"docker run --gpus device={BIG} img", {}, [1]),
        ("docker run --gpus device=0000:86:00.0 img", {"toolkit": "legacy"}, [1]),
        ("docker run --gpus all -e CUDA_DEVICE_ORDER=PCI_BUS_ID img", {}, [0, 1, 2, 3]),
        ("docker run --gpus all --env-file e img", {"files": {"e": "CUDA_DEVICE_ORDER=PCI_BUS_ID\n"}}, [0, 1, 2, 3]),
        ("docker run --gpus all img", {"image_env": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}}, [0, 1, 2, 3]),
    ],
)
def test_row_10_docker(command: str, assume: dict[str, object], shown: list[int]) -> None:
    assert list(resolve(Scenario.from_command(MIXED, command, assume=assume)).nvml_indices) == shown


def test_row_10_the_pci_address_works_on_one_path_only() -> None:
    command = "docker run --gpus device=0000:86:00.0 img"
    cdi = resolve(Scenario.from_command(MIXED, command, assume={"toolkit": "cdi"}))
    assert cdi.error
    assert "0000:86:00.0" in cdi.error
    either = resolve(Scenario.from_command(MIXED, command))
    assert either.certainty == "likely"
    assert any("other one (cdi) refuses" in str(step) for step in either.steps)


def test_row_25_the_host_card_behind_each_number() -> None:
    command = "docker run --gpus '\"device=2,5,7\"' img python t.py"
    prediction = resolve(Scenario.from_command(EIGHT, command))
    (process,) = prediction.processes
    assert process.visible == (2, 5, 7)
    assert {f"cuda:{d.ordinal}": d.gpu.nvml_index for d in process.devices} == {"cuda:0": 2, "cuda:1": 5, "cuda:2": 7}
    assert any("2), " in str(step) and "7)" in str(step) for step in prediction.steps)


def test_what_was_expected_of_a_device_number() -> None:
    """Tutorials count --gpus device=N as the host's CUDA does, and expect the order of the list inside."""
    row, view = LAYERS["docker"], View()
    assert row.believed is not None
    for value, expected in (("device=0", (1,)), ('"device=2,0"', (2, 1))):
        (seen,) = row.believed(view, docker(value).options, MIXED).views
        assert seen.served == expected
    (same,) = row.believed(view, docker("all").options, MIXED).views
    assert same.served is None


# ---- MIG ----


def migs(layer: Layer, machine: Topology, value: str | None = None) -> list[tuple[int, str | None]]:
    layers = (layer, environment({CUDA: value})) if value is not None else (layer,)
    prediction = resolve(Scenario(machine, layers))
    assert prediction.error is None, prediction.error
    return [(d.position, d.mig.uuid if d.mig else None) for d in prediction.processes[0].devices]


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("0:0", [(0, SLICES[0])]),
        ("0:1", [(0, SLICES[1])]),
        (SLICES[1], [(0, SLICES[1])]),
        (SLICES[1].upper(), [(0, SLICES[1])]),
        (f"MIG-{UUIDS[0]}/7/0", [(0, SLICES[1])]),
        ("1", [(1, None)]),
        ("0", []),
        (f"{SLICES[0]},{SLICES[1]}", [(0, SLICES[0]), (0, SLICES[1])]),
        (f"0:1,{UUIDS[2]}", [(0, SLICES[1]), (1, None)]),
    ],
)
def test_mig_devices_come_alone(name: str, devices: list[tuple[int, str | None]]) -> None:
    assert migs(docker(f'"device={name}"', toolkit="legacy"), split()) == devices


def test_a_list_inside_counts_the_instances_that_are_left() -> None:
    layer = docker("device=0:1", toolkit="legacy")
    assert migs(layer, split("535.1"), "0") == [(0, SLICES[1])]
    assert migs(layer, split(), SLICES[1]) == [(0, SLICES[1])]
    assert migs(layer, split(), SLICES[0]) == []


def test_every_mig_device_comes_with_all() -> None:
    assert migs(docker("all"), split()) == [(0, SLICES[0]), (0, SLICES[1]), (1, None)]


# ---- GPUs that cannot be used ----


def lost(*positions: int) -> Topology:
    return replace(
        MIXED, gpus=tuple(replace(g, problem="lost.") if i in positions else g for i, g in enumerate(MIXED.gpus))
    )


def test_a_container_without_the_lost_gpu_is_not_the_same_as_no_container() -> None:
    machine = lost(2)
    bare = resolve(Scenario(machine, (environment({CUDA: "1"}),)))
    inside = resolve(Scenario(machine, (Layer("docker", docker('"device=0,1,3"').options), environment({CUDA: "1"}))))
    assert bare.processes[0].accessible == inside.processes[0].accessible == (0, 1, 3)
    assert (bare.processes[0].left, inside.processes[0].left) == ((0, 1, 2, 3), (0, 1, 3))
    assert "lost-number" in bare.processes[0].reading.rules
    assert "lost-number" not in inside.processes[0].reading.rules


def test_a_lost_gpu_keeps_its_number_for_the_runtime() -> None:
    prediction = resolve(Scenario(lost(0), (docker("device=3"),)))
    assert prediction.nvml_indices == (3,)
    assert prediction.certainty == "unknown"


# ---- the value of --gpus ----

GPUS = (
    ("all", Request(-1)),
    ("2", Request(2)),
    ("+2", Request(2)),
    ("count=all", Request(-1)),
    ("count=2,all", Request(-1)),
    ('"device=0,2"', Request(0, ("0", "2"))),
    ("device=0,2", Request(2, ("0",))),
    ("device=2,0", Request(0, ("2",))),
    ("device=2,all", Request(-1, ("2",))),
    ("2,device=1", Request(2, ("1",))),
    ("device=", Request(0, ("",))),
    ('"device=0,2",capabilities=utility', Request(0, ("0", "2"), "", ("utility", "gpu"))),
    ("driver=nvidia", Request(1, (), "nvidia")),
    ("options=a=b", Request(1)),
    ('"device=""1"""', Request(0, ('"1"',))),
    ("device=0\n1", Request(0, ("0",))),
    ("\n2", Request(2)),
)
"""What docker 28.2.2 sent."""
REFUSED = (
    ("", "EOF"),
    ('""', "invalid count ()"),
    ("foo", "invalid count (foo)"),
    (" 2", "invalid count ( 2)"),
    ("0x2", "invalid syntax"),
    ("1_0", "invalid syntax"),
    ("9999999999999999999", "out of range"),
    ("device=0,device=1", "'device' can be specified only once"),
    ("all,count=2", "'count' can be specified only once"),
    ("Device=1", "unexpected key 'Device'"),
    ("'device=1'", "unexpected key"),
    ('"device=0,2', "column 12"),
    ('a"b', 'column 2: bare "'),
    ('"a""', "column 5"),
    ('"device=0"x', "column 10"),
)
"""What docker 28.2.2 said."""


@pytest.mark.parametrize(("value", "request_"), GPUS, ids=str)
def test_what_the_cli_makes_of_gpus(value: str, request_: Request) -> None:
    assert read_gpus(value) == request_


@pytest.mark.parametrize(("value", "why"), REFUSED, ids=str)
def test_what_the_cli_refuses(value: str, why: str) -> None:
    found = read_gpus(value)
    assert isinstance(found, Refused)
    assert why in str(found.why)


def test_env_files_are_taken_as_they_are() -> None:
    text = "\ufeff# c\nX=1\n  Y=\"2 3\"  \nZ='q'\nHOST\nE=\nU=$X\n#no\nV=a #b\nA B=1\n=1\n"
    assert env_file(text) == {
        "X": ("set", "1"),
        "Y": ("set", '"2 3"  '),
        "Z": ("set", "'q'"),
        "HOST": ("adopt", ""),
        "E": ("set", ""),
        "U": ("set", "$X"),
        "V": ("set", "a #b"),
    }


# ---- laws ----

_NAMES = st.one_of(
    st.sampled_from(
        ["0", "1", "3", "4", "all", BIG, BIG[:9], "0:1", "1:0", "00000000:AF:00.0", "", " 2", "+1", "-1", SLICES[0]]
    ),
    st.text(max_size=8),
)


@given(st.lists(_NAMES, max_size=4), st.sampled_from(["legacy", "cdi"]), st.sets(st.integers(0, 3)))
def test_names_never_raise_and_stay_within_what_is_left(names: list[str], path: str, left: set[int]) -> None:
    view = View().narrowed(left)
    found = named(names, path, view, MIXED)
    assert set(found.positions) <= left
    assert len(set(found.positions)) == len(found.positions)
    assert set(found.mig) <= set(found.positions)


@given(st.text(alphabet="device=0123,\"all count\n'", max_size=24))
def test_gpus_never_raises(value: str) -> None:
    prediction = resolve(Scenario(MIXED, (docker(value),)))
    assert prediction.error is not None or prediction.processes
    assert all(str(step) for step in prediction.steps)


_WORDS = st.sampled_from(
    ["docker", "podman", "apptainer", "nerdctl", "run", "exec", "create", "--gpus", "--gpus=all", "device=1", "'\"device=0,1\"'", "-e",
     "A=$(x)", "CUDA_VISIBLE_DEVICES=1", "--env", "--env-file", "--nv", "--nvccli", "-c", "--runtime", "nvidia", "--privileged", "img",
     "--device", "nvidia.com/gpu=0", "/dev/nvidia0", "--", "-", "--entrypoint", "bash", "-c", "'python t.py'", "--env-host", "container",
     "$(", "'", '"', "\\", ";", "&", "-it", "-x", "--foo", "=", "\u0000", "💥"]
)  # fmt: skip


@given(st.lists(_WORDS, max_size=12))
@settings(max_examples=200)
def test_command_lines_never_raise(words: list[str]) -> None:
    scenario = Scenario.from_command(MIXED, " ".join(words), {CUDA: "1"})
    prediction = resolve(scenario)
    assert Scenario.from_json(scenario.to_json()) == scenario
    for k in range(len(prediction.processes)):
        assert all(str(step) for step in prediction.steps_of(k))


_ODD = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 5),
        st.text(max_size=4),
        st.sampled_from(["all", "1", "nvidia", "cdi", "mps"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=2)),
    max_leaves=6,
)
_KEYS = ["gpus", "requests", "devices", "runtime", "set", "expand", "inherit", "adopt", "unknown", "missing", "image_env", "privileged",
         "toolkit", "docker", "daemon", "count", "resource", "allocated", "taken", "replicas", "list_strategy", "sharing", "plugin",
         "mig_strategy", "id_strategy", "refused", "container", "tool", "nv", "nvccli", "contain", "clean", "unset", "image"]  # fmt: skip


@given(
    st.sampled_from(["docker", "podman", "nerdctl", "docker-exec", "apptainer", "kubernetes", "mps"]),
    st.dictionaries(st.sampled_from(_KEYS), _ODD, max_size=4),
    st.sampled_from([MIXED, split(), Topology(), lost(1)]),
)
@settings(max_examples=300)
def test_odd_options_are_a_result_with_a_reason(kind: str, options: dict[str, object], machine: Topology) -> None:
    """A layer whose options its row accepts never raises; the others are named as odd."""
    prediction = resolve(Scenario(machine, (Layer(kind, options),)))
    assert prediction.error is not None or len(prediction.processes) == 1


def test_a_layer_is_plain_data() -> None:
    layer = docker('"device=0,2"', set={CUDA: "1"}, image_env={NV: "all"})
    assert Layer.from_dict(layer.to_dict()) == layer
    assert layer.options == FrozenDict({"gpus": ('"device=0,2"',), "set": {CUDA: "1"}, "image_env": {NV: "all"}})
    assert predicted(Case("docker", (layer,), [], "")).nvml_indices == (2,)
    assert predict(MIXED, "1").nvml_indices == (0,)


# ---- sentences ----


def test_every_sentence_of_these_families_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its fields: one that lacks a field raises."""
    recorder = Recorder()
    monkeypatch.setattr(texts, "sentences", lambda lang: recorder)
    for case in (*CASES, *test_kubernetes.CASES, *test_manifests.CASES, *test_mps.CASES, *MORE):
        prediction = predicted(case)
        for k in range(max(len(prediction.processes), 1)):
            assert all(str(step) for step in prediction.steps_of(k))
    for value, _ in REFUSED:
        assert resolve(Scenario(MIXED, (docker(value),))).error
    wanted = {*containers.SENTENCES, *kubernetes.SENTENCES, *mps.SENTENCES}
    assert wanted - recorder.said == set()


MORE = (
    Case("docker", (docker('"device=0,0"', toolkit="1.17", docker="29.2"),), [], DAEMON),
    Case("docker", (docker('"device=0"'),), [], TOOLKIT, machine=split()),
    Case("docker", (docker(f"device={UUIDS[5]}"),), [], TOOLKIT, machine=Topology.of("Tesla T4")),
    Case("docker", (docker("all"),), [], TOOLKIT, machine=lost(1)),
    Case("podman", "podman run --gpus '\"1' img", [], PODMAN),
    Case("podman", "podman run --device amd.com/gpu=0 img", [], PODMAN),
)
