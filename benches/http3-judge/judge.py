"""The cases of http3-judge.sh: those of the QUIC interop runner for a server, by the clients aioquic and quic-go.

    judge.py CERTIFICATE SITE PORT PORT_WITH_RETRY PORT_WITH_EARLY_DATA QUIC_GO

Prints a line for each case and client. Ends with 1 if one failed.
"""

import asyncio
import hashlib
import os
import random
import struct
import sys
import time
from contextlib import asynccontextmanager
from functools import partial

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite
from violations import VIOLATIONS

CERTIFICATE, SITE, PORT, RETRY_PORT, EARLY_PORT, QUIC_GO = sys.argv[1:7]
PORT, RETRY_PORT, EARLY_PORT = int(PORT), int(RETRY_PORT), int(EARLY_PORT)
CASE_TIME = 30
# A client that moves does so after each so many bytes, at least so many times.
MOVE_AFTER, MOVES = 1_000_000, 4


class NotOffered(Exception):
    """The server does not have the feature, and says so as the standard wants."""


def expected(path):
    with open(SITE + path, "rb") as file:
        return file.read()


class Client(QuicConnectionProtocol):
    def __init__(self, quic, *arguments, change=None, **named):
        if change:
            change(quic)
        super().__init__(quic, *arguments, **named)
        self.http = None
        self.answers = {}
        self.end = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.end.set_result(event.error_code)
            for _, waiter, _ in self.answers.values():
                if not waiter.done():
                    waiter.set_exception(ConnectionError(f"{event.error_code}: {event.reason_phrase}"))
        for got in self.http.handle_event(event) if self.http else []:
            if isinstance(got, (HeadersReceived, DataReceived)) and got.stream_id in self.answers:
                body, waiter, status = self.answers[got.stream_id]
                if isinstance(got, HeadersReceived):
                    status.update(got.headers)
                else:
                    body += got.data
                if got.stream_ended and not waiter.done():
                    waiter.set_result((int(status[b":status"]), bytes(body)))

    def get(self, path):
        self.http = self.http or H3Connection(self._quic)
        stream = self._quic.get_next_available_stream_id()
        waiter = asyncio.get_running_loop().create_future()
        self.answers[stream] = (bytearray(), waiter, {})
        authority = b"localhost"
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority), (b":path", path.encode())]
        self.http.send_headers(stream, head, end_stream=True)
        self.transmit()
        return waiter

    async def check(self, path):
        status, body = await self.get(path)
        assert status == 200, f"status {status}"
        assert body == expected(path), f"{len(body)} bytes differ"


def configuration(**named):
    made = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost", **named)
    made.load_verify_locations(CERTIFICATE)
    return made


@asynccontextmanager
async def client(port=PORT, made=None, **named):
    async with connect("127.0.0.1", port, configuration=made or configuration(), create_protocol=Client, **named) as it:
        yield it


class Relay:
    """Forwards the datagrams of one client, and does to them what a network does."""

    def __init__(self, lost=0.0, changed=0.0, moves_to=None):
        self.lost, self.changed, self.moves_to = lost, changed, moves_to
        self.random, self.tasks = random.Random(1), []
        self.client, self.up, self.received, self.moved = None, None, 0, 0

    async def __aenter__(self):
        self.near, _ = await self.endpoint(self.upward, local_addr=("127.0.0.1", 0))
        self.address = self.near.get_extra_info("sockname")[1]
        await self.rebind("127.0.0.1")
        return self

    async def __aexit__(self, *_):
        self.near.close()
        self.up.close()

    async def endpoint(self, handler, **named):
        class Protocol(asyncio.DatagramProtocol):
            def datagram_received(self, data, address):
                handler(data, address)

        return await asyncio.get_running_loop().create_datagram_endpoint(Protocol, **named)

    async def rebind(self, source):
        """Sends from another port, and receives only there."""
        before = self.up
        self.up, _ = await self.endpoint(self.downward, local_addr=(source, 0), remote_addr=("127.0.0.1", PORT))
        if before:
            before.close()

    def suffers(self, data):
        if self.random.random() < self.lost:
            return None
        if self.random.random() < self.changed:
            at = self.random.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1:]
        return data

    def upward(self, data, address):
        self.client = address
        if (data := self.suffers(data)) is not None:
            self.up.sendto(data)

    def downward(self, data, _):
        self.received += len(data)
        if self.moves_to and self.received // MOVE_AFTER > self.moved:
            self.moved += 1
            # Back and forth, if it is another address.
            task = asyncio.ensure_future(self.rebind(self.moves_to if self.moved % 2 else "127.0.0.1"))
            self.tasks.append(task)
        if (data := self.suffers(data)) is not None:
            self.near.sendto(data, self.client)


async def go(port=PORT, path="/1K", count=1, connections=1, early=False):
    """Runs the client of quic-go, and returns its lines."""
    command = [QUIC_GO, f"-certificate={CERTIFICATE}", f"-count={count}", f"-connections={connections}", f"-early={early}".lower()]
    url = f"https://localhost:{port}{path}"
    run = await asyncio.create_subprocess_exec(*command, url, stdout=-1, stderr=-1)
    try:
        out, problem = await run.communicate()
    finally:
        if run.returncode is None:
            run.kill()
    assert run.returncode == 0, problem.decode().strip()
    lines = out.decode().splitlines()
    digest = hashlib.sha256(expected(path)).hexdigest()
    for line in lines:
        assert line.startswith(f"200 HTTP/3.0 {digest} same={count} "), line
    return lines


async def handshake():
    async with client() as it:
        await it.check("/1K")


async def transfer():
    async with client() as it:
        await asyncio.gather(*(it.check(path) for path in ["/2M", "/3M", "/5M"]))


async def retry():
    async with client(RETRY_PORT) as it:
        await it.check("/1K")
        assert it._quic._retry_source_connection_id is not None, "the server sent no Retry"


async def resumption():
    tickets = []
    for number in range(2):
        async with client(made=configuration(session_ticket=tickets[-1] if tickets else None), session_ticket_handler=tickets.append) as it:
            await it.check("/1K")
            assert it._quic.tls.session_resumed == (number > 0), "the second handshake is a full one"
            while not tickets:
                await asyncio.sleep(0.01)


async def early_data():
    tickets = []
    async with client(EARLY_PORT, session_ticket_handler=tickets.append) as it:
        await it.check("/1K")
        while not tickets:
            await asyncio.sleep(0.01)
    async with client(EARLY_PORT, made=configuration(session_ticket=tickets[0]), wait_connected=False) as it:
        await it.check("/1K")
        assert it._quic.tls.early_data_accepted, "the server refused it"


async def no_early_data():
    tickets = []
    async with client(session_ticket_handler=tickets.append) as it:
        await it.check("/1K")
        while not tickets:
            await asyncio.sleep(0.01)
    assert not tickets[0].max_early_data_size, "tickets allow early data"


async def moving(source):
    async with Relay(moves_to=source) as relay, client(relay.address) as it:
        await it.check("/5M")
        await it.check("/1K")
        assert relay.moved >= MOVES, f"it moved {relay.moved} times"


async def chacha20():
    async with client(made=configuration(cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256])) as it:
        await it.check("/1K")


async def key_update():
    async with client() as it:
        await it.check("/1K")
        for _ in range(3):
            it.request_key_update()
            await it.check("/1K")


async def multiplexing():
    async with client() as it:
        for begin in range(0, 2000, 100):
            await asyncio.gather(*(it.check(f"/many/{number}") for number in range(begin, begin + 100)))


async def version_2():
    made = configuration(supported_versions=[QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1], original_version=QuicProtocolVersion.VERSION_2)
    async with client(made=made) as it:
        await it.check("/1K")
        if it._quic._version != QuicProtocolVersion.VERSION_2:
            raise NotOffered("the client falls back to version 1")


async def version_negotiation():
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    class Protocol(asyncio.DatagramProtocol):
        def datagram_received(self, data, address):
            answer.done() or answer.set_result(data)

    transport, _ = await loop.create_datagram_endpoint(Protocol, remote_addr=("127.0.0.1", PORT))
    packet = b"\xc0" + struct.pack("!I", 0x1A2A3A4A) + b"\x08destinat" + b"\x06source"
    transport.sendto(packet.ljust(1200, b"\0"))
    got = await asyncio.wait_for(answer, 5)
    transport.close()
    assert got[0] & 0x80 and got[1:5] == bytes(4), "it is no Version Negotiation packet"
    assert got[5:6 + 6] == b"\x06source" and got[12:21] == b"\x08destinat", "the connection IDs differ"
    versions = [got[at:at + 4] for at in range(21, len(got), 4)]
    assert bytes([0, 0, 0, 1]) in versions and bytes.fromhex("1a2a3a4a") not in versions, versions


async def amplification():
    """Sends the first packet only. The server repeats what it has sent, and may not exceed the limit."""
    received = []

    class Protocol(asyncio.DatagramProtocol):
        def datagram_received(self, data, address):
            received.append(len(data))

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Protocol, remote_addr=("127.0.0.1", PORT))
    silent = QuicConnection(configuration=configuration())
    silent.connect(("127.0.0.1", PORT), now=loop.time())
    (first, _), *_ = silent.datagrams_to_send(now=loop.time())
    transport.sendto(first)
    await asyncio.sleep(4)
    transport.close()
    assert sum(received) > 2 * len(first), f"the server sent {sum(received)} bytes"
    assert sum(received) <= 3 * len(first), f"{len(first)} bytes got {sum(received)}"


async def faulty(**faults):
    async with Relay(**faults) as relay, client(relay.address) as it:
        await it.check("/2M")


async def go_relayed(source=None, **faults):
    async with Relay(moves_to=source, **faults) as relay:
        await go(relay.address, "/5M" if source else "/2M")
        assert not source or relay.moved >= MOVES, f"it moved {relay.moved} times"


async def go_transfer():
    await asyncio.gather(*(go(path=path) for path in ["/2M", "/3M", "/5M"]))


async def go_resumption():
    first, second = await go(connections=2)
    assert "resumed=false" in first and "resumed=true" in second, second


async def go_early_data():
    _, *others = await go(EARLY_PORT, connections=4, early=True)
    assert all("early=true" in other for other in others), others
    _, second = await go(connections=2, early=True)
    assert "early=false" in second, second


CASES = [
    ("handshake", handshake, go),
    ("transfer of 2, 3 and 5 MB", transfer, go_transfer),
    ("Retry", retry, lambda: go(RETRY_PORT)),
    ("resumption", resumption, go_resumption),
    ("early data (0-RTT)", early_data, go_early_data),
    ("no early data by default", no_early_data, None),
    ("another port (rebind-port)", lambda: moving("127.0.0.1"), lambda: go_relayed("127.0.0.1")),
    ("another address (rebind-addr)", lambda: moving("127.0.0.2"), lambda: go_relayed("127.0.0.2")),
    ("ChaCha20", chacha20, None),
    ("key update", key_update, None),
    ("2000 files on a connection", multiplexing, lambda: go(path="/many/0", count=2000)),
    ("QUIC version 2", version_2, None),
    ("version negotiation", version_negotiation, None),
    ("loss of 5 %", lambda: faulty(lost=0.05), lambda: go_relayed(lost=0.05)),
    ("corruption of 5 %", lambda: faulty(changed=0.05), lambda: go_relayed(changed=0.05)),
    ("amplification limit", amplification, None),
]


async def violate(codes, change):
    connecting = connect(
        "127.0.0.1", PORT, configuration=configuration(), create_protocol=partial(Client, change=change), wait_connected=False
    )
    async with connecting as it:
        it.transmit()
        try:
            await it.wait_connected()
            await it.ping()
        except ConnectionError:
            pass
        code = await asyncio.wait_for(it.end, 5)
        assert code in codes, f"the server closed the connection with code {code:#x}"
    # It serves others.
    await handshake()


CASES += [(name, partial(violate, codes, change)) for name, codes, change in VIOLATIONS]


async def main():
    failed = 0
    os.environ["QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"] = "true"
    for name, *runs in CASES:
        for who, run in zip(["aioquic", "quic-go"], runs):
            if run is None:
                continue
            begun = time.monotonic()
            try:
                await asyncio.wait_for(run(), CASE_TIME)
                result = "passed"
            except NotOffered as why:
                result = f"not offered: {why}"
            except (Exception, asyncio.TimeoutError) as error:
                failed += 1
                result = f"FAILED: {type(error).__name__} {error}"
            print(f"{name:44} {who:8} {time.monotonic() - begun:6.2f} s  {result}", flush=True)
    print(f"{failed} failed")
    return failed > 0


sys.exit(asyncio.run(main()))
