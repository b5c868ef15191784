"""Measuring GPUs: what is asked for, and what can go wrong."""

SENTENCES = {
    "measure.consent": "To be measured: {n}, one after the other, each kept busy for about {seconds} s with matrix products in {dtype} and copies, and up to {memory} MiB of its memory taken. Whatever else runs there meanwhile is slower, and may run out of memory.",
    "measure.consent-remedy": "Nothing was run. Give consent=True to run it.",
    "measure.busy": "Other processes on these GPUs now: {n}.",
    "measure.odd": "The type is one of {dtypes}, the time from 0.05 to 60 s, the memory from 16 MiB on, threads from 1 on.",
    "measure.odd-device": "“{device}” is no device to measure: give a machine, or “cpu”.",
    "measure.nothing": "No GPU of this machine can be measured: each is unusable, cut by MIG, or has neither UUID nor number.",
    "measure.odd-function": "“{function}” is no function: write module:name.",
    "measure.no-source": "The function's source cannot be had, so that no other process can run it.",
    "measure.no-source-remedy": "Define it with def in a file or a cell, or name it as “module:name”.",
    "measure.cancelled": "cancelled",
    "measure.timed-out": "no answer within {seconds} s, so its process was ended",
    "measure.died": "its process died (status {status}): {tail}",
    "measure.failed": "it failed: {error}",
    "measure.no-torch": "there is no torch in that Python",
    "measure.other-gpu": "another GPU answered ({seen}), so that its figures were thrown away",
    "measure.part.tflops": "matrix products",
    "measure.part.copy_gbs": "copies",
    "measure.part.step_seconds": "the function",
}
