"""What kernels are measured beside."""
