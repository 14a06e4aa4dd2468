"""The computations behind the steps."""
