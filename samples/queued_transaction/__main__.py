"""The demonstration, as a program: `mercury demo` runs it."""

from samples.queued_transaction.demo.main import main

if __name__ == "__main__":
    main()
