"""Examples are scripts: pytest must not import them, which would run them."""

collect_ignore_glob = ["*"]
