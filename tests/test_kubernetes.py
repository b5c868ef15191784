"""Kubernetes: what a device plugin gives a container, by layers and by manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumap_widgets.layers import environment, pod, torchrun
from gpumap_widgets.resolver import resolve
from gpumap_widgets.scenario import Layer, Scenario
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests.conftest import MIXED, SLICES, UUIDS, equal, split
from tests.layer_cases import Case, Worker, check

PLUGIN = "k8s-device-plugin v0.20, read; README"
GKE = "GKE plugin 992db81, read"
KUBELET = "kubernetes.io, Schedule GPUs"
CUDA, NV = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"
PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
T4, BIG = MIXED.gpus[0].uuid, MIXED.gpus[1].uuid
ALL = [1, 0, 2, 3]


def manifest(resources: str = "limits: {nvidia.com/gpu: 1}", more: str = "", pod_: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: trainer}}
spec:
  {pod_}
  containers:
  - name: main
    image: img
    resources: {{{resources}}}
    {more}
"""


TWO = """
apiVersion: v1
kind: Pod
metadata:
  name: two
spec:
  containers:
  - name: a
    image: x
    resources: {limits: {nvidia.com/gpu: 1}}
  - name: b
    image: x
    resources: {limits: {nvidia.com/gpu: 2}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: serve
        image: x
        command: [torchrun]
        args: ["--nproc-per-node=$(COUNT)", t.py]
        env:
        - {name: COUNT, value: "2"}
        - {name: CUDA_DEVICE_ORDER, value: PCI_BUS_ID}
        resources:
          limits:
            nvidia.com/gpu: "2"
          requests:
            nvidia.com/gpu: 2
"""
ENV = "env: [{name: CUDA_DEVICE_ORDER, value: PCI_BUS_ID}, {name: CUDA_VISIBLE_DEVICES, value: '1'}]"
SHARED = manifest("limits: {nvidia.com/gpu.shared: 1}")
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gpu}\ndata: {CUDA_DEVICE_ORDER: PCI_BUS_ID}\n---\n"
SEVEN = Topology(
    (
        Gpu(0, "NVIDIA H100 80GB HBM3", UUIDS[0], "07:00.0", mig_mode=True, mig_instances=tuple(MigInstance(f"MIG-6c1f0a52-7e3d-5b84-9c06-00000000000{i}", "1g.10gb", i + 7, 0) for i in range(7))),
    ),
    driver_version="550.90",
)  # fmt: skip


def free(*numbers: int) -> dict[str, Any]:
    return {"allocated": list(numbers)}


CASES = (
    # one GPU: either model is possible, the resource does not tell them apart
    Case("kubernetes", (pod(1, allocated=[0]),), [Worker([0], [0], {NV: T4, CUDA: None}, [0])], PLUGIN, certainty="certain"),
    Case("kubernetes", (pod(1, allocated=[1]),), [Worker([1], [1], {NV: BIG}, [1])], PLUGIN, certainty="certain"),
    Case("kubernetes", (pod(2, allocated=[0, 1]),), [Worker([1, 0], [1, 0], {NV: f"{T4},{BIG}"}, [0, 1])], PLUGIN, certainty="likely"),
    Case("kubernetes", manifest(), [Worker([0])], "the plugin's choice is not told", certainty="unknown"),
    Case("kubernetes", manifest(), [Worker([1], None, {NV: BIG}, [1])], PLUGIN, assume=free(1), certainty="certain"),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 4}"), [Worker(ALL, None, {}, [0, 1, 2, 3])], "every GPU of the node: nothing to choose", certainty="likely"),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 4}", ENV), [Worker([1], None, PCI | {CUDA: "1"})], "tutorial: a YAML that sets the order", certainty="certain"),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 5}"), [], KUBELET, error="Insufficient nvidia.com/gpu"),
    Case("kubernetes", manifest("requests: {nvidia.com/gpu: 1}"), [], KUBELET, error="Limit must be set"),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}"), [], KUBELET, error="must be equal"),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 0.5}"), [], KUBELET, error="must be an integer"),
    Case("kubernetes", manifest(more="env: [{name: CUDA_VISIBLE_DEVICES, value: 0}]"), [], "EnvVar.value is a string", error="must be a string"),
    # the environment
    Case("kubernetes", manifest(), [Worker([0], None, {CUDA: None})], "nothing of the shell enters a pod", {CUDA: "1"}, free(0)),
    Case("kubernetes", manifest(more="envFrom: [{configMapRef: {name: gpu}}]", resources="limits: {nvidia.com/gpu: 2}"), [Worker([1, 0])], "a ConfigMap that is not told", assume=free(0, 1), certainty="unknown"),
    Case("kubernetes", CONFIG + manifest("limits: {nvidia.com/gpu: 2}", "envFrom: [{configMapRef: {name: gpu}}]"), [Worker([0, 1])], "a ConfigMap beside it", assume=free(0, 1), certainty="certain"),
    Case("kubernetes", manifest(more="env: [{name: CUDA_VISIBLE_DEVICES, valueFrom: {fieldRef: {fieldPath: x}}}]"), [Worker([0])], "a value from elsewhere", assume=free(0), certainty="unknown"),
    Case("kubernetes", DEPLOYMENT, [Worker([0, 1], [0], PCI), Worker([0, 1], [1], PCI)], "$(NAME) names a variable of the container", assume=free(0, 1), certainty="certain"),
    Case("kubernetes", manifest(more='command: [bash, -c]\n    args: ["export CUDA_VISIBLE_DEVICES=1; exec python t.py"]', resources="limits: {nvidia.com/gpu: 2}"), [Worker([3])], "a shell inside", assume=free(2, 3)),
    # several containers have different GPUs
    Case("kubernetes", TWO, [Worker([0]), Worker([1, 2])], "each container its own", certainty="unknown"),
    Case("kubernetes", TWO, [Worker([3]), Worker([1, 0])], PLUGIN, assume=free(3, 0, 1)),
    Case("kubernetes", TWO, [Worker([2]), Worker([1, 3])], PLUGIN, assume={"allocated": {"a": [2], "b": [1, 3]}}),
    # no GPU is asked for
    Case("kubernetes", manifest("limits: {cpu: 1}"), [Worker(ALL)], "README: the plugin exposes all the GPUs", assume={"image_env": {NV: "all"}}, certainty="likely"),
    Case("kubernetes", manifest("limits: {cpu: 1}"), [Worker(ALL)], "what the image sets is not told", certainty="unknown"),
    Case("kubernetes", manifest("limits: {cpu: 1}"), [Worker([])], "an image without the variable", assume={"image_env": {}}, certainty="certain"),
    Case("kubernetes", manifest("limits: {cpu: 1}"), [Worker([])], "accept-nvidia-visible-devices-envvar-when-unprivileged=false", assume={"accept_envvar": False}),
    Case("kubernetes", manifest("limits: {cpu: 1}"), [Worker([])], "CDI strategies", assume={"device_list_strategy": "cdi-cri"}),
    Case("kubernetes", (pod(0, plugin="gke"),), [Worker([])], GKE),
    # strategies
    Case("kubernetes", manifest(), [Worker([1], None, {NV: "1"})], "DEVICE_ID_STRATEGY=index", assume=free(1) | {"device_id_strategy": "index"}),
    Case("kubernetes", manifest(), [Worker([1], None, {NV: "/var/run/nvidia-container-devices"})], "volume-mounts", assume=free(1) | {"device_list_strategy": "volume-mounts"}),
    Case("kubernetes", manifest(), [Worker([1], None, {NV: "void"})], "cdi-annotations", assume=free(1) | {"device_list_strategy": "cdi-annotations"}),
    Case("kubernetes", manifest(more="env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"), [Worker(ALL)], "kubelet puts the pod's own variables behind the plugin's", assume=free(1), certainty="likely"),
    Case("kubernetes", manifest(more="securityContext: {privileged: true}"), [Worker(ALL)], "kubernetes issue 81256", assume=free(1), certainty="likely"),
    # GKE
    Case("kubernetes", manifest(pod_="nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-t4}"), [Worker([2], None, {NV: None}, [2])], GKE, assume=free(2)),
    # sharing
    Case("kubernetes", SHARED, [Worker([0])], PLUGIN, assume=free(0)),
    Case("kubernetes", manifest(), [Worker([1])], "MPS sharing", assume=free(1) | {"sharing": "mps"}),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 2}"), [Worker([0])], "two replicas may be one GPU", assume={"sharing": "time-slicing"}, certainty="unknown"),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 2}"), [], "failRequestsGreaterThanOne", assume={"sharing": "time-slicing", "fail_requests_greater_than_one": True}, error="maximum request size for shared resources is 1"),
    # MIG
    Case("kubernetes", manifest("limits: {nvidia.com/mig-1g.10gb: 1}"), [Worker([0])], "mixed strategy", machine=SEVEN, certainty="unknown"),
    Case("kubernetes", manifest("limits: {nvidia.com/mig-1g.5gb: 1}"), [], "no such slice", machine=SEVEN, error="Insufficient nvidia.com/mig-1g.5gb"),
    Case("kubernetes", manifest("limits: {nvidia.com/gpu: 8}"), [], "seven slices under the single strategy", machine=SEVEN, assume={"mig_strategy": "single"}, error="7 on this node"),
    # layers inside
    Case("kubernetes", (pod(2, allocated=[2, 3]), environment({CUDA: "1"}), torchrun(1)), [Worker([3], [3])], PLUGIN),
    Case("kubernetes", (pod(1, allocated=["GPU-none"]),), [], PLUGIN, error="unknown device"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.source)
def test_kubernetes(case: Case) -> None:
    check(case)


def test_row_11_one_gpu_four_gpus_and_an_order_in_the_yaml() -> None:
    one = resolve(Scenario.from_command(MIXED, manifest()))
    assert one.certainty == "unknown"
    assert any("plugin's choice" in str(step) for step in one.steps)
    four = resolve(Scenario.from_command(MIXED, manifest("limits: {nvidia.com/gpu: 4}")))
    assert four.nvml_indices == (1, 0, 2, 3)
    order = "env: [{name: CUDA_DEVICE_ORDER, value: PCI_BUS_ID}]"
    ordered = resolve(Scenario.from_command(MIXED, manifest("limits: {nvidia.com/gpu: 4}", order)))
    assert (ordered.nvml_indices, ordered.certainty) == ((0, 1, 2, 3), "certain")
    assert ordered.processes[0].env[NV].startswith("GPU-")
    cdi = {"device_list_strategy": "cdi-cri", "allocated": [1]}
    assert resolve(Scenario.from_command(MIXED, manifest(), assume=cdi)).processes[0].env[NV] == "void"


def slices(layer: Layer, machine: Topology) -> list[str | None]:
    (process,) = resolve(Scenario(machine, (layer,))).processes
    return [device.mig.uuid if device.mig else None for device in process.devices]


def test_mig_resources() -> None:
    one = pod(1, "nvidia.com/mig-2g.10gb")
    assert slices(one, split()) == [SLICES[1]]
    assert resolve(Scenario(split(), (one,))).certainty == "certain", "the only one of its profile"
    both = pod(2, allocated=["0:0", SLICES[1]])
    assert slices(both, split("570.1")) == list(SLICES)
    assert slices(pod(2, "nvidia.com/mig-1g.10gb", taken=3), SEVEN) == [SEVEN.gpus[0].mig_instances[3].uuid], (
        "before driver 570 one a process"
    )
    mixed = pod(1, mig_strategy="mixed")
    assert resolve(Scenario(split(), (mixed,))).nvml_indices == (1,), "a GPU in MIG mode is no nvidia.com/gpu then"


def test_containers_are_named_in_the_table() -> None:
    labels = [process.label for process in resolve(Scenario.from_command(MIXED, TWO)).processes]
    assert labels == ["a", "b"]
    ranks = TWO.replace("image: x", "image: x\n    command: [torchrun, --nproc-per-node=1, t.py]")
    assert [p.label for p in resolve(Scenario.from_command(MIXED, ranks)).processes] == ["a, rank 0", "b, rank 0"]


def test_a_lost_gpu_is_not_offered() -> None:
    machine = replace(MIXED, gpus=(replace(MIXED.gpus[0], problem="lost."), *MIXED.gpus[1:]))
    assert resolve(Scenario(machine, (pod(1),))).nvml_indices == (1,)
    assert resolve(Scenario(machine, (pod(3),))).certainty != "unknown"
    assert "3 on this node" in (resolve(Scenario(machine, (pod(4),))).error or "")


def test_the_count_of_pods_is_said() -> None:
    prediction = resolve(Scenario.from_command(MIXED, DEPLOYMENT, assume=free(0, 1)))
    assert any("3 such pods" in str(step) for step in prediction.steps)


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.text(max_size=6), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["containers", "resources", "limits", "requests", "nvidia.com/gpu", "env", "envFrom", "name", "value", "valueFrom", "configMapRef", "command", "args", "template", "spec", "replicas", "nodeSelector", "securityContext", "image", "items", "kind"]), inner, max_size=4),
    ),
    max_leaves=25,
)  # fmt: skip


@given(_VALUES, st.sampled_from([None, [0], {"main": [1]}, "x", [None]]))
@settings(max_examples=150)
def test_any_object_is_a_result(value: Any, allocated: Any) -> None:
    import json

    text = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": value})
    scenario = Scenario.from_command(MIXED, text.replace("{", "{\n"), assume={"allocated": allocated})
    prediction = resolve(scenario)
    assert prediction.error is not None or prediction.processes
    assert Scenario.from_json(scenario.to_json()) == scenario


def test_equal_machines_need_no_guess_about_models() -> None:
    assert resolve(Scenario(equal(8), (pod(8),))).certainty == "likely"
