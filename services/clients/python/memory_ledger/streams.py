"""Texts that arrive in parts."""

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .encoding import parse_json
from .errors import ConnectionError, MalformedError

#: The longest line that is read: 256 KiB of content with each byte escaped, and metadata.
_MAX_LINE = 4 * 2**20


def lines_of(parts: Iterable[bytes]) -> Iterator[str]:
    """Yields the lines of a text with their line ends. The last line may have no line end."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            try:
                yield line.decode() + "\n"
            except UnicodeDecodeError:
                raise MalformedError("line", "it is not UTF-8") from None
        if len(rest) > _MAX_LINE:
            raise MalformedError("line", f"it has more than {_MAX_LINE} bytes")
    if rest:
        yield rest.decode(errors="replace")


def objects_of(parts: Iterable[bytes]) -> Iterator[Any]:
    """Yields the objects of a JSON array, or of the array in an object, as they arrive."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    text, at, start, depth = "", 0, -1, 0
    begun = in_text = ended = False
    for part in parts:
        text += decode(part)
        while at < len(text):
            c = text[at]
            if in_text:
                if c == "\\":
                    at += 1
                in_text = c != '"'
            elif c == '"':
                in_text = True
            elif not begun:
                begun = c == "["
            elif c == "{":
                start = at if depth == 0 else start
                depth += 1
            elif c == "}":
                depth -= 1
                if depth == 0:
                    yield parse_answer(text[start:at + 1])
                    start = -1
            elif c == "]" and depth == 0:
                ended = True
            at += 1
        # If a part ends within an escape, `at` is one past the end, and so skips the escaped
        # character in the next part.
        keep = len(text) if start < 0 else start
        text, at, start = text[keep:], at - keep, min(start, 0)
    if not ended:
        raise ConnectionError("the list broke off")


def parse_answer(text: str | bytes) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        raise MalformedError("answer", "it is not JSON", "service") from None


@dataclass
class Message:
    id: str | None = None
    data: str = ""
    retry: float | None = None


def messages_of(parts: Iterable[bytes]) -> Iterator[Message]:
    """Yields the messages of a stream of server-sent events (HTML standard, section 9.2). A message that is cut off is dropped."""
    message = Message()
    for line in lines_of(parts):
        if not line.endswith("\n"):
            return
        field, _, value = line.rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if line.rstrip("\r\n") == "":
            yield message
            message = Message()
        elif field == "id":
            message.id = value
        elif field == "data":
            message.data += ("\n" if message.data else "") + value
        elif field == "retry" and value.isascii() and value.isdigit():
            message.retry = int(value) / 1000
