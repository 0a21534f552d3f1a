#!/usr/bin/env python3
"""Reads a stream of timeous://host:port?transport=tcp with a plain TCP socket: receive_records.py HOST PORT.

Prints each datagram in hexadecimal. With PORT alone it waits to be called."""
import socket, sys, zlib

def cobs(record):
    data, at = bytearray(), 0
    while at < len(record):
        code = record[at]
        data += record[at + 1:at + code]
        at += code
        if code < 255 and at < len(record):
            data.append(0)
    return data

def datagrams(stream):
    chunk, seen = b"", set()
    while more := stream.recv(65536):
        *records, chunk = (chunk + more).split(b"\0")
        for data in map(cobs, records):  # sub-stream with its highest bit set, number (4), datagram, CRC-32 (4)
            if len(data) < 9 or data[0] < 0x80 or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "big"):
                continue  # nothing, padding, or a mixture of two versions
            if (number := bytes(data[1:5])) not in seen:
                seen.add(number)
                yield bytes(data[6 if data[0] == 0xFE else 5:-4])  # 0xFE: the sub-stream is a byte behind the number

if len(sys.argv) == 3:
    stream = socket.create_connection((sys.argv[1], int(sys.argv[2])))
else:
    stream, _ = socket.create_server(("127.0.0.1", int(sys.argv[1]))).accept()
for datagram in datagrams(stream):
    print(datagram.hex())
