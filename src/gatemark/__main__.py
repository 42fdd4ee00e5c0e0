"""``python -m gatemark``."""

from gatemark.cli.main import run

if __name__ == "__main__":
    run()
