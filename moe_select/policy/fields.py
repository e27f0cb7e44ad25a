"""The one table of facts that a rule's ``when:`` can ask about. Linter, schema and manual follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moe_select.environment.environment import DeviceType, Environment
from moe_select.policy.kinds import (
    Kind,
    flag,
    library_version,
    members,
    number,
    pattern,
    quant_keys,
    version_range,
    words,
)
from moe_select.vocabulary import (
    Activation,
    ActivationFormat,
    All2AllBackend,
    MoEConfig,
    Role,
    RoutingMethod,
    format_optional_key,
)
from moe_select.vocabulary.dtypes import DTYPE_ALIASES, DTYPES, parse_dtype
from moe_select.vocabulary.suggest import did_you_mean

Facts = Mapping[str, Any]
"""Field name to fact; None is unknown."""


class Case(NamedTuple):
    """What facts are read from."""

    request: MoEConfig
    environment: Environment
    scheme: str | None


@dataclass(frozen=True, slots=True)
class Field:
    """One row: a name for ``when:``, how its values are written, and where the fact is."""

    name: str
    kind: Kind
    read: Callable[[Case], Any]
    meaning: str
    keyed: bool = False
    """The value is a map from a name to values (``libraries``)."""
    also: tuple[str, ...] = ()
    """Names that people try; they are answered with this one."""
    unavailable: str | None = None
    """Why rules cannot use the field yet."""


def _term(terms: type[Activation | ActivationFormat | All2AllBackend | Role | RoutingMethod]) -> Kind:
    return words(terms.label(), (term.value for term in terms), lambda text: terms(text).value)


def _dtypes() -> Kind:
    wide = tuple(name for name, info in DTYPES.items() if info.kind == "float" and info.bits >= 16)
    short = tuple(name for name, full in DTYPE_ALIASES.items() if full in wide)
    return words("dtype", wide, parse_dtype, spellings=short)


def _capability(case: Case) -> str | None:
    found = case.environment.device.capability
    return None if found is None else f"{found[0]}.{found[1]}"


_LATER: Final = "the number of tokens is known at call time only, and switching kernels per call is not available yet"

_REQUEST: Final = (
    Field("scheme", pattern("fp8*"), lambda c: c.scheme or "none", "scheme of the policy that matches the request"),
    Field("weight_key", quant_keys(), lambda c: format_optional_key(c.request.weight_key), "quant key of the weights"),
    Field(
        "activation_key",
        quant_keys(),
        lambda c: format_optional_key(c.request.activation_key),
        "quant key of the activations",
    ),
    Field("activation", _term(Activation), lambda c: c.request.activation.value, "function between the two GEMMs"),
    Field("gated", flag(), lambda c: c.request.activation.is_gated, "w13 holds a gate and an up projection"),
    Field("in_dtype", _dtypes(), lambda c: c.request.in_dtype, "dtype of the hidden states", also=("dtype",)),
    Field(
        "router_logits_dtype",
        _dtypes(),
        lambda c: c.request.resolved_router_logits_dtype,
        "dtype of the router logits; `in_dtype` where not given",
    ),
    Field(
        "routing_method", _term(RoutingMethod), lambda c: c.request.routing_method.value, "router", also=("routing",)
    ),
    Field(
        "activation_format",
        _term(ActivationFormat),
        lambda c: c.request.resolved_activation_format.value,
        "layout that tokens arrive in, given or derived from the all2all backend",
        also=("format",),
    ),
    Field(
        "layer",
        pattern("model.layers.0.*"),
        lambda c: c.request.layer,
        "module name of the layer",
        also=("layer_name",),
    ),
    Field("model", pattern("Qwen/*"), lambda c: c.request.model, "name of the model", also=("model_name",)),
    Field("role", _term(Role), lambda c: c.request.role.value, "which model of a speculative-decoding pair"),
    Field("num_experts", number(), lambda c: c.request.num_experts, "E, over all ranks", also=("experts",)),
    Field("num_local_experts", number(), lambda c: c.request.local_experts, "experts on this rank"),
    Field("topk", number("<=8"), lambda c: c.request.topk, "experts per token", also=("top_k",)),
    Field("hidden_dim", number(), lambda c: c.request.hidden_dim, "H", also=("hidden_size", "hidden")),
    Field("intermediate_size", number(), lambda c: c.request.intermediate_size, "I of the whole layer"),
    Field(
        "intermediate_size_per_partition",
        number(),
        lambda c: c.request.intermediate_size_per_partition,
        "I of this rank",
    ),
    Field(
        "max_tokens",
        number("<=512"),
        lambda c: c.request.max_tokens,
        "most tokens that one call may bring to this rank",
        also=("max_num_tokens", "max_num_batched_tokens"),
    ),
    Field("tp", number(">1"), lambda c: c.request.parallel.tp_size, "tensor-parallel size", also=("tp_size",)),
    Field(
        "pcp",
        number(">1"),
        lambda c: c.request.parallel.pcp_size,
        "prefill-context-parallel size",
        also=("pcp_size",),
    ),
    Field("dp", number(">1"), lambda c: c.request.parallel.dp_size, "data-parallel size", also=("dp_size",)),
    Field("ep", number(">1"), lambda c: c.request.parallel.ep_size, "expert-parallel size", also=("ep_size", "use_ep")),
    Field("sp", number(">1"), lambda c: c.request.parallel.sp_size, "sequence-parallel size", also=("sp_size",)),
    Field(
        "all2all",
        _term(All2AllBackend),
        lambda c: c.request.parallel.all2all_backend.value,
        "who carries tokens between ranks",
        also=("all2all_backend",),
    ),
    Field("eplb", flag(), lambda c: c.request.parallel.enable_eplb, "load-balanced experts", also=("enable_eplb",)),
    Field("lora", flag(), lambda c: c.request.lora, "LoRA adapters on the experts", also=("is_lora_enabled",)),
    Field("bias", flag(), lambda c: c.request.bias, "biases of the two GEMMs", also=("has_bias",)),
    Field("batch_invariant", flag(), lambda c: c.request.batch_invariant, "a row's bits must not depend on its batch"),
    Field("deterministic", flag(), lambda c: c.request.deterministic, "the same input must give the same bits"),
    Field("hash_routing", flag(), lambda c: c.request.hash_routing, "hash-based routing inside the kernel"),
    Field("decomposed_routing", flag(), lambda c: c.request.decomposed_routing, "the framework routes by itself"),
    Field("swiglu_limit", number(">0"), lambda c: c.request.swiglu_limit, "clamp of SwiGLU"),
    Field("swiglu_alpha", number("1.702"), lambda c: c.request.swiglu_alpha, "alpha of SwiGLU"),
    Field("swiglu_beta", number("1"), lambda c: c.request.swiglu_beta, "beta of SwiGLU"),
    Field("situ_beta", number("1"), lambda c: c.request.situ_beta, "beta of SiTU"),
    Field("situ_linear_beta", number("1"), lambda c: c.request.situ_linear_beta, "linear beta of SiTU"),
    Field("num_tokens", number("<=64"), lambda _: None, "tokens of one call", also=("tokens",), unavailable=_LATER),
)

_ENVIRONMENT: Final = (
    Field(
        "device",
        words("device", (device.value for device in DeviceType)),
        lambda c: c.environment.device.type.value,
        "kind of device that runs the experts",
        also=("platform", "device_type"),
    ),
    Field("device_name", pattern("*H200*"), lambda c: c.environment.device.name, "name of the device", also=("gpu",)),
    Field(
        "capability",
        version_range(">=8.0,<9"),
        _capability,
        "CUDA compute capability",
        also=("compute_capability", "sm", "cuda_capability"),
    ),
    Field(
        "arch", pattern("gfx94*"), lambda c: c.environment.device.arch, "ROCm architecture", also=("gfx", "gcn_arch")
    ),
    Field(
        "memory_gib",
        number("<24"),
        lambda c: c.environment.device.memory_gib,
        "memory of the device in GiB",
        also=("memory", "memory_gb", "vram"),
    ),
    Field("cpu_arch", pattern("aarch64"), lambda c: c.environment.cpu.arch, "architecture of the host processor"),
    Field("cpu_vendor", pattern("AMD"), lambda c: c.environment.cpu.vendor, "vendor of the host processor"),
    Field("cpu_uarch", pattern("zen*"), lambda c: c.environment.cpu.uarch, "microarchitecture of the host processor"),
    Field(
        "cpu_features",
        members("avx512_vnni,amx_*"),
        lambda c: c.environment.cpu.features,
        "instruction sets of the host processor",
        also=("cpu_flags", "isa"),
    ),
    Field(
        "libraries",
        library_version(),
        lambda c: dict(c.environment.libraries),
        'installed libraries, by distribution name: `{triton: ">=3.2"}`',
        keyed=True,
        also=("library", "packages", "requires"),
    ),
    Field("os", pattern("linux"), lambda c: c.environment.os, "operating system"),
)

FIELDS: Final[dict[str, Field]] = {field.name: field for field in (*_REQUEST, *_ENVIRONMENT)}
"""Field name to row, facts of the request first."""

_OTHER_NAMES: Final = {other: field.name for field in FIELDS.values() for other in field.also}


def facts(request: MoEConfig, environment: Environment, scheme: str | None) -> Facts:
    """Every fact that rules can ask about. ``scheme`` is the name of the scheme that matches, None where none does."""
    case = Case(request, environment, scheme)
    return {name: field.read(case) for name, field in FIELDS.items()}


def suggest_field(name: str) -> str:
    """``" (did you mean 'tp'?)"`` for a field that does not exist, or an empty string."""
    other = _OTHER_NAMES.get(name.lower())
    return f" (did you mean {other!r}?)" if other else did_you_mean(name, FIELDS)
