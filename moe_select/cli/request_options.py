"""The request as options: one table of short options, ``--set`` for every field, ``--request`` for a whole one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from moe_select.cli.errors import InputError
from moe_select.cli.json_input import construct, read_json_object
from moe_select.cli.parameters import DTYPE, PAIR, QUANT_KEY, ParamType, Parsed, term
from moe_select.policy.fields import FIELDS
from moe_select.vocabulary import (
    Activation,
    ActivationFormat,
    All2AllBackend,
    MoEConfig,
    Role,
    RoutingMethod,
    format_optional_key,
)
from moe_select.vocabulary.suggest import did_you_mean

if TYPE_CHECKING:
    from moe_select.policy import Policy, Scheme
    from moe_select.support import QuantPair

F = TypeVar("F", bound=Callable[..., Any])

_SIZE: Final = click.IntRange(min=1)


@dataclass(frozen=True)
class RequestOption:
    """One option and the field of :class:`MoEConfig` that it sets; ``fact`` is the row of ``when:`` that tells it."""

    flag: str
    path: str
    """``topk``, ``parallel.tp_size`` ..."""
    fact: str
    type: ParamType | None = None
    """None is a flag with a ``--no-`` form."""

    @property
    def key(self) -> str:
        """Name of the value among the command's arguments."""
        return "request_" + self.path.replace(".", "_")

    def decorate(self, command: F) -> F:
        """Add the option to a command."""
        flags = self.flag if self.type else f"{self.flag}/--no-{self.flag[2:]}"
        metavar = "N" if self.type is _SIZE else None
        return click.option(flags, self.key, type=self.type, default=None, metavar=metavar, help=self.help)(command)

    @property
    def help(self) -> str:
        """What the field means, and what is legal where that is a closed set of names."""
        meaning = FIELDS[self.fact].meaning
        legal = (
            f": {', '.join(self.type.known())}" if isinstance(self.type, Parsed) and self.type is not QUANT_KEY else ""
        )
        return f"{meaning[0].upper()}{meaning[1:]}{legal}."


REQUEST_OPTIONS: Final = (
    RequestOption("--weights", "weight_key", "weight_key", QUANT_KEY),
    RequestOption("--activations", "activation_key", "activation_key", QUANT_KEY),
    RequestOption("--experts", "num_experts", "num_experts", _SIZE),
    RequestOption("--local-experts", "num_local_experts", "num_local_experts", _SIZE),
    RequestOption("--topk", "topk", "topk", _SIZE),
    RequestOption("--hidden", "hidden_dim", "hidden_dim", _SIZE),
    RequestOption("--intermediate", "intermediate_size", "intermediate_size", _SIZE),
    RequestOption("--activation", "activation", "activation", term(Activation)),
    RequestOption("--dtype", "in_dtype", "in_dtype", DTYPE),
    RequestOption("--router-dtype", "router_logits_dtype", "router_logits_dtype", DTYPE),
    RequestOption("--routing", "routing_method", "routing_method", term(RoutingMethod)),
    RequestOption("--format", "activation_format", "activation_format", term(ActivationFormat)),
    RequestOption("--max-tokens", "max_tokens", "max_tokens", _SIZE),
    RequestOption("--tp", "parallel.tp_size", "tp", _SIZE),
    RequestOption("--ep", "parallel.ep_size", "ep", _SIZE),
    RequestOption("--dp", "parallel.dp_size", "dp", _SIZE),
    RequestOption("--pcp", "parallel.pcp_size", "pcp", _SIZE),
    RequestOption("--sp", "parallel.sp_size", "sp", _SIZE),
    RequestOption("--all2all", "parallel.all2all_backend", "all2all", term(All2AllBackend)),
    RequestOption("--eplb", "parallel.enable_eplb", "eplb"),
    RequestOption("--lora", "lora", "lora"),
    RequestOption("--bias", "bias", "bias"),
    RequestOption("--batch-invariant", "batch_invariant", "batch_invariant"),
    RequestOption("--deterministic", "deterministic", "deterministic"),
    RequestOption("--hash-routing", "hash_routing", "hash_routing"),
    RequestOption("--decomposed-routing", "decomposed_routing", "decomposed_routing"),
    RequestOption("--layer", "layer", "layer", click.STRING),
    RequestOption("--role", "role", "role", term(Role)),
    RequestOption("--model", "model", "model", click.STRING),
)


def request_options(command: F) -> F:
    """Add every option that describes the request."""
    others = (
        click.option("--scheme", metavar="NAME", help="Quantization scheme of the policy: its first pair that fits."),
        click.option(
            "--request",
            "request_file",
            type=click.File(encoding="utf-8"),
            help="The request as JSON; - reads stdin. Options override it.",
        ),
        click.option(
            "--set",
            "request_set",
            type=PAIR,
            multiple=True,
            metavar="FIELD=VALUE",
            help="Any field of the request: swiglu_limit=7, parallel.tp_size=2; null unsets. Repeatable.",
        ),
    )
    for option in (*(option.decorate for option in reversed(REQUEST_OPTIONS)), *reversed(others)):
        command = option(command)
    return command


def request_from(options: Mapping[str, Any], policy: Policy) -> MoEConfig:
    """The request that options describe: a file, then the scheme, then options, then ``--set``.

    Raises:
        RequestError: the request contradicts itself or has an unknown field.
        InputError: the file is not a JSON object, or no scheme has the name or a pair that fits.

    """
    file = options["request_file"]
    values = read_json_object(file, "request") if file is not None else {}
    given = {option.path: options[option.key] for option in REQUEST_OPTIONS if options[option.key] is not None}
    for option in (option for option in REQUEST_OPTIONS if option.type is QUANT_KEY):
        if _was_given(option.key):
            given[option.path] = options[option.key]
    if options["scheme"] is not None:
        weights, activations = _pair_of(options["scheme"], given, policy)
        given |= {"weight_key": weights, "activation_key": activations}
    for path, value in [*given.items(), *((path, _read(text)) for path, text in options["request_set"])]:
        _assign(values, path, value)
    return construct(MoEConfig, values)


def _was_given(key: str) -> bool:
    """A quant key of ``none`` parses to None, which is not the same as no option."""
    source = click.get_current_context().get_parameter_source(key)
    return source is not None and source is not click.core.ParameterSource.DEFAULT


def _read(text: str) -> str | None:
    """Fields parse text by themselves; only the absence of a value needs a word."""
    return None if text == "null" else text


def _assign(values: dict[str, Any], path: str, value: Any) -> None:
    parts = path.split(".")
    for part in parts[:-1]:
        inner = values.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InputError(f"cannot set {path!r}: {part!r} is {inner!r} and has no fields")
        values = inner
    values[parts[-1]] = value


def find_scheme(name: str, policy: Policy) -> Scheme:
    """A scheme by name.

    Raises:
        InputError: the policy has none of this name.

    """
    scheme = policy.schemes.get(name)
    if scheme is None:
        known = ", ".join(policy.schemes) or "none"
        raise InputError(f"the policy has no scheme {name!r}{did_you_mean(name, policy.schemes)}; schemes: {known}")
    return scheme


def _pair_of(name: str, given: Mapping[str, Any], policy: Policy) -> QuantPair:
    """The first pair of a scheme that agrees with the keys that were given."""
    scheme = find_scheme(name, policy)
    for pair in scheme.match:
        if all(given.get(path, key) == key for path, key in zip(("weight_key", "activation_key"), pair, strict=True)):
            return pair
    raise InputError(f"scheme {name!r} has no pair with the given keys; its pairs: {_pairs_text(scheme)}")


def _pairs_text(scheme: Scheme) -> str:
    pairs: Iterable[str] = (
        f"[{format_optional_key(weights)}, {format_optional_key(activations)}]" for weights, activations in scheme.match
    )
    return ", ".join(pairs) or "none"
