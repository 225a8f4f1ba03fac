"""Soak: faults of all kinds at random times, and invariants that must hold: ``make soak``.

`plan` chooses the faults by a seed. `world` runs the programs. `faults` carries out the plan.
`verdict` decides whether the invariants held.
"""
