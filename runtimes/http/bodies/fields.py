"""The kinds of values that bodies are made of, each with its bounds; names as Kubernetes would take them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from runtimes.http.bodies.strict import RAW

MIB = 1024 * 1024
MAX_BLOB = 512 * MIB
MAX_INLINE = 64 * 1024

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="a SHA-256 as 64 lower-case hex digits")]
BlobSize = Annotated[int, Meta(ge=0, le=MAX_BLOB, description=f"a number of bytes from 0 to {MAX_BLOB}")]
FileSize = Annotated[int, Meta(ge=0, le=1 << 50, description="a number of bytes")]
FilePath = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f/\\]+(/[^\x00-\x1f\x7f/\\]+)*\Z",
        max_length=500,
        description="a relative path such as weights/part-1.safetensors, at most 500 characters",
    ),
]
Inline = Annotated[str, Meta(max_length=MAX_INLINE * 4 // 3 + 4, description=f"base64 of at most {MAX_INLINE} bytes")]
Name = Annotated[
    str,
    Meta(
        pattern=rf"^{_LABEL}\Z",
        max_length=63,
        description="a Kubernetes name: at most 63 lower-case letters, digits and dashes, with a letter or digit at both ends",
    ),
]
NodeName = Annotated[
    str,
    Meta(
        pattern=rf"^{_LABEL}(\.{_LABEL})*\Z",
        max_length=253,
        description="a node's name: lower-case letters, digits, dashes and dots, at most 253 characters",
    ),
]
LabelKey = Annotated[
    str,
    Meta(
        pattern=rf"^({_LABEL}(\.{_LABEL})*/)?{_WORD}\Z",
        max_length=317,
        description="a Kubernetes label key: at most 63 letters, digits, '-', '_' and '.', perhaps after a DNS prefix and '/'",
    ),
]
LabelValue = Annotated[
    str,
    Meta(
        pattern=rf"^({_WORD})?\Z",
        max_length=63,
        description="a Kubernetes label value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    ),
]
Gpus = Annotated[int, Meta(ge=1, le=1024, description="a number of GPUs from 1 to 1024")]
Hours = Annotated[float, Meta(gt=0, le=8760, description="a number of hours above 0, at most 8760")]
Cost = Annotated[int | float | str, Meta(description="credits above 0, exactly, such as 2.5: at most six decimal places")]
Cap = Annotated[int | float | str, Meta(description="credits, 0 or more, exactly, such as 100: at most six decimal places")]
Model = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+/-]{0,62}\Z", description="a GPU model such as A100-80GB, at most 63 characters")
]
Vendor = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}\Z", description="a GPU vendor such as nvidia")]
OwnerConstraint = Annotated[
    str,
    Meta(
        pattern=r"^(org|provider|self_host|provider:[!-+\--~]{1,128})\Z",
        description="one of org, provider, provider:<user id>, self_host",
    ),
]
NodeOwner = Annotated[
    str, Meta(pattern=r"^(org|provider:[!-+\--~]{1,128})?\Z", description='org, provider:<user id>, or "" to take what the node says')
]
Requirement = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][^\x00-\x1f\x7f]{0,499}\Z",
        description="a requirement such as numpy==2.1 (no installer options), at most 500 characters",
    ),
]
EnvKey = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}\Z", description="a variable name of letters, digits and underscores")]
EnvValue = Annotated[
    str, Meta(pattern=r"^[^\x00]*\Z", max_length=32_768, description="a value of at most 32768 characters without NUL", extra=RAW)
]
ClientVersion = Annotated[str, Meta(pattern=r"^[0-9]{1,4}(\.[0-9A-Za-z+-]{1,20}){0,5}\Z", description="a version such as 3.11.7")]
