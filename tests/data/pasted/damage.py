"""What happens to a text on its way into a paste box: one function a kind of damage, from text to text."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Callable

Damage = Callable[[str], str]


def each_line(change: Callable[[str], str]) -> Damage:
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


def before(prefix: str) -> Damage:
    return each_line(lambda line: prefix + line)


def wrapped(width: int) -> Damage:
    """Broken between words, as mailers do; words themselves stay whole."""

    def change(text: str) -> str:
        lines = []
        for line in text.split("\n"):
            lines += textwrap.wrap(
                line, width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
            ) or [""]
        return "\n".join(lines)

    return change


def broken(width: int) -> Damage:
    """Broken at a column, as terminals do."""
    return lambda text: "\n".join(
        line[at : at + width] for line in text.split("\n") for at in range(0, max(len(line), 1), width)
    )


def _docker_json(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-03-04T10:11:12Z"}) for line in lines
    )


DAMAGES: dict[str, Damage] = {
    "mail quote": before("> "),
    "double quote": before(">> "),
    "indented": before("    "),
    "tab": before("\t"),
    "ISO time": before("2025-03-04T10:11:12.123456Z "),
    "bracketed time": before("[2025-03-04 10:11:12,123] "),
    "time and level": before("2025-03-04 10:11:12 INFO "),
    "logging": before("2025-03-04 10:11:12,123 - INFO - "),
    "syslog": before("Mar  4 10:11:12 box17 runner[812]: "),
    "clock": before("10:11:12 "),
    "compose": before("trainer_1  | "),
    "compose v2": before("trainer-1  | "),
    "kubectl": before("[pod/train-0/main] "),
    "mpirun": before("[1,0]<stdout>:"),
    "ray": before("(Worker pid=4121) "),
    "comment #": before("# "),
    "comment //": before("// "),
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "doubled line ends": lambda text: text.replace("\n", "\r\r\n"),
    "colours": each_line(lambda line: f"\x1b[1;32m{line}\x1b[0m"),
    "colours without escape": each_line(lambda line: f"[32m{line}[0m"),
    "colours in caret notation": each_line(lambda line: f"^[[4m{line}^[[0m"),
    "box-drawing": lambda text: text.replace("|", "│").replace("+-", "┼─"),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "HTML entities": lambda text: html.escape(text).replace("  ", "&nbsp;&nbsp;"),
    "HTML pre": lambda text: f"<pre>{html.escape(text)}</pre>",
    "HTML br": lambda text: "<br>".join(html.escape(text).split("\n")),
    "byte order mark": lambda text: "\ufeff" + text,
    "UTF-16 read as bytes": "\0".join,
    "spaces collapsed": each_line(lambda line: re.sub(" +", " ", line)),
    "trailing blanks": each_line(lambda line: line + "      "),
    "docker JSON": _docker_json,
    "JSON string": json.dumps,
    "fenced": lambda text: f"Here it is:\n```text\n{text}```\nthanks!\n",
    "prompt": lambda text: f"(base) alice@box17:~$ nvidia-smi\n{text}(base) alice@box17:~$ \n",
    "numbered lines": lambda text: "\n".join(f"{i:6d}\t{line}" for i, line in enumerate(text.split("\n"), 1)),
    "log viewer": each_line(lambda line: f"| 1741083072123 | {line:<100} |"),
    "full-width punctuation": lambda text: text.translate(str.maketrans(":|(),", "：｜（），")),
    "one line": lambda text: re.sub(r"\s+", " ", text),
    "one line, blanks kept": lambda text: text.replace("\n", " "),
    "wrapped at 72": wrapped(72),
    "wrapped at 60": wrapped(60),
    "broken at 80": broken(80),
    "broken at 120": broken(120),
    "quoted lines": each_line(lambda line: f'"{line}"'),
    "list of strings": each_line(lambda line: f"'{line}',"),
    "twice": lambda text: f"{text}\n{text}",
    "blank lines between": lambda text: text.replace("\n", "\n\n"),
    "quoted-printable": lambda text: text.replace("=", "=3D"),
    "list items": before("- "),
    "nested quotes": before("> > "),
}
