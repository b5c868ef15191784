"""What mailers, loggers, containers and shells put in front of a line, and the machine that it names."""

from __future__ import annotations

import re

_DATA = r"(?=GPU\s?\d|MIG\s|\||\+[-=]|\d{1,3},\s|\[\d{1,3}\]\s|\s{2,}MIG\s|index\b|name\b|==)"
"""What must follow before a word and a colon is taken for the name of a machine."""
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|stdout|stderr)"
_AFTER_TIME = rf"(?:[ ]?[-|:]?[ ]{{0,2}}\[?{_LEVEL}\]?(?=[ :|-])[ ]{{0,9}}[-:]?)?[ \t](?!,)"
_PREFIX = re.compile(
    rf"""
      (?:[ \t]{{0,8}}>){{1,9}}[ ]?                                                            # mail
    | [ \t]*(?:\#{{1,4}}|//{{1,2}}|;{{1,3}}|%{{1,2}}|--|::|REM|rem|[*\u2022-]|\d{{1,3}}\.)[ \t]{{1,2}}   # comment, list
    | \[?\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:[ ]?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?[:,|]?{_AFTER_TIME}
    | \[?\d{{4}}/\d\d/\d\d[ ]\d\d:\d\d:\d\d(?:\.\d{{1,9}})?\]?[:]?{_AFTER_TIME}
    | [A-Z][a-z]{{2}}[ ]{{1,2}}\d{{1,2}}[ ]\d\d:\d\d:\d\d[ ]\S{{1,60}}[ ][\w./-]{{1,60}}(?:\[\d{{1,9}}\])?:[ ]
    | \[?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\]?{_AFTER_TIME}
    | \[[ ]{{0,8}}\d{{1,9}}\.\d{{3,9}}\][ ]
    | (?P<cell>\|?[ ]?\d{{10,19}}(?:\.\d{{1,9}})?[ ]\|[ ]?) | \d{{10,19}}(?:\.\d{{1,9}})?[ ]
    | [IWEF]\d{{4}}[ ]\d\d:\d\d:\d\d\.\d{{1,9}}[ ]+\d{{1,9}}[ ]\S{{1,120}}\][ ]
    | \[?{_LEVEL}\]?(?::[\w.]{{1,60}}:|[ ]{{0,3}}[:-][ ]{{1,3}}|:(?=[+|]))
    | [ ]{{2,8}}\d{{1,6}}\t | [ ]{{0,8}}\d{{1,6}}[:|][ ]?(?=[|+][ =-])
    | \{{"(?:log|message|msg|line|text)":[ ]?"
    | (?P<pod>\[(?!N/A)[\w.-]{{1,80}}/[\w./-]{{1,160}}\]|\[\d{{1,4}},\d{{1,4}}\]<std(?:out|err)>:|\([\w ]{{1,60}}pid=\d{{1,9}}[^)\n]{{0,60}}\))[ ]?
    | (?P<service>(?!(?:GPU|Fan|MIG|Default|Enabled|Disabled|On|Off|index|name|uuid)\b)[A-Za-z][\w.-]{{0,60}})[ ]{{1,40}}\|(?:[ ]|$)
    | (?P<host>(?=[\w.-]*[\d.-])[A-Za-z0-9][\w.-]{{0,80}}):[ \t]{{1,4}}(?={_DATA})
    """,
    re.VERBOSE | re.ASCII,
)
_PROMPT = re.compile(r"[([{]?[\w. ()-]{0,40}?\b[\w.-]{1,40}@([A-Za-z][\w.-]{0,80})[: \]~]")
_MARKER = re.compile(
    r"==> ?([\w.-]{1,80}) ?<==|([\w.-]{1,80}) \| (?:CHANGED|SUCCESS|FAILED)\b"
    r"|(?:host(?:name)?|node)[ :=]{1,3}([\w.-]{1,80})$",
    re.IGNORECASE,
)
SERVICE = " |"
"""Ends the label of a container's lines in a log of several: any word before a bar may look like one."""
_MARKED = ("==> ", "host", "node")
_CONTAINER = re.compile(r"[0-9a-f]{12}")
_QUOTES = ("'", '"')


def without_prefix(line: str) -> tuple[str, str | None]:
    """A line without what loggers, mailers and containers put around it, and the label of its machine if it had one."""
    label = None
    if line[:1] in ("|", "+", "") and not line[2:10].isdigit():
        return line, None
    for _ in range(4):
        if line[:1] in _QUOTES:
            line = unquoted(line)
        match = _PREFIX.match(line)
        if match is None or match.end() == 0:
            break
        label = label or match["pod"] or match["host"] or (match["service"] and match["service"] + SERVICE)
        line = line[match.end() :]
        if match["cell"]:  # a cell of another table: its closing bar goes too
            line = line.removesuffix("|").rstrip()
    return line, label


def unquoted(line: str) -> str:
    """A line without the quote marks around it and the comma behind them."""
    body = line.rstrip(", \t")
    return body[1:-1].rstrip() if len(body) > 1 and body[-1] == body[0] else line


def host_named_in(piece: str, bare: str) -> str | None:
    """The machine that a prompt or a heading names; what follows comes from there."""
    if "@" in bare[:60] and (prompt := _PROMPT.match(bare.lstrip())):
        return None if _CONTAINER.fullmatch(prompt[1]) else prompt[1]
    if (piece[:4].lower() in _MARKED or " | rc=" in piece) and len(piece) < 200 and (marker := _MARKER.match(piece)):
        return marker[1] or marker[2] or marker[3]
    return None
