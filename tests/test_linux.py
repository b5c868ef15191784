"""What Linux tells of the GPUs, on made-up /proc and /sys trees."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpumap_widgets as gm
from gpumap_widgets.identity import PciBusId
from gpumap_widgets.sources import linux
from gpumap_widgets.texts import say
from gpumap_widgets.topology import Gpu, MigInstance, Topology
from tests.conftest import UUIDS

CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (builder@host)  Tue Sep 23 09:55:41 UTC 2025\n"
PCI_IDS = (
    "# comment\n10dd  Enterprise\n\t0001  Something\n"
    "10de  NVIDIA Corporation\n\t1eb8  TU104GL [Tesla T4]\n\t\t10de 12a2  A board\n\t2684  AD102 [GeForce RTX 4090]\n\t9999  plain\n"
    "10df  Emulex\n\t1eb8  Not ours [No GPU]\n"
)


class Tree:
    """A folder that stands for "/", with as much of /proc and /sys as a test needs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> Tree:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        return self

    def link(self, path: str, target: str) -> Tree:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return self

    def pci(self, bus: str, device: str = "0x1eb8", vendor: str = "0x10de", kind: str = "0x030200", numa: int | None = -1,
            driver: str | None = "nvidia") -> Tree:  # fmt: skip
        folder = f"sys/devices/pci0000:00/{bus}"
        for name, text in (("vendor", vendor), ("class", kind), ("device", device), ("numa_node", numa)):
            if text is not None:
                self.write(f"{folder}/{name}", f"{text}\n")
        if driver:
            self.link(f"{folder}/driver", f"../../../bus/pci/drivers/{driver}")
        return self.link(f"sys/bus/pci/devices/{bus}", f"../../../devices/pci0000:00/{bus}")

    def proc(self, bus: str, model: str = "Tesla T4", uuid: str = "", minor: int | str = 0, extra: str = "") -> Tree:
        text = f"Model: \t\t {model}\nIRQ:   \t\t 63\nGPU UUID: \t {uuid}\nVideo BIOS: \t 90.04\nBus Type: \t PCIe\n"
        text += f"Bus Location: \t {bus}\nDevice Minor: \t {minor}\n{extra}"
        return self.write(f"proc/driver/nvidia/gpus/{bus}/information", text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "root").mkdir()
    return Tree(tmp_path / "root")


def server(tree: Tree) -> Tree:
    """Two GPUs under the driver, whose minor numbers run against their addresses."""
    tree.pci("0000:5e:00.0", numa=0).pci("0000:86:00.0", "0x2684", kind="0x030000", numa=1)
    tree.proc("0000:5e:00.0", uuid=UUIDS[0], minor=1).proc("0000:86:00.0", "NVIDIA GeForce RTX 4090", UUIDS[1], 0)
    return tree.write("proc/driver/nvidia/version", CLOSED)


def machine(tree: Tree) -> Topology:
    found = linux.linux_machine("Because.", tree.root)
    assert found is not None
    return found


# ---- a machine ----


def test_a_machine_with_its_driver(tree: Tree) -> None:
    found = machine(server(tree))
    assert found.gpus == (
        Gpu(None, "Tesla T4", UUIDS[0], "5E:00.0", minor_number=1, numa_node=0),
        Gpu(None, "NVIDIA GeForce RTX 4090", UUIDS[1], "86:00.0", minor_number=0, numa_node=1),
    )
    assert (found.driver_version, found.source) == ("535.104.05", say("source.linux"))
    assert found.notes == ("Because.", say("source.linux-only"))
    assert not found.simulated


def test_it_can_be_shown_and_predicted(tree: Tree) -> None:
    found = machine(server(tree))
    prediction = gm.resolve(
        gm.Scenario.from_env(found, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"})
    )
    assert [device.gpu.name for device in prediction.processes[0].devices] == ["NVIDIA GeForce RTX 4090"]
    assert prediction.nvml_indices == (None,)
    for text in (str(found), found._repr_html_(), str(prediction), prediction._repr_html_(), str(prediction.steps)):
        assert "Tesla T4" in text or "4090" in text


def test_the_order_is_that_of_the_addresses(tree: Tree) -> None:
    for bus in ("0001:01:00.0", "0000:af:00.0", "0000:0f:00.0", "10000:00:00.0"):
        tree.proc(bus, uuid="", minor=3)
    buses = [gpu.pci_bus_id for gpu in machine(tree).gpus]
    assert buses == ["00000000:0F:00.0", "00000000:AF:00.0", "00000001:01:00.0", "00010000:00:00.0"]


def test_nothing_at_all(tree: Tree) -> None:
    assert linux.linux_machine("Because.", tree.root) is None
    assert linux.linux_machine("Because.", tree.root / "not there") is None
    tree.pci("0000:00:02.0", vendor="0x8086", kind="0x030000")
    tree.pci("0000:01:00.1", kind="0x040300")  # the sound of a GPU
    tree.pci("0000:02:00.0", kind="0x068000")  # an NVSwitch
    assert linux.linux_gpus(tree.root) == ()


def test_only_proc(tree: Tree) -> None:
    """A container that hides /sys."""
    tree.proc("0000:5e:00.0", uuid=UUIDS[0], minor=2)
    assert machine(tree).gpus == (Gpu(None, "Tesla T4", UUIDS[0], "5E:00.0", minor_number=2),)


def test_only_sysfs_with_names_from_the_list_of_pci_ids(tree: Tree) -> None:
    tree.pci("0000:5e:00.0", driver=None).pci("0000:86:00.0", "0x2684", driver="vfio-pci").pci(
        "0000:87:00.0", "0x9999", driver="nouveau"
    )
    tree.pci("0000:88:00.0", "0x2222").write("usr/share/hwdata/pci.ids", PCI_IDS)
    found = machine(tree)
    assert [gpu.name for gpu in found.gpus] == ["Tesla T4", "GeForce RTX 4090", "plain", None]
    assert [gpu.problem for gpu in found.gpus] == [
        say("source.no-driver"),
        say("source.other-driver", driver="vfio-pci"),
        say("source.other-driver", driver="nouveau"),
        None,
    ]
    assert found.usable == (3,)
    note = say("source.no-uuid", gpus="the GPU at 5E:00.0, the GPU at 86:00.0, the GPU at 87:00.0, the GPU at 88:00.0")
    assert note in found.notes


def test_without_a_list_of_pci_ids_there_are_no_names(tree: Tree) -> None:
    assert [gpu.name for gpu in machine(tree.pci("0000:5e:00.0")).gpus] == [None]


def test_a_list_of_pci_ids_without_nvidia(tree: Tree) -> None:
    tree.pci("0000:5e:00.0").write("usr/share/misc/pci.ids", "10dd  Enterprise\n\t1eb8  Something [Else]\n")
    assert [gpu.name for gpu in machine(tree).gpus] == [None]


def test_a_virtual_function_is_no_gpu_of_the_host(tree: Tree) -> None:
    server(tree).pci("0000:5e:00.4", driver="nvidia").link(
        "sys/devices/pci0000:00/0000:5e:00.4/physfn", "../0000:5e:00.0"
    )
    assert len(machine(tree).gpus) == 2


def test_a_gpu_that_the_container_was_not_given(tree: Tree) -> None:
    server(tree).pci("0000:af:00.0")
    assert [gpu.problem for gpu in machine(tree).gpus] == [None, None, say("source.not-given")]


@pytest.mark.parametrize("key", ["GPU Excluded", "GPU Blacklisted", "Blacklisted"])
@pytest.mark.parametrize(("value", "problem"), [("Yes", "source.excluded"), ("No", None)])
def test_an_excluded_gpu(tree: Tree, key: str, value: str, problem: str | None) -> None:
    tree.proc("0000:5e:00.0", extra=f"{key}: \t {value}\n")
    assert machine(tree).gpus[0].problem == (say(problem) if problem else None)


def test_a_gpu_that_was_not_used_yet(tree: Tree) -> None:
    tree.proc("0000:5e:00.0", "Unknown", "GPU-????????-????-????-????-????????????", 255)
    found = machine(tree)
    assert found.gpus == (Gpu(None, None, None, "5E:00.0", minor_number=255),)
    assert found.notes[2:] == (say("source.no-uuid", gpus="the GPU at 5E:00.0"),)


@pytest.mark.parametrize(
    "text", ["", "\0\0\0", "Model", "Model:\n:::\nDevice Minor: many\nGPU UUID: \n", "x" * 100_000]
)
def test_an_information_file_that_is_none(tree: Tree, text: str) -> None:
    tree.write("proc/driver/nvidia/gpus/0000:5e:00.0/information", text)
    assert machine(tree).gpus == (Gpu(pci_bus_id="5E:00.0"),)


def test_odd_entries(tree: Tree) -> None:
    tree.write("proc/driver/nvidia/gpus/README", "").write("sys/bus/pci/devices/what/vendor", "0x10de")
    tree.link("sys/bus/pci/devices/0000:01:00.0", "0000:01:00.0").link(
        "proc/driver/nvidia/gpus/0000:02:00.0", "/nowhere/at/all"
    )
    tree.pci("0000:03:00.0", vendor="10de").pci("0000:04:00.0", kind="").pci("0000:05:00.0", device="", numa=None)
    buses = [gpu.pci_bus_id for gpu in machine(tree).gpus]
    assert buses == ["00000000:02:00.0", "00000000:05:00.0"]


@pytest.mark.parametrize("hidden", ["information", "vendor", "driver", "gpus", "devices"])
def test_what_may_not_be_read(tree: Tree, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server(tree)

    def guarded(name: str) -> None:
        original = getattr(Path, name)

        def call(self: Path, *args: object, **kwargs: object) -> object:
            if self.name == hidden:
                raise PermissionError(13, "Permission denied", str(self))
            return original(self, *args, **kwargs)

        monkeypatch.setattr(Path, name, call)

    for name in ("open", "stat", "readlink", "iterdir"):
        guarded(name)
    found = machine(tree)
    assert [gpu.pci_bus_id for gpu in found.gpus] == ["00000000:5E:00.0", "00000000:86:00.0"]
    assert [gpu.problem for gpu in found.gpus] == [None] * 2


# ---- details ----


@pytest.mark.parametrize(
    ("text", "version"),
    [(CLOSED, "535.104.05"), (OPEN, "580.95.05"), ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Fri Jan\n", "550.135"),
     ("nonsense", None), ("", None)],
)  # fmt: skip
def test_the_driver_in_the_kernel(tree: Tree, text: str, version: str | None) -> None:
    assert linux.kernel_driver(tree.write("proc/driver/nvidia/version", text).root) == version


def test_the_driver_by_its_module(tree: Tree) -> None:
    assert linux.kernel_driver(tree.root) is None
    assert linux.kernel_driver(tree.write("sys/module/nvidia/version", "580.95.05\n").root) == "580.95.05"


@pytest.mark.parametrize(("numa", "node"), [(0, 0), (3, 3), (-1, None), (None, None)])
def test_the_numa_node(tree: Tree, numa: int | None, node: int | None) -> None:
    tree.pci("0000:5e:00.0", numa=numa)
    assert linux.numa_node(PciBusId(0, 0x5E, 0), tree.root) == node


OVERLAY = "25 1 0:22 / / rw,relatime - overlay overlay rw,lowerdir=/a\n26 25 0:23 / /proc rw - proc proc rw\n"
PLAIN = "25 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n26 25 0:41 / /var/lib/x rw - overlay overlay rw\n"


@pytest.mark.parametrize(
    ("path", "text", "inside"),
    [(".dockerenv", "", True), ("run/.containerenv", "", True), ("run/secrets/kubernetes.io/token", "", True),
     ("proc/self/mountinfo", OVERLAY, True), ("proc/self/mountinfo", PLAIN, False), ("proc/version", "Linux", False)],
)  # fmt: skip
def test_a_container(tree: Tree, path: str, text: str, inside: bool) -> None:
    server(tree).write(path, text)
    assert linux.in_container(tree.root) == inside
    assert (say("source.container") in machine(tree).notes) == inside


def test_processes(tree: Tree) -> None:
    assert linux.has_process(4711, tree.root)  # nowhere to look
    tree.write("proc/4711/stat", "")
    assert linux.has_process(4711, tree.root)
    assert not linux.has_process(4712, tree.root)


# ---- identities ----

OLD_MIG = "MIG-GPU-3f8a1c27-51d0-4b6e-9a02-c7d4e8f10b35/9/0"


@pytest.mark.parametrize(
    ("text", "prefix", "good"),
    [(UUIDS[0], "GPU-", True), (UUIDS[0].replace("GPU", "MIG"), "GPU-", False), (UUIDS[0].replace("GPU", "MIG"), "MIG-", True),
     (OLD_MIG, "MIG-", True), (OLD_MIG, "GPU-", False), (OLD_MIG + "/1", "MIG-", False), (UUIDS[0] + " ", "GPU-", False),
     ("GPU-0-FAKE", "GPU-", False), ("", "GPU-", False), ("{0} {gpu}", "GPU-", False)],
)  # fmt: skip
def test_a_uuid_is_whole_or_none(text: str, prefix: str, good: bool) -> None:
    notes: list[str] = []
    assert linux.whole_uuid(text, "GPU 3", notes, prefix) == (text if good else None)
    assert notes == ([] if good else [say("source.no-such-uuid", gpu="GPU 3", value=text)])


def test_an_address_is_whole_or_none() -> None:
    notes: list[str] = []
    assert linux.whole_address("5e:00.0", "GPU 3", notes) == "5e:00.0"
    assert linux.whole_address(None, "GPU 3", notes) is None
    assert notes == []
    assert linux.whole_address("5e:99.0", "GPU 3", notes) is None
    assert notes == [say("source.no-such-address", gpu="GPU 3", value="5e:99.0")]


def test_what_several_have_identifies_none() -> None:
    slices = (MigInstance(UUIDS[3]), MigInstance(UUIDS[3]), MigInstance(UUIDS[4]))
    gpus = [
        Gpu(0, "A", UUIDS[0], "01:00.0"),
        Gpu(1, "B", UUIDS[0], "02:00.0", mig_instances=slices),
        Gpu(2, "C", UUIDS[1], "02:00.0"),
        Gpu(3),
    ]
    notes: list[str] = []
    found = linux.distinct(gpus, notes)
    Topology(found)
    assert [gpu.uuid for gpu in found] == [None, None, UUIDS[1], None]
    assert [gpu.pci_bus_id for gpu in found] == ["00000000:01:00.0", None, None, None]
    assert [mig.uuid for mig in found[1].mig_instances] == [None, None, UUIDS[4]]
    assert notes == [
        say("source.repeated-uuid", value=UUIDS[0], count=2),
        say("source.repeated-address", value="00000000:02:00.0", count=2),
        say("source.repeated-mig", value=UUIDS[3], count=2),
    ]
    assert linux.distinct(found, notes) == found
    assert len(notes) == 3


def test_one_uuid_twice_in_proc(tree: Tree) -> None:
    tree.proc("0000:5e:00.0", uuid=UUIDS[0]).proc("0000:86:00.0", uuid=UUIDS[0])
    found = machine(tree)
    assert [gpu.uuid for gpu in found.gpus] == [None, None]
    assert say("source.repeated-uuid", value=UUIDS[0], count=2) in found.notes
