"""``python -m medlink``: the command line."""

from medlink.cli.main import main

if __name__ == "__main__":
    main()
