"""Checking the names of a layer against what is installed, declared and defined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from moe_select.policy.document import PACKAGED, VARIABLE_LAYER, Document, Listed, Placed, normalize_alias
from moe_select.policy.kinds import is_pattern, matches_pattern
from moe_select.policy.model import ExplicitBackend, Origin, Policy, Target
from moe_select.policy.nodes import Node
from moe_select.policy.problems import Problems
from moe_select.vocabulary.suggest import did_you_mean

if TYPE_CHECKING:
    from moe_select.plugins import RegisteredBackend, Registry

OWN_DISTRIBUTION: Final = "moe-select"

L = TypeVar("L")


def check_names(document: Document, policy: Policy, registry: Registry | None, problems: Problems) -> None:
    """Report names that mean nothing.

    Args:
        document: the layer to check.
        policy: all layers merged: what they declare and define counts.
        registry: installed backends; None checks the names of schemes only.
        problems: takes what is found.

    """
    for name, origin in _scheme_names(document):
        if not any(matches_pattern(scheme, name) if is_pattern(name) else scheme == name for scheme in policy.schemes):
            known = ", ".join(policy.schemes) or "none"
            problems.error(origin, f"unknown scheme {name!r}{did_you_mean(name, policy.schemes)}", f"schemes: {known}")
    if registry is not None:
        _NameChecker(document, policy, registry, problems).check()


def _scheme_names(document: Document) -> Iterator[tuple[str, Origin]]:
    for rule in document.rules:
        for term in rule.when.all_terms():
            if term.field == "scheme":
                yield from (
                    (str(test.written), origin)
                    for test, origin in zip(term.tests, term.origins, strict=True)
                    if test.written != "none"
                )


class _NameChecker:
    """The names of one layer."""

    def __init__(self, document: Document, policy: Policy, registry: Registry, problems: Problems) -> None:
        self.document, self.policy, self.registry, self.problems = document, policy, registry, problems

    def check(self) -> None:
        for target in self.document.targets():
            self._target(target)
        for rule in self.document.rules:
            for target, options in rule.options.values():
                self._options(target, options)
        if self.document.backend is not None and self.document.source != VARIABLE_LAYER:
            self._explicit(self.document.backend)

    def _target(self, target: Target) -> None:
        if is_pattern(target.backend):
            return
        found = self.registry.find(target.backend)
        if len(found) > 1:
            self._ambiguous(target, found)
        elif found:
            self._experts(target, found[0])
        # The packaged default serves every machine; what is absent here is refused when it would be chosen.
        elif self.document.source != PACKAGED:
            self._absent(target)

    def _explicit(self, backend: ExplicitBackend) -> None:
        """An alias of any scheme will do: which scheme is asked is known at selection only."""
        alias = normalize_alias(backend.name)
        if not backend.is_auto and not any(alias in scheme.aliases for scheme in self.policy.schemes.values()):
            self._target(Target(backend.name, backend.origin))

    def _ambiguous(self, target: Target, found: tuple[RegisteredBackend, ...]) -> None:
        if self.document.source != PACKAGED:
            message = f"backend {target.backend!r} is provided by {len(found)} distributions"
            names = " or ".join(registered.qualified_name for registered in found)
            self.problems.error(target.origin, message, f"write {names}")

    def _experts(self, target: Target, registered: RegisteredBackend) -> None:
        known = [experts.__name__ for experts in registered.backend.experts]
        if target.experts is not None and not is_pattern(target.experts) and target.experts not in known:
            hint = did_you_mean(target.experts, known)
            message = f"backend {registered.name!r} has no class {target.experts!r}{hint}"
            self.problems.error(target.origin, message, f"it has {', '.join(known)}")

    def _absent(self, target: Target) -> None:
        name = target.backend
        broken = next((plugin for plugin in self.registry.broken if plugin.may_provide(name)), None)
        declared = self.policy.declared.get(name)
        if broken is not None:
            self.problems.error(target.origin, f"backend {name!r} is unavailable: {broken}", "repair or reinstall it")
        elif self._is_blocked(name):
            return
        elif declared is None:
            self._unknown(target)
        elif declared.origin.source == PACKAGED:
            self.problems.error(target.origin, f"backend {name!r} is not installed", declared.install)

    def _is_blocked(self, name: str) -> bool:
        """Whether the name was disabled on purpose: then it is refused when it would be chosen."""
        wanted = name.partition(":")[0].replace("_", "-")
        return any(
            wanted in (provider.plugin.replace("_", "-"), provider.distribution.replace("_", "-"))
            for provider in self.registry.blocked
        )

    def _unknown(self, target: Target) -> None:
        known = sorted({registered.name for registered in self.registry.backends} | set(self.policy.declared))
        help = f"known: {', '.join(known) or 'none'}; names that only some machines have are declared under `backends`"
        hint = did_you_mean(target.backend, known)
        self.problems.error(target.origin, f"unknown backend {target.backend!r}{hint}", help)

    def _options(self, target: Target, options: Node) -> None:
        """Options of patterns and of absent backends are checked at selection."""
        found = () if is_pattern(target.backend) else self.registry.find(target.backend)
        if len(found) != 1:
            return
        model: type[BaseModel] | None = found[0].backend.options
        if model is None:
            self.problems.error(target.origin, f"backend {found[0].name!r} takes no options", "remove them")
            return
        known = list(model.model_fields)
        for error in _option_errors(model, options.plain()):
            path = error["loc"]
            name = ".".join(map(str, path))
            if error["type"] == "extra_forbidden":
                message, origin = f"unknown option {name!r}{did_you_mean(name, known)}", options.key_origin(path)
            else:
                reason = error["msg"].removeprefix("Value error, ")
                message, origin = f"option {name}: {reason}", options.find(path).origin
            self.problems.error(origin, message, f"options of {found[0].name}: {', '.join(known) or 'none'}")


def _option_errors(model: type[BaseModel], values: dict[str, Any]) -> list[Any]:
    """What the model refuses about these values. Another rule may add the rest, so what is missing, and what only the
    whole shows, waits for the selection.
    """
    try:
        model.model_validate(values)
    except ValidationError as error:
        return [item for item in error.errors(include_url=False) if item["loc"] and item["type"] != "missing"]
    except Exception:
        return []
    return []


def pin_packaged_names(layer: L, registry: Registry | None) -> L:
    """The packaged default means this project's own backends, also where another distribution took a name of theirs:
    installing a plugin must change no decision.
    """
    if not isinstance(layer, Document) or layer.source != PACKAGED or registry is None:
        return layer
    pinned = {
        target: Target(f"{OWN_DISTRIBUTION}:{target.text}", target.origin)
        for target in layer.targets()
        if len(found := registry.find(target.backend)) > 1
        and any(registered.provider.distribution == OWN_DISTRIBUTION for registered in found)
    }
    if not pinned:
        return layer
    schemes = {
        name: replace(
            scheme,
            aliases={alias: _replaced(listed, pinned) for alias, listed in scheme.aliases.items()},
            backends=scheme.backends and _replaced(scheme.backends, pinned),
        )
        for name, scheme in layer.schemes.items()
    }
    rules = tuple(
        replace(rule, verbs={verb: _replaced(listed, pinned) for verb, listed in rule.verbs.items()})
        for rule in layer.rules
    )
    return replace(layer, schemes=schemes, rules=rules)


def _replaced(listed: Listed[Target], pinned: dict[Target, Target]) -> Listed[Target]:
    items = (item and Placed(pinned.get(item.value, item.value), item.origin) for item in listed.items)
    return replace(listed, items=tuple(items))
