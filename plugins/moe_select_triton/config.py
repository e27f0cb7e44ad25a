"""Launch configurations: what they are, and which one runs where no tuned file says otherwise.

Legend: T tokens, t rows an expert gets on average (T * topk / E), N columns of the output, K the reduction.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Gemm(NamedTuple):
    """How one GEMM is cut and run."""

    bm: int
    """Rows of a tile."""
    bn: int
    """Columns of a tile; twice as many rows of w13 where the MLP is gated."""
    bk: int
    """Steps along the reduction."""
    warps: int
    stages: int
    """Loads in flight."""
    bm2: int = 0
    """More rows of a tile, so that it need not be a power of two."""
    swap: bool = False
    """Weights take the instruction's side of 64 rows."""
    group: int = 1
    """Blocks of rows whose tiles run side by side and share weights in cache."""
    tma: bool = False
    """Weights come through a tensor-memory descriptor (Hopper and later)."""
    strip: int = 1
    """Tiles side by side that one program computes with the same rows; for a reduction of at most 4 * bk, and without bm2."""
    overlap: bool = False
    """Products of consecutive steps overlap (:mod:`moe_select_triton.kernels.hopper`): for int8, sorted rows, bk 128 and
    weights that a descriptor can hold, on Hopper."""

    @property
    def rows(self) -> int:
        """Rows of one block."""
        return self.bm + self.bm2


class Few(NamedTuple):
    """How one launch of the one-token path is cut."""

    bn: int
    bk: int
    warps: int
    stages: int


class Plan(NamedTuple):
    """Both GEMMs of one call."""

    gemm1: Gemm | Few
    gemm2: Gemm | Few
    lookup: bool = False
    """Few slots: nothing is sorted, each program finds its rows itself."""
    pdl: int = 0
    """Programmatic dependent launch (Hopper and later): 0 off; 1 a kernel is set up while its predecessor ends; 2 its programs
    start as soon as all of the predecessor's have started, and wait."""


LOOKUP_SLOTS: Final = 512
"""Up to this many routed slots each program finds its rows itself."""


def choose(scheme: str, tokens: int, topk: int, experts: int, pdl: int, one_token: bool = True) -> Plan:
    """The heuristic."""
    if tokens == 1 and one_token:
        return Plan(Few(16, 512, 4, 4), Few(16, 512, 4, 4), pdl=pdl)
    t = tokens * topk / experts
    few = tokens * topk <= LOOKUP_SLOTS and t <= 16
    int8 = scheme == "w8a8"
    if not int8:
        if t <= 16:
            gemm = Gemm(16, 64, 128 if scheme == "w8a16" else 64, 4, 4)
        elif t <= 64:
            gemm = Gemm(64, 64, 64, 4, 4)
        else:
            gemm = Gemm(128, 64, 64, 8, 3, group=8)
        return Plan(gemm, gemm._replace(bn=gemm.bn * 2), few, pdl)
    if t <= 8:
        gemm1, gemm2 = Gemm(16, 64, 128, 4, 4, swap=True), Gemm(16, 128, 128, 4, 4, swap=True)
    elif t <= 24:
        gemm1, gemm2 = Gemm(32, 64, 128, 4, 4, swap=True), Gemm(32, 128, 128, 4, 4, swap=True)
    elif t <= 48:
        gemm1, gemm2 = Gemm(32, 64, 128, 4, 4, bm2=16, swap=True), Gemm(32, 128, 128, 8, 4, bm2=16, swap=True)
    elif t <= 96:
        gemm1, gemm2 = Gemm(64, 128, 128, 8, 4, bm2=16, swap=True), Gemm(64, 128, 128, 8, 4, bm2=16, swap=True)
    else:
        gemm1, gemm2 = Gemm(128, 128, 128, 8, 4, group=16), Gemm(128, 256, 128, 8, 4, group=16)
    return Plan(gemm1, gemm2, few, pdl)


def as_json(plan: Plan) -> dict[str, Any]:
    """A plan as plain data; defaults are left out."""
    gemms = {name: _stated(getattr(plan, name)) for name in ("gemm1", "gemm2")}
    return {**gemms, "lookup": plan.lookup, "pdl": plan.pdl}


def _stated(config: Gemm | Few) -> dict[str, Any]:
    return {name: value for name, value in config._asdict().items() if value != config._field_defaults.get(name)}
