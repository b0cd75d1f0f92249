"""The program that `mercury demo` runs."""

from samples.queued_transaction.demo.main import main

if __name__ == "__main__":
    main()
