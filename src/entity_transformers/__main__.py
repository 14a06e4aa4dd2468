"""``python -m entity_transformers``: the command line."""

from entity_transformers.cli import main

if __name__ == "__main__":
    main()
