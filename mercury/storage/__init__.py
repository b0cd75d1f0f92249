"""The storage API, and its implementations.

`api` is the contract, `records` what is stored, `memory` the store that lives as long as its process.
"""
