"""A real Redis Cluster, and a real Sentinel set-up, for tests: on free loopback ports, none left behind.

with RedisCluster(masters=3, replicas=1) as cluster:
    Limiter(cluster.url)
    cluster.move_slot(slot, target)      # as `redis-cli --cluster reshard` does, key by key
    cluster.owner(slot).kill()           # its replica takes over

with RedisSentinel() as redis:
    Limiter(redis.url)
    redis.master.stop(); redis.wait_for_switch()
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from redis_servers import LOOPBACK, RedisServer, free_port

SECONDS = 30.0


def until(what: str, happens: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits for something to happen, within a bound that a loaded machine meets."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(Exception):
            if happens():
                return
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


def free_cluster_port() -> int:
    """A port that is free together with the one 10,000 above, on which a Cluster's servers talk."""
    while (port := free_port()) > 20_000:
        pass
    return port


class RedisCluster:
    """Masters, each with so many replicas; the slots are shared out evenly."""

    def __init__(self, masters: int = 3, replicas: int = 0, *, node_timeout_ms: int = 1000) -> None:
        self._masters = masters
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms)]
        # A replica may take over however long it has not heard from its master.
        options += ["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]
        self.nodes = [
            RedisServer(port=free_cluster_port(), options=options) for _ in range(masters * (1 + replicas))
        ]
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes)

    def __enter__(self) -> RedisCluster:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self._join()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _join(self) -> None:
        first, *others = self.nodes
        for number, node in enumerate(self.nodes[: self._masters]):
            low, high = (16_384 * n // self._masters for n in (number, number + 1))
            node.command("CLUSTER", "ADDSLOTSRANGE", str(low), str(high - 1))
            node.command("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        for node in others:
            node.command("CLUSTER", "MEET", LOOPBACK, str(first.port))
        until("the servers know each other", self._know_each_other)
        for number, node in enumerate(self.nodes[self._masters :]):
            node.command("CLUSTER", "REPLICATE", self.id(self.nodes[number % self._masters]))
        until("the cluster is ok", self.is_ok)

    def _know_each_other(self) -> bool:
        lists = [node.command("CLUSTER", "NODES").splitlines() for node in self.nodes]
        return all(len(lines) == len(self.nodes) and "handshake" not in str(lines) for lines in lists)

    def live(self) -> Iterator[RedisServer]:
        return (node for node in self.nodes if node.is_running)

    def is_ok(self) -> bool:
        """Whether every live server says that all slots are served, and replicas are in step."""
        return all(
            "cluster_state:ok" in node.command("CLUSTER", "INFO")
            and "master_link_status:down" not in node.command("INFO", "replication")
            for node in self.live()
        )

    def id(self, node: RedisServer) -> str:
        return node.command("CLUSTER", "MYID")

    def owner(self, slot: int) -> RedisServer:
        """The server that has a slot, as a live one says."""
        for line in next(self.live()).command("CLUSTER", "NODES").splitlines():
            (
                _,
                address,
                flags,
                *_,
            ) = line.split()
            for words in line.split()[8:]:
                low, _, high = words.partition("-")
                if low.isdigit() and int(low) <= slot <= int(high or low) and "fail" not in flags:
                    port = int(address.partition("@")[0].rpartition(":")[2])
                    return next(node for node in self.nodes if node.port == port)
        raise LookupError(f"no server has slot {slot}")

    def masters(self) -> list[RedisServer]:
        return self.nodes[: self._masters]

    def key_slot(self, key: str) -> int:
        return int(next(self.live()).command("CLUSTER", "KEYSLOT", key))

    def move_slot(self, slot: int, target: RedisServer, pause: float = 0.0) -> None:
        """Moves a slot key by key, as `redis-cli --cluster reshard` does, resting in between."""
        source = self.owner(slot)
        target.command("CLUSTER", "SETSLOT", str(slot), "IMPORTING", self.id(source))
        source.command("CLUSTER", "SETSLOT", str(slot), "MIGRATING", self.id(target))
        time.sleep(pause)
        for _ in range(1000):
            keys = source.command("CLUSTER", "GETKEYSINSLOT", str(slot), "10").split()
            if not keys:
                break
            for key in keys:
                source.command("MIGRATE", LOOPBACK, str(target.port), key, "0", "5000")
            time.sleep(pause)
        for node in (target, source):
            node.command("CLUSTER", "SETSLOT", str(slot), "NODE", self.id(target))


class RedisSentinel:
    """A master, a replica, and three sentinels that watch the master under the name `main`."""

    name = "main"

    def __init__(self, *, down_after_ms: int = 500) -> None:
        self._down_after_ms = down_after_ms
        self.master = RedisServer()
        self.replica = RedisServer()
        self.sentinels = [RedisServer(port=free_port(), sentinel=True) for _ in range(3)]
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        hosts = ",".join(f"{LOOPBACK}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.name}"

    def __enter__(self) -> RedisSentinel:
        with ExitStack() as stack:
            for server in (self.master, self.replica, *self.sentinels):
                stack.enter_context(server)
            self.replica.command("REPLICAOF", LOOPBACK, str(self.master.port))
            until("the replica is in step", self._is_in_step)
            for sentinel in self.sentinels:
                sentinel.command("SENTINEL", "MONITOR", self.name, LOOPBACK, str(self.master.port), "2")
                for option, value in (
                    ("down-after-milliseconds", self._down_after_ms),
                    ("failover-timeout", 3000),
                ):
                    sentinel.command("SENTINEL", "SET", self.name, option, str(value))
            until("the sentinels know each other", self._know_each_other)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _is_in_step(self) -> bool:
        return "master_link_status:up" in self.replica.command("INFO", "replication")

    def _know_each_other(self) -> bool:
        texts = [sentinel.command("SENTINEL", "MASTER", self.name) for sentinel in self.sentinels]
        fields = [dict(zip(text.split("\n")[::2], text.split("\n")[1::2], strict=False)) for text in texts]
        return all(
            known["num-other-sentinels"] == "2" and known["num-slaves"] == "1" and known["flags"] == "master"
            for known in fields
        )

    def address(self, sentinel: RedisServer) -> int:
        """The port of the master, as a sentinel says."""
        return int(sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name).split()[1])

    def wait_for_switch(self, port: int) -> None:
        """Returns when a sentinel says that the master is at `port`."""
        until("the switch", lambda: any(self.address(sentinel) == port for sentinel in self.sentinels))
