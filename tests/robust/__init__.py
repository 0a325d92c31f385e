"""What must hold whatever happens around a program: threads, forks, signals, disks, other runs.

    make robust            every script in full, some ten minutes
    python -m tests.robust.threads [--short]

Each script prints what it did and found, and fails where something is wrong; ``test_scripts``
runs each of them in short.
"""

SCRIPTS = ("interrupts", "threads", "forks", "determinism", "disks", "memory")
