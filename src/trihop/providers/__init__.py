"""Ready-made providers, one small module for each family of APIs."""
