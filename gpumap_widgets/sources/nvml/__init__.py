"""This machine, through NVIDIA's management library (NVML). The only package that imports pynvml.

Any call may fail, for one GPU or for all of them: what NVML cannot tell is None, and a GPU that cannot be used is a row
with its reason, so that the numbers of the others stay. Links and processes change while a machine stays the same: they
are results of their own, joined to a machine by UUID. NVML does not read CUDA_VISIBLE_DEVICES and does not start CUDA.
Source of what a call means: nvml.h, unless another is named.
"""

from .linking import LinkMatrix, links
from .machine import this_machine
from .running import GpuProcess, ProcessList, processes

__all__ = ["GpuProcess", "LinkMatrix", "ProcessList", "links", "processes", "this_machine"]
