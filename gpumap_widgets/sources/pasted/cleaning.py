"""Undo what happens to a text on its way: colours, quoting, prefixes, wrapping, entities, look-alike characters.

The result is a `Text`: cleaned lines without the empty ones, each of which still knows its number in what the user
pasted. Everything here is linear: characters are mapped by tables, prefixes are matched at line starts only.
"""

from __future__ import annotations

import html
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import UnreadableTopology
from .prefixes import SERVICE, host_named_in, unquoted, without_prefix

LIMIT = 2 * 1024 * 1024
"""Longest accepted text in bytes. A machine with 16 GPUs fills about 0.2 MB with its longest output."""
MOST_LINES = 60_000
"""Most lines that are not empty: 2 MB of any output that lists GPUs have half as many."""
MOST_HOSTS = 64
"""Most machines whose labelled lines are told apart."""
_LEAST_LINES = 3

_ANSI = re.compile(
    r"(?:\x1b|\^\[|\\x1b|\\u001b|\\033|\\e)"  # the escape itself or one of the ways to print it
    r"(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78DEHMc])",
)
_BARE_COLOUR = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,5}m")  # the escape byte itself got lost
_BACKSPACE = re.compile(r"[^\n]\x08")
_LINE_ENDS = re.compile(r"\r+\n|\r|\n|\u2028|\u2029")
_LONG_BLANK = re.compile(r"[ \t]{100,}")
_TAGS = re.compile(
    r"</?(?:pre|code|span|font|b|i|u|em|strong|kbd|samp|tt|a|p|div|td|th|tr|li|ul|ol|table|tbody)"
    r"(?:\s[^<>\n]{0,400})?/?>",
    re.IGNORECASE,
)
_BREAK_TAG = re.compile(r"<br\s{0,4}/?>", re.IGNORECASE)
_PLAIN_EQUALS = re.compile(r"=(?![0-9A-F]{2}|[\r\n]|$)")
_QUOTED = re.compile(r"=([0-9A-F]{2})")
_PRINTED_NEWLINE = re.compile(r"(?:\\r)?\\n(?=[\"'\s|+,\]}\\]|\d|GPU \d|MIG |=|$)")
_ANY_PRINTED_NEWLINE = re.compile(r"(?<!\\)(?:\\r)?\\n")
_UNFINISHED_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{0,35}$")
_REST_OF_UUID = re.compile(r"[0-9a-fA-F-]{1,35}(?![0-9a-zA-Z:.])")


def _characters() -> dict[int, str | None]:
    table: dict[int, str | None] = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms
    table.update(dict.fromkeys([0x2500, 0x2501, 0x2504, 0x2505, 0x2508, 0x2509, 0x254C, 0x254D, 0x2550], "-"))
    table.update(dict.fromkeys([0x2502, 0x2503, 0x2506, 0x2507, 0x250A, 0x250B, 0x254E, 0x254F, 0x2551, 0x23D0], "|"))
    table.update(dict.fromkeys([*range(9484, 9548), *range(9554, 9588)], "+"))
    table.update(dict.fromkeys([0x00A0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "))
    table.update(dict.fromkeys([0x00, 0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xFFFE], None))
    table.update(dict.fromkeys([0x0B, 0x0C, 0x85], " "))
    table.update(dict.fromkeys([0x2018, 0x2019, 0x201A, 0x2032], "'"))
    table.update(dict.fromkeys([0x201C, 0x201D, 0x201E, 0x2033], '"'))
    table.update(dict.fromkeys([0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2212], "-"))
    table.update({0x2026: "...", 0x00A6: "|", 0x2044: "/"})
    return table


_LOOK_ALIKES = _characters()


@dataclass
class Text:
    """Cleaned lines of one machine, joined by newlines, with the way back to the user's line numbers."""

    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    host: str | None = None
    joined: str = ""
    lower: str = ""
    starts: list[int] = field(default_factory=list)

    def finish(self) -> Text:
        """Join the lines once all are there."""
        self.joined = "\n".join(self.lines)
        self.lower = self.joined.lower()
        at = 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line) + 1
        return self

    def places(self, *words: str) -> list[int]:
        """Offsets of words in ``joined``, ascending: far cheaper than a pattern that searches for them."""
        found = []
        for word in words:
            at = self.joined.find(word)
            while at >= 0:
                found.append(at)
                at = self.joined.find(word, at + len(word))
        return sorted(found)

    def having(self, word: str) -> Iterator[tuple[int, int]]:
        """Begin and end in ``joined`` of every line that holds a word."""
        end = -1
        for at in self.places(word):
            if at > end:
                start = self.joined.rfind("\n", 0, at) + 1
                end = self.joined.find("\n", at)
                end = len(self.joined) if end < 0 else end
                yield start, end

    def line_at(self, offset: int) -> int:
        """The user's line number of an offset in ``joined``."""
        place = bisect_right(self.starts, offset) - 1
        return self.numbers[place] if self.numbers else 1


def clean(raw: str) -> list[Text]:
    """The cleaned text, one for every machine that lines name as theirs (most often a single one).

    Raises UnreadableTopology for something that is no text or too long.
    """
    if not isinstance(raw, str):
        raise UnreadableTopology("This is not text.", remedy="Paste the output of nvidia-smi as text.")
    if len(raw) > LIMIT or len(raw.encode("utf-8", "surrogatepass")) > LIMIT:
        raise UnreadableTopology(
            "The text is longer than 2 MB.",
            remedy="Paste only the part that lists the GPUs, for example nvidia-smi -L.",
        )
    if raw.count("\n") + raw.count("\r") > 2 * MOST_LINES:
        raise _too_many_lines()
    lines = _lines(_characters_undone(raw))
    return _by_host(lines)


def _too_many_lines() -> UnreadableTopology:
    return UnreadableTopology(
        f"The text has more than {MOST_LINES} lines.",
        remedy="Paste only the part that lists the GPUs, for example the output of nvidia-smi -L.",
    )


def _characters_undone(text: str) -> str:
    if "&" in text:
        text = html.unescape(text)
    if "\\" in text or "\x1b" in text or "^[" in text:
        text = _ANSI.sub("", text)
    if "\x08" in text:
        text = _BACKSPACE.sub("", text)
    text = _BARE_COLOUR.sub("", text)
    if not text.isascii() or "\x00" in text or "\x0b" in text or "\x0c" in text:
        text = text.translate(_LOOK_ALIKES)
    if "<" in text:
        text = _TAGS.sub("", text)
    return _LONG_BLANK.sub(" " * 99, text)


def _lines(text: str) -> list[tuple[int, str, str | None]]:
    """Number, text and label of every line that is not empty."""
    result: list[tuple[int, str, str | None]] = []
    quoted_printable = "=3D" in text and _PLAIN_EQUALS.search(text) is None
    open_end = ""
    host: str | None = None
    for at, line in enumerate(_LINE_ENDS.split(text), 1):
        for piece in _pieces(line, quoted_printable=quoted_printable):
            bare, label = without_prefix(piece.rstrip())
            host = host_named_in(piece, bare) or host
            if not bare or bare.isspace():
                continue
            if open_end == "break" or (open_end == "uuid" and _REST_OF_UUID.match(bare.lstrip())):
                first, before, owner = result[-1]
                joint = before + bare.lstrip() if open_end == "uuid" else f"{before[:-1].rstrip()} {bare.lstrip()}"
                result[-1] = (first, joint, owner)
            else:
                result.append((at, bare, label or host))
            open_end = _open_end(result[-1][1], quoted_printable=quoted_printable)
            if len(result) > MOST_LINES:
                raise _too_many_lines()
    return result


def _pieces(line: str, *, quoted_printable: bool) -> list[str]:
    """The lines that a line was before tags, JSON or printed newlines took the place of their ends."""
    if quoted_printable and "=" in line:
        line = _QUOTED.sub(lambda m: chr(int(m[1], 16)), line)
    if "<" in line and _BREAK_TAG.search(line):
        return _BREAK_TAG.split(line, MOST_LINES)
    if "\\" not in line:
        return [line]
    if line[:1] in ('"', "{") and (told := _json_string(line)):
        return told.translate(_LOOK_ALIKES).split("\n", MOST_LINES)
    if "\\n" not in line:
        return [line]
    # In the repr of a string every \\n is a line end; elsewhere one may begin a name in a Windows path.
    text = line[1:] if line[:2] in ("b'", 'b"') else line
    splitter = _ANY_PRINTED_NEWLINE if text[:1] in ("'", '"') else _PRINTED_NEWLINE
    return [piece.replace("\\t", "\t") for piece in splitter.split(unquoted(text), MOST_LINES)]


def _json_string(line: str) -> str | None:
    """The text of a JSON string or of a log entry in JSON."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = next((value[key] for key in ("log", "message", "msg", "line", "text") if key in value), None)
    return value if isinstance(value, str) else None


def _open_end(line: str, *, quoted_printable: bool) -> str:
    if line.endswith(" \\") or (quoted_printable and line.endswith("=") and not line.endswith("==")):
        return "break"
    if "-" in line[-36:] and (match := _UNFINISHED_UUID.search(line[-44:])) and len(match[0]) < 40:
        return "uuid"
    return ""


def _by_host(lines: list[tuple[int, str, str | None]]) -> list[Text]:
    """The lines of each machine. A word before a bar that occurs once or twice names none."""
    counted = Counter(host for _, _, host in lines)
    few = {host for host, count in counted.items() if host and host.endswith(SERVICE) and count < _LEAST_LINES}
    if len(counted) - len(few) > MOST_HOSTS:
        few = {host for host in counted if host and host.endswith(SERVICE)}
    if len(counted) - len(few) > MOST_HOSTS:
        raise UnreadableTopology(
            f"The lines are labelled with the names of more than {MOST_HOSTS} machines.",
            remedy="Paste the output of one machine at a time.",
        )
    texts: dict[str | None, Text] = {}
    for at, line, label in lines:
        host = None if label in few else label
        text = texts.get(host)
        if text is None:
            text = texts[host] = Text(host=host.removesuffix(SERVICE) if host else None)
        text.lines.append(line)
        text.numbers.append(at)
    return [text.finish() for text in texts.values()] or [Text().finish()]
