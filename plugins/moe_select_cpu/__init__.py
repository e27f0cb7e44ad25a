"""Experts for host processors."""
