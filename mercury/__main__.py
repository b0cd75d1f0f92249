"""``python -m mercury``: the command `mercury`, where its folder is not on the search path."""

from mercury.cli.entry import run

if __name__ == "__main__":
    run()
