"""One question to the NVIDIA driver, in a process of its own: which devices does it number, under this environment?

Run as a program; prints one line of JSON: ``{"cuinit": code, "devices": [[uuid, pci], …], "simulated": bool}``.
"""

from __future__ import annotations

import ctypes
import json
import sys


def ask() -> dict[str, object]:
    """Start CUDA and list its devices by ordinal. Source of the calls: CUDA Driver API."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    cuda = ctypes.CDLL(name)
    code = cuda.cuInit(0)
    answer: dict[str, object] = {"cuinit": code, "devices": [], "simulated": hasattr(cuda, "gpumap_simulated_driver")}
    if code:
        return answer
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    uuid_of = getattr(cuda, "cuDeviceGetUuid_v2", cuda.cuDeviceGetUuid)
    devices = []
    for ordinal in range(count.value):
        device, raw, bus = ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(64)
        cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        uuid_of(raw, device)
        cuda.cuDeviceGetPCIBusId(bus, 64, device)
        text = bytes(raw).hex()
        uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        devices.append([uuid, bus.value.decode()])
    answer["devices"] = devices
    return answer


if __name__ == "__main__":
    print(json.dumps(ask()))
