"""Kernels in Triton. Everything a kernel reads or writes is an argument; nothing here knows of requests or layers."""
