"""What HTTP costs: requests a second and their p95 against the same calls in-process, and many readers of the stream.

    python benchmarks/over_http.py            # 3 rounds of 3 seconds for each case
    python benchmarks/over_http.py --quick    # one round of a second

| remember, recall | 1, 16 and 64 clients on loopback, each with a connection of its own, against as many threads in-process |
| errors           | answers that were no success, of all that were sent |
| memory           | what the server's process grows by while 64 clients ask, after they have asked for as long before |
| readers          | 200 readers of server-sent events, each of which must get every event |

The server is a process of its own, with one thread that speaks HTTP; clients and server share this machine's cores.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.report import Measure, Row, compared, interleaved, options, show
from benchmarks.setting import migrated, server, text, throughput
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.memories import NewMemory
from tests.servers import DatabaseUrls

CLIENTS = (1, 16, 64)
READERS = 200
#: Memories in the house before anything is measured.
KNOWN = 2_000
#: Megabytes that the server may grow by meanwhile.
GROWTH = 32
PROGRESS = sys.stderr if sys.stderr.isatty() else None
_SERVER = """
from substrate.doors.http.serving import serve
from substrate.runtime.runtime import Runtime
with Runtime.open("server") as runtime:
    serve(runtime, on_ready=lambda address: print(address, flush=True))
"""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int
    seconds: float
    events: int


FULL, QUICK = Size(3, 3.0, 200), Size(1, 1.0, 50)


@dataclass
class Tally:
    """What came of all requests."""

    sent: int = 0
    failed: int = 0
    latencies: dict[str, list[float]] = field(default_factory=dict)


class Client:
    """One connection that is kept, and one request after another."""

    def __init__(self, address: str, token: str, tally: Tally) -> None:
        parts = urlsplit(address)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._tally = tally

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: object, expected: int) -> None:
        self._connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        answer.read()
        self._tally.sent += 1
        self._tally.failed += answer.status != expected

    def remember(self, number: int) -> None:
        self.post("/v1/memories", {"content": text(number)}, 201)

    def recall(self, number: int) -> None:
        self.post("/v1/search", {"query": question(number)}, 200)


class Server:
    """A process that serves, and its size."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address

    def megabytes(self) -> float:
        """What it has in memory, files that are mapped left out; 0 where the system does not say."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return 0.0
        line = next(one for one in status.read_text().splitlines() if one.startswith("RssAnon"))
        return int(line.split()[1]) / 1024


def question(number: int) -> str:
    return " ".join(text(number).split()[:6])


@contextmanager
def serving(urls: DatabaseUrls, home: str) -> Iterator[Server]:
    settings = {
        "DATABASE_URL": urls.app,
        "HOME": home,
        "EMBEDDER": "static",
        "HTTP_PORT": "0",
        "HTTP_RATE": "0",
    }
    environment = {**os.environ, **{f"SUBSTRATE_{name}": value for name, value in settings.items()}}
    with subprocess.Popen([sys.executable, "-c", _SERVER], env=environment, stdout=subprocess.PIPE, text=True) as found:
        try:
            assert found.stdout is not None
            yield Server(found, found.stdout.readline().strip())
        finally:
            found.terminate()
            found.wait(30)


# ------------------------------------------------------------------ remember and recall


def timed(act: Callable[[int], None], latencies: list[float]) -> Callable[[int], None]:
    def measured(number: int) -> None:
        began = time.perf_counter()
        act(number)
        latencies.append(time.perf_counter() - began)

    return measured


def load(served: Server, agent: HostedAgent, token: str, size: Size, tally: Tally) -> list[Row]:
    cases: dict[str, Measure] = {}
    local: dict[str, Callable[[int], None]] = {
        "remember": lambda number: void(agent.remember(text(number))),
        "recall": lambda number: void(agent.recall(question(number))),
    }
    for name, act in local.items():
        for clients in CLIENTS:
            over, within = f"{name}, {clients} over HTTP", f"{name}, {clients} in-process"
            connected = partial(connections, served.address, token, tally, name)
            cases[over] = measure(partial(connected, clients), size, tally.latencies.setdefault(over, []))
            cases[within] = measure(partial(threads, act, clients), size, tally.latencies.setdefault(within, []))
    medians = interleaved(size.rounds, cases, PROGRESS)
    rows = []
    for name in local:
        for clients in CLIENTS:
            over, within = f"{name}, {clients} over HTTP", f"{name}, {clients} in-process"
            rows.append(compared(over, medians[over], "requests/s", medians[within]))
            slow, quick = (p95(tally.latencies[case]) for case in (over, within))
            rows.append(compared(f"{name}, {clients}: p95", slow, "ms", quick))
    return rows


Act = Callable[[int], None]


def measure(acts: Callable[[], AbstractContextManager[list[Act]]], size: Size, latencies: list[float]) -> Measure:
    def once() -> float:
        with acts() as ours:
            return throughput([timed(act, latencies) for act in ours], size.seconds)

    return once


@contextmanager
def connections(address: str, token: str, tally: Tally, name: str, count: int) -> Iterator[list[Act]]:
    with ExitStack() as stack:
        yield [getattr(stack.enter_context(closing(Client(address, token, tally))), name) for _ in range(count)]


@contextmanager
def threads(act: Act, count: int) -> Iterator[list[Act]]:
    yield [act] * count


def void(_: object) -> None:
    """What an act returns is not looked at."""


def p95(latencies: list[float]) -> float:
    return sorted(latencies)[int(len(latencies) * 0.95)] * 1000


def worked(served: Server, token: str, size: Size, tally: Tally) -> float:
    """The megabytes that the server has after it had to do for a while."""
    for name in ("remember", "recall"):
        with connections(served.address, token, tally, name, CLIENTS[-1]) as acts:
            throughput(acts, size.seconds)
    return served.megabytes()


# ------------------------------------------------------------------ readers


async def readers(served: Server, agent: HostedAgent, token: str, size: Size) -> list[Row]:
    """Each reader gets every event, and how long after the last write the last of them had it."""
    after = agent.read_stream(0, 1).head
    opened = [await reader(served.address, token, after) for _ in range(READERS)]
    written = await asyncio.to_thread(lambda: [agent.remember(text(n)).position.seq for n in range(size.events)])
    done = time.perf_counter()
    answers = await asyncio.gather(*(received(incoming, set(written)) for incoming, _ in opened))
    lasted = time.perf_counter() - done
    for _, outgoing in opened:
        outgoing.close()
    whole = sum(answers)
    return [
        Row(f"readers who got all {size.events} events", whole, "readers", READERS, whole / READERS, "= 1",
            whole == READERS),
        Row("after the last write, until the last had it", lasted * 1000, "ms"),
    ]  # fmt: skip


async def reader(address: str, token: str, after: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(address)
    incoming, outgoing = await asyncio.open_connection(parts.hostname, parts.port)
    request = (
        f"GET /v1/stream/events?after={after} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    outgoing.write(request.encode())
    await outgoing.drain()
    status = await incoming.readline()
    assert b" 200 " in status, status
    return incoming, outgoing  # who lets go of the second closes the connection


async def received(incoming: asyncio.StreamReader, wanted: set[int], patience: float = 60) -> bool:
    missing = set(wanted)
    try:
        async with asyncio.timeout(patience):
            while missing:
                line = await incoming.readline()
                if not line:
                    break
                if line.startswith(b"id: "):
                    missing.discard(int(line[4:]))
    except TimeoutError:
        pass
    return not missing


# ------------------------------------------------------------------ all of it


def main() -> int:
    chosen = options(__doc__, "one round of a second for each case").parse_args()
    size = QUICK if chosen.quick else FULL
    with server(chosen.url) as cluster, migrated(cluster) as urls, tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home), embedder="static")
        with Runtime.open("desk", app_url=urls.app, owner_url=urls.owner, settings=settings) as runtime:
            token = runtime.world.found_house("home", "ana").token
            agent = runtime.agent(token)
            agent.remember_many([NewMemory(content=text(number)) for number in range(KNOWN)])
            with serving(urls, home) as served:
                tables = measured(served, agent, token, size)
    return show(f"{KNOWN} memories at the start; {os.cpu_count()} cores", tables, as_rows=chosen.json)


def measured(served: Server, agent: HostedAgent, token: str, size: Size) -> dict[str, list[Row]]:
    tally = Tally()
    with closing(Client(served.address, token, tally)) as first:
        first.post("/v1/search", {"query": "tea", "at_least": KNOWN}, 200)
    rows = load(served, agent, token, size, tally)
    reading = asyncio.run(readers(served, agent, token, size))
    # By now each thread of the server has its connections and their caches: what is added from here on is a leak, or known.
    before, after = (worked(served, token, size, tally) for _ in range(2))
    growth = after - before
    return {
        "remember and recall": rows,
        "readers of the stream": reading,
        "errors and memory": [
            Row("answers that were no success", tally.failed, f"of {tally.sent}", target="= 0", ok=tally.failed == 0),
            Row("growth of the server", growth, "MB", before, target=f"≤ {GROWTH} MB", ok=growth <= GROWTH),
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
