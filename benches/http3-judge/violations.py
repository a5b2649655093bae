"""Clients that violate QUIC: the cases of h3spec for a server, with aioquic.

Each is a name, the codes with which the server may close the connection, and a function that changes a connection of
aioquic before it starts.
"""

from aioquic.buffer import encode_uint_var

FLOW_CONTROL_ERROR, STREAM_LIMIT_ERROR, STREAM_STATE_ERROR = 0x3, 0x4, 0x5
FRAME_ENCODING_ERROR, TRANSPORT_PARAMETER_ERROR, PROTOCOL_VIOLATION = 0x7, 0x8, 0xA
UNEXPECTED_MESSAGE, MISSING_EXTENSION, NO_APPLICATION_PROTOCOL = 0x10A, 0x16D, 0x178

# Streams by who opens them, and in which directions they send.
OF_CLIENT, OF_SERVER, ONE_WAY_OF_CLIENT, ONE_WAY_OF_SERVER = range(4)


def frame(kind, *numbers, rest=b""):
    """Sends a frame instead of the next PING."""
    contents = b"".join(map(encode_uint_var, numbers)) + rest

    def change(quic):
        ping = quic._write_ping_frame

        def write(builder, uids=(), comment=""):
            # A probe in the handshake is no packet of the case.
            if not quic._handshake_complete:
                return ping(builder, uids, comment)
            builder.start_frame(kind, capacity=len(contents) + 8).push_bytes(contents)

        quic._write_ping_frame = write

    return change


def crypto(message):
    """Sends a message of TLS instead of the next PING."""
    return frame(0x06, 0, len(message), rest=message)


def parameters(drop=(), **add):
    """Changes the transport parameters. `add` has their numbers, as in `x03`."""

    def change(quic):
        original = quic._serialize_transport_parameters

        def serialize():
            rest, kept = original(), b""
            added = {int(name[1:], 16): value for name, value in add.items()}
            while rest:
                (number, tail) = pull(rest)
                (length, tail) = pull(tail)
                size = len(rest) - len(tail) + length
                if number not in drop and number not in added:
                    kept += rest[:size]
                rest = rest[size:]
            for number, value in added.items():
                kept += encode_uint_var(number) + encode_uint_var(len(value)) + value
            return kept

        quic._serialize_transport_parameters = serialize

    return change


def pull(data):
    size = 1 << (data[0] >> 6)
    return int.from_bytes(data[:size], "big") & ((1 << (8 * size - 2)) - 1), data[size:]


def without_extension(quic):
    original = quic._initialize

    def initialize(*arguments):
        original(*arguments)
        quic.tls.handshake_extensions = []

    quic._initialize = initialize


def other_protocol(quic):
    quic._configuration.alpn_protocols = ["other"]


ADDRESS = bytes([127, 0, 0, 1, 1, 187]) + bytes(18) + b"\x08" + bytes(range(8)) + bytes(16)
TOO_MANY = (1 << 60) + 1

VIOLATIONS = [
    ("STREAM beyond the window", {FLOW_CONTROL_ERROR}, frame(0x0E, OF_CLIENT, 100_000_000, 1, rest=b"a")),
    ("STREAM beyond the limit of streams", {STREAM_LIMIT_ERROR}, frame(0x0A, 4_000_000, 1, rest=b"a")),
    ("STREAM on one of the server", {STREAM_STATE_ERROR}, frame(0x0A, OF_SERVER, 1, rest=b"a")),
    ("STREAM on one that only sends", {STREAM_STATE_ERROR}, frame(0x0A, ONE_WAY_OF_SERVER, 1, rest=b"a")),
    ("RESET_STREAM of one that only sends", {STREAM_STATE_ERROR}, frame(0x04, ONE_WAY_OF_SERVER, 0, 0)),
    ("STOP_SENDING of one that is not open", {STREAM_STATE_ERROR}, frame(0x05, OF_SERVER + 400, 0)),
    ("MAX_STREAM_DATA of one that is not open", {STREAM_STATE_ERROR}, frame(0x11, OF_SERVER + 400, 100)),
    ("MAX_STREAM_DATA of one that only receives", {STREAM_STATE_ERROR}, frame(0x11, ONE_WAY_OF_CLIENT, 100)),
    ("MAX_STREAMS beyond 2^60", {FRAME_ENCODING_ERROR}, frame(0x12, TOO_MANY)),
    ("STREAMS_BLOCKED beyond 2^60", {FRAME_ENCODING_ERROR, STREAM_LIMIT_ERROR}, frame(0x16, TOO_MANY)),
    ("a frame of an unknown type", {FRAME_ENCODING_ERROR}, frame(0x20)),
    ("NEW_TOKEN", {PROTOCOL_VIOLATION}, frame(0x07, 3, rest=b"abc")),
    ("HANDSHAKE_DONE", {PROTOCOL_VIOLATION}, frame(0x1E)),
    ("NEW_CONNECTION_ID that retires later ones", {FRAME_ENCODING_ERROR}, frame(0x18, 9, 10, 8, rest=bytes(24))),
    ("NEW_CONNECTION_ID of no bytes", {FRAME_ENCODING_ERROR}, frame(0x18, 9, 0, 0, rest=bytes(16))),
    ("KeyUpdate of TLS", {UNEXPECTED_MESSAGE}, crypto(b"\x18\0\0\x01\x01")),
    ("EndOfEarlyData of TLS", {UNEXPECTED_MESSAGE}, crypto(b"\x05\0\0\0")),
    ("another protocol (ALPN)", {NO_APPLICATION_PROTOCOL}, other_protocol),
    ("no transport parameters", {MISSING_EXTENSION}, without_extension),
    ("no initial_source_connection_id", {TRANSPORT_PARAMETER_ERROR}, parameters(drop={0x0F})),
    ("original_destination_connection_id", {TRANSPORT_PARAMETER_ERROR}, parameters(x00=b"dummy")),
    ("stateless_reset_token", {TRANSPORT_PARAMETER_ERROR}, parameters(x02=bytes(16))),
    ("preferred_address", {TRANSPORT_PARAMETER_ERROR}, parameters(x0d=ADDRESS)),
    ("retry_source_connection_id", {TRANSPORT_PARAMETER_ERROR}, parameters(x10=b"dummy")),
    ("max_udp_payload_size below 1200", {TRANSPORT_PARAMETER_ERROR}, parameters(x03=encode_uint_var(1090))),
    ("ack_delay_exponent above 20", {TRANSPORT_PARAMETER_ERROR}, parameters(x0a=encode_uint_var(30))),
    ("max_ack_delay of 2^15", {TRANSPORT_PARAMETER_ERROR}, parameters(x0b=encode_uint_var(1 << 15))),
]
