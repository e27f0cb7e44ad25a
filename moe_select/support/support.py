"""The declaration of what an experts class can serve. The matrix, the docs, the schema and the reasons come from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

from packaging.requirements import Requirement

from moe_select.environment.environment import Environment
from moe_select.support.devices import DeviceRule
from moe_select.support.features import FEATURES
from moe_select.support.parallel import ParallelSupport
from moe_select.support.refusal import Code, Refusal, Unproven
from moe_select.support.shape import ShapeRule
from moe_select.vocabulary import (
    Activation,
    MoEConfig,
    QuantKey,
    RoutingMethod,
    format_optional_key,
)
from moe_select.vocabulary.dtypes import parse_dtype
from moe_select.vocabulary.suggest import did_you_mean

QuantPair = tuple[QuantKey | None, QuantKey | None]
"""(weights, activations); None is unquantized."""


def pairs(weights: Iterable[QuantKey | None], activations: Iterable[QuantKey | None]) -> frozenset[QuantPair]:
    """Every weight key with every activation key."""
    return frozenset(product(weights, activations))


@dataclass(frozen=True, kw_only=True)
class Support:
    """What an experts class can serve. Everything not declared is unsupported, except where a default says otherwise.

    Sizes are those of one partition. Give the narrowest truth: a request that passes must run.
    """

    devices: tuple[DeviceRule, ...]
    quant: frozenset[QuantPair]
    activations: frozenset[Activation]
    dtypes: frozenset[str] = frozenset({"bfloat16", "float16", "float32"})
    """Dtypes of the hidden states."""
    parallel: ParallelSupport = ParallelSupport()
    routing: frozenset[RoutingMethod] | None = None
    """Routing methods computed inside (monolithic classes); None for modular ones, which receive ids."""
    router_logits_dtypes: frozenset[str] | None = None
    max_experts: int | None = None
    max_topk: int | None = None
    max_tokens: int | None = None
    shape: ShapeRule = ShapeRule()
    features: Mapping[str, bool] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    """PEP 508 requirements on installed distributions: ``triton>=3.2``."""

    def __post_init__(self) -> None:
        normal: dict[str, Any] = {
            "devices": tuple(self.devices),
            "quant": frozenset(self.quant),
            "activations": frozenset(Activation(name) for name in self.activations),
            "dtypes": frozenset(parse_dtype(name) for name in self.dtypes),
            "requires": tuple(self.requires),
            "features": MappingProxyType(dict(self.features)),
        }
        if self.routing is not None:
            normal["routing"] = frozenset(RoutingMethod(name) for name in self.routing)
        for name, value in normal.items():
            object.__setattr__(self, name, value)
        for name in self.features:
            if name not in FEATURES:
                raise ValueError(
                    f"unknown feature {name!r}{did_you_mean(name, FEATURES)}; known: {', '.join(FEATURES)}"
                )

    def check(self, request: MoEConfig, environment: Environment, *, monolithic: bool) -> Iterator[Refusal | Unproven]:
        """Yield every reason against the request and every check that had to abstain."""
        yield from self._check_device(environment)
        yield from self._check_requires(environment)
        yield from self._check_quant(request)
        yield from self._check_activation(request)
        yield from self._check_dtype(request)
        yield from self.parallel.check(request.parallel)
        yield from self._check_features(request, monolithic)
        if monolithic:
            yield from self._check_routing(request)
        yield from self._check_bounds(request)
        yield from self.shape.check(request)

    def _check_device(self, environment: Environment) -> Iterator[Refusal | Unproven]:
        findings = [rule.mismatch(environment) for rule in self.devices]
        if None in findings:
            return
        unproven = [finding for finding in findings if isinstance(finding, Unproven)]
        if unproven:
            yield unproven[0]
            return
        # The most specific mismatch: a rule of the right kind of device says more than "device is cpu".
        details = [str(finding) for finding in findings]
        closest = next(
            (d for d in details if not d.startswith("device is")), details[0] if details else "none declared"
        )
        supported = " | ".join(map(str, self.devices))
        yield Refusal(Code.DEVICE_UNSUPPORTED, f"{closest}; supported: {supported}")

    def _check_requires(self, environment: Environment) -> Iterator[Refusal]:
        for requirement in self.requires:
            if not environment.satisfies(requirement):
                have = environment.version(Requirement(requirement).name)
                found = f"found {have}" if have else "not installed"
                yield Refusal(Code.DEPENDENCY_MISSING, f"needs {requirement}, {found}", f"pip install '{requirement}'")

    def _check_quant(self, request: MoEConfig) -> Iterator[Refusal]:
        pair = (request.weight_key, request.activation_key)
        if pair in self.quant:
            return
        given = f"weights {format_optional_key(pair[0])} with activations {format_optional_key(pair[1])}"
        partners = sorted(format_optional_key(a) for w, a in self.quant if w == pair[0])
        if partners:
            yield Refusal(
                Code.QUANT_UNSUPPORTED, f"{given}; with these weights it takes activations {', '.join(partners)}"
            )
        else:
            weights = sorted({format_optional_key(w) for w, _ in self.quant})
            yield Refusal(Code.QUANT_UNSUPPORTED, f"{given}; supported weights: {', '.join(weights)}")

    def _check_activation(self, request: MoEConfig) -> Iterator[Refusal]:
        if request.activation not in self.activations:
            known = ", ".join(name.value for name in Activation if name in self.activations)
            yield Refusal(Code.ACTIVATION_UNSUPPORTED, f"activation {request.activation.value}; supported: {known}")

    def _check_dtype(self, request: MoEConfig) -> Iterator[Refusal]:
        if request.in_dtype not in self.dtypes:
            yield Refusal(
                Code.DTYPE_UNSUPPORTED, f"in_dtype {request.in_dtype}; supported: {', '.join(sorted(self.dtypes))}"
            )

    def _check_features(self, request: MoEConfig, monolithic: bool) -> Iterator[Refusal]:
        for name, feature in FEATURES.items():
            if feature.monolithic_only and not monolithic:
                continue
            if feature.asked(request) and not self.features.get(name, False):
                yield Refusal(feature.code, f"{name} requested, unsupported here: {feature.meaning}")

    def _check_routing(self, request: MoEConfig) -> Iterator[Refusal]:
        if request.decomposed_routing:
            yield Refusal(Code.ROUTING_UNSUPPORTED, "decomposed_routing requested, but this class routes by itself")
        if self.routing is not None and request.routing_method not in self.routing:
            known = ", ".join(name.value for name in RoutingMethod if name in self.routing)
            yield Refusal(
                Code.ROUTING_UNSUPPORTED, f"routing_method {request.routing_method.value}; supported: {known}"
            )
        dtype = request.resolved_router_logits_dtype
        if self.router_logits_dtypes is not None and dtype not in self.router_logits_dtypes:
            known = ", ".join(sorted(self.router_logits_dtypes))
            yield Refusal(Code.ROUTER_DTYPE_UNSUPPORTED, f"router_logits_dtype {dtype}; supported: {known}")

    def _check_bounds(self, request: MoEConfig) -> Iterator[Refusal | Unproven]:
        bounds = (
            ("num_experts", request.num_experts, self.max_experts, Code.SHAPE_UNSUPPORTED),
            ("topk", request.topk, self.max_topk, Code.SHAPE_UNSUPPORTED),
            ("max_tokens", request.max_tokens, self.max_tokens, Code.TOKEN_BOUND_EXCEEDED),
        )
        for name, given, limit, code in bounds:
            if limit is None:
                continue
            if given is None:
                yield Unproven(name, f"must be at most {limit}")
            elif given > limit:
                yield Refusal(code, f"{name} {given} exceeds {limit}")
