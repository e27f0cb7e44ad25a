"""Programmatic dependent launch: a kernel is set up, or started, while its predecessor still runs.

PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol"; Hopper and later.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def begin(PDL: tl.constexpr):
    """To be called before anything is read that the predecessor writes, or written that it reads. Nothing where PDL is 0."""
    if PDL > 0:
        tl.inline_asm_elementwise("griddepcontrol.wait; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    if PDL > 1:
        tl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
