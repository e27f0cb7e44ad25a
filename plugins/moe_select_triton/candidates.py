"""Launch configurations worth measuring for one GEMM: what won somewhere in sweeps on an H200.

Legend: t rows an expert gets on average; tile rows of weights are twice ``bn`` where the MLP is gated.
"""

from __future__ import annotations

from moe_select_triton.config import Few, Gemm

S, D = True, False


def one_token() -> tuple[list[Few], list[Few]]:
    """For one token."""
    gemm1 = [
        Few(16, 512, 4, 4),
        Few(32, 256, 4, 4),
        Few(16, 1024, 4, 3),
        Few(32, 512, 4, 3),
        Few(16, 256, 4, 6),
        Few(64, 128, 4, 5),
        Few(32, 512, 8, 4),
        Few(16, 512, 2, 4),
    ]
    gemm2 = [
        Few(16, 512, 4, 4),
        Few(16, 1024, 4, 4),
        Few(32, 512, 4, 4),
        Few(32, 256, 4, 5),
        Few(16, 256, 4, 6),
        Few(64, 256, 4, 4),
        Few(16, 256, 2, 6),
        Few(16, 512, 2, 5),
    ]
    return gemm1, gemm2


def of(
    scheme: str, tokens: int, topk: int, experts: int, hidden_size: int, size: int, gated: bool
) -> tuple[list[Gemm] | list[Few], list[Gemm] | list[Few]]:
    """For the first and the second GEMM."""
    if tokens == 1:
        return one_token()
    t = tokens * topk / experts
    make = {"w8a8": gemms, "w8a16": widened, "unquantized": halved}[scheme]
    return make(t, hidden_size, gated, experts), make(t, size, False, experts)


def halved(t: float, k: int, gated: bool, experts: int) -> list[Gemm]:
    """For 16-bit weights: steps of half the elements are as many bytes."""
    found = [
        config._replace(bk=config.bk // 2)
        for config in gemms(t, k, gated, experts)
        if config.strip == 1 and not config.overlap
    ]
    return list(dict.fromkeys(found))


def widened(t: float, _k: int, gated: bool, experts: int) -> list[Gemm]:
    """For int8 weights and 16-bit activations, where weights are converted in registers."""
    half = 2 if gated else 1
    group = 16 if experts <= 32 else 1
    if t <= 24:
        bm = 16 if t <= 8 else 32
        tiles = [
            (bm, 64, 128, 4, 4, D, D),
            (bm, 64, 128, 4, 4, D, S),
            (bm, 64, 256, 4, 3, D, D),
            (bm, 128, 128, 4, 3, D, D),
            (bm, 128, 64, 4, 4, D, D),
            (bm, 128, 64, 4, 4, S, S),
            (bm, 128, 128, 4, 4, S, S),
            (bm, 32, 256, 4, 4, D, D),
        ]
    elif t <= 96:
        bm = 64 if t > 40 else 32
        tiles = [
            (bm, 128, 64, 4, 4, S, S),
            (bm, 128, 128, 4, 3, S, S),
            (bm, 128, 64, 8, 4, S, S),
            (bm, 128, 64, 4, 4, D, D),
            (bm, 64, 128, 4, 4, D, D),
            (bm, 128, 128, 8, 3, D, D),
            (bm, 256, 64, 8, 4, S, S),
        ]
    else:
        tiles = [
            (128, 128, 64, 8, 4, S, S),
            (128, 128, 64, 8, 3, S, D),
            (128, 128, 64, 4, 3, S, S),
            (128, 256, 64, 8, 3, S, S),
            (256, 128, 64, 8, 3, S, S),
            (128, 128, 64, 8, 3, D, D),
            (128, 128, 32, 8, 4, S, S),
            (128, 256, 64, 8, 3, D, D),
            (64, 128, 64, 4, 4, S, S),
        ]
    return [
        Gemm(bm, rows // half, bk, warps, stages, 0, swap, group, tma)
        for bm, rows, bk, warps, stages, swap, tma in tiles
    ]


def _overlapped(t: float, group: int) -> list[tuple[int, int, int, int, int]]:
    """(bm, bm2, rows, stages, group)"""
    if t <= 24:
        return [(32, 0, 256, 4, group), (32, 0, 256, 5, group), (16, 0, 256, 5, group), (32, 16, 256, 4, group)]
    if t <= 48:
        return [
            (32, 16, 256, 4, group),
            (32, 16, 256, 5, group),
            (64, 0, 256, 5, group),
            (64, 0, 256, 4, group),
            (32, 32, 256, 4, group),
        ]
    if t <= 96:
        return [
            (64, 16, 256, 4, group),
            (64, 16, 256, 5, group),
            (64, 32, 256, 4, group),
            (64, 0, 256, 5, group),
            (128, 0, 256, 4, group),
        ]
    if t <= 200:
        return [
            (128, 32, 256, 4, group),
            (128, 32, 256, 3, group),
            (128, 16, 256, 4, group),
            (64, 16, 256, 5, group),
            (128, 0, 256, 4, group),
            (64, 0, 256, 5, group),
        ]
    return [
        (128, 0, 256, 4, group),
        (128, 32, 256, 4, group),
        (128, 16, 256, 4, group),
        (128, 64, 256, 3, group),
        (64, 16, 256, 5, group),
        (128, 0, 256, 4, 8),
        (128, 0, 256, 4, 16),
        (128, 32, 256, 4, 8),
    ]


def gemms(t: float, k: int, gated: bool, experts: int) -> list[Gemm]:
    """int8 configurations; ``bn`` is of the output."""
    half = 2 if gated else 1
    group = 16 if experts <= 32 else 1

    def g(
        bm: int,
        rows: int,
        bk: int,
        warps: int,
        stages: int,
        swap: bool,
        tma: bool,
        bm2: int = 0,
        group: int = group,
        strip: int = 1,
    ) -> Gemm:
        return Gemm(bm, rows // half, bk, warps, stages, bm2, swap, group, tma, strip)

    if t <= 8:
        found = [
            g(16, 128, 128, 4, 4, S, D),
            g(16, 128, 128, 4, 4, S, S),
            g(16, 128, 128, 4, 6, S, S),
            g(16, 128, 128, 8, 6, S, D),
            g(16, 128, 256, 4, 3, S, S),
            g(16, 128, 256, 4, 3, D, S),
            g(16, 64, 256, 4, 4, D, S),
            g(16, 64, 256, 4, 4, D, D),
            g(16, 128, 128, 4, 4, D, S),
            g(16, 256, 128, 8, 4, S, S),
        ]
    elif t <= 24:
        found = [
            g(32, 128, 128, 4, 4, S, D),
            g(32, 128, 128, 4, 4, S, S),
            g(32, 128, 128, 8, 4, S, S),
            g(32, 128, 256, 4, 3, S, S),
            g(32, 256, 128, 8, 4, S, S),
            g(32, 256, 128, 4, 3, S, S),
            g(16, 128, 128, 4, 4, S, S),
            g(16, 256, 128, 8, 4, S, S),
            g(32, 128, 128, 4, 6, S, S),
        ]
    elif t <= 48:
        found = [
            g(32, r, 128, w, s, S, m, 16)
            for r, w, s, m in ((128, 4, 4, S), (128, 8, 4, D), (128, 8, 4, S), (256, 8, 4, S), (256, 8, 3, S))
        ]
        found += [
            g(64, 128, 128, 4, 4, S, S),
            g(64, 256, 128, 8, 3, S, S),
            g(32, 256, 128, 8, 4, S, S),
            g(64, 128, 128, 8, 4, S, S),
        ]
    elif t <= 96:
        found = [
            g(64, r, 128, w, s, S, m, b)
            for r, w, s, m, b in (
                (128, 8, 4, D, 16),
                (128, 8, 4, S, 16),
                (256, 8, 4, S, 16),
                (256, 8, 3, S, 16),
                (128, 4, 3, S, 16),
                (256, 8, 3, S, 32),
            )
        ]
        found += [
            g(64, 256, 128, 8, 4, D, S),
            g(64, 256, 128, 8, 4, S, S),
            g(128, 128, 128, 8, 4, S, S),
            g(128, 256, 128, 8, 4, D, S),
        ]
    elif t <= 200:
        found = [
            g(128, 256, 128, 8, 3, S, S, 32),
            g(128, 256, 128, 8, 3, S, S, 16),
            g(128, 256, 128, 8, 4, D, D),
            g(128, 256, 128, 8, 4, D, S),
            g(128, 256, 128, 8, 4, S, S),
            g(64, 256, 128, 8, 4, S, S, 16),
            g(64, 256, 128, 8, 4, D, S),
            g(64, 256, 128, 8, 3, S, S, 32),
        ]
    else:
        found = [
            g(128, 256, 128, 8, 4, D, D),
            g(128, 256, 128, 8, 4, D, S),
            g(128, 256, 128, 8, 3, D, S),
            g(128, 256, 128, 8, 4, S, S),
            g(128, 256, 128, 8, 4, D, D, 0, 16),
            g(128, 256, 128, 8, 4, D, S, 0, 8),
            g(128, 256, 128, 8, 3, S, S, 16),
            g(128, 256, 128, 8, 3, S, S, 32),
            g(64, 256, 128, 8, 4, D, S),
            g(256, 128, 128, 8, 4, D, S),
            g(128, 128, 128, 4, 4, D, S, 0, 8),
        ]
    if t > 8:
        found += [
            g(bm, rows, 128, 8, stages, S, S, bm2, group, 1)._replace(overlap=True)
            for bm, bm2, rows, stages, group in _overlapped(t, group)
        ]
    if not gated and k <= 1024:
        # Steps so long that four of them hold the reduction; fewer where it is shorter still.
        bk = 256
        short = k <= 256
        if t <= 8:
            found += [g(16, 64, bk, 4, 3, S, S, strip=4), g(16, 64, bk, 4, 3, S, S, strip=8)]
            found += [g(16, 128, bk, 4, 3, S, S, strip=4), g(16, 128, bk, 8, 4, S, S, strip=8)] * short
        elif t <= 48:
            bm = 32 if t <= 24 else 64
            found += [g(bm, 64, bk, 4, 2, S, S, strip=8), g(bm, 64, bk, 4, 3, S, S, strip=4)]
            found += [
                g(bm, 128, bk, 4, 3, S, S, strip=4),
                g(bm, 128, bk, 8, 3, S, S, strip=4),
                g(bm, 128, bk, 4, 3, S, S, strip=8),
            ] * short
        else:
            found += [g(64, 64, bk, 4, 2, S, S, strip=8)]
            found += [
                g(64, 128, bk, 4, 3, S, S, strip=4),
                g(128, 128, bk, 8, 3, D, S, strip=4),
                g(128, 128, bk, 8, 3, D, S, strip=8),
                g(64, 256, bk, 8, 2, D, S, strip=4),
                g(128, 128, bk, 8, 2, D, S, strip=4),
                g(128, 256, bk, 8, 2, D, S, strip=4),
            ] * short
            found += [g(64, 256, 64, 4, 4, D, S), g(64, 256, 64, 4, 4, D, D)]
    return list(dict.fromkeys(found))
