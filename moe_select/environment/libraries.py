"""Versions of installed distributions, found without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

COMMON: Final = (
    "aiter",
    "deep-ep",
    "deep-gemm",
    "flashinfer-python",
    "humming-kernels",
    "pydantic",
    "torch",
    "transformers",
    "triton",
    "vllm",
    "zentorch",
)
"""Distributions that decisions are often about: they are part of every probed environment."""


def installed(requirements: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the common distributions and of those that PEP 508 requirements name, where present.

    A requirement that cannot be read names nothing: whoever declared it is told where it is checked.
    """
    from importlib.metadata import PackageNotFoundError, version

    names = {*COMMON, *(name for requirement in requirements for name in _name(requirement))}
    found = {}
    for name in sorted(names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _name(requirement: str) -> Iterable[str]:
    try:
        yield canonicalize_name(Requirement(requirement).name)
    except InvalidRequirement:
        return
