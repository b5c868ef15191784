"""Every sentence that a person reads, by language and key.

Rules, layers and witnesses name a key and its fields; nothing else in the package holds prose. A language is a package
beside this file whose modules each hold a ``SENTENCES`` dict; keys are ``family.name``. Fields are inserted as they
are, never read as format strings, so pasted text in a field is harmless here; views escape it on display.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

LANGUAGES = ("en",)


@cache
def sentences(lang: str) -> dict[str, str]:
    """All sentences of a language by key. Raises KeyError for a language that is not there."""
    if lang not in LANGUAGES:
        raise KeyError(lang)
    package = importlib.import_module(f"{__name__}.{lang}")
    found: dict[str, str] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for key, text in importlib.import_module(f"{package.__name__}.{module.name}").SENTENCES.items():
            if key in found:
                raise ValueError(f"{key} has two sentences")
            found[key] = text
    return found


def say(key: str, lang: str = "en", /, **fields: Any) -> str:
    """The sentence for a key, its fields filled in. Raises KeyError for a key or a field that is not there."""
    return sentences(lang)[key].format_map(fields)


def one_line(text: str) -> str:
    """A text from outside in one line: its control characters must not move the cursor of a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def safe_text(text: str) -> str:
    """The same for a text that has lines of its own."""
    return "\n".join(map(one_line, text.split("\n")))
