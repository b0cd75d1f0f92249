"""The storage API and its implementations.

`api` is the contract, `records` has the types that are stored, `memory` is the store that ends with its process.
"""
