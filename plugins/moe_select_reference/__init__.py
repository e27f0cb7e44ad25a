"""Reference experts."""
