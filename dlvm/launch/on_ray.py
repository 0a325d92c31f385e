"""The machines of a cluster of Ray: Ray says where ranks run, and MPI's launcher starts them.

With ``-launcher manual`` the launcher prints for each host the command of a proxy, which starts the
ranks there. A task of Ray on that host runs it, so no ssh is needed. Only Ray's core is used.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import IO, Any, TypeVar

from dlvm.base import environment
from dlvm.base.errors import UserError

from .hydra import found

T = TypeVar("T")
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Where it is 0, Ray takes 127.0.0.1 for its address, also on Linux; else it takes the host's own,
whatever ``ray.init`` is told, and listens to the network."""
PROXY, LAST = "HYDRA_LAUNCH: ", "HYDRA_LAUNCH_END"
"""What stands in front of the command of a proxy, and the line after the last of them."""
INSTALL = "pip install 'dlvm-compiler[ray]'"
PATIENCE = 60.0
"""Seconds within which the cluster has room for the ranks."""


def proxy(command: Sequence[str]) -> int:
    """Runs the proxy of one host to its end."""
    return subprocess.run(command, check=False).returncode


class Cluster:
    """The cluster at an address, or a new one of this machine alone."""

    def __init__(self, address: str | None) -> None:
        self.launcher, self.local = found(), address is None
        if self.local:
            environment.set_for("ray", LOOPBACK_ONLY, "0")
        try:
            self.ray: Any = import_module("ray")
        except ImportError:
            raise UserError(
                "expected the package ray for --ray, found none",
                remedy=INSTALL,
            ) from None
        here = {"include_dashboard": False} if self.local else {}
        self.ray.init(address=address or "local", log_to_driver=False, **here)
        self._group: Any = None

    def close(self) -> None:
        """Leaves the cluster, and ends one that was made here."""
        self.ray.shutdown()

    def room(self) -> int:
        """The processors of all hosts that are alive."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def left(self, count: int) -> int:
        """The processors that are left: a cluster loses hosts, and gets new ones."""
        return self.room()

    def threads(self, count: int) -> int:
        """One, as a rank reserves one processor."""
        return 1

    def start(
        self, count: int, told: Sequence[str], env: Mapping[str, str], output: int | None
    ) -> subprocess.Popen[Any]:
        """Reserves a processor for each rank and starts the launcher, and a proxy on each host."""
        nodes = self._reserved(count)
        addresses = {n["NodeID"]: n["NodeManagerAddress"] for n in self.ray.nodes()}
        hosts = {node: nodes.count(node) for node in nodes}
        named = ",".join(f"{addresses[node]}:{ranks}" for node, ranks in hosts.items())
        near = ["-iface", "lo"] if self.local else []
        process = subprocess.Popen(
            [self.launcher, "-launcher", "manual", *near, "-hosts", named, "-n", str(count), *told],
            env=env,
            stdout=subprocess.PIPE,
        )
        given = (process.stdout, [*hosts], output is None)
        threading.Thread(target=self._relay, args=given, daemon=True).start()
        return process

    def _reserved(self, count: int) -> list[str]:
        """The host of each rank, as few of them as there is room on."""
        groups = import_module("ray.util")
        if self._group is not None:
            groups.remove_placement_group(self._group)
        self._group = groups.placement_group([{"CPU": 1}] * count, strategy="PACK")
        if not self._group.wait(PATIENCE):
            raise UserError(
                f"expected a cluster with {count} free processors, found {self.room()} in all,"
                f" and not enough of them free within {PATIENCE:g} s",
                remedy="ask for fewer ranks, or wait until others have ended",
            )
        bundles = groups.placement_group_table(self._group)["bundles_to_node_id"]
        return sorted(bundles[i] for i in range(count))

    def _on(self, node: str, **options: Any) -> dict[str, Any]:
        """The options of a task on one host."""
        near = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        return {"num_cpus": 0, "scheduling_strategy": near(node, soft=False), **options}

    def _relay(self, lines: IO[bytes], nodes: Sequence[str], shown: bool) -> None:
        """Starts the proxy of each host, in their order, and shows what ranks write."""
        tasks, left = list[Any](), iter(nodes)
        for line in lines:
            text = line.decode("utf8", "replace")
            if text.startswith(PROXY):
                told = self._on(next(left), max_retries=0)
                command = shlex.split(text.removeprefix(PROXY))
                tasks.append(self.ray.remote(proxy).options(**told).remote(command))
            elif shown and not text.startswith(LAST):
                sys.stdout.write(text)
                sys.stdout.flush()

    def each(self, asked: Callable[..., T], *given: Any) -> list[T]:
        """What a function gives on each host that is alive."""
        if self.local:
            return [asked(*given)]
        alive = [n["NodeID"] for n in self.ray.nodes() if n["Alive"]]
        tasks = [self.ray.remote(asked).options(**self._on(n)).remote(*given) for n in alive]
        return self.ray.get(tasks)
