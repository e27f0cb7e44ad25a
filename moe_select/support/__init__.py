"""Declaring what an experts class supports, and the refusals that follow from it."""

from moe_select.support.devices import DeviceRule, any_device, cpu, cuda, rocm, xpu
from moe_select.support.features import FEATURES
from moe_select.support.parallel import ParallelSupport, no_parallel
from moe_select.support.refusal import Code, Refusal, Unproven, Verdict
from moe_select.support.shape import ShapeRule, multiple_of
from moe_select.support.support import QuantPair, Support, pairs

__all__ = [
    "FEATURES",
    "Code",
    "DeviceRule",
    "ParallelSupport",
    "QuantPair",
    "Refusal",
    "ShapeRule",
    "Support",
    "Unproven",
    "Verdict",
    "any_device",
    "cpu",
    "cuda",
    "multiple_of",
    "no_parallel",
    "pairs",
    "rocm",
    "xpu",
]
