"""The catalogue of GPU models: which model a spelling means, and laws that every row of the data file must keep."""

from __future__ import annotations

import dataclasses
import random
import string
import time
from collections import defaultdict

import pytest

from gpumap_widgets import catalog
from gpumap_widgets.catalog import Model, is_vgpu, look_up, models

CORES_PER_SM = {
    **dict.fromkeys([(1, 1)], 8),
    **dict.fromkeys([(2, 0)], 32),
    **dict.fromkeys([(2, 1)], 48),
    **dict.fromkeys([(3, 0), (3, 2), (3, 5), (3, 7)], 192),
    **dict.fromkeys([(5, 0), (5, 2), (5, 3), (6, 1), (6, 2)], 128),
    **dict.fromkeys([(6, 0), (7, 0), (7, 2), (7, 5), (8, 0)], 64),
    **dict.fromkeys([(8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)], 128),
}
"""FP32 lanes of one SM: arithmetic throughput table of the CUDA programming guides, convertSMVer2Cores of the samples."""

ARCHITECTURES = {
    "Tesla": {1},
    "Fermi": {2},
    "Kepler": {3},
    "Maxwell": {5},
    "Pascal": {6},
    "Volta": {7},
    "Turing": {7},
    "Ampere": {8},
    "Ada": {8},
    "Hopper": {9},
    "Blackwell": {10, 11, 12},
}

PRINTED = [
    # as current or last drivers print it; capability by NVIDIA's lists of CUDA GPUs, SM count by deviceQuery or data sheet
    ("NVIDIA GeForce RTX 5090", (12, 0), 170, "data sheet: 21760 cores"),
    ("NVIDIA GeForce RTX 5060 Ti", (12, 0), 36, "data sheet: 4608 cores"),
    ("NVIDIA GeForce RTX 5090 Laptop GPU", (12, 0), 82, "data sheet: 10496 cores"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), 188, "data sheet: 24064 cores"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 188, "data sheet: 24064 cores"),
    ("NVIDIA RTX PRO 4000 Blackwell", (12, 0), 70, "data sheet: 8960 cores"),
    ("NVIDIA GB10", (12, 1), 48, "NVIDIA's list; DGX Spark data sheet: 6144 cores"),
    ("NVIDIA B200", (10, 0), 148, "public device listings"),
    ("NVIDIA GB200", (10, 0), 152, "public torch device properties"),
    ("NVIDIA GB300", (10, 3), 152, "public kernel benchmarks"),
    ("NVIDIA H100 PCIe", (9, 0), 114, "Hopper white paper"),
    ("NVIDIA H100 80GB HBM3", (9, 0), 132, "Hopper white paper: SXM5"),
    ("NVIDIA H100 NVL", (9, 0), 132, "data sheet"),
    ("NVIDIA H200", (9, 0), 132, "data sheet"),
    ("NVIDIA H20", (9, 0), 78, "public torch device properties"),
    ("NVIDIA GH200 480GB", (9, 0), 132, "data sheet; 480 GB is the memory of the CPU"),
    ("NVIDIA GeForce RTX 4090", (8, 9), 128, "Ada white paper"),
    ("NVIDIA GeForce RTX 4090 D", (8, 9), 114, "data sheet: 14592 cores"),
    ("NVIDIA GeForce RTX 4060", (8, 9), 24, "data sheet: 3072 cores"),
    ("NVIDIA GeForce RTX 4070 Laptop GPU", (8, 9), 36, "data sheet: 4608 cores"),
    ("NVIDIA RTX 6000 Ada Generation", (8, 9), 142, "data sheet: 18176 cores"),
    ("NVIDIA RTX 4000 Ada Generation", (8, 9), 48, "data sheet: 6144 cores"),
    ("NVIDIA L4", (8, 9), 58, "data sheet: 7424 cores"),
    ("NVIDIA L40S", (8, 9), 142, "data sheet: 18176 cores"),
    ("NVIDIA GeForce RTX 3090", (8, 6), 82, "Ampere GA102 white paper"),
    ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", (8, 6), 58, "data sheet: 7424 cores"),
    ("NVIDIA RTX A6000", (8, 6), 84, "Ampere GA102 white paper"),
    ("NVIDIA RTX A4000", (8, 6), 48, "data sheet: 6144 cores"),
    ("NVIDIA RTX A1000", (8, 6), 18, "data sheet: 2304 cores"),
    ("NVIDIA A40", (8, 6), 84, "data sheet: 10752 cores"),
    ("NVIDIA A16", (8, 6), 10, "data sheet: 4 x 1280 cores; one of the four"),
    ("NVIDIA A30", (8, 0), 56, "data sheet: 3584 cores"),
    ("NVIDIA A100-PCIE-40GB", (8, 0), 108, "Ampere white paper"),
    ("NVIDIA A100-SXM4-80GB", (8, 0), 108, "Ampere white paper"),
    ("NVIDIA CMP 170HX", (8, 0), 70, "GPU databases: 4480 cores"),
    ("Tesla T4", (7, 5), 40, "Turing white paper"),
    ("NVIDIA TITAN RTX", (7, 5), 72, "Turing white paper"),
    ("NVIDIA GeForce RTX 2080 Ti", (7, 5), 68, "Turing white paper"),
    ("NVIDIA GeForce RTX 2080 SUPER", (7, 5), 48, "data sheet: 3072 cores"),
    ("NVIDIA GeForce RTX 2070 with Max-Q Design", (7, 5), 36, "data sheet: 2304 cores"),
    ("NVIDIA GeForce GTX 1660 SUPER", (7, 5), 22, "data sheet: 1408 cores"),
    ("Quadro RTX 8000", (7, 5), 72, "Turing white paper"),
    ("NVIDIA T1000 8GB", (7, 5), 14, "data sheet: 896 cores"),
    ("NVIDIA TITAN V", (7, 0), 80, "deviceQuery"),
    ("Tesla V100-PCIE-32GB", (7, 0), 80, "Volta white paper"),
    ("Quadro GV100", (7, 0), 80, "deviceQuery"),
    ("Tesla P100-PCIE-16GB", (6, 0), 56, "Pascal white paper"),
    ("Quadro GP100", (6, 0), 56, "deviceQuery"),
    ("Tesla P40", (6, 1), 30, "data sheet: 3840 cores"),
    ("NVIDIA TITAN Xp", (6, 1), 30, "data sheet: 3840 cores"),
    ("NVIDIA TITAN X (Pascal)", (6, 1), 28, "data sheet: 3584 cores"),
    ("NVIDIA GeForce GTX 1080 Ti", (6, 1), 28, "data sheet: 3584 cores"),
    ("NVIDIA GeForce GTX 1060 3GB", (6, 1), 9, "data sheet: 1152 cores"),
    ("NVIDIA GeForce GTX 1060 6GB", (6, 1), 10, "data sheet: 1280 cores"),
    ("Quadro P1000", (6, 1), 5, "data sheet of the desktop card: 640 cores"),
    ("NVIDIA GeForce GTX TITAN X", (5, 2), 24, "deviceQuery"),
    ("NVIDIA GeForce GTX 980 Ti", (5, 2), 22, "data sheet: 2816 cores"),
    ("Tesla M40 24GB", (5, 2), 24, "data sheet: 3072 cores"),
    ("Tesla M60", (5, 2), 16, "data sheet: 2 x 2048 cores; one of the two"),
    ("NVIDIA GeForce GTX 960M", (5, 0), 5, "data sheet: 640 cores"),
    ("NVIDIA GeForce GTX 745", (5, 0), 3, "data sheet: 384 cores"),
    ("Tesla K80", (3, 7), 13, "data sheet: 2 x 2496 cores; one of the two"),
    ("Tesla K40c", (3, 5), 15, "data sheet: 2880 cores"),
    ("NVIDIA GeForce GTX TITAN", (3, 5), 14, "data sheet: 2688 cores"),
    ("NVIDIA GeForce GTX 780 Ti", (3, 5), 15, "data sheet: 2880 cores"),
    ("NVIDIA GeForce GTX 660 Ti", (3, 0), 7, "data sheet: 1344 cores"),
    ("GRID K520", (3, 0), 8, "data sheet: 2 x 1536 cores; one of the two"),
    ("GeForce GTX 460", (2, 1), 7, "data sheet: 336 cores"),
    ("Tesla C2075", (2, 0), 14, "data sheet: 448 cores"),
    ("NVS 310", (2, 1), 1, "data sheet: 48 cores"),
]

SPELLINGS = [
    # spelling, name in the catalogue, where such a spelling comes from
    ("GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 2080 Ti", "nvidia-smi before driver 465"),
    ("TITAN X (Pascal)", "NVIDIA TITAN X (Pascal)", "nvidia-smi before driver 465"),
    ("RTX 4090", "NVIDIA GeForce RTX 4090", "people"),
    ("rtx4090", "NVIDIA GeForce RTX 4090", "people"),
    ("4090", "NVIDIA GeForce RTX 4090", "people"),
    ("GeForceRTX4090", "NVIDIA GeForce RTX 4090", "labels without blanks"),
    ("NVIDIA-GeForce-RTX-4090", "NVIDIA GeForce RTX 4090", "node labels of Kubernetes"),
    ("NVIDIA_GeForce_RTX_4090", "NVIDIA GeForce RTX 4090", "file names"),
    ("NVIDIA® GeForce RTX™ 4090 Graphics Card", "NVIDIA GeForce RTX 4090", "shops"),
    ("NVIDIA GeForce(R) RTX(TM) 4090", "NVIDIA GeForce RTX 4090", "shops"),
    ("RTX 4090 24GB", "NVIDIA GeForce RTX 4090", "people"),
    ("RTX 4090D", "NVIDIA GeForce RTX 4090 D", "people"),
    ("GTX1080Ti", "NVIDIA GeForce GTX 1080 Ti", "people"),
    ("GTX 1060 6 GB", "NVIDIA GeForce GTX 1060 6GB", "GPU databases"),
    ("GTX 1060", "NVIDIA GeForce GTX 1060", "nvidia-smi's spelling of the laptop's, as many SMs as the 6GB"),
    ("GTX TITAN X", "NVIDIA GeForce GTX TITAN X", "only Maxwell's has GTX in its name"),
    ("TITAN X (Maxwell)", "NVIDIA GeForce GTX TITAN X", "people"),
    ("Titan X Pascal", "NVIDIA TITAN X (Pascal)", "people"),
    ("TITAN Xp COLLECTORS EDITION", "NVIDIA TITAN Xp", "nvidia-smi"),
    ("V100-SXM2-32GB", "Tesla V100-SXM2-32GB", "people"),
    ("Tesla V100 PCIe 16GB", "Tesla V100-PCIE-16GB", "pci.ids"),
    ("A100-SXM-80GB", "NVIDIA A100-SXM4-80GB", "drivers of 2020"),
    ("A100-PCIE-80GB", "NVIDIA A100 80GB PCIe", "people"),
    ("Tesla A100 PCIe 40GB", "NVIDIA A100-PCIE-40GB", "people"),
    ("A100-SXM4-80GB (MIG)", "NVIDIA A100-SXM4-80GB", "a remark in parentheses"),
    ("H100 SXM", "NVIDIA H100 80GB HBM3", "clouds"),
    ("H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", "clouds"),
    ("NVIDIA H200 141GB", "NVIDIA H200", "clouds"),
    ("NVIDIA L40S 48GB PCIe", "NVIDIA L40S", "clouds"),
    ("T4", "Tesla T4", "clouds"),
    ("NVIDIA T4", "Tesla T4", "data sheet"),
    ("K40m", "Tesla K40m", "people"),
    ("NVIDIA A10G", "NVIDIA A10G", "nvidia-smi"),
    ("T1000", "NVIDIA T1000", "nvidia-smi's own spelling wins over Quadro T1000"),
    ("Quadro T1000", "Quadro T1000", "nvidia-smi"),
    ("A4000", "NVIDIA RTX A4000", "people; no other model has A4000 in its name but the laptop's"),
    ("Quadro RTX A4000", "NVIDIA RTX A4000", "people who keep the old brand"),
    ("Quadro RTX 4000", "Quadro RTX 4000", "nvidia-smi"),
    ("RTX 8000", "Quadro RTX 8000", "there is only one"),
    ("RTX 4000 Ada", "NVIDIA RTX 4000 Ada Generation", "people"),
    ("Quadro RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation", "people who keep the old brand"),
    ("RTX 4000 SFF Ada", "NVIDIA RTX 4000 SFF Ada Generation", "people"),
    ("RTX PRO 6000 Max-Q", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "people"),
    ("RTX PRO 5000 72GB", "NVIDIA RTX PRO 5000 72GB Blackwell", "people"),
    ("RTX 3080 Laptop", "NVIDIA GeForce RTX 3080 Laptop GPU", "people"),
    ("RTX 3070 Mobile", "NVIDIA GeForce RTX 3070 Laptop GPU", "GPU databases"),
    ("RTX 4070 (8 GB, laptop)", "NVIDIA GeForce RTX 4070 Laptop GPU", "parentheses that tell models apart"),
    ("RTX 2080 Max-Q", "NVIDIA GeForce RTX 2080 with Max-Q Design", "GPU databases"),
    ("GP107M [GeForce GTX 1050 Mobile]", "NVIDIA GeForce GTX 1050 Mobile", "lspci"),
    ("AD107M [GeForce RTX 4060 Max-Q / Mobile]", "NVIDIA GeForce RTX 4060 Laptop GPU", "lspci"),
    ("TU102 [GeForce RTX 2080 Ti Rev. A]", "NVIDIA GeForce RTX 2080 Ti", "lspci"),
    ("GA102 [GeForce RTX 3090 Lite Hash Rate]", "NVIDIA GeForce RTX 3090", "lspci"),
    ("Orin (nvgpu)", "Orin (nvgpu)", "nvidia-smi on Jetson"),
    ("Orin", "Orin (nvgpu)", "torch on Jetson"),
]

SHARED = [
    # a name that leaves something open: name, capability and SM count of the answer, what the candidates differ in
    ("Tesla V100", "Tesla V100", (7, 0), 80, "form factor and memory"),
    ("Tesla P100", "Tesla P100", (6, 0), 56, "form factor and memory"),
    ("A100", "NVIDIA A100", (8, 0), 108, "form factor and memory"),
    ("A100-PCIE", "NVIDIA A100", (8, 0), 108, "memory"),
    ("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell", (12, 0), 188, "edition"),
    ("H100", "NVIDIA H100", (9, 0), None, "114 SMs in the PCIe card, 132 in the others"),
    ("H100 80GB", "NVIDIA H100", (9, 0), None, "114 SMs in the PCIe card, 132 in the SXM5 module"),
    ("Jetson AGX Orin", "Jetson AGX Orin", (8, 7), None, "14 or 16 SMs"),
]

AMBIGUOUS = [
    # several models of different kind, or none at all
    ("TITAN", "Kepler to Turing"),
    ("TITAN X", "Maxwell or Pascal"),
    ("GP102 [TITAN X]", "lspci's chip name is not read"),
    ("TITAN (generation not stated)", "Kepler to Turing"),
    ("GeForce GTX TITAN 0", "a tool cut the name and put its own number behind it"),
    ("RTX 4000", "Turing's Quadro or Ada"),
    ("RTX 5000", "Turing's Quadro or Ada"),
    ("RTX 6000", "Turing's Quadro or Ada"),
    ("RTX 5000 Laptop GPU", "Turing's Quadro or Ada"),
    ("RTX 4000 Blackwell", "is called RTX PRO 4000"),
    ("4000", "Fermi, Turing or Ada"),
    ("600", "a Quadro 600, half of GTX 1600, anything"),
    ("Graphics Device", "what nvidia-smi prints for a card that the driver does not know"),
    ("NVIDIA Graphics Device", "the same"),
    ("RTX 30 series", "no model"),
    ("RTX 40 90", "no model"),
    ("RTX 3090 8GB", "there is none"),
    ("H100 SXM5 96GB", "not in the catalogue"),
    ("Quadro GTX 1080", "contradicts itself"),
    ("GeForce A100", "contradicts itself"),
    ("GTX 4090", "contradicts itself"),
    ("MIG 3g.20gb", "a slice, not a model"),
    ("Radeon RX 7900 XTX", "another maker"),
    ("NVIDIA", "no model"),
    ("NVIDIA GPU", "no model"),
    ("", "nothing"),
    ("   ", "nothing"),
]

CUT = [
    # name in a narrow table, total memory, expected name or None
    ("NVIDIA RTX 6000 Ada Gene...", None, "NVIDIA RTX 6000 Ada Generation"),
    ("NVIDIA RTX 6000 Ada Gene…", None, "NVIDIA RTX 6000 Ada Generation"),
    ("Tesla P100-PCIE...", 16276, "Tesla P100-PCIE-16GB"),
    ("Tesla P100-PCIE...", None, "Tesla P100-PCIE"),
    ("Tesla V100-SXM2...", 16160, "Tesla V100-SXM2-16GB"),
    ("Tesla V100-PCIE...", 32480, "Tesla V100-PCIE-32GB"),
    ("NVIDIA A100-SXM...", None, "NVIDIA A100-SXM4"),
    ("NVIDIA GeForce RTX 4080 ...", 16376, "NVIDIA GeForce RTX 4080 SUPER"),
    ("NVIDIA GeForce RTX 4080 ...", 12282, "NVIDIA GeForce RTX 4080 Laptop GPU"),
    ("NVIDIA GeForce RTX 4080 ...", None, None),
    ("NVIDIA GeForce RTX 2080 ...", 8192, None),  # SUPER has 48 SMs, Max-Q 46
    ("NVIDIA GeForce RTX 309...", None, None),  # 3090 or 3090 Ti
    ("NVIDIA GeForce RTX 309...", 24576, None),  # both have 24 GB
    ("GeForce GTX 108...", None, None),  # 1080 Ti or 1080 with Max-Q Design; 1080 itself has room
    ("GeForce GTX 108...", 11178, "NVIDIA GeForce GTX 1080 Ti"),
    ("GeForce RTX 208...", 11019, "NVIDIA GeForce RTX 2080 Ti"),
    ("GeForce GTX TIT...", None, None),
    ("GeForce GTX TIT...", 12287, "NVIDIA GeForce GTX TITAN X"),
    ("NVIDIA GeForce ...", None, None),
    ("NVIDIA GeForce ...", 24576, None),
    ("Tesla P100-PCIE...", 999, None),
    ("NVIDIA ...", None, None),
    ("...", None, None),
    ("…", 8192, None),
]

VARIANTS = [
    # one printed name, several products: total memory, SM count, whether that count may be wrong
    ("NVIDIA GeForce RTX 3080", 10240, 68, False),
    ("NVIDIA GeForce RTX 3080", 12288, 70, False),
    ("NVIDIA GeForce RTX 3080", None, 68, True),
    ("NVIDIA GeForce RTX 2060", 6144, 30, False),
    ("NVIDIA GeForce RTX 2060", 12288, 34, False),
    ("NVIDIA GeForce RTX 2060", None, 30, True),
    ("RTX 2060 12GB", None, 34, False),
    ("NVIDIA GeForce RTX 3050", 6144, 18, False),
    ("NVIDIA GeForce GTX 1050", 3072, 6, False),
    ("NVIDIA GeForce RTX 4060 Ti", None, 34, False),
    ("NVIDIA GeForce GTX 1070", 8192, 15, True),  # the laptop's has 16 SMs and the same name and memory
    ("NVIDIA GeForce RTX 3080", 4096, 68, True),  # fits none: no reason to refuse
    ("NVIDIA GeForce GTX 1070 Ti", 4096, 19, False),  # memory never overrules a name
]

VGPUS = [
    "GRID T4-16Q",
    "GRID T4-4C",
    "grid v100d-32c",
    "GRID V100DX-16Q",
    "GRID M60-1B",
    "GRID M60-1B4",
    "GRID P40-24A",
    "GRID K180Q",
    "GRID K200",
    "GRID RTX6000-24Q",
    "GRID RTX T10-4",
    "NVIDIA A40-48Q",
    "NVIDIA A100-4C",
    "NVIDIA A100-1-5C",
    "NVIDIA A100-1-5CME",
    "A100D-7-80C",
    "NVIDIA RTXA6000-48Q",
    "NVIDIA L40S-48Q",
    "NVIDIA RTX Pro 6000 Blackwell DC-4-96Q",
]
"""Type names in the style of NVIDIA's vGPU user guides."""

BOARDS = [
    "GRID K1",
    "GRID K520",
    "Tesla T4",
    "Tesla P100-PCIE-16GB",
    "NVIDIA A100-SXM4-40GB",
    "P106-100",
    "CMP 100HX-210",
    "NVIDIA GeForce RTX 2080 with Max-Q Design",
    "NVIDIA GeForce RTX 2080 Max-Q",
    "Tesla M2070-Q",
    "NVIDIA A100 80GB PCIe",
    "Graphics Device",
    "",
]


def by_name() -> dict[str, list[Model]]:
    rows = defaultdict(list)
    for model in models():
        rows[model.name].append(model)
    return rows


@pytest.mark.parametrize(("name", "capability", "sm_count", "source"), PRINTED)
def test_printed_name(name: str, capability: tuple[int, int], sm_count: int, source: str) -> None:
    model = look_up(name)
    assert model is not None
    assert (model.name, model.compute_capability, model.sm_count) == (name, capability, sm_count), source


@pytest.mark.parametrize(("spelling", "name", "source"), SPELLINGS)
def test_spelling(spelling: str, name: str, source: str) -> None:
    for variant in (spelling, spelling.upper(), spelling.lower(), f"  {spelling} "):
        model = look_up(variant)
        assert model is not None, source
        assert model.name == name, source


@pytest.mark.parametrize(("spelling", "name", "capability", "sm_count", "open_question"), SHARED)
def test_name_that_leaves_something_open(
    spelling: str, name: str, capability: tuple[int, int], sm_count: int | None, open_question: str
) -> None:
    model = look_up(spelling)
    assert model is not None
    assert (model.name, model.compute_capability, model.sm_count) == (name, capability, sm_count), open_question
    if "memory" in open_question:
        assert model.memory_mib is None, "a total must not be made up"


def test_speeds_of_an_open_name_are_the_lowest_and_unsure() -> None:
    model, slow = look_up("Tesla V100"), look_up("Tesla V100-FHHL-16GB")
    assert model is not None
    assert slow is not None
    assert model.boost_mhz == slow.boost_mhz
    assert model.bandwidth_gbs == slow.bandwidth_gbs
    assert {"boost_mhz", "bandwidth_gbs"} <= set(model.unsure)
    assert model.memory_gb is None
    assert look_up("Tesla V100", 32480) != model


@pytest.mark.parametrize(("spelling", "why"), AMBIGUOUS)
def test_no_answer(spelling: str, why: str) -> None:
    assert look_up(spelling) is None, why


def test_memory_decides_between_models_of_one_loose_name() -> None:
    turing, ada = look_up("RTX 6000", 24220), look_up("RTX 6000", 49140)
    assert turing is not None
    assert ada is not None
    assert (turing.name, ada.name) == ("Quadro RTX 6000", "NVIDIA RTX 6000 Ada Generation")
    assert look_up("TITAN X", 12189) is None, "both have 12 GB"


@pytest.mark.parametrize(("text", "memory_mib", "name"), CUT)
def test_cut_name(text: str, memory_mib: int | None, name: str | None) -> None:
    model = look_up(text, memory_mib)
    assert (model and model.name) == name


@pytest.mark.parametrize(("name", "memory_mib", "sm_count", "unsure"), VARIANTS)
def test_one_name_several_products(name: str, memory_mib: int | None, sm_count: int, unsure: bool) -> None:
    model = look_up(name, memory_mib)
    assert model is not None
    assert (model.sm_count, "sm_count" in model.unsure) == (sm_count, unsure)


@pytest.mark.parametrize("name", VGPUS)
def test_vgpu(name: str) -> None:
    assert is_vgpu(name)
    assert look_up(name) is None
    assert look_up(name, 16384) is None


@pytest.mark.parametrize("name", BOARDS)
def test_no_vgpu(name: str) -> None:
    assert not is_vgpu(name)


# --- laws of the data file


def test_enough_models() -> None:
    assert len(by_name()) >= 400
    assert {model.architecture for model in models()} == set(ARCHITECTURES)


@pytest.mark.parametrize("model", models(), ids=lambda model: f"{model.name} {model.memory_gb}")
def test_row(model: Model) -> None:
    fields = {field.name for field in dataclasses.fields(Model)}
    assert model.name == model.name.strip()
    assert model.source
    capability = model.compute_capability
    assert capability in CORES_PER_SM
    assert capability[0] in ARCHITECTURES[model.architecture]
    assert (model.architecture == "Ada") == (capability == (8, 9))
    assert (model.architecture == "Turing") == (capability == (7, 5))
    assert (model.sm_count is None) == (model.cuda_cores is None)
    if model.sm_count is not None:
        assert 1 <= model.sm_count <= 192
        assert model.cuda_cores == model.sm_count * CORES_PER_SM[capability]
    if model.boost_mhz is not None:
        assert 500 <= model.boost_mhz <= 3000
    if model.memory_gb is not None:
        assert 0.25 <= model.memory_gb <= 300
    if model.memory_mib is not None:
        assert model.memory_gb is not None
        assert 0.9 <= model.memory_mib / (model.memory_gb * 1024) <= 1.02
    if model.bandwidth_gbs is not None:
        assert 5 <= model.bandwidth_gbs <= 8000
    if model.fp32_tflops is not None:
        assert model.cuda_cores
        assert model.boost_mhz
        assert model.fp32_tflops == pytest.approx(2 * model.cuda_cores * model.boost_mhz / 1e6, rel=0.02, abs=0.01)
    if capability < (7, 0):
        assert model.fp16_tensor_tflops == 0
    elif model.fp16_tensor_tflops:
        assert model.fp32_tflops
        assert 3 < model.fp16_tensor_tflops / model.fp32_tflops < 35
    assert set(model.unsure) <= fields - {"name", "unsure", "source"}
    assert len(set(model.unsure)) == len(model.unsure)
    assert all(getattr(model, field) is not None for field in model.unsure), "nothing to be unsure of"
    if model.source == "recalled":
        figures = {"boost_mhz", "memory_gb", "bandwidth_gbs"}
        assert all(field in model.unsure for field in figures if getattr(model, field) is not None)


@pytest.mark.parametrize("model", models(), ids=lambda model: f"{model.name} {model.memory_gb}")
def test_row_is_found_by_its_name(model: Model) -> None:
    same_name = by_name()[model.name]
    total = None if model.memory_gb is None else int(model.memory_gb * 1024)
    assert look_up(model.name, total) == model
    kinds = {(row.compute_capability, row.sm_count) for row in same_name}
    for spelling in (model.name.lower(), model.name.upper().replace(" ", "-"), model.name.removeprefix("NVIDIA ")):
        found = look_up(spelling)
        assert found is not None
        assert found.name == model.name
        assert (found.compute_capability, found.sm_count) in kinds


def test_rows_of_one_name_differ_in_memory() -> None:
    for name, rows in by_name().items():
        assert len({row.memory_gb for row in rows}) == len(rows), name


def test_no_two_names_read_alike() -> None:
    """Else one of two models could never be found, or would be found for the other."""
    keys = defaultdict(set)
    for model in models():
        keys[catalog._words(model.name)].add(model.name)
    assert [names for names in keys.values() if len(names) > 1] == []


def test_dropping_words_never_leads_to_another_kind() -> None:
    """A name without its brand is found as a model of the same capability and SM count, or not at all."""
    for name, rows in by_name().items():
        kinds = {(row.compute_capability, row.sm_count) for row in rows}
        bare = name.removeprefix("NVIDIA ")
        for brand in ("GeForce ", "Quadro ", "Tesla "):
            found = look_up(bare.removeprefix(brand))
            assert found is None or (found.compute_capability, found.sm_count) in kinds, name


def test_cut_anywhere_never_leads_to_another_kind() -> None:
    rng = random.Random(20240229)
    # lspci's spellings are never cut by nvidia-smi, and there the desktop's name is the one that it prints
    printed = [model for model in models() if not model.name.endswith(" Mobile")]
    for model in rng.sample(printed, 150):
        text = model.name[: rng.randrange(4, len(model.name))] + "…"
        for total in (None, model.memory_mib):
            found = look_up(text, total)
            if found is not None:
                assert (found.compute_capability, found.sm_count) == (model.compute_capability, model.sm_count), text


# --- hostile input


def test_hostile_names_cost_little() -> None:
    rng = random.Random(7)
    letters = string.printable + "®™…٣４\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}ß" + "NVIDIA RTX 4090 ()[]-..." * 2
    names = ["".join(rng.choices(letters, k=rng.randrange(130))) for _ in range(500)]
    names += [
        piece * (120 // len(piece)) for piece in ("(", ")(", "[", "[(", "1 ", "-1", "max ", "1gb ", "grid ", ".", " ")
    ]
    names += ["x" * 10_000_000, "(" * 10_000_000, "GRID " + "a" * 115, "4090 " * 1_000_000]
    started = time.perf_counter()
    for name in names:
        assert look_up(name) is None or len(name) <= 120
        is_vgpu(name)
        look_up(name, rng.choice([0, -1, 10**18]))
    assert time.perf_counter() - started < 5, "a look-up must not depend on how odd the text is"


def test_caches_are_bounded_and_skip_long_text() -> None:
    info = catalog._look_up.cache_info()
    assert info.maxsize is not None
    misses = info.misses
    look_up("y" * 1000)
    assert catalog._look_up.cache_info().misses == misses


def test_models_are_values() -> None:
    model = look_up("Tesla T4")
    assert model is not None
    assert model == look_up("T4")
    assert hash(model) == hash(dataclasses.replace(model))
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.sm_count = 1  # type: ignore[misc]
    assert models()[0].architecture == "Tesla"
    assert models()[-1].architecture == "Blackwell"
