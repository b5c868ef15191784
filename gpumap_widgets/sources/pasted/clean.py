"""Undo what happens to a text on its way: colours, quoting, prefixes, wrapping, entities, look-alike characters.

The result is a `Text`: cleaned lines without the empty ones, each of which still knows its number in what the user
pasted. Everything here is linear: characters are mapped by tables, prefixes are matched at line starts only.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from dataclasses import dataclass, field

from ...errors import UnreadableTopology

LIMIT = 2 * 1024 * 1024
"""Longest accepted text in bytes. A machine with 16 GPUs fills about 0.2 MB with its longest output."""

_ANSI = re.compile(
    r"(?:\x1b|\^\[|\\x1b|\\u001b|\\033|\\e)"  # the escape itself or one of the ways to print it
    r"(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78DEHMc])",
)
_BARE_COLOUR = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,5}m")  # the escape byte itself got lost
_BACKSPACE = re.compile(r"[^\n]\x08")
_LINE_ENDS = re.compile(r"\r+\n|\r|\n|\u2028|\u2029")
_LONG_BLANK = re.compile(r"[ \t]{100,}")
_TAGS = re.compile(r"</?(?:pre|code|span|font|b|i|u|em|strong|kbd|samp|tt|a|p|div|td|th|tr|li|ul|ol|table|tbody)"
                   r"(?:\s[^<>\n]{0,400})?/?>", re.IGNORECASE)
_BREAK_TAG = re.compile(r"<br\s{0,4}/?>", re.IGNORECASE)
_PRINTED_NEWLINE = re.compile(r"(?:\\r)?\\n(?=[\"'\s|+,\]}\\]|\d|GPU \d|MIG |=|$)")
_UNFINISHED_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{1,35}$")
_REST_OF_UUID = re.compile(r"[0-9a-fA-F-]{1,35}(?![0-9a-zA-Z:.])")


def _characters() -> dict[int, str | None]:
    table: dict[int, str | None] = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms
    table.update(dict.fromkeys([0x2500, 0x2501, 0x2504, 0x2505, 0x2508, 0x2509, 0x254C, 0x254D, 0x2550], "-"))
    table.update(dict.fromkeys([0x2502, 0x2503, 0x2506, 0x2507, 0x250A, 0x250B, 0x254E, 0x254F, 0x2551, 0x23D0], "|"))
    table.update({code: "+" for code in [*range(0x250C, 0x254C), *range(0x2552, 0x2574)]})
    table.update(dict.fromkeys([0x00A0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "))
    table.update(dict.fromkeys([0x00, 0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xFFFE], None))
    table.update(dict.fromkeys([0x0B, 0x0C, 0x85], " "))
    table.update(dict.fromkeys([0x2018, 0x2019, 0x201A, 0x2032], "'"))
    table.update(dict.fromkeys([0x201C, 0x201D, 0x201E, 0x2033], '"'))
    table.update(dict.fromkeys([0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2212], "-"))
    table.update({0x2026: "...", 0x00A6: "|", 0x2044: "/"})
    return table


_LOOK_ALIKES = _characters()

_DATA = r"(?=GPU\s?\d|MIG\s|\||\+[-=]|\d{1,3},\s|\[\d{1,3}\]\s|\s{2,}MIG\s|index\b|name\b|==)"
"""What must follow before a word and a colon is taken for the name of a machine."""
_PREFIX = re.compile(
    rf"""
      (?:[ \t]{{0,8}}>){{1,9}}[ ]?                                                            # mail
    | [ \t]*(?:\#{{1,4}}|//{{1,2}}|;{{1,3}}|%{{1,2}}|--|::|REM|rem|[*\u2022-]|\d{{1,3}}\.)[ \t]{{1,2}}   # comment, list
    | \[?\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:[ ]?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?[:,|]?[ \t](?!,)
    | \[?\d{{4}}/\d\d/\d\d[ ]\d\d:\d\d:\d\d(?:\.\d{{1,9}})?\]?[:]?[ \t](?=[^,\s])
    | [A-Z][a-z]{{2}}[ ]{{1,2}}\d{{1,2}}[ ]\d\d:\d\d:\d\d[ ]\S{{1,60}}[ ][\w./-]{{1,60}}(?:\[\d{{1,9}}\])?:[ ]
    | \[?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\]?[ \t]
    | \[[ ]{{0,8}}\d{{1,9}}\.\d{{3,9}}\][ ]
    | \|?[ ]?\d{{10,19}}(?:\.\d{{1,9}})?[ ](?:\|[ ]?)?
    | [IWEF]\d{{4}}[ ]\d\d:\d\d:\d\d\.\d{{1,9}}[ ]+\d{{1,9}}[ ]\S{{1,120}}\][ ]
    | \[?(?:DEBUG|INFO|WARN|WARNING|ERROR|stdout|stderr)\]?[ ]{{0,3}}[:|-][ ]{{0,3}}(?:[\w.]{{1,60}}:)?
    | [ ]{{2,8}}\d{{1,6}}\t | [ ]{{0,8}}\d{{1,6}}[:|][ ]?(?=[|+][ =-])
    | (?P<pod>\[(?:pod/)?[\w./-]{{1,120}}\]|\[\d{{1,4}},\d{{1,4}}\]<std(?:out|err)>:|\([\w ]{{1,60}}pid=\d{{1,9}}[^)\n]{{0,60}}\))[ ]?(?={_DATA})
    | (?P<service>(?!(?:GPU|Fan|index|name|uuid)\b)[A-Za-z][\w.-]{{0,60}})[ ]{{1,40}}\|[ ]
    | (?P<host>[A-Za-z0-9][\w.-]{{0,80}}):[ \t]{{1,4}}(?={_DATA})
    """,
    re.VERBOSE | re.ASCII,
)
_PROMPT = re.compile(r"[([{]?[\w. ()-]{0,40}?\b[\w.-]{1,40}@([A-Za-z][\w.-]{0,80})[: \]~]")
_MARKER = re.compile(r"==> ?([\w.-]{1,80}) ?<==|([\w.-]{1,80}) \| (?:CHANGED|SUCCESS|FAILED)\b"
                     r"|(?:host(?:name)?|node)[ :=]{1,3}([\w.-]{1,80})$", re.IGNORECASE)
_CONTAINER = re.compile(r"[0-9a-f]{12}")


@dataclass
class Text:
    """Cleaned lines of one machine, joined by newlines, with the way back to the user's line numbers."""

    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    host: str | None = None
    joined: str = ""
    lower: str = ""
    _starts: list[int] = field(default_factory=list)

    def finish(self) -> Text:
        """Join the lines once all are there."""
        self.joined = "\n".join(self.lines)
        self.lower = self.joined.lower()
        at = 0
        for line in self.lines:
            self._starts.append(at)
            at += len(line) + 1
        return self

    def line_at(self, offset: int) -> int:
        """The user's line number of an offset in ``joined``."""
        place = bisect_right(self._starts, offset) - 1
        return self.numbers[place] if self.numbers else 1


def clean(raw: str) -> list[Text]:
    """The cleaned text, one for every machine that lines name as theirs (most often a single one).

    Raises UnreadableTopology for something that is no text or too long.
    """
    if not isinstance(raw, str):
        raise UnreadableTopology("This is not text.", remedy="Paste the output of nvidia-smi as text.")
    if len(raw) > LIMIT or len(raw.encode("utf-8", "surrogatepass")) > LIMIT:
        raise UnreadableTopology(
            "The text is longer than 2 MB.", remedy="Paste only the part that lists the GPUs, for example nvidia-smi -L."
        )
    return _by_host(_lines(_characters_undone(raw)))


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
    quoted_printable = text.count("=3D") > 2
    open_end = ""  # "" or what the last kept line ends with that makes the next one its continuation
    host: str | None = None
    for at, original in enumerate(_LINE_ENDS.split(text), 1):
        line = original
        if quoted_printable:
            line = re.sub(r"=([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), line)
        pieces = [line]
        if "<" in line and _BREAK_TAG.search(line):
            pieces = _BREAK_TAG.split(line)
        elif "\\n" in line:
            pieces = [piece.replace("\\t", "\t") for piece in _PRINTED_NEWLINE.split(line)]
        for piece in pieces:
            bare, label = _without_prefix(piece.rstrip())
            if label is None and "@" in bare and (prompt := _PROMPT.match(bare.lstrip())):
                host = host if _CONTAINER.fullmatch(prompt[1]) else prompt[1]
            elif label is None and len(bare) < 120 and (marker := _MARKER.match(bare)):
                host = marker[1] or marker[2] or marker[3]
            if not bare.strip():
                continue
            if open_end and result and (open_end != "uuid" or _REST_OF_UUID.match(bare.lstrip())):
                glue = "" if open_end == "uuid" else " "
                first, before, owner = result[-1]
                kept = before if open_end == "uuid" else before[:-1].rstrip()
                result[-1] = (first, kept + glue + bare.lstrip(), owner)
            else:
                result.append((at, bare, label or host))
            open_end = _open_end(result[-1][1], quoted_printable)
    return result


def _open_end(line: str, quoted_printable: bool) -> str:
    if line.endswith(" \\") or (quoted_printable and line.endswith("=") and not line.endswith("==")):
        return "break"
    if "-" in line[-36:] and (match := _UNFINISHED_UUID.search(line[-44:])) and len(match[0]) < 40:
        return "uuid"
    return ""


def _without_prefix(line: str) -> tuple[str, str | None]:
    """A line without what loggers, mailers and containers put in front, and the label of its machine if it had one."""
    label = None
    for _ in range(4):
        match = _PREFIX.match(line)
        if match is None or match.end() == 0:
            break
        label = label or match["pod"] or match["service"] or match["host"]
        line = line[match.end() :]
    return line, label


def _by_host(lines: list[tuple[int, str, str | None]]) -> list[Text]:
    texts: dict[str | None, Text] = {}
    for at, line, host in lines:
        text = texts.get(host)
        if text is None:
            text = texts[host] = Text(host=host)
        text.lines.append(line)
        text.numbers.append(at)
    return [text.finish() for text in texts.values()] or [Text().finish()]
