"""`mercury trial`: breaks the programs of a deployment at every step of a message's way, and checks what arrived.

`scenario` describes a deployment and what to try; `tree` makes the branches of it; `link` observes the steps and holds
them; `deployment` runs the programs and applies the faults; `judging` gives each branch a verdict.
"""
