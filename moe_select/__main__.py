"""``python -m moe_select``."""

from moe_select.cli import main

if __name__ == "__main__":
    main()
