"""What experts classes declare, as plain data and in words. The list and the matrix are drawn from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moe_select.vocabulary import format_optional_key

if TYPE_CHECKING:
    from moe_select.kernels.experts import Experts
    from moe_select.support import ParallelSupport, Support

_MOST_PAIRS: Final = 6
"""More (weights, activations) pairs than this are counted and not listed."""


def support_to_dict(experts_class: type[Experts]) -> dict[str, Any]:
    """The whole declaration of one class; null is "no limit"."""
    support = experts_class.support
    return {
        "devices": [str(rule) for rule in support.devices],
        "quant": quant_pairs(support),
        "activations": _sorted(support.activations),
        "dtypes": _sorted(support.dtypes),
        "activation_format": experts_class.activation_format.value,
        "monolithic": experts_class.monolithic,
        "routing": None if support.routing is None else _sorted(support.routing),
        "router_logits_dtypes": None if support.router_logits_dtypes is None else _sorted(support.router_logits_dtypes),
        "parallel": _parallel(support.parallel),
        "max_experts": support.max_experts,
        "max_topk": support.max_topk,
        "max_tokens": support.max_tokens,
        "multiple_of": {"hidden_dim": support.shape.hidden_dim, "intermediate": support.shape.intermediate},
        "features": {name: support.features[name] for name in sorted(support.features)},
        "requires": list(support.requires),
        "weight_layout": experts_class.weight_layout,
        "last_resort": experts_class.last_resort,
    }


def quant_pairs(support: Support) -> list[list[str]]:
    """Spellings of the (weights, activations) pairs, sorted."""
    return sorted(
        [format_optional_key(weights), format_optional_key(activations)] for weights, activations in support.quant
    )


def quant_lines(support: Support) -> list[str]:
    """One line a pair, or their number where they are many."""
    pairs = quant_pairs(support)
    if len(pairs) <= _MOST_PAIRS:
        return [f"{weights} + {activations}" for weights, activations in pairs]
    weight_keys, activation_keys = (len({pair[i] for pair in pairs}) for i in range(2))
    return [f"{len(pairs)} pairs of {weight_keys} weight keys and {activation_keys} activation keys"]


def limit_lines(experts_class: type[Experts]) -> list[str]:
    """Everything besides devices and quantization that an operator may run into."""
    support = experts_class.support
    words = [
        ", ".join(_sorted(support.activations)),
        ", ".join(_sorted(support.dtypes)),
        _kind(experts_class),
        _bounds(support),
        ", ".join(name for name, has in sorted(support.features.items()) if has),
        f"needs {', '.join(support.requires)}" if support.requires else "",
    ]
    return [word for word in words if word]


def _kind(experts_class: type[Experts]) -> str:
    words = [experts_class.activation_format.value, "monolithic" if experts_class.monolithic else "modular"]
    return ", ".join([*words, *(["last resort"] if experts_class.last_resort else [])])


def _bounds(support: Support) -> str:
    limits = (("experts", support.max_experts), ("topk", support.max_topk), ("tokens", support.max_tokens))
    return ", ".join(
        [*(f"{name} <= {limit}" for name, limit in limits if limit is not None), *filter(None, [str(support.shape)])]
    )


def _parallel(parallel: ParallelSupport) -> dict[str, Any]:
    return {
        "expert": parallel.expert,
        "data": parallel.data,
        "sequence": parallel.sequence,
        "eplb": parallel.eplb,
        "all2all": None if parallel.all2all is None else _sorted(parallel.all2all),
        "requires_all2all": parallel.requires_all2all,
    }


def _sorted(names: frozenset[Any]) -> list[str]:
    return sorted(str(name) for name in names)
