"""Live tests of Mercury with other products; see docs/interop.md."""
