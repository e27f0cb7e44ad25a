"""The words of a request. Importing this package never imports torch."""

from moe_select.vocabulary.config import MoEConfig
from moe_select.vocabulary.parallel import ParallelConfig
from moe_select.vocabulary.quant import (
    PER_CHANNEL,
    PER_TENSOR,
    PER_TOKEN,
    GroupShape,
    QuantKey,
    ScaleDesc,
    format_optional_key,
    parse_optional_key,
)
from moe_select.vocabulary.terms import Activation, ActivationFormat, All2AllBackend, Role, RoutingMethod

__all__ = [
    "PER_CHANNEL",
    "PER_TENSOR",
    "PER_TOKEN",
    "Activation",
    "ActivationFormat",
    "All2AllBackend",
    "GroupShape",
    "MoEConfig",
    "ParallelConfig",
    "QuantKey",
    "Role",
    "RoutingMethod",
    "ScaleDesc",
    "format_optional_key",
    "parse_optional_key",
]
