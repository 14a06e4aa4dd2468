"""lm-evaluation-harness' own command line, which knows GPT2E and model ``entity-transformers``."""

import sys

from entity_transformers.study.libraries import explain


def main() -> None:
    """Run the harness; if it is not installed, exit with a line on what to install."""
    try:
        from lm_eval.__main__ import cli_evaluate

        import entity_transformers.harness.model  # noqa: F401 - registers itself
    except ModuleNotFoundError as error:
        if why := explain(error):
            sys.exit(f"entity_transformers.harness: {why}")
        raise
    cli_evaluate()


if __name__ == "__main__":
    main()
