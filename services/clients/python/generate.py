"""Writes memory_ledger/schema.py, the types of the answers and bodies in both OpenAPI documents."""

import json
import keyword
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

#: The schemas that the client's calls use, by document. Their parts follow.
WANTED = {
    "core": [
        "Anchor", "ConsistencyProof", "CreatedKey", "CreatedMemory", "Entry", "Event", "Events", "FoundMemory", "InclusionProof", "Key", "LiveGrant",
        "LiveSession", "LogHead", "Memory", "NewMemory", "Receipt", "SearchFilter", "Session", "StakingStatus", "UnsignedTransaction",
    ],
    "extension": ["Case", "CaseStatus", "Drop", "DropStatus", "DroppedMemory", "FilledDrop", "NewCase", "NewDrop", "Revoked"],
}

HEAD = '''"""The types of the service's answers, unchanged. generate.py writes this file."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union
'''


class Schemas:
    def __init__(self, schemas: dict[str, Any]) -> None:
        self.schemas = schemas
        self.classes: dict[str, str] = {}

    def type(self, schema: dict[str, Any]) -> str:
        """Returns the type of a schema, and declares the classes that it needs."""
        if "$ref" in schema:
            return self.named(schema["$ref"].rsplit("/", 1)[1])
        for several in ("oneOf", "anyOf"):
            if several in schema:
                return f"Union[{', '.join(self.type(one) for one in schema[several])}]"
        if len(schema.get("allOf", ())) == 1:
            return self.type(schema["allOf"][0])
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", [schema.get("const")])
            return f"Literal[{', '.join(map(repr, values))}]"
        kinds = schema.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        found = [self.plain(kind, schema) for kind in kinds]
        return f"Union[{', '.join(found)}]" if len(found) > 1 else found[0] if found else "Any"

    def plain(self, kind: str, schema: dict[str, Any]) -> str:
        if kind == "array":
            return f"list[{self.type(schema['items'])}]"
        return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict[str, Any]"}[kind]

    def named(self, name: str) -> str:
        schema = self.schemas[name]
        if "properties" not in schema:
            return self.type(schema)
        self.declare(name, schema)
        nullable = isinstance(schema["type"], list) and "null" in schema["type"]
        return f"Union[{name}, None]" if nullable else name

    def declare(self, name: str, schema: dict[str, Any]) -> None:
        if name in self.classes:
            return
        self.classes[name] = ""
        doc = f'    """{schema["description"]}"""\n' if "description" in schema else ""
        properties = schema["properties"]
        required = {m: of for m, of in properties.items() if m in schema.get("required", ())}
        optional = {m: of for m, of in properties.items() if m not in required}
        bases, text = [], ""
        for total, members in ((True, required), (False, optional)):
            # A class body has no member named "from", and NotRequired needs Python 3.11.
            words = {m: self.nested(name + m.capitalize(), of) for m, of in members.items() if keyword.iskeyword(m)}
            if words:
                bases.append(f"_{name}Words")
                pairs = ", ".join(f'"{m}": {kind}' for m, kind in words.items())
                text += f'\n\n_{name}Words = TypedDict("_{name}Words", {{{pairs}}}, total={total})\n'
        if required and optional:
            text += f"\n\nclass _{name}(TypedDict):\n{self.body(name, required)}"
            bases.append(f"_{name}")
        some = ", total=False" if optional else ""
        text += f"\n\nclass {name}({', '.join(bases) or 'TypedDict'}{some}):\n{doc}{self.body(name, optional or required)}"
        del self.classes[name]  # it comes after the classes that it needs
        self.classes[name] = text

    def body(self, name: str, members: dict[str, Any]) -> str:
        lines = ""
        for member, of in members.items():
            if not keyword.iskeyword(member):
                lines += f"    #: {of['description']}\n" if "description" in of else ""
                lines += f"    {member}: {self.nested(name + member[0].upper() + member[1:], of)}\n"
        return lines

    def nested(self, name: str, schema: dict[str, Any]) -> str:
        if any(schema.get("properties", {}).values()):  # not false, which refuses a member
            self.declare(name, schema)
            return name
        for several in ("oneOf", "anyOf"):
            if several in schema:
                return f"Union[{', '.join(self.nested(name, one) for one in schema[several])}]"
        return self.type(schema)


def main() -> None:
    classes: dict[str, str] = {}
    for api, names in WANTED.items():
        schemas = Schemas(json.loads((HERE / f"../../{api}/openapi.json").read_text())["components"]["schemas"])
        for name in names:
            schemas.named(name)
        classes = {**schemas.classes, **classes}  # core's Memory is the one that the client returns
    exported = "".join(f'    "{name}",\n' for name in sorted(classes))
    (HERE / "memory_ledger/schema.py").write_text(f"{HEAD}\n__all__ = [\n{exported}]\n{''.join(classes.values())}")


if __name__ == "__main__":
    main()
