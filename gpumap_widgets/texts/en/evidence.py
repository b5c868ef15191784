"""What is said about evidence and recordings."""

SENTENCES = {
    "evidence.not-written": "The evidence was not written to {file}: {error}.",
    "evidence.not-written-remedy": "Nothing of this line is left in the file.",
    "evidence.locked": "another process has had the file locked for {seconds} s",
    "evidence.cut": "only a part of the line could be written",
    "evidence.failed": "gpumap: no evidence was logged: {error}",
    "evidence.not-started": "CUDA was asked to start and did not (cuInit {code}).",
    "evidence.broken-lines": "{count} lines of evidence cannot be read; the first is line {number} of {file}: {reason}.",
    "evidence.not-json": "it is damaged ({error})",
    "evidence.too-large": "it is longer than any machine makes",
    "evidence.no-version": "it has no version",
    "evidence.newer": "it has version {version} of the format, and this release reads up to version {known}",
    "evidence.found.ranks-share": "Ranks {ranks} of {job} on {host} used one GPU, the {gpu}, {uuid}.",
    "evidence.found.refuted": "Line {number} of {file}: {reason}",
    # the command line
    "evidence.nobody": "No line there is of that rank or job.",
    "evidence.none": "No line of evidence is in these files.",
    "evidence.line-broken": "{file}, line {number}: {reason}",
    "evidence.used": "yes: {by}",
    "evidence.predicted": "predicted, {certainty}",
    "evidence.simulated": "{who}, simulated",
    "column.time": "time",
    "column.host": "host",
    "column.used": "used",
    "column.told_by": "told by",
}
