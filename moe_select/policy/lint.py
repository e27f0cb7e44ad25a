"""Checking one policy file: its errors, and what is legal but surely not meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moe_select.policy.document import Document
from moe_select.policy.kinds import is_pattern
from moe_select.policy.loading import merge_layers, read_default, read_file, read_text
from moe_select.policy.model import Origin, Policy, Target
from moe_select.policy.problems import Problem, Problems, in_order

if TYPE_CHECKING:
    from moe_select.plugins import Registry


def lint(path: str | os.PathLike[str], registry: Registry | None = None, *, text: str | None = None) -> list[Problem]:
    """Everything wrong with a policy file as a layer on the packaged default, errors and warnings, in file order.

    Args:
        path: the file, or what to call ``text`` in positions.
        registry: installed backends to check names and options against; None checks the document only.
        text: the document, where it is not in a file.

    """
    problems = Problems()
    default = read_default(problems)
    document = read_file(path, problems) if text is None else read_text(text, os.fspath(path), problems)
    if document is not None:
        policy = merge_layers([default, document], registry, problems)
        for origin, message, help in _warnings(document, policy, registry):
            problems.warn(origin, message, help)
    return list(in_order(problems))


def _warnings(document: Document, policy: Policy, registry: Registry | None) -> Iterator[tuple[Origin, str, str]]:
    yield from _contradictions(document)
    yield from _unused_declarations(document, policy)
    for scheme in document.schemes.values():
        if scheme.backends is not None and not scheme.backends.items:
            help = "only rules with `require` or `prefer`, and explicit backends, can bring candidates"
            yield scheme.origin, f"scheme {scheme.name!r} lists no backends", help
    if registry is not None:
        yield from _idle_patterns(document, registry)


def _contradictions(document: Document) -> Iterator[tuple[Origin, str, str]]:
    """One target under two verbs of one rule, of which only one can have its way."""
    for rule in document.rules:
        seen: dict[Target, str] = {}
        for verb, listed in rule.verbs.items():
            for target, origin in listed.written.items():
                if target in seen and {verb, seen[target]} != {"require", "prefer"}:
                    yield origin, f"rule {rule.name!r} says both `{seen[target]}` and `{verb}` of {target}", "keep one"
                seen.setdefault(target, verb)


def _unused_declarations(document: Document, policy: Policy) -> Iterator[tuple[Origin, str, str]]:
    named = {target.backend for target in document.targets()}
    for scheme in policy.schemes.values():
        named.update(target.backend for target in scheme.backends)
    for declared in document.declared.values():
        if declared.name not in named:
            yield (
                declared.origin,
                f"{declared.name!r} is declared but nothing names it",
                "remove it, or list it",
            )


def _idle_patterns(document: Document, registry: Registry) -> Iterator[tuple[Origin, str, str]]:
    candidates = [
        (registered.provider.distribution, registered.name, experts.__name__)
        for registered in registry.backends
        for experts in registered.backend.experts
    ]
    for target in document.targets():
        if is_pattern(target.text) and not any(target.matches(*candidate) for candidate in candidates):
            yield target.origin, f"pattern {target.text!r} matches nothing that is installed", "check its spelling"
