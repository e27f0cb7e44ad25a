"""Decides which mixture-of-experts kernel an inference engine runs, says why, and builds it."""
