"""Texts of our own making in the shapes that real tools print: one function a shape, from a machine as plain data.

The layouts are those of the tools (column widths, labels, separators); machines, values and identifiers are invented.
"""

from __future__ import annotations

from typing import NamedTuple


class Card(NamedTuple):
    index: int
    name: str
    uuid: str
    bus: str
    memory: int
    capability: str = "8.6"
    sms: int = 82


MIXED = (
    Card(0, "Tesla T4", "GPU-3c1de5aa-71f0-4b0e-9c55-0d2b6a7f1e01", "00000000:3B:00.0", 15360, "7.5", 40),
    Card(
        1, "NVIDIA GeForce RTX 4090", "GPU-9a77e210-5b4c-4d1f-8e02-44c8d1b30a02", "00000000:5E:00.0", 24564, "8.9", 128
    ),
    Card(2, "Tesla T4", "GPU-07b2c4d6-e8fa-4c0e-a1b3-c5d7e9fb0d03", "00000000:AF:00.0", 15360, "7.5", 40),
)
EIGHT = tuple(
    Card(
        i,
        "NVIDIA A100-SXM4-40GB",
        f"GPU-5d0c{i:04x}-1a2b-4c3d-9e4f-00a1b2c3d4{i:02x}",
        f"00000000:{0x07 + 0x14 * i:02X}:00.0",
        40960,
        "8.0",
        108,
    )
    for i in range(8)
)


def wide_table(cards=MIXED, driver="550.90.07", mig="N/A", mode="Off", process=True):
    """Drivers from 530 on: 91 columns."""
    lines = [
        "Tue Mar  4 10:11:12 2025",
        "+" + "-" * 89 + "+",
        f"| NVIDIA-SMI {driver:<23}Driver Version: {driver:<15}CUDA Version: 12.4     |",
        "|" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|",
    ]
    for card in cards:
        lines += [
            f"| {card.index:3d}  {card.name:<28}{mode:>5}  |   {card.bus} Off |                  N/A |",
            f"| N/A   {30 + card.index}C    P8             11W /   70W | {117:>8}MiB / {card.memory:>6}MiB |      0%      Default |",
            f"|                                         |                        |{mig:>21} |",
            "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+",
        ]
    if process:
        lines += [
            "",
            "+" + "-" * 89 + "+",
            "| Processes:                                                                              |",
            "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
            "|        ID   ID                                                               Usage      |",
            "|" + "=" * 89 + "|",
            f"|    {cards[-1].index}   N/A  N/A      4242      C   /usr/bin/python3                              104MiB |",
            "+" + "-" * 89 + "+",
        ]
    return "\n".join(lines) + "\n"


def narrow_table(cards=MIXED, driver="384.111", mode="Off", column="Persistence-M"):
    """Drivers up to 52x: 79 columns, names cut at 18 characters."""
    lines = [
        "+" + "-" * 77 + "+",
        f"| NVIDIA-SMI {driver:<22}Driver Version: {driver:<27}|",
        "|" + "-" * 31 + "+" + "-" * 22 + "+" + "-" * 22 + "+",
        f"| GPU  Name   {column:>18}| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |",
        "|" + "=" * 31 + "+" + "=" * 22 + "+" + "=" * 22 + "|",
    ]
    for card in cards:
        name = card.name if len(card.name) <= 18 else card.name[:15] + "..."
        lines += [
            f"| {card.index:3d}  {name:<18}{mode:>5}  | {card.bus} Off |                  N/A |",
            f"| 27%   32C    P0    35W / 180W |      2MiB / {card.memory:>5}MiB |      0%      Default |",
            "+" + "-" * 31 + "+" + "-" * 22 + "+" + "-" * 22 + "+",
        ]
    return "\n".join(lines) + "\n"


def listing(cards=MIXED):
    """nvidia-smi -L."""
    return "".join(f"GPU {c.index}: {c.name} (UUID: {c.uuid})\n" for c in cards)


def csv_with_header(cards=MIXED):
    """--query-gpu with --format=csv: units in header and cells."""
    rows = [f"{c.index}, {c.name}, {c.uuid}, {c.bus}, {c.memory} MiB, 550.90.07" for c in cards]
    return "\n".join(["index, name, uuid, pci.bus_id, memory.total [MiB], driver_version", *rows]) + "\n"


def csv_other_order(cards=MIXED):
    """The index in the last column, used memory beside the total."""
    rows = [f"{c.bus}, {c.memory} MiB, 12 MiB, {c.name}, {c.index}" for c in cards]
    return "\n".join(["pci.bus_id, memory.total [MiB], memory.used [MiB], name, index", *rows]) + "\n"


def csv_after_command(cards=MIXED):
    """noheader,nounits: the columns are those of the command."""
    rows = [f"{c.name}, {c.memory}, {c.index}" for c in cards]
    command = "$ nvidia-smi --query-gpu=name,memory.total,index --format=csv,noheader,nounits"
    return "\n".join([command, *rows]) + "\n"


def csv_bare(cards=MIXED):
    """Rows alone."""
    return "".join(f"{c.index}, {c.name}, {c.uuid}, {c.memory} MiB\n" for c in cards)


def long_report(cards=MIXED):
    """nvidia-smi -q, the parts that every driver prints."""
    text = "==============NVSMI LOG==============\n\n"
    text += "Timestamp                                 : Tue Mar  4 10:11:12 2025\n"
    text += (
        "Driver Version                            : 550.90.07\nCUDA Version                              : 12.4\n\n"
    )
    text += f"Attached GPUs                             : {len(cards)}\n"
    for c in cards:
        text += f"GPU {c.bus}\n"
        text += (
            f"    Product Name                          : {c.name}\n    Product Brand                         : Tesla\n"
        )
        text += "    MIG Mode\n        Current                           : N/A\n        Pending                           : N/A\n"
        text += "    Driver Model\n        Current                           : N/A\n"
        text += (
            f"    Serial Number                         : N/A\n    GPU UUID                              : {c.uuid}\n"
        )
        text += f"    Minor Number                          : {len(cards) - 1 - c.index}\n"
        text += f"    PCI\n        Bus                               : 0x{c.bus[9:11]}\n"
        text += f"        Bus Id                            : {c.bus}\n"
        text += f"    FB Memory Usage\n        Total                             : {c.memory} MiB\n"
        text += "        Used                              : 3 MiB\n"
        text += "    BAR1 Memory Usage\n        Total                             : 256 MiB\n"
        text += "    Processes                             : None\n\n"
    return text


def xml_report(cards=MIXED):
    """nvidia-smi -q -x, DTD v12, shortened."""
    text = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
    text += f"\t<driver_version>550.90.07</driver_version>\n\t<attached_gpus>{len(cards)}</attached_gpus>\n"
    for c in cards:
        text += f'\t<gpu id="{c.bus}">\n\t\t<product_name>{c.name}</product_name>\n'
        text += "\t\t<mig_mode>\n\t\t\t<current_mig>N/A</current_mig>\n\t\t</mig_mode>\n\t\t<mig_devices>\n\t\t\tNone\n\t\t</mig_devices>\n"
        text += f"\t\t<uuid>{c.uuid}</uuid>\n\t\t<minor_number>{c.index}</minor_number>\n"
        text += f"\t\t<pci>\n\t\t\t<pci_bus_id>{c.bus}</pci_bus_id>\n\t\t</pci>\n"
        text += f"\t\t<fb_memory_usage>\n\t\t\t<total>{c.memory} MiB</total>\n\t\t\t<used>1 MiB</used>\n\t\t</fb_memory_usage>\n"
        text += "\t\t<bar1_memory_usage>\n\t\t\t<total>256 MiB</total>\n\t\t</bar1_memory_usage>\n\t\t<processes>\n\t\t</processes>\n\t</gpu>\n"
    return text + "</nvidia_smi_log>\n"


def gpustat(cards=MIXED):
    """gpustat 1.x without colour."""
    rows = [f"[{c.index}] {c.name:<24}| 33'C,   0 % |    10 / {c.memory} MB | alice(7M)" for c in cards]
    return "\n".join(["box17  Tue Mar  4 10:11:12 2025  550.90.07", *rows]) + "\n"


def nvitop(cards=MIXED):
    """nvitop 1.x: nvidia-smi's narrow table drawn with box characters."""
    table = narrow_table(cards).replace("NVIDIA-SMI 384.111", "NVITOP 1.3.2      ")
    drawn = []
    for line in table.split("\n"):
        ruler = set(line) <= set("+-=|")
        drawn.append(line.translate(str.maketrans("-=|+", "─═│┼")) if ruler else line.replace("|", "│"))
    return "\n".join(drawn)


def topo(cards=MIXED):
    """nvidia-smi topo -m: tabs, an empty cell before the last column."""
    head = "\t" + "\t".join(f"GPU{c.index}" for c in cards) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    for c in cards:
        cells = [" X " if d is c else "SYS" for d in cards]
        head += f"GPU{c.index}\t" + "\t".join(cells) + "\t0-15\t0\t\tN/A\n"
    return head + "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n"


def device_query(cards=MIXED):
    """CUDA sample deviceQuery: ordinals, PCI numbers in decimal, fastest GPU first."""
    text = "./deviceQuery Starting...\n\n CUDA Device Query (Runtime API) version (CUDART static linking)\n\n"
    text += f"Detected {len(cards)} CUDA Capable device(s)\n"
    order = sorted(cards, key=lambda c: (-c.sms, c.index))
    for ordinal, c in enumerate(order):
        text += f'\nDevice {ordinal}: "{c.name}"\n  CUDA Driver Version / Runtime Version          12.4 / 12.4\n'
        text += f"  CUDA Capability Major/Minor version number:    {c.capability}\n"
        text += f"  Total amount of global memory:                 {c.memory - 250} MBytes ({(c.memory - 250) << 20} bytes)\n"
        text += f"  ({c.sms:03d}) Multiprocessors, (064) CUDA Cores/MP:     {c.sms * 64} CUDA Cores\n"
        text += f"  Device PCI Domain ID / Bus ID / location ID:   0 / {int(c.bus[9:11], 16)} / 0\n"
    return text + "\nResult = PASS\n"


def collect_env(cards=MIXED):
    """python -m torch.utils.collect_env: names as nvidia-smi -L has them, without UUIDs."""
    text = (
        "PyTorch version: 2.5.1+cu124\nIs debug build: False\n\nIs CUDA available: True\nGPU models and configuration: "
    )
    text += "\n".join(["", *(f"GPU {c.index}: {c.name}" for c in cards)][0 if len(cards) > 1 else 1 :])
    return text + "\n\nNvidia driver version: 550.90.07\ncuDNN version: Could not collect\n"


def tensorflow_log(cards=MIXED):
    """TensorFlow 2 at start-up."""
    order = sorted(cards, key=lambda c: (-c.sms, c.index))
    return "".join(
        f"2025-03-04 10:11:12.345678: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1532] Created device "
        f"/job:localhost/replica:0/task:0/device:GPU:{i} with {c.memory - 1500} MB memory:  -> device: {i}, name: {c.name}, "
        f"pci bus id: {c.bus[4:].lower()}, compute capability: {c.capability}\n"
        for i, c in enumerate(order)
    )


def llama_log(cards=MIXED):
    """llama.cpp at start-up."""
    order = sorted(cards, key=lambda c: (-c.sms, c.index))
    return f"ggml_cuda_init: found {len(cards)} CUDA devices:\n" + "".join(
        f"  Device {i}: {c.name}, compute capability {c.capability}, VMM: yes\n" for i, c in enumerate(order)
    )


def torch_loop(cards=MIXED):
    """A loop over torch.cuda.get_device_properties(i)."""
    order = sorted(cards, key=lambda c: (-c.sms, c.index))
    return "".join(f"cuda:{i} -> {c.name} | UUID: {c.uuid.removeprefix('GPU-')}\n" for i, c in enumerate(order))


def lspci(cards=MIXED):
    """lspci of a server with an Intel display adapter."""
    chips = {"Tesla T4": "TU104GL [Tesla T4]", "NVIDIA GeForce RTX 4090": "AD102 [GeForce RTX 4090]"}
    text = "00:02.0 VGA compatible controller: Intel Corporation Device 4680 (rev 0c)\n"
    for c in cards:
        text += f"{c.bus[9:].lower()} 3D controller: NVIDIA Corporation {chips.get(c.name, 'GA100 [A100 SXM4 40GB]')} (rev a1)\n"
    return text + "5e:00.1 Audio device: NVIDIA Corporation AD102 High Definition Audio Controller (rev a1)\n"


def proc(cards=MIXED):
    """/proc/driver/nvidia/gpus/*/information."""
    text = ""
    for c in cards:
        text += f"Model: \t\t {c.name}\nIRQ:   \t\t 58\nGPU UUID: \t {c.uuid}\nVideo BIOS: \t 90.04.00.00.01\nBus Type: \t PCIe\n"
        text += f"DMA Size: \t 47 bits\nBus Location: \t {c.bus[4:].lower()}\nDevice Minor: \t {c.index}\n"
    return text


SHAPES = (
    wide_table,
    narrow_table,
    nvitop,
    listing,
    csv_with_header,
    csv_other_order,
    csv_after_command,
    csv_bare,
    long_report,
    xml_report,
    gpustat,
    topo,
    device_query,
    collect_env,
    tensorflow_log,
    llama_log,
    torch_loop,
    lspci,
    proc,
)
