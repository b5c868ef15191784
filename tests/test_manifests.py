"""Compose files and Dockerfiles as pasted, and YAML that is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumap_widgets.commands import READERS, read_command
from gpumap_widgets.commands.dockerfile import image_of
from gpumap_widgets.commands.documents import documents
from gpumap_widgets.commands.shell import Unreadable
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Scenario
from tests.conftest import MIXED
from tests.layer_cases import Case, Worker, check

SPEC = "compose-spec deploy.md, 05-services.md; compose-go transform; docker/compose v5.5, read"
REFERENCE = "docs.docker.com, Dockerfile reference"
CUDA, NV = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
ALL = [1, 0, 2, 3]


def compose(devices: str) -> str:
    return f"""
services:
  app:
    image: img
    deploy:
      resources:
        reservations:
          devices:
            - {devices}
"""


def service(lines: str) -> str:
    return "services:\n  app:\n    image: img\n" + "".join(f"    {line}\n" for line in lines.strip().split("\n"))


TWO = """
x-gpu: &gpu
  deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ['${GPU:-3}'], capabilities: [gpu]}]}}}
services:
  web:
    <<: *gpu
    image: a
  worker:
    <<: *gpu
    image: b
    command: torchrun --nproc-per-node=1 t.py
"""
DOCKERFILE = """# syntax=docker/dockerfile:1
ARG BASE=nvidia/cuda:12.4.1-base
FROM $BASE AS base
ENV CUDA_DEVICE_ORDER=PCI_BUS_ID
FROM base
ENV CUDA_VISIBLE_DEVICES=1,2 \\
    # a comment in between
    OTHER="a b"
RUN <<EOF
ENV CUDA_VISIBLE_DEVICES=3
EOF
COPY . /app
CMD ["torchrun", "--nproc-per-node=2", "t.py"]
"""

CASES = (
    Case("docker", compose("{driver: nvidia, device_ids: ['1', '3'], capabilities: [gpu]}"), [Worker([1, 3], None, {NV: "1,3"}, [1, 3])], SPEC),
    Case("docker", compose("{driver: nvidia, count: 1, capabilities: [gpu]}"), [Worker([0], None, {}, [0])], SPEC),
    Case("docker", compose("{driver: nvidia, count: all, capabilities: [gpu]}"), [Worker(ALL)], SPEC),
    Case("docker", compose("{capabilities: [gpu]}"), [Worker(ALL)], "no count and no ids is all: compose-go, transformDeviceRequest"),
    Case("docker", compose("{driver: nvidia, count: 1, device_ids: ['0'], capabilities: [gpu]}"), [], "compose-go, transformDeviceRequest", error="attributes are exclusive"),
    Case("docker", compose("{driver: nvidia, count: 1}"), [], "docs.docker.com, gpu-support: capabilities must be set", error="capabilities is required"),
    Case("docker", compose("{driver: nvidia, device_ids: [0], capabilities: [gpu]}"), [], "the schema wants texts", error="must be texts"),
    Case("docker", compose("{driver: tpu, count: 1, capabilities: [gpu]}"), [], SPEC, error='device driver "tpu"'),
    Case("docker", service("gpus: all"), [Worker(ALL)], SPEC),
    Case("docker", service("gpus: [{driver: nvidia, device_ids: ['2']}]"), [Worker([2])], SPEC),
    Case("docker", service("runtime: nvidia\nenvironment:\n  NVIDIA_VISIBLE_DEVICES: 2"), [Worker([2])], SPEC),
    Case("docker", service("runtime: nvidia\nenvironment:\n  - NVIDIA_VISIBLE_DEVICES=1,2"), [Worker([1, 2])], SPEC),
    Case("docker", service("environment: [NVIDIA_VISIBLE_DEVICES=1]"), [Worker([])], "runc does not read it", certainty="likely"),
    Case("docker", service("devices: [nvidia.com/gpu=1]"), [Worker([1], None, {NV: "void"})], SPEC),
    Case("docker", service("privileged: true\ngpus: all"), [Worker(ALL)], "nvidia-docker issue 764"),
    # environment in both forms, the shell's and .env's
    Case("docker", service("gpus: all\nenvironment:\n  CUDA_VISIBLE_DEVICES:\n  CUDA_DEVICE_ORDER: PCI_BUS_ID"), [Worker([2], None, PCI | {CUDA: "2"})], "a name alone takes the shell's value", {CUDA: "2"}),
    Case("docker", service("gpus: all\nenvironment:\n  - CUDA_VISIBLE_DEVICES"), [Worker(ALL, None, {CUDA: None})], "a name alone that the shell does not have is not set"),
    Case("docker", service("gpus: all\nenvironment:\n  - CUDA_VISIBLE_DEVICES=${GPU:-3}"), [Worker([3])], SPEC),
    Case("docker", service("gpus: all\nenvironment:\n  - CUDA_VISIBLE_DEVICES=${GPU:-3}"), [Worker([2])], SPEC, {"GPU": "2"}),
    Case("docker", service("gpus: all\nenvironment: ['CUDA_VISIBLE_DEVICES=$GPU']"), [Worker([2])], ".env fills in too", assume={"files": {".env": "GPU=2\n"}}),
    Case("docker", service("gpus: all\nenv_file: gpu.env"), [Worker([2])], "quotes are taken off", assume={"files": {"gpu.env": 'CUDA_VISIBLE_DEVICES="2" # two\n'}}),
    Case("docker", service("gpus: all\nenv_file: [gpu.env]\nenvironment: {CUDA_VISIBLE_DEVICES: '3'}"), [Worker([3])], "environment wins over env_file", assume={"files": {"gpu.env": "CUDA_VISIBLE_DEVICES=2\n"}}),
    Case("docker", service("gpus: all\nenv_file: gpu.env"), [Worker(ALL)], "a file that is not told", certainty="unknown"),
    Case("docker", service("gpus: all\nenv_file: [{path: gpu.env, required: false}]"), [Worker(ALL)], "it need not be there", certainty="likely"),
    # what runs inside, and more services
    Case("docker", service("gpus: all\nentrypoint: [torchrun]\ncommand: ['--nproc-per-node=2', t.py]"), [Worker(ALL, [1]), Worker(ALL, [0])], SPEC),
    Case("docker", service("gpus: all\ncommand: bash -c 'CUDA_VISIBLE_DEVICES=$$CUDA_X python t.py'\nenvironment: {CUDA_X: '1'}"), [Worker([0])], "$$ leaves a dollar for the shell inside"),
    Case("docker", TWO, [Worker([3]), Worker([3], [3])], "anchors and merge keys"),
    Case("docker", TWO, [Worker([1]), Worker([1], [1])], "interpolation in device_ids", {"GPU": "1"}),
    Case("docker", service("build: .\ngpus: all"), [Worker([0, 2], [0]), Worker([0, 2], [2])], "the Dockerfile beside it; no order", assume={"files": {"Dockerfile": "FROM x\nENV CUDA_VISIBLE_DEVICES=1,2\nCMD torchrun --nproc-per-node=2 t.py"}}),
    # Dockerfiles
    Case("docker", DOCKERFILE, [Worker([1, 2], [1], PCI), Worker([1, 2], [2], PCI)], REFERENCE, certainty="unknown"),
    Case("docker", "FROM x\nENV CUDA_VISIBLE_DEVICES 2\n", [Worker([2])], "the old form of ENV"),
    Case("docker", "from x\nenv CUDA_VISIBLE_DEVICES=0\nCMD torchrun --nproc-per-node=1 t.py\n", [Worker([3], [3], {"LOCAL_RANK": "0"})], "a command as text goes through a shell", assume={"gpus": "device=3"}, certainty="certain"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.source)
def test_manifests(case: Case) -> None:
    check(case)


GIVEN = {
    "compose.yaml": service("gpus: all\nenvironment: ['CUDA_VISIBLE_DEVICES=${G}']") + "  other: {image: x}\n",
    "gpu.yml": "services:\n  app:\n    environment: {CUDA_DEVICE_ORDER: PCI_BUS_ID}\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}\n",
}


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("G=1 docker compose up -d app", [[0]]),
        ("G=1 docker compose up --scale app=1", [[0], []]),
        ("export G=1; docker compose -f compose.yaml -f gpu.yml up app --no-deps", [[1]]),
        ("docker compose run --rm -e CUDA_VISIBLE_DEVICES=2 app torchrun --nproc-per-node=1 t.py", [[2]]),
        ("G=3 docker-compose exec app python t.py", [[3]]),
        ("docker compose exec -e CUDA_VISIBLE_DEVICES=2 app torchrun --nproc-per-node=2 t.py", [[2], [2]]),
        ("kubectl apply -n x -f k8s/pod.yaml", [[2]]),
        ("kubectl create --filename=pod.yaml", [[2]]),
        ("docker pull img; kubectl get pods; sudo docker compose -f compose.yaml up other", [[]]),
        ("kubectl exec -it p -- torchrun --nproc-per-node=1 t.py", [[1, 0, 2, 3]]),
    ],
)
def test_commands_that_start_what_a_file_describes(command: str, shown: list[list[int]]) -> None:
    prediction = resolve(Scenario.from_command(MIXED, command, {}, {"files": GIVEN, "allocated": [2]}))
    assert prediction.error is None
    assert [list(process.nvml_indices) for process in prediction.processes] == shown


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("docker compose up", "stands in the file compose.yaml"),
        ("docker compose -f a.yml -f b.yml up", "the file a.yml"),
        ("kubectl apply -f pods/x.yaml", "pods/x.yaml"),
        ("docker compose ps", "no program that could use a GPU"),
        ("docker build .", "no program that could use a GPU"),
        ("kubectl get pods", "no program that could use a GPU"),
        ("apptainer build a.sif docker://b", "no program that could use a GPU"),
    ],
)
def test_what_is_missing_is_said(command: str, why: str) -> None:
    prediction = resolve(Scenario.from_command(MIXED, command))
    assert why in (prediction.error or "")
    assert prediction.certainty == "unknown"


def test_services_are_named() -> None:
    labels = [process.label for process in resolve(Scenario.from_command(MIXED, TWO)).processes]
    assert labels == ["web", "worker, rank 0"]


def test_a_refused_service_is_named() -> None:
    text = TWO.replace("image: b", "image: b\n    gpus: [{count: 1, device_ids: ['0']}]")
    assert "Program worker" in (resolve(Scenario.from_command(MIXED, text)).error or "")


def test_an_image() -> None:
    image = image_of(DOCKERFILE)
    assert image.env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,2", "OTHER": "a b"}
    assert image.command == ("torchrun", "--nproc-per-node=2", "t.py")
    assert image.base == "base"
    filled = image_of("FROM x\nARG N=2\nENV A=${N} B=$A C=${M:-3} D=${A:+y}\n")
    assert filled.env == {"A": "2", "B": "", "C": "3", "D": ""}
    assert image_of('FROM a AS b\nENTRYPOINT ["x"]\nCMD y\nFROM b\nENTRYPOINT z').command == ()


@pytest.mark.parametrize(
    "text",
    ["python services:", "echo kind: apiVersion:", "docker run --gpus all img", "", "FROMAGE", "services", "FROM=x y"],
)
def test_what_is_no_manifest_goes_to_the_shell(text: str) -> None:
    assert not any(looks_like(text) for looks_like, _ in READERS)


def test_a_here_document_is_read() -> None:
    text = "cat > compose.yaml <<'EOF'\n" + compose("{count: 1, capabilities: [gpu]}") + "EOF\ndocker compose up\n"
    assert resolve(Scenario.from_command(MIXED, text)).nvml_indices == (0,)


# ---- hostile text ----

_LETTERS = "bcdefghijk"
BOMB = "services:\n  a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  {one}: &{one} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, one in zip("a" + _LETTERS, _LETTERS, strict=False)
)
MERGES = "services:\n  a: &a {x: 1}\n" + "".join(
    f"  {one}: &{one} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, one in zip("a" + _LETTERS, _LETTERS, strict=False)
)
HOSTILE = {
    "bomb": (BOMB, "yaml-alias"),
    "bomb of merges": (MERGES, "yaml-alias"),
    "loop": ("services:\n  a: &a [*a]\n", "yaml-alias"),
    "deep": ("services:\n  a: " + "[" * 500, "yaml-large"),
    "very deep": ("services:\n  a: " + "[" * 100_000, "yaml"),
    "deep blocks": ("services:\n" + "".join(" " * i + "a:\n" for i in range(1, 400)), "yaml-large"),
    "wide": ("services:\n  a: [" + "x, " * 50_000 + "]\n", "yaml-large"),
    "object": ("services:\n  a: !!python/object/apply:os.system ['true']\n", "yaml"),
    "tag": ("services:\n  a: !what x\n", "yaml"),
    "twice": ("services:\n  a: {image: x, image: y}\n", "yaml-twice"),
    "open": ("services:\n  a: [1, 2\n", "yaml"),
    "tab": ("services:\n\ta: x\n", "yaml"),
    "nul": ("services:\n  a: \x00\n", "yaml"),
    "key": ("services:\n  ? [a]\n  : b\n", "yaml"),
    "nothing": ("services:\n", "yaml-no-container"),
    "scalar": ("services:\n  5\n", "yaml-no-container"),
    "service": ("apiVersion: v1\nkind: Service\n", "yaml-no-container"),
    "long": ("services:\n" + "#" * 300_000, "long"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_unreadable_with_a_reason(name: str) -> None:
    text, why = HOSTILE[name]
    (layer,) = read_command(text)
    assert layer.kind == "unreadable"
    assert layer.options["why"] in ((why, "yaml-large") if name == "very deep" else (why,)), (
        "libyaml has a limit itself"
    )
    prediction = resolve(Scenario.from_command(MIXED, text))
    assert prediction.error
    assert prediction.certainty == "unknown"


DOUBLING = {
    "shell": "A=xxxxxxxx\n" + "A=$A$A\n" * 60 + "python $A",
    "Dockerfile": "FROM x\nENV A=xxxxxxxx\n" + "ENV A=$A$A\n" * 60,
    "Kubernetes": "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - {name: A0, value: xxxxxxxx}\n"
    + "".join(f"    - {{name: A{i + 1}, value: $(A{i})$(A{i})}}\n" for i in range(60)),
}


@pytest.mark.parametrize("name", DOUBLING)
def test_variables_that_double_one_another_are_given_up(name: str) -> None:
    (layer,) = read_command(DOUBLING[name])
    assert (layer.kind, layer.options["why"]) == ("unreadable", "long")


def test_scalars_are_go_s() -> None:
    text = "a: 1:2\nb: 2024-01-01\nc: yes\nd: true\ne: 010\nf: ~\ng:\nh: 1.5\ni: 0x1\nj: '1'\nk: 0,1\n"
    (found,) = documents(text)
    truth = {"d": True, "e": 10, "f": None, "g": None, "h": 1.5}
    assert found == {"a": "1:2", "b": "2024-01-01", "c": "yes", "i": "0x1", "j": "1", "k": "0,1", **truth}


_LINES = st.sampled_from(
    ["services:", "  app:", "    image: x", "    gpus: all", "    environment:", "      - A=1", "      A: 1", "    deploy: {resources: {reservations: {devices: [{}]}}}",
     "apiVersion: v1", "kind: Pod", "spec:", "  containers:", "  - name: x", "    env: [{name: A}]", "    resources: {limits: {nvidia.com/gpu: 1}}", "---", "- &a", "*a", "<<: *a",
     "FROM x", "ENV A=1 \\", "CMD [", "RUN <<EOF", "\t", "{", "}", "[", '"', "'", "|", ">", "? ", ": ", "%YAML 1.2", "!!binary x", "${A", "💥"]
)  # fmt: skip


@given(st.lists(_LINES, max_size=14), st.sampled_from(["services:\n", "apiVersion: v1\nkind: Pod\n", "FROM x\n", ""]))
@settings(max_examples=250)
def test_texts_never_raise(lines: list[str], head: str) -> None:
    files = {"files": {"Dockerfile": "\n".join(lines)}}
    scenario = Scenario.from_command(MIXED, head + "\n".join(lines), {CUDA: "1"}, files)
    prediction = resolve(scenario)
    assert prediction.error is not None or prediction.processes
    assert Scenario.from_json(scenario.to_json()) == scenario


@given(st.text(max_size=60))
def test_documents_read_or_say_why(text: str) -> None:
    why = ""
    try:
        documents(text)
    except Unreadable as exc:
        why = exc.why
    assert why in ("", "yaml", "yaml-twice", "yaml-alias")
