"""Literal texts of our own making, in the shapes that tools print them, with what is to be read in each.

A row: what is special about it (the remark), the text, and the expected GPUs as dicts of the fields that must hold.
Names, addresses and identifiers are invented; the layouts are those of the tools named in the remark.
"""

from __future__ import annotations

from typing import Any, NamedTuple

U = tuple(f"GPU-{i:08x}-52aa-4e0f-9d11-6b0c7d8e9f{i:02x}" for i in range(8))
M = tuple(f"MIG-{i:08x}-7c3b-51d2-a4e6-1f2e3d4c5b{i:02x}" for i in range(8))


class Case(NamedTuple):
    remark: str
    text: str
    gpus: tuple[dict[str, Any], ...]
    more: dict[str, Any] = {}
    """Expected attributes of the topology."""


OLD_TABLE_2XX = """\
+------------------------------------------------------+
| NVIDIA-SMI 2.285.05   Driver Version: 285.05.33      |
|-------------------------------+----------------------+----------------------+
| Nb.  Name                     | Bus Id        Disp.  | Volatile ECC SB / DB |
| Fan   Temp   Power Usage /Cap | Memory Usage         | GPU Util. Compute M. |
|===============================+======================+======================|
| 0.  Tesla M2070               | 0000:06:00.0  Off    |         0          0 |
|  N/A   N/A   P12   Off / Off  |   0%   10MB / 5375MB |    0%     Default    |
|-------------------------------+----------------------+----------------------|
| 1.  Tesla M2070               | 0000:14:00.0  Off    |         0          0 |
|  N/A   N/A   P12   Off / Off  |   0%   10MB / 5375MB |    0%     Default    |
|-------------------------------+----------------------+----------------------|
"""
MASKED_ADDRESSES = """\
| NVIDIA-SMI 535.86.10              Driver Version: 535.86.10    CUDA Version: 12.2     |
|   0  NVIDIA L4                      Off | 00000000:XX:00.0 Off |                    0 |
| N/A   40C    P0              28W /  72W |      4MiB / 23034MiB |      0%      Default |
+-----------------------------------------+----------------------+----------------------+
"""
JETSON = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 540.3.0                Driver Version: N/A          CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+
"""
ERR_ROW = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 515.65.01    Driver Version: 515.65.01    CUDA Version: 11.7     |
|-------------------------------+----------------------+----------------------+
|   0  NVIDIA RTX A6000    Off  | 00000000:17:00.0 Off |                  Off |
| 30%   41C    P8    21W / 300W |      5MiB / 49140MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  NVIDIA RTX A6000    ERR! | 00000000:65:00.0 Off |                  Off |
|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 49140MiB |    ERR!      Default |
|                               |                      |                 ERR! |
+-------------------------------+----------------------+----------------------+
|   2  ERR!                ERR! | 00000000:CA:00.0 ERR!|                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! | GPU is lost          |    ERR!         ERR! |
+-------------------------------+----------------------+----------------------+
"""
WSL_TABLE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.02    Driver Version: 527.41       CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|===============================+======================+======================|
|   0  NVIDIA GeForce ...  On   | 00000000:2B:00.0  On |                  N/A |
|  0%   44C    P8    14W / 285W |   1203MiB / 12282MiB |      3%      Default |
+-------------------------------+----------------------+----------------------+
"""
TCC_TABLE = """\
PS D:\\jobs> nvidia-smi
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 553.24                 Driver Version: 553.24         CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA RTX A4000             WDDM  |   00000000:0A:00.0  On |                  Off |
| 41%   48C    P8             12W /  140W |     901MiB /  16376MiB |      1%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla V100-PCIE-32GB          TCC  |   00000001:3F:00.0 Off |                    0 |
| N/A   33C    P0             25W /  250W |       9MiB /  32768MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
MIG_TABLE = """\
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|   0  NVIDIA A100 80GB PCIe          On  |   00000000:21:00.0 Off |                   On |
| N/A   29C    P0             43W /  300W |      88MiB /  81920MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100 80GB PCIe          On  |   00000000:E1:00.0 Off |                    0 |
| N/A   30C    P0             44W /  300W |       4MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              37MiB / 40192MiB    | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 65535MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    5   0   1  |              25MiB / 19968MiB    | 28      0 |  2   0    1    0    0 |
|                  |               0MiB / 32767MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
"""
MIG_LIST = f"""\
GPU 0: NVIDIA A100 80GB PCIe (UUID: {U[0]})
  MIG 3g.40gb     Device  0: (UUID: {M[0]})
  MIG 2g.20gb     Device  1: (UUID: {M[1]})
GPU 1: NVIDIA A100 80GB PCIe (UUID: {U[1]})
"""
MIG_REPORT = f"""\
Driver Version                            : 535.183.01
Attached GPUs                             : 1
GPU 00000000:21:00.0
    Product Name                          : NVIDIA A100 80GB PCIe
    Product Brand                         : NVIDIA
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 0
        FB Memory Usage
            Total                         : 40192 MiB
            Used                          : 37 MiB
        BAR1 Memory Usage
            Total                         : 65535 MiB
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 3
        Compute Instance ID               : 0
        FB Memory Usage
            Total                         : 19968 MiB
    Accounting Mode                       : Disabled
    GPU UUID                              : {U[0]}
    Minor Number                          : 4
    FB Memory Usage
        Total                             : 81920 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    Processes                             : None
"""
MIG_XML = f"""\
<nvidia_smi_log><driver_version>535.183.01</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:21:00.0"><product_name>NVIDIA A100 80GB PCIe</product_name>
<mig_mode><current_mig>Enabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
<mig_devices><mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>40192 MiB</total></fb_memory_usage><bar1_memory_usage><total>65535 MiB</total></bar1_memory_usage>
</mig_device></mig_devices><uuid>{U[0]}</uuid><minor_number>0</minor_number>
<fb_memory_usage><total>81920 MiB</total><reserved>680 MiB</reserved></fb_memory_usage>
<bar1_memory_usage><total>131072 MiB</total></bar1_memory_usage><processes/></gpu></nvidia_smi_log>
"""

CASES = (
    Case(
        "driver 285: numbers with a point, no column for the persistence mode, MB",
        OLD_TABLE_2XX,
        (
            {"nvml_index": 0, "name": "Tesla M2070", "pci_bus_id": "00000000:06:00.0", "memory_mib": 5375},
            {"nvml_index": 1, "name": "Tesla M2070", "pci_bus_id": "00000000:14:00.0", "memory_mib": 5375},
        ),
        {"driver_version": "285.05.33", "platform": "linux"},
    ),
    Case(
        "addresses made unreadable by the user",
        MASKED_ADDRESSES,
        ({"nvml_index": 0, "name": "NVIDIA L4", "pci_bus_id": None, "memory_mib": 23034},),
    ),
    Case(
        "Jetson: no address, no memory, no driver version",
        JETSON,
        ({"nvml_index": 0, "name": "Orin (nvgpu)", "pci_bus_id": None, "memory_mib": None, "problem": None},),
        {"driver_version": None},
    ),
    Case(
        "one GPU that answers with ERR!, one without a name",
        ERR_ROW,
        (
            {"nvml_index": 0, "problem": None},
            {"nvml_index": 1, "name": "NVIDIA RTX A6000", "problem": ...},
            {"nvml_index": 2, "name": None, "pci_bus_id": "00000000:CA:00.0", "problem": ...},
        ),
    ),
    Case(
        "WSL: Linux columns, the driver of Windows; the name is cut",
        WSL_TABLE,
        ({"nvml_index": 0, "name": "NVIDIA GeForce ...", "memory_mib": 12282},),
        {"driver_version": "527.41", "platform": "wsl"},
    ),
    Case(
        "Windows: WDDM and TCC, a second PCI domain",
        TCC_TABLE,
        (
            {"nvml_index": 0, "name": "NVIDIA RTX A4000"},
            {"nvml_index": 1, "pci_bus_id": "00000001:3F:00.0", "memory_mib": 32768},
        ),
        {"driver_version": "553.24", "platform": "windows"},
    ),
    Case(
        "the MIG table: instances and their memory by GPU number",
        MIG_TABLE,
        (
            {
                "mig_mode": True,
                "memory_mib": 81920,
                "migs": [(None, None, 1, 0, 40192, 0), (None, None, 5, 0, 19968, 1)],
            },
            {"mig_mode": False, "migs": []},
        ),
    ),
    Case(
        "nvidia-smi -L with MIG devices",
        MIG_LIST,
        (
            {
                "uuid": U[0],
                "mig_mode": True,
                "migs": [(M[0], "3g.40gb", None, None, None, 0), (M[1], "2g.20gb", None, None, None, 1)],
            },
            {"uuid": U[1], "mig_mode": None, "migs": []},
        ),
    ),
    Case(
        "the MIG table and the list of one machine: each knows half of every instance",
        MIG_TABLE + "\n$ nvidia-smi -L\n" + MIG_LIST,
        (
            {"uuid": U[0], "migs": [(M[0], "3g.40gb", 1, 0, 40192, 0), (M[1], "2g.20gb", 5, 0, 19968, 1)]},
            {"uuid": U[1], "mig_mode": False},
        ),
        {"source": "nvidia-smi table + nvidia-smi -L"},
    ),
    Case(
        "nvidia-smi -q: the memory of a MIG device stands before that of the board",
        MIG_REPORT,
        (
            {
                "uuid": U[0],
                "memory_mib": 81920,
                "minor_number": 4,
                "migs": [(None, None, 2, 0, 40192, 0), (None, None, 3, 0, 19968, 1)],
            },
        ),
    ),
    Case(
        "nvidia-smi -q -x on few lines, the same trap",
        MIG_XML,
        ({"uuid": U[0], "nvml_index": 0, "memory_mib": 81920, "migs": [(None, None, 2, 0, 40192, 0)]},),
        {"driver_version": "535.183.01"},
    ),
    Case(
        "the old identifier of a MIG device holds the UUID of its GPU and both instance numbers",
        f"GPU 0: A100-PCIE-40GB (UUID: {U[0]})\nGPU 1: A100-PCIE-40GB (UUID: {U[1]})\n"
        f"  MIG 1g.5gb Device 0: (UUID: MIG-{U[0]}/7/0)\n",
        ({"migs": [(f"MIG-{U[0]}/7/0", "1g.5gb", 7, 0, None, 0)]}, {"migs": []}),
    ),
    Case(
        "UUIDs made unreadable by the user: not known, and no reason to take the GPUs for one",
        "".join(f"GPU {i}: NVIDIA H100 PCIe (UUID: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)\n" for i in range(2)),
        ({"nvml_index": 0, "uuid": None}, {"nvml_index": 1, "uuid": None}),
    ),
    Case(
        "Fermi: serial numbers in place of UUIDs",
        "GPU 0: Tesla C2075 (S/N: 0322411099999)\n",
        ({"nvml_index": 0, "name": "Tesla C2075", "uuid": None},),
    ),
    Case(
        "a lost GPU leaves a gap in the list and a message with its address",
        f"GPU 0: NVIDIA A40 (UUID: {U[0]})\n"
        "Unable to determine the device handle for gpu 0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
        f"GPU 2: NVIDIA A40 (UUID: {U[2]})\n",
        (
            {"nvml_index": 0, "problem": None},
            {"nvml_index": 1, "pci_bus_id": "00000000:41:00.0", "problem": ...},
            {"nvml_index": 2},
        ),
    ),
    Case(
        "a list that begins at 1 (a job that was given the second GPU by its number on the host)",
        f"GPU 1: Tesla T4 (UUID: {U[1]})\n",
        ({"nvml_index": 1},),
    ),
    Case(
        "cut inside a UUID",
        f"GPU 0: Tesla T4 (UUID: {U[0]})\nGPU 1: Tesla T4 (UUID: {U[1][:20]}",
        ({"uuid": U[0]}, {"nvml_index": 1, "name": "Tesla T4", "uuid": None}),
    ),
    Case(
        "CSV with quotes around the cells",
        f'"index","name","uuid"\n"0","Tesla T4","{U[0]}"\n"1","Tesla T4","{U[1]}"\n',
        ({"nvml_index": 0, "uuid": U[0]}, {"nvml_index": 1, "uuid": U[1]}),
    ),
    Case(
        "CSV pasted from a spreadsheet: tabs",
        "index\tname\tmemory.total [MiB]\n0\tTesla T4\t15360 MiB\n1\tTesla T4\t15360 MiB\n",
        ({"nvml_index": 0, "memory_mib": 15360}, {"nvml_index": 1, "name": "Tesla T4"}),
    ),
    Case(
        "CSV as a Markdown table",
        "| index | name | pci.bus_id |\n|---|---|---|\n| 0 | Tesla T4 | 00000000:3B:00.0 |\n| 1 | Tesla P4 | 00000000:5E:00.0 |\n",
        ({"name": "Tesla T4", "pci_bus_id": "00000000:3B:00.0"}, {"nvml_index": 1, "name": "Tesla P4"}),
    ),
    Case(
        "CSV cells that are not available; the capability is asked for",
        "name, compute_cap, memory.total [MiB], uuid\nNVIDIA Thor, 11.0, [N/A], [Unknown Error]\n",
        ({"nvml_index": 0, "name": "NVIDIA Thor", "compute_capability": (11, 0), "memory_mib": None, "uuid": None},),
    ),
    Case(
        "CSV about one GPU that the command chose: its number is that of the command",
        f"$ nvidia-smi -i 3 --query-gpu=name,uuid --format=csv,noheader\nTesla T4, {U[3]}\n",
        ({"nvml_index": 3, "uuid": U[3]},),
    ),
    Case(
        "CSV with fewer rows than its count: the numbers do not follow from the rows",
        f"count, name, uuid\n4, Tesla T4, {U[2]}\n",
        ({"nvml_index": None, "uuid": U[2]},),
    ),
    Case(
        "CSV printed in a loop: the same boards again and again",
        "timestamp, index, name, utilization.gpu [%]\n"
        + "".join(f"2025/03/04 10:11:{s:02d}.123, {i}, Tesla T4, {s} %\n" for s in range(5) for i in range(2)),
        ({"nvml_index": 0}, {"nvml_index": 1}),
    ),
    Case(
        "CSV whose last row is cut: a half memory size is no memory size",
        "index, name, memory.total [MiB]\n0, Tesla T4, 15360 MiB\n1, Tesla T4, 153",
        ({"memory_mib": 15360}, {"nvml_index": 1, "name": "Tesla T4", "memory_mib": None}),
    ),
    Case(
        "grep left only some labels of nvidia-smi -q",
        f"    GPU UUID                              : {U[0]}\n    Minor Number                          : 1\n--\n"
        f"    GPU UUID                              : {U[1]}\n    Minor Number                          : 0\n",
        ({"nvml_index": 0, "uuid": U[0], "minor_number": 1}, {"nvml_index": 1, "uuid": U[1], "minor_number": 0}),
    ),
    Case(
        "nvidia-smi -q -i 1: one of two GPUs, its place is not its number",
        f"Attached GPUs                             : 2\nGPU 00000000:5E:00.0\n    Product Name                          : Tesla T4\n"
        f"    GPU UUID                              : {U[1]}\n    Minor Number                          : 1\n"
        "    Processes                             : None\n",
        ({"nvml_index": None, "uuid": U[1], "minor_number": 1},),
    ),
    Case(
        "lspci -k: GPUs that are given to virtual machines do not count",
        "01:00.0 VGA compatible controller: NVIDIA Corporation GA106 [GeForce RTX 3060] (rev a1)\n"
        "\tSubsystem: Device [1458:4074]\n\tKernel driver in use: vfio-pci\n"
        "41:00.0 3D controller: NVIDIA Corporation GA102GL [A40] (rev a1)\n\tKernel driver in use: nvidia\n",
        (
            {"name": "GeForce RTX 3060", "nvml_index": None, "problem": ...},
            {"name": "A40", "nvml_index": 0, "problem": None},
        ),
    ),
    Case(
        "lspci -D -nn: domain, identifiers in brackets, a chip that the list of names does not know",
        "0001:00:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"
        "0000:04:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2bb1] (rev a1)\n",
        (
            {"nvml_index": 0, "name": None, "pci_bus_id": "00000000:04:00.0"},
            {"nvml_index": 1, "name": "H100 SXM5 80GB", "pci_bus_id": "00000001:00:00.0"},
        ),
    ),
    Case(
        "nvtop",
        " Device 0 [NVIDIA GeForce RTX 3090] PCIe GEN 1@16x RX: 0.000 KiB/s TX: 0.000 KiB/s\n"
        " GPU 210MHz  MEM 405MHz  TEMP  41°C FAN  30% POW  21 / 350 W\n GPU[              0%] MEM[|||        0.5Gi/24.0Gi]\n",
        ({"nvml_index": 0, "name": "NVIDIA GeForce RTX 3090", "memory_mib": 24576},),
    ),
    Case(
        "nvitop's compact screen: numbers and memory only",
        "NVITOP 1.3.2     Driver Version: 535.86.10     CUDA Driver Version: 12.2\n"
        "│ GPU Fan Temp Perf Pwr:Usg/Cap │         Memory-Usage │ GPU-Util  Compute M. │\n"
        "│   0 N/A  41C  P8     9W / 70W │     2MiB / 15360MiB │      0%      Default │\n"
        "│   1 30%  35C  P8   17W / 450W │     9MiB / 24564MiB │      0%      Default │\n",
        ({"nvml_index": 0, "name": None, "memory_mib": 15360}, {"nvml_index": 1, "memory_mib": 24564}),
        {"source": "nvitop"},
    ),
    Case(
        "gpustat --json",
        f'{{"hostname": "box17", "driver_version": "550.90.07", "gpus": [{{"index": 0, "uuid": "{U[0]}",\n'
        '  "name": "Tesla T4", "utilization.gpu": 3, "memory.used": 10, "memory.total": 15360, "processes": []}]}\n',
        ({"nvml_index": 0, "uuid": U[0], "memory_mib": 15360},),
        {"driver_version": "550.90.07"},
    ),
)

CUDA_CASES = (
    Case(
        "TensorFlow 1: a record over several lines",
        "2019-05-01 10:11:12.000001: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1433] Found device 0 with properties: \n"
        "name: GeForce GTX 1080 Ti major: 6 minor: 1 memoryClockRate(GHz): 1.582\npciBusID: 0000:65:00.0\n"
        "totalMemory: 10.92GiB freeMemory: 10.77GiB\n"
        "2019-05-01 10:11:12.000002: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1433] Found device 1 with properties: \n"
        "name: GeForce GTX 1080 major: 6 minor: 1 memoryClockRate(GHz): 1.7335\npciBusID: 0000:17:00.0\n"
        "totalMemory: 7.93GiB freeMemory: 7.81GiB\n",
        (
            {"name": "GeForce GTX 1080", "pci_bus_id": "00000000:17:00.0"},
            {"name": "GeForce GTX 1080 Ti", "memory_mib": 11182},
        ),
        {"default_order": (1, 0)},
    ),
    Case(
        "TensorFlow 2.2: name behind the address, cores and memory on the next line",
        "I tensorflow/core/common_runtime/gpu/gpu_device.cc:1561] Found device 0 with properties: \n"
        "pciBusID: 0000:01:00.0 name: Quadro RTX 5000 computeCapability: 7.5\n"
        "coreClock: 1.815GHz coreCount: 48 deviceMemorySize: 15.74GiB deviceMemoryBandwidth: 417.29GiB/s\n",
        ({"name": "Quadro RTX 5000", "compute_capability": (7, 5), "sm_count": 48, "memory_mib": 16117},),
        {"default_order": (0,)},
    ),
    Case(
        "XLA (JAX, TensorFlow)",
        "I0304 10:11:12.123456  4242 service.cc:153]   StreamExecutor device (0): NVIDIA H100 PCIe, Compute Capability 9.0\n"
        "I0304 10:11:12.123457  4242 service.cc:153]   StreamExecutor device (1): NVIDIA A2, Compute Capability 8.6\n",
        ({"name": "NVIDIA H100 PCIe", "compute_capability": (9, 0)}, {"name": "NVIDIA A2"}),
        {"default_order": (0, 1)},
    ),
    Case(
        "jax.devices(): numbers only",
        "[CudaDevice(id=0), CudaDevice(id=1)]\n",
        ({"name": None}, {"name": None}),
        {"default_order": (0, 1)},
    ),
    Case(
        "llama.cpp of 2025 names the addresses",
        "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:61:00.0) - 23887 MiB free\n"
        "llama_model_load_from_file_impl: using device CUDA1 (Tesla P40) (0000:21:00.0) - 24270 MiB free\n",
        ({"name": "Tesla P40", "pci_bus_id": "00000000:21:00.0"}, {"name": "NVIDIA GeForce RTX 3090"}),
        {"default_order": (1, 0)},
    ),
    Case(
        "Ollama: UUID, address, name",
        f'time=2025-11-17T19:38:10.915Z level=INFO source=types.go:42 msg="inference compute" id={U[5]} filter_id="" library=CUDA '
        'compute=8.6 name=CUDA0 description="NVIDIA GeForce RTX 3070" driver=13.0 pci_id=0000:0a:00.0 type=discrete total="8.0 GiB"\n',
        ({"name": "NVIDIA GeForce RTX 3070", "uuid": U[5], "pci_bus_id": "00000000:0A:00.0", "memory_mib": 8192},),
    ),
    Case(
        "_CudaDeviceProperties as torch 2.8 prints it: PCI numbers in decimal, UUID without prefix",
        f"_CudaDeviceProperties(name='NVIDIA L40S', major=8, minor=9, total_memory=45589MB, multi_processor_count=142, "
        f"uuid={U[2][4:]}, pci_bus_id=195, pci_device_id=0, pci_domain_id=0, L2_cache_size=96MB)\n",
        (
            {
                "name": "NVIDIA L40S",
                "uuid": U[2],
                "pci_bus_id": "00000000:C3:00.0",
                "sm_count": 142,
                "compute_capability": (8, 9),
            },
        ),
    ),
    Case(
        "YOLO's first line",
        "YOLOv8.0.20 Python-3.10.6 torch-2.0.0 CUDA:0 (NVIDIA GeForce RTX 3060, 12054MiB)\n"
        "                                      CUDA:1 (NVIDIA GeForce GTX 1650, 3912MiB)\n",
        ({"name": "NVIDIA GeForce RTX 3060", "memory_mib": 12054}, {"name": "NVIDIA GeForce GTX 1650"}),
        {"default_order": (0, 1)},
    ),
    Case(
        "NCCL tests: bus in hexadecimal",
        "#  Rank  0 Group  0 Pid  88 on  box17 device  0 [0xe1] NVIDIA A40\n#  Rank  1 Group  0 Pid  88 on  box17 device  1 [0x21] NVIDIA A40\n",
        ({"pci_bus_id": "00000000:21:00.0"}, {"pci_bus_id": "00000000:E1:00.0"}),
        {"default_order": (1, 0)},
    ),
    Case(
        "p2pBandwidthLatencyTest: all parts in hexadecimal",
        "Device: 0, NVIDIA A40, pciBusID: c1, pciDeviceID: 0, pciDomainID:0\nDevice: 1, NVIDIA A40, pciBusID: 41, pciDeviceID: 0, pciDomainID:1\n",
        ({"pci_bus_id": "00000000:C1:00.0"}, {"pci_bus_id": "00000001:41:00.0"}),
        {"default_order": (0, 1)},
    ),
    Case(
        "numba.cuda.detect()",
        "Found 2 CUDA devices\nid 0      b'Quadro P4000'                              [SUPPORTED]\n"
        "                      Compute Capability: 6.1\n                           PCI Device ID: 0\n                              PCI Bus ID: 179\n"
        f"                                    UUID: {U[1]}\nid 1      b'Quadro P2000'                              [SUPPORTED]\n"
        "                      compute capability: 6.1\n                           pci device id: 0\n                              pci bus id: 23\n",
        (
            {"name": "Quadro P2000", "pci_bus_id": "00000000:17:00.0"},
            {"name": "Quadro P4000", "pci_bus_id": "00000000:B3:00.0", "uuid": U[1]},
        ),
        {"default_order": (1, 0)},
    ),
    Case(
        "cupy.show_config()",
        "CuPy Version                 : 13.3.0\nDevice 0 Name                : NVIDIA RTX A5000\nDevice 0 Compute Capability  : 86\n"
        "Device 0 PCI Bus ID          : 0000:B1:00.0\nDevice 1 Name                : NVIDIA RTX A2000 12GB\n"
        "Device 1 Compute Capability  : 86\nDevice 1 PCI Bus ID          : 0000:31:00.0\n",
        ({"name": "NVIDIA RTX A2000 12GB"}, {"name": "NVIDIA RTX A5000", "pci_bus_id": "00000000:B1:00.0"}),
        {"default_order": (1, 0)},
    ),
    Case(
        "a loop with a bare number",
        ">>> [print(i, torch.cuda.get_device_name(i)) for i in range(2)]\n0 NVIDIA GeForce RTX 4070\n1 Quadro T1000\n",
        ({"name": "NVIDIA GeForce RTX 4070"}, {"name": "Quadro T1000"}),
        {"default_order": (0, 1)},
    ),
    Case(
        "a loop that says GPU: with torch in sight these are ordinals",
        ">>> for i in range(torch.cuda.device_count()): print(f'GPU {i}: {torch.cuda.get_device_name(i)}')\n"
        "GPU 0: NVIDIA GeForce RTX 4070\nGPU 1: Quadro T1000\n",
        ({"name": "NVIDIA GeForce RTX 4070", "nvml_index": None}, {"name": "Quadro T1000"}),
        {"default_order": (0, 1)},
    ),
)
