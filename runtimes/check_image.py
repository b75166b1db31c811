#!/usr/bin/env python3
"""`gridweave-check-image`: whether this image keeps what nodes and gateways rely on. Needs nothing but the image's own Python.

It asks the installed packages themselves: it imports them, and has botocore fetch credentials as a pod would, from an agent
that only exists in this process. Each finding says what it will look like in production, where it looks like something else.
One file, so that a Dockerfile may copy it alone. Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import re
import sys
import tempfile
import urllib.request
from typing import Any, NamedTuple

LEAST = {"botocore": (1, 32), "boto3": (1, 35)}
POD_IDENTITY = "http://169.254.170.23/v1/credentials"  # the agent of EKS on every node
_TOKEN = "token-of-this-check"  # noqa: S105 - of an agent that exists in this process only


class Finding(NamedTuple):
    """what: is wrong. seen: how it will look in production. fix: what to do."""

    what: str
    seen: str
    fix: str

    def __str__(self) -> str:
        return f"WRONG  {self.what}\n       In production: {self.seen}\n       Fix: {self.fix}"


def findings(python: str = "", ray: str = "", cloudpickle: str = "") -> list[Finding]:
    """All that is wrong. The arguments are the cluster's versions; "": not compared."""
    found = aws()
    found += _same("Python", platform.python_version(), python, 2, _PICKLES, f"Use a base image with Python {_cut(python, 2)}.")
    for name, wanted, parts, seen in (("ray", ray, 3, _JOINS), ("cloudpickle", cloudpickle, 1, _PICKLES)):
        if not wanted:
            continue
        have = _version(name)
        if isinstance(have, Finding):
            found.append(have)
        else:
            fix = f"pip install '{name}=={_cut(wanted, parts)}{'' if parts == 3 else '.*'}'"
            found += _same(name, have, wanted, parts, seen, fix)
    return found


def aws() -> list[Finding]:
    """What keeps programs on this image from getting AWS credentials in a pod."""
    found: list[Finding] = []
    for name, least in LEAST.items():
        have = _version(name)
        wanted = ".".join(map(str, least))
        if isinstance(have, Finding):
            found.append(have)
        elif _numbers(have) < least:
            found.append(Finding(f"{name} is {have}; {wanted} or newer is needed.", _NO_KEYS, f"pip install '{name}>={wanted}'"))
    if not any(each.what.startswith("botocore can't") for each in found):
        refused = _pod_identity()
        if refused:
            what = f"botocore does not take credentials from the agent of EKS Pod Identity: {refused}"
            found.append(Finding(what, _NO_KEYS, "pip install 'botocore>=1.32' 'boto3>=1.35'; nothing may pin an older one."))
    return found


_NO_KEYS = (
    "NoCredentialsError, or AccessDenied as the node's own role, on every call of AWS: it reads like a fault of IAM, "
    "and no change of a policy helps."
)
_PICKLES = "jobs fail while their function is unpickled, with errors about bytecode or missing attributes that name no version."
_JOINS = "the node never joins: its raylet starts, is told of another version and exits, and the pod restarts again and again."


def _version(name: str) -> str | Finding:
    """Of the package as it is imported, not as some metadata says."""
    try:
        module = importlib.import_module(name)
    except Exception as error:  # whatever an import may raise is a finding
        what = f"{name} can't be imported: {type(error).__name__}: {error}"
        return Finding(what, f"ModuleNotFoundError or ImportError of {name} in the first job.", f"pip install {name}")
    return str(getattr(module, "__version__", ""))


def _same(name: str, have: str, wanted: str, parts: int, seen: str, fix: str) -> list[Finding]:
    if not wanted or _cut(have, parts) == _cut(wanted, parts):
        return []
    return [Finding(f"{name} is {have}, the cluster's is {wanted}.", seen, fix)]


def _cut(version: str, parts: int) -> str:
    return ".".join(version.split(".")[:parts])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2])


class _Answer:
    """Of the agent, as botocore reads it."""

    def __init__(self, status: int, content: str) -> None:
        self.status_code, self.text, self.content = status, content, content.encode()


class _Agent:
    """botocore's HTTP session, answered by a pod identity agent that wants the pod's token."""

    def send(self, request: Any) -> _Answer:
        token = request.headers.get("Authorization", "")
        if (token.decode() if isinstance(token, bytes) else token) != _TOKEN:
            return _Answer(403, "{}")
        keys = {"AccessKeyId": "AKIDCHECK", "SecretAccessKey": "of-this-check", "Token": "session", "Expiration": "2099-01-01T00:00:00Z"}
        return _Answer(200, json.dumps(keys))


def _pod_identity() -> str:
    """Why the container credentials of a pod do not work, "" if they do."""
    try:
        from botocore.credentials import ContainerProvider
        from botocore.utils import ContainerMetadataFetcher

        with tempfile.NamedTemporaryFile("w", suffix=".token") as token:
            token.write(_TOKEN)
            token.flush()
            environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": POD_IDENTITY, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token.name}
            fetcher = ContainerMetadataFetcher(session=_Agent(), sleep=lambda seconds: None)
            found = ContainerProvider(environ=environ, fetcher=fetcher).load()
            if found is None or found.get_frozen_credentials().access_key != "AKIDCHECK":
                return "it did not look for them."
    except Exception as error:  # whatever it raises is the answer
        return f"{type(error).__name__}: {error}"
    return ""


def _cluster(gateway: str) -> dict[str, str]:
    """The versions that a gateway tells of its cluster."""
    with urllib.request.urlopen(f"{gateway.rstrip('/')}/version", timeout=10) as answer:  # noqa: S310 - as the operator says
        told = json.loads(answer.read())
    return {name: str(told.get(name, "")) for name in ("python", "ray", "cloudpickle")}


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser("gridweave-check-image", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--gateway", help="take the cluster's versions from this gateway, such as http://gateway:8200")
    for name in ("python", "ray", "cloudpickle"):
        parser.add_argument(f"--{name}", default="", help=f"the cluster's version of {name}")
    given = parser.parse_args(arguments)
    wanted = {name: getattr(given, name) for name in ("python", "ray", "cloudpickle")}
    if given.gateway:
        try:
            wanted = {name: wanted[name] or told for name, told in _cluster(given.gateway).items()}
        except (OSError, ValueError) as error:
            print(f"{given.gateway} does not tell its versions: {error}", file=sys.stderr)
            return 2
    wrong = findings(**wanted)
    for each in wrong:
        print(each)
    for name, value in wanted.items():
        if not value:
            print(f"note   The version of {name} was not compared: give --{name} or --gateway.")
    print(f"{len(wrong)} finding(s)." if wrong else "This image keeps the contract.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
