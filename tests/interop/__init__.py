"""Mercury and other stacks, live: see docs/interop.md."""
