"""``dlvm rules``: lists the rewrite rules, explains one, or checks them again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from dlvm.base.errors import UserError
from dlvm.ir.rewrite import Rule, rules

from .describing import subcommand
from .output import coloured, print_json, print_table


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "rules",
        "list, explain or check the rewrite rules",
        "negate_twice --check",
    )
    parser.add_argument("names", nargs="*", help="rules to explain, or to check; all if left out")
    parser.add_argument(
        "--check", action="store_true", help="prove both sides equal, and draw numbers"
    )
    parser.add_argument("--rounds", type=int, default=20, help="sizes and numbers for each rule")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Lists all rules; with names, explains these; with ``--check``, checks them."""
    chosen = _named(options.names)
    if options.check:
        return _check(chosen, options)
    if options.names:
        for rule in chosen:
            _explain(rule)
        return 0
    rows = [(f"{r.on}.{r.name}", f"{kind(r)}: {_words(r)}") for r in chosen]
    if options.json:
        print_json(dict(rows))
    else:
        print_table(rows)
    return 0


def kind(rule: Rule) -> str:
    """The class of a rule, and whether it applies only where it is cheaper."""
    return f"{rule.law_class}, where cheaper" if rule.weighed else rule.law_class


def _words(rule: Rule) -> str:
    return " ".join(rule.law.split())


def _named(names: Sequence[str]) -> list[Rule]:
    import_module("dlvm.opt")  # registers the rules of linear algebra
    every = {r.name: r for r in rules()}
    for name in names:
        if name not in every:
            near = [n for n in every if name in n]
            raise UserError(
                f"there is no rule {name!r}",
                remedy=f"did you mean {', '.join(near)}?" if near else "dlvm rules lists them",
            )
    return [every[n] for n in names] if names else list(every.values())


def _explain(rule: Rule) -> None:
    """Prints what a rule says, and each example before and after it."""
    from dlvm.trust.laws import sides

    print(coloured(f"{rule.on}.{rule.name}", "bold"), f"({kind(rule)})")
    print(_words(rule))
    if rule.law_class == "rounding" and not rule.keeps:
        print("It supposes finite operands and no overflow on the way.")
    for i in range(len(rule.examples)):
        before, after = sides(rule, i, {})
        print(f"\n// before\n{before}// after\n{after}", end="")


def _check(chosen: Sequence[Rule], options: argparse.Namespace) -> int:
    """Checks rules, prints what proves each and how any fails; the exit code says if one does."""
    from dlvm.trust.forms.proofs import proof
    from dlvm.trust.laws import failures

    proofs = [proof(r) for r in chosen]
    print_table([(f"{r.on}.{r.name}", p) for r, p in zip(chosen, proofs, strict=True)])
    found = [f for r in chosen for f in failures(r, options.rounds, options.seed)]
    for line in found:
        print(line)
    proven = sum(p.holds for p in proofs)
    drawn = f"{len(chosen)} checked {options.rounds} times each"
    print(f"{len(chosen)} rules: {proven} proven by form, {drawn}, {len(found)} failures")
    return 1 if found else 0
