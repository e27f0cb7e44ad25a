"""Compiling kernels ahead of time for a device that need not be there.

    python -m moe_select_triton.ahead cuda:90 hip:gfx942

compiles every kernel of the backend in every way that the heuristic runs it, and names those that do not compile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from moe_select_triton.config import Gemm, Plan, choose
from moe_select_triton.launch import Buffer, Given, Kernel, Step
from moe_select_triton.layer import Layer, Program, Weights
from moe_select_triton.program import make_program

_NAMES: Final = {
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
}
_ALIGNED: Final = [["tt.divisibility", 16]]


def source(step: Step, dtypes: dict[str, torch.dtype]) -> ASTSource:
    """What Triton compiles for a launch. ``dtypes`` are those of the tensors that a call brings."""
    kernel, signature, attributes = step.kernel, {}, {}
    names = kernel.function.arg_names
    for index, (name, item) in enumerate(zip(names, step.arguments, strict=False)):
        if hasattr(item, "block_shape"):
            block = ", ".join(map(str, item.block_shape))
            layout = f",{item.layout!r}" if hasattr(item, "layout") else ""
            signature[name] = f"tensordesc<{_NAMES[item.base.dtype]}[{block}]{layout}>"
        elif isinstance(item, (Given, Buffer, Tensor)):
            dtype = dtypes[item.name] if isinstance(item, Given) else item.dtype
            signature[name] = f"*{_NAMES[dtype]}"
            attributes[(index,)] = _ALIGNED
        else:
            signature[name] = "i32"
    signature |= dict.fromkeys(kernel.constants, "constexpr")
    constants = {(names.index(name),): value for name, value in kernel.constants.items()}
    make = GluonASTSource if kernel.function.is_gluon() else ASTSource
    return make(kernel.function, signature, constants, attributes)


def target_of(name: str) -> GPUTarget:
    """``cuda:90`` or ``hip:gfx942``."""
    backend, _, arch = name.partition(":")
    if backend == "cuda":
        return GPUTarget("cuda", int(arch), 32)
    return GPUTarget("hip", arch, 64)


def compile_step(step: Step, dtypes: dict[str, torch.dtype], target: GPUTarget) -> Any:
    """The compiled kernel of one launch."""
    return triton.compile(source(step, dtypes), target=target, options=step.kernel.options)


def layer_of(scheme: str, dtype: torch.dtype = torch.bfloat16, mode: int = 0, gated: bool = True) -> Layer:
    """A layer without memory: 16 experts, H = 512, I = 256."""
    stored = dtype if scheme == "unquantized" else torch.int8
    operands = []
    for rows, cols in ((512 if gated else 256, 512), (512, 256)):
        w = torch.empty(16, rows, cols, dtype=stored, device="meta")
        scale = None if scheme == "unquantized" else torch.empty(16, rows, device="meta")
        operands.append(
            Weights(w, scale, torch.empty(16, rows, dtype=dtype, device="meta"), torch.empty(1, device="meta"))
        )
    act = ("silu" if gated else "relu2", None, None, None)
    return Layer(operands[0], operands[1], dtype, scheme, mode, gated, False, act)


def programs(target: GPUTarget) -> Iterator[tuple[str, Program]]:
    """Layers of every scheme, with few and many tokens, in both formats."""
    pdl = int(target.backend == "cuda" and target.arch >= 90)
    layers = {
        "w8a8": layer_of("w8a8"),
        "w8a8 per tensor, not gated, float16": layer_of("w8a8", torch.float16, 1, gated=False),
        "w8a8 static": layer_of("w8a8", mode=2),
        "w8a16": layer_of("w8a16"),
        "bfloat16": layer_of("unquantized"),
        "float32": layer_of("unquantized", torch.float32),
    }
    if target.backend == "cuda" and target.arch // 10 == 9:
        # Hopper's own way, which the heuristic does not choose by itself.
        for gemm in (Gemm(64, 128, 128, 8, 4, 16, overlap=True), Gemm(128, 128, 128, 8, 4, overlap=True)):
            for name in ("w8a8", "w8a8 static"):
                yield f"{name}, overlapped", make_program(layers[name], Plan(gemm, gemm), 4096, 4, False, torch.int32)
    for name, layer in layers.items():
        for tokens in (1, 8, 64, 256, 4096):
            plan = choose(layer.scheme, tokens, 4, 16, pdl)
            yield f"{name}, {tokens} tokens", make_program(layer, plan, tokens, 4, tokens == 64, torch.int32)
        plan = choose(layer.scheme, 64, 4, 16, pdl, one_token=False)
        yield f"{name}, batched", make_program(layer, plan, 64, 4, False, torch.int64, 64)


def main(targets: list[str]) -> int:
    """Compile for each target; the exit code counts failures."""
    failures = 0
    for name in targets:
        target, done = target_of(name), set[Kernel | int]()
        for label, program in programs(target):
            for step in program.steps:
                if id(step.kernel) in done:
                    continue
                done.add(id(step.kernel))
                try:
                    compile_step(step, program.dtypes, target)
                except Exception as error:  # a compiler raises what it likes
                    failures += 1
                    print(f"{name}: {label}: {step.kernel.function.__name__}: {error}")
        print(f"{name}: {len(done)} kernels compiled with Triton {triton.__version__}")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["cuda:80", "cuda:90", "cuda:100", "hip:gfx942"]))
