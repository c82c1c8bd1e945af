"""The worlds below the core: object stores and ref stores."""
