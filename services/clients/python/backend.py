"""Builds the wheel and the sdist (PEP 517) with the standard library alone.

So it needs no network, and the same files give the same bytes.
"""

import base64
import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
#: The members of pyproject.toml, each on a line. Python 3.10 has no parser for the rest.
PROJECT = dict(re.findall(r'^([a-z-]+) = \[?"(.*)"\]?$', (HERE / "pyproject.toml").read_text(), re.M))
NAME = f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}"


def metadata() -> bytes:
    return f"""Metadata-Version: 2.1
Name: {PROJECT["name"]}
Version: {PROJECT["version"]}
Summary: {PROJECT["description"]}
License: Apache-2.0
Requires-Python: {PROJECT["requires-python"]}
Provides-Extra: wallet
Requires-Dist: {PROJECT["wallet"]}; extra == "wallet"
Description-Content-Type: text/markdown

{(HERE / "README.md").read_text()}""".encode()


def package() -> dict[str, bytes]:
    files = [path for path in (HERE / "memory_ledger").iterdir() if path.suffix == ".py" or path.name == "py.typed"]
    return {f"memory_ledger/{path.name}": path.read_bytes() for path in files}


def terms() -> dict[str, bytes]:
    """The license, which a release lays beside this file."""
    return {path.name: path.read_bytes() for path in HERE.glob("LICENSE")}


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    info = f"{NAME}.dist-info"
    files = package()
    files[f"{info}/METADATA"] = metadata()
    files.update({f"{info}/{name}": data for name, data in terms().items()})
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: memory-ledger\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},{digest(data)},{len(data)}\n" for path, data in sorted(files.items()))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as wheel:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path)  # of 1980
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


def digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    files = package()
    files.update(terms())
    files.update({name: (HERE / name).read_bytes() for name in ("backend.py", "pyproject.toml", "README.md")})
    files["PKG-INFO"] = metadata()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{NAME}/{path}")  # of 1970
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    name = f"{NAME}.tar.gz"
    with open(Path(sdist_directory, name), "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(archive.getvalue())
    return name
