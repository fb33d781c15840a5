"""Requests, and the answer that each must get: statuses in order, and if the connection is kept.

A table for people: each family says a rule of RFC 9110 or 9112, and lists what keeps or breaks it.
The server of the tests has a campaign ``n`` and a limit of 100,000 bytes for a body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["BODY_BYTES", "ENTRIES", "Entry"]

BODY_BYTES = 100_000
HEAD_BYTES = 16_384
HOST = b"Host: localhost"
CHUNKED = b"Transfer-Encoding: chunked"
DECISIONS = b"/v1/campaigns/n/decisions"
CONTROLS = [*range(0x00, 0x09), *range(0x0B, 0x0D), *range(0x0E, 0x20), 0x7F]
NO_TOKEN = b'"(),/;<=>?@[\\]{}'  # visible, and in no name of a header or method


class Entry(NamedTuple):
    """A request, or several; ``kept``: whether the connection takes another one afterwards."""

    name: str
    data: bytes
    statuses: tuple[int, ...]
    kept: bool


def ok(name: str, data: bytes, *statuses: int, kept: bool = True) -> Entry:
    return Entry(name, data, statuses or (200,), kept)


def bad(name: str, data: bytes, *statuses: int) -> Entry:
    return Entry(name, data, statuses or (400,), False)


def get(*lines: bytes, line: bytes = b"GET /healthz HTTP/1.1", host: bytes | None = HOST) -> bytes:
    """A request without a body."""
    return b"\r\n".join([line, *([] if host is None else [host]), *lines, b"", b""])


def post(*lines: bytes, body: bytes = b"", version: bytes = b"HTTP/1.1") -> bytes:
    """A decision, with a body as it is."""
    return get(*lines, line=b"POST " + DECISIONS + b" " + version) + body


def sized(body: bytes, *lines: bytes) -> bytes:
    """A decision whose body has a length."""
    return post(b"Content-Length: %d" % len(body), *lines, body=body)


def chunked(body: bytes, *lines: bytes) -> bytes:
    """A decision whose body comes in chunks, which are given as they are."""
    return post(CHUNKED, *lines, body=body)


def named(entries: Iterable[Entry], family: str) -> Iterator[Entry]:
    for entry in entries:
        yield entry._replace(name=f"{family}: {entry.name}")


def request_lines() -> Iterator[Entry]:
    """METHOD SP TARGET SP HTTP/1.1 CR LF (RFC 9112, 3)."""

    def line(text: bytes) -> bytes:
        return get(line=text)

    yield ok("plain", get())
    yield ok("a query", line(b"GET /v1/campaigns?x=1 HTTP/1.1"), 400)
    yield ok("HEAD", line(b"HEAD /healthz HTTP/1.1"))
    yield ok("a blank line first", b"\r\n" + get())
    yield ok("blank lines first", b"\r\n" * 50 + get())
    yield ok("a blank line between two", get() + b"\r\n" + get(), 200, 200)
    yield bad("a lone LF first", b"\n" + get())
    yield bad("a lone CR first", b"\r" + get())
    yield bad("a space first", b" " + get())
    yield bad("a tab first", b"\t" + get())
    yield bad("a header first", HOST + b"\r\n" + get())
    yield bad("a byte order mark first", b"\xef\xbb\xbf" + get())
    for text in (
        *(b"", b" ", b"GET", b"GET ", b"GET /healthz", b"GET /healthz ", b"/healthz HTTP/1.1"),
        *(b"GET HTTP/1.1", b"GET  /healthz HTTP/1.1", b"GET /healthz  HTTP/1.1"),
        *(b"GET /healthz HTTP/1.1 ", b"GET /healthz HTTP/1.1 x", b"GET\t/healthz HTTP/1.1"),
        *(b"GET /healthz\tHTTP/1.1", b"GET /heal thz HTTP/1.1", b"GET\x0b/healthz HTTP/1.1"),
        *(b"GET\xa0/healthz HTTP/1.1", b"nonsense", b"GET /healthz HTTP/1.1\r", b"{}"),
        *(b"HTTP/1.1 200 OK", b"HTTP/1.1 GET /healthz", b": x"),
    ):
        if text:
            yield bad(f"{text!r}", line(text))
    for code in CONTROLS:
        yield bad(f"the control {code:#04x} in a target", line(b"GET /a%cb HTTP/1.1" % code))
    yield bad("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    yield bad("SSH", b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    yield bad("SMTP", b"EHLO localhost\r\n\r\n")
    yield bad("zeros", b"\x00" * 100)
    yield bad("bytes", bytes(range(255, -1, -1)))


def methods() -> Iterator[Entry]:
    """Tokens, in upper case; those that nothing here understands are 501 (RFC 9110, 9.1)."""

    def method(name: bytes) -> bytes:
        return get(line=name + b" /healthz HTTP/1.1")

    for name in (b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"):
        yield ok(f"{name!r} of what can be read only", method(name), 405)
    for name in (
        *(b"get", b"Get", b"TRACE", b"CONNECT", b"PROPFIND", b"PRI", b"M-SEARCH", b"G", b"GETT"),
        *(b"!#$%&'*+-.^_`|~09azAZ", b"X" * 1000, b"SOURCE", b"QUERY"),
    ):
        yield bad(f"{name[:20]!r}", method(name), 501)
    for code in NO_TOKEN:
        yield bad(f"{chr(code)!r} in a method", method(b"GE%cT" % code))
    for code in (0x80, 0xC3, 0xFF, 0x00, 0x7F):
        yield bad(f"{code:#04x} in a method", method(b"GE%cT" % code))


def versions() -> Iterator[Entry]:
    """HTTP/1.1 and HTTP/1.0; other digits are 505, anything else 400 (RFC 9112, 2.3)."""

    def version(text: bytes) -> bytes:
        return get(line=b"GET /healthz " + text)

    yield ok("1.0", version(b"HTTP/1.0"), kept=False)
    yield ok("1.0 without a Host", get(line=b"GET /healthz HTTP/1.0", host=None), kept=False)
    yield ok("1.0 that is kept", get(b"Connection: keep-alive", line=b"GET /healthz HTTP/1.0"))
    for text in (b"0.9", b"1.2", b"1.9", b"2.0", b"3.0", b"9.9", b"0.0"):
        yield bad(f"{text!r}", version(b"HTTP/" + text), 505)
    yield bad("h2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505)
    for text in (
        *(b"http/1.1", b"Http/1.1", b"HTTP/1", b"HTTP/1.", b"HTTP/.1", b"HTTP/11", b"HTTP/1.10"),
        *(b"HTTP/01.1", b"HTTP/1,1", b"HTTP 1.1", b"HTTP/ 1.1", b"HTTP/1 .1", b"HTTP/+1.1"),
        *(b"HTTP/1.x", b"HTTP/\xb9.1", b"HTTPS/1.1", b"XHTTP/1.1", b"HTTP\\1.1", b"HTTP/-1.1"),
        *(b"1.1", b"HTTP", b"RTSP/1.0", b"HTTP/1.1/1.1", b"HTTP/1.1\x00"),
    ):
        yield bad(f"{text!r}", version(text))


def targets() -> Iterator[Entry]:
    """A path; an http address, whose host counts; ``*`` with OPTIONS (RFC 9112, 3.2)."""

    def target(text: bytes, *lines: bytes, method: bytes = b"GET") -> bytes:
        return get(*lines, line=method + b" " + text + b" HTTP/1.1")

    yield ok("an address", target(b"http://localhost/healthz"))
    yield ok("an address with a port", target(b"HTTP://127.0.0.1:80/healthz"))
    yield ok("an https address", target(b"https://localhost/healthz"))
    yield ok("an address without a path", target(b"http://localhost/nothing"), 404)
    yield ok(
        "an address whose host is another one", target(b"http://evil.example/v1/campaigns"), 403
    )
    yield ok(
        "an address, when the Host is another one",
        get(line=b"GET http://localhost/v1/campaigns HTTP/1.1", host=b"Host: evil.example"),
    )
    yield ok("* with OPTIONS", target(b"*", method=b"OPTIONS"))
    yield ok("two slashes", target(b"//healthz"), 404)
    yield ok("a dot path", target(b"/../../etc/passwd"), 404)
    yield ok("an encoded zero", target(b"/v1/campaigns/%00"), 404)
    yield ok("percent without digits", target(b"/v1/campaigns/%zz"), 404)
    yield ok("encoded that is not UTF-8", target(b"/v1/campaigns/%ff"), 400)
    yield ok("odd visible characters", target(b'/v1/campaigns/"<>[]\\^`{|}'), 404)
    yield ok("two question marks", target(b"/healthz??"), 400)
    for text in (
        *(b"*", b"**", b"*/", b"healthz", b"?x=1", b"localhost:80", b"localhost", b"http:/healthz"),
        *(b"http:healthz", b"http://", b"http:///healthz", b"ftp://localhost/", b"://localhost/"),
        *(b"http://user@localhost/", b"http://a:b@localhost/", b"http://local host/"),
        *(b"http://localhost:x/", b"http://localhost:123456/", b"http://[::1/", b"http://[g]/"),
        *(
            b"http://localhost#x",
            b"/healthz#x",
            b"#",
            b"/healthz\xc3\xa9",
            b"/\xff",
            b"file:///etc",
        ),
        *(b"http://localhost\\healthz", b"\\healthz", b"javascript:1", b".", b"..", b"%2fhealthz"),
        *(b"http://%zz/", b"http://a%/", b"http://a\xffb/"),
    ):
        yield bad(f"{text!r}", target(text))
    yield bad("* with POST", target(b"*", method=b"POST"))
    yield bad("CONNECT", target(b"localhost:80", method=b"CONNECT"), 501)
    yield bad("OPTIONS **", target(b"**", method=b"OPTIONS"))
    yield bad("too long", target(b"/" + b"a" * HEAD_BYTES), 431)
    yield ok("just not too long", target(b"/" + b"a" * (HEAD_BYTES - 100)), 404)


def hosts() -> Iterator[Entry]:
    """One Host, with a name or an address (RFC 9112, 3.2)."""
    yield ok("in capitals", get(host=b"HOST: LOCALHOST"))
    yield ok("an address", get(host=b"host:127.0.0.1:8321"))
    yield ok("of IPv6", get(host=b"host: [::1]:8321"))
    yield ok("with an empty port", get(host=b"host: localhost:"))
    yield ok("of somebody else", get(line=b"GET /v1/campaigns HTTP/1.1", host=b"host: a.b"), 403)
    yield bad("none", get(host=None))
    yield bad("twice", get(HOST))
    yield bad("two", get(b"Host: 127.0.0.1"))
    yield bad("twice with 1.0", get(HOST, line=b"GET /healthz HTTP/1.0"))
    yield bad("three", get(HOST, b"x: y", HOST))
    yield bad("none with an address", get(line=b"GET http://localhost/ HTTP/1.1", host=None))
    yield bad("wrong with 1.0", get(line=b"GET /healthz HTTP/1.0", host=b"Host: a b"))
    for text in (
        *(b"", b" ", b"a b", b"a,b c", b"localhost, localhost", b"user@localhost", b"a/b", b"a?b"),
        *(b"a#b", b"http://localhost", b"localhost:x", b"localhost:-1", b"localhost:80:80"),
        *(b"[::1", b"::1]", b"[::1]x", b"[]", b"[::g]", b"a\tb", b"\xc3\xa9", b'"localhost"'),
        *(b"localhost\\", b"<a>", b"a%", b"a%zz", b"{a}", b"a|b", b"a^b", b":80", b":"),
        *(b"localhost:1234567", b"local`host", b"[::1]:x"),
    ):
        yield bad(f"{text!r}", get(host=b"Host: " + text))


def fields() -> Iterator[Entry]:
    """NAME ":" VALUE on one line, which ends in CR LF (RFC 9112, 5)."""
    yield ok("without a space", get(b"a:b"))
    yield ok("with tabs and spaces", get(b"a: \t b \t "))
    yield ok("an empty value", get(b"a:"))
    yield ok("only spaces", get(b"a:    "))
    yield ok("every token character", get(b"!#$%&'*+-.^_`|~09azAZ: b"))
    yield ok("bytes above ASCII in a value", get(b"a: \xc3\xa9\xff\x80"))
    yield ok("a colon in a value", get(b"a: b:c: d"))
    yield ok("twice the same name", get(b"a: b", b"a: c"))
    yield ok("as many as there may be", get(*[b"a: b"] * 63))
    yield bad("one too many", get(*[b"a: b"] * 64), 431)
    yield bad("thousands", get(*[b"a:"] * 3000), 431)
    yield bad("a long value", get(b"a: " + b"b" * HEAD_BYTES), 431)
    yield bad("a long name", get(b"a" * HEAD_BYTES + b": b"), 431)
    yield bad("spaces only, many", get(b"a:" + b" " * HEAD_BYTES), 431)
    yield ok("a long value that fits", get(b"a: " + b"b" * (HEAD_BYTES - 100)))
    yield bad("a folded line", get(b"a: b", b" c"))
    yield bad("a line folded by a tab", get(b"a: b", b"\tc"))
    yield bad("a folded Content-Length", post(b"Content-Length: 1", b" 0", body=b"{}"))
    yield bad("a folded first line", get(line=b"GET /healthz HTTP/1.1\r\n a: b"))
    yield bad("a line of spaces", get(b" ", b"a: b"))
    yield bad("no colon", get(b"bad header"))
    yield bad("no colon, one word", get(b"bad"))
    yield bad("no name", get(b": b"))
    yield bad("only a colon", get(b":"))
    yield bad("an end in LF", get(b"a: b\nc: d"))
    yield bad("all ends in LF", get().replace(b"\r", b""))
    yield bad("all ends in CR", get().replace(b"\n", b"") + b"\r\n\r\n")
    yield bad("the last end in LF", get()[:-2] + b"\n")
    yield bad("an end in CR CR LF", get(b"a: b\r"))
    yield bad("CR in a value", get(b"a: b\rc"))
    yield bad("CR before a smuggled header", get(b"a: b\rTransfer-Encoding: chunked"))
    yield bad("CR in a name", get(b"a\rb: c"))
    for space in (b" ", b"\t", b"  ", b" \t", b"\x0b", b"\x0c", b"\xa0"):
        yield bad(f"{space!r} before the colon", get(b"a" + space + b": b"))
        yield bad(f"{space!r} before a Content-Length", post(b"Content-Length" + space + b": 0"))
    for code in CONTROLS:
        yield bad(f"the control {code:#04x} in a value", get(b"a: b%cc" % code))
    for code in (0x00, 0x01, 0x0B, 0x1F, 0x7F, 0x80, 0xFF, *NO_TOKEN):
        yield bad(f"{code:#04x} in a name", get(b"a%cb: c" % code))


def lengths() -> Iterator[Entry]:
    """One Content-Length, of digits (RFC 9112, 6.2 and 6.3)."""

    def length(text: bytes, body: bytes = b"{}") -> bytes:
        return post(b"Content-Length: " + text, body=body)

    yield ok("of a body", sized(b"{}"), 201)
    yield ok("0", length(b"0", b""), 201)
    yield ok("none", post(), 201)
    yield ok("with zeros", length(b"0002"), 201)
    yield ok("with 5,000 zeros", length(b"0" * 5000 + b"2"), 201)
    yield ok("of a GET", get(b"Content-Length: 2") + b"{}")
    yield ok("two bodies", sized(b"{}") + sized(b"{}"), 201, 201)
    yield ok("a body that is no JSON", sized(b"\x00\xff\r\n\r\n"), 400)
    yield ok("a body like a request", sized(get()), 400)
    yield bad("a body that ends in CR, then LF", sized(b"{}\r") + b"\n", 201, 400)
    yield bad("a body that ends in CR, then LF and more", sized(b"{}\r") + b"\n" + get(), 201, 400)
    yield ok("the most", length(b"%d" % BODY_BYTES, b" " * (BODY_BYTES - 2) + b"{}"), 201)
    yield bad("one more than the most", length(b"%d" % (BODY_BYTES + 1), b""), 413)
    for text in (b"9" * 18, b"9" * 19, b"9" * 5000, b"18446744073709551616", b"4294967296"):
        yield bad(f"{len(text)} digits: {text[:4]!r}", length(text, b""), 413)
    for text in (
        *(
            b"",
            b" ",
            b"-1",
            b"+2",
            b"-0",
            b"2.0",
            b"2e0",
            b"0x2",
            b"2 2",
            b"2,2",
            b"2, 2",
            b"2;",
            b"x",
        ),
        *(b"\xb2", b"\xd9\xa2", b"2_0", b"1_000", b"0b10", b"two", b"2\t2", b'"2"', b"nan", b"inf"),
        *(b"2\x00", b"2\x0b", b",2", b"2,", b"9" * 5000 + b"x", b"- 1", b"2-", b"\xef\xbc\x92"),
    ):
        yield bad(f"{text[:20]!r}", length(text))
    yield bad("twice", sized(b"{}", b"Content-Length: 2"))
    yield bad("two", sized(b"{}", b"content-length: 3"))
    yield bad("with chunks", sized(b"0\r\n\r\n", CHUNKED))
    yield bad("after chunks", chunked(b"0\r\n\r\n", b"Content-Length: 5"))
    yield bad("0 with chunks", post(b"Content-Length: 0", CHUNKED, body=b"0\r\n\r\n"))
    yield bad("wrong with chunks", post(b"Content-Length: x", CHUNKED, body=b"0\r\n\r\n"))
    yield bad("too short, so that a rest is no request", length(b"1", b"{}\r\n\r\n"), 400, 400)


def codings() -> Iterator[Entry]:
    """chunked alone, on HTTP/1.1 (RFC 9112, 6.1 and 6.3)."""

    def coding(*texts: bytes) -> bytes:
        return post(
            *(b"Transfer-Encoding: " + text for text in texts), body=b"2\r\n{}\r\n0\r\n\r\n"
        )

    yield ok("chunked", coding(b"chunked"), 201)
    yield ok("in capitals", coding(b"CHUNKED"), 201)
    yield ok("with spaces", coding(b" \tchunked\t "), 201)
    for texts in (
        *([b"gzip, chunked"], [b"gzip", b"chunked"], [b"identity, chunked"], [b"x, chunked"]),
        *([b"gzip,deflate,chunked"], [b"GZIP,Chunked"], [b", chunked"], [b"foo;a=b, chunked"]),
    ):
        yield bad(f"{texts!r}", coding(*texts), 501)
    for texts in (
        *([b""], [b"identity"], [b"gzip"], [b"deflate"], [b"xchunked"], [b"chunkedx"], [b"chunk"]),
        *([b"chunked, gzip"], [b"chunked, identity"], [b"chunked", b"identity"], [b"chunked;a=b"]),
        *(
            [b"chunked, chunked"],
            [b"chunked", b"chunked"],
            [b"chunked,"],
            [b'"chunked"'],
            [b"\x0bchunked"],
        ),
        *(
            [b"ch\xc3\xbcnked"],
            [b"chunked\x00"],
            [b"chunked chunked"],
            [b"chunked\x0b"],
            [b"c hunked"],
        ),
        *([b"chunked", b"gzip"], [b"gzip, gzip"], [b"0"], [b"null"], [b"chunked\xa0"]),
    ):
        yield bad(f"{texts!r}", coding(*texts))
    end = b"0\r\n\r\n"
    yield bad("with 1.0", post(CHUNKED, body=end, version=b"HTTP/1.0"))
    yield bad("with 1.0 that is kept", post(CHUNKED, b"Connection: keep-alive", body=end,
              version=b"HTTP/1.0"))  # fmt: skip
    yield ok("of another spelling is no coding", get(b"Transfer_Encoding: chunked"))
    yield bad("folded", post(b"Transfer-Encoding:", b" chunked", body=end))
    yield bad("a space before the colon", post(b"Transfer-Encoding : chunked", body=end))


def chunks() -> Iterator[Entry]:
    """A hexadecimal size, extensions, CR LF, bytes, CR LF; 0 ends (RFC 9112, 7.1)."""
    end = b"0\r\n\r\n"
    yield ok("one", chunked(b"2\r\n{}\r\n" + end), 201)
    yield ok("two", chunked(b"1\r\n{\r\n1\r\n}\r\n" + end), 201)
    yield ok("none", chunked(end), 201)
    yield ok("zeros before the size", chunked(b"0002\r\n{}\r\n0000\r\n\r\n"), 201)
    yield ok("100 zeros before the size", chunked(b"0" * 100 + b"2\r\n{}\r\n" + end), 201)
    yield ok("capitals", chunked(b"A\r\n" + b" " * 8 + b"{}\r\n" + end), 201)
    yield ok("of a GET", get(CHUNKED) + b"2\r\n{}\r\n" + end)
    yield ok("line ends inside", chunked(b"4\r\n\r\n{}\r\n" + end), 201)
    yield ok("two requests", chunked(b"2\r\n{}\r\n" + end) + get(), 201, 200)
    yield ok(
        "the most", chunked(b"%x\r\n" % BODY_BYTES + b" " * (BODY_BYTES - 2) + b"{}\r\n" + end), 201
    )
    yield bad("one more than the most", chunked(b"%x\r\n" % (BODY_BYTES + 1)), 413)
    yield bad(
        "more than the most together", chunked((b"2710\r\n" + b" " * 10_000 + b"\r\n") * 11), 413
    )
    for size in (b"f" * 8, b"f" * 16, b"f" * 17, b"1" + b"0" * 16, b"f" * 1000, b"7" + b"f" * 15):
        yield bad(f"a size of {len(size)} digits {size[:3]!r}", chunked(size + b"\r\n{}\r\n"), 413)
    for extension in (
        *(b";a", b";a=b", b" ; a = b", b";a;b;c", b';a="b"', b';a="b;c\\"d"', b";a=b;c=d", b"\t;a"),
        *(b';a=""', b";a=" + b"b" * 5000),
    ):
        data = b"2" + extension + b"\r\n{}\r\n0" + extension + b"\r\n\r\n"
        yield ok(f"the extension {extension[:20]!r}", chunked(data), 201)
    for line in (
        *(
            b"",
            b" ",
            b"x",
            b"2x",
            b"0x2",
            b"-2",
            b"+2",
            b"2 ",
            b" 2",
            b"\t2",
            b"2 2",
            b"2,2",
            b"2.0",
        ),
        *(
            b"2;",
            b"2;;",
            b"2; ;",
            b"2;=",
            b"2;a=",
            b"2;=b",
            b'2;a="',
            b'2;a="b',
            b'2;a="b"c',
            b"2;a b",
        ),
        *(
            b"2;a=b c",
            b"2;\x00",
            b"2;a=\x01",
            b"2:a",
            b"2_0",
            b"\xb2",
            b"2\x00",
            b"2\r",
            b"2;a\rb",
            b"zz",
        ),
        *(b"2;a=b\x7f", b"2 a", b"2/2", b"g", b"#2", b"2;a=(", b"2;\xff", b"2;a=\xff", b"1e1 ;a b"),
    ):
        yield bad(f"the line {line!r}", chunked(line + b"\r\n{}\r\n" + end))
    yield bad("a line end in LF", chunked(b"2\n{}\r\n" + end))
    yield bad("a chunk end in LF", chunked(b"2\r\n{}\n" + end))
    yield bad("a chunk end in CR", chunked(b"2\r\n{}\r" + end))
    yield bad("a chunk that is longer", chunked(b"2\r\n{} \r\n" + end))
    yield bad("a chunk that is shorter", chunked(b"3\r\n{}\r\n" + end))
    yield bad("no chunk end", chunked(b"2\r\n{}" + end))
    yield bad("a blank line too many", chunked(b"2\r\n{}\r\n\r\n" + end))
    yield bad("a long extension", chunked(b"2;a=" + b"b" * HEAD_BYTES + b"\r\n{}\r\n" + end), 431)
    yield bad("long extensions together", chunked((b"1;a=" + b"b" * 2000 + b"\r\n \r\n") * 9), 431)
    yield bad("many sizes", chunked(b"1\r\n \r\n" * 5000), 431)
    yield bad("a size of 20,000 zeros", chunked(b"0" * 20_000), 431)


def trailers() -> Iterator[Entry]:
    """Headers after the chunks: they must be well-formed, and change nothing (RFC 9112, 7.1.2)."""

    def trailer(*lines: bytes) -> bytes:
        return chunked(b"\r\n".join([b"2", b"{}", b"0", *lines, b"", b""]))

    yield ok("one", trailer(b"a: b"), 201)
    yield ok("some", trailer(b"a: b", b"c: d", b"a: e"), 201)
    yield ok("that are followed by a request", trailer(b"a: b") + get(), 201, 200)
    for line in (
        *(b"Host: evil.example", b"Host: a b", b"Content-Length: 5", b"Content-Length: x", CHUNKED),
        *(b"Authorization: Bearer x", b"Content-Type: text/plain", b"Origin: http://evil.example"),
        *(b"Connection: close", b"Expect: x", b"Upgrade: h2c", b"Transfer-Encoding: gzip"),
    ):
        yield ok(f"{line!r} has no effect", trailer(line), 201)
    for line in (
        *(b"bad", b"a : b", b" a: b", b": b", b"a: b\r", b"a: b\x00", b"a: b\nc: d", b"a\x00: b"),
        *(b"a: b\r\n c", b"a(: b", b"GET /healthz HTTP/1.1", b"a: b\rc", b"\xff: b"),
    ):
        yield bad(f"{line!r}", trailer(line))
    yield bad("too many", trailer(*[b"a: b"] * 65), 431)
    yield bad("a long one", trailer(b"a: " + b"b" * HEAD_BYTES), 431)
    yield bad("long ones", trailer(*[b"a: " + b"b" * 1000] * 17), 431)
    yield bad("one without end", trailer(b"a: " + b"b" * 50_000)[:-4], 431)
    yield bad("some without end", chunked(b"0\r\n" + b"a: b\r\n" * 3000), 431)
    yield bad("as long as the head leaves no room", chunked(b"0\r\na: " + b"b" * 8000 + b"\r\n\r\n",
              b"c: " + b"d" * 8300), 431)  # fmt: skip


def connections() -> Iterator[Entry]:
    """Connection, Expect, Upgrade, and requests behind each other (RFC 9110, 7.6 to 10.1)."""
    for text in (b"close", b"Close", b"CLOSE", b"x, close", b"close, keep-alive", b" close "):
        yield ok(f"{text!r}", get(b"Connection: " + text), kept=False)
    yield ok("close in a second line", get(b"Connection: x", b"Connection: close"), kept=False)
    for text in (b"keep-alive", b"", b"x", b"closed", b"not-close", b",", b"Upgrade", b"TE"):
        yield ok(f"{text!r} goes on", get(b"Connection: " + text))
    yield ok("what follows close is not read", get(b"Connection: close") + get(), 200, kept=False)
    for protocol in (b"websocket", b"h2c", b"HTTP/2.0", b"TLS/1.0", b"x", b""):
        upgrade = get(b"Connection: Upgrade", b"Upgrade: " + protocol, b"HTTP2-Settings: AAMAAABk")
        yield ok(f"Upgrade {protocol!r} is ignored", upgrade)
        yield ok(f"Upgrade {protocol!r}, then a request", upgrade + get(), 200, 200)
    yield ok("Upgrade with a body", sized(b"{}", b"Connection: upgrade", b"Upgrade: h2c"), 201)
    wait = b"Expect: 100-continue"
    yield ok("Expect, with the body", sized(b"{}", wait), 201)
    yield ok("Expect without a body", get(wait))
    yield ok("Expect with 1.0", get(wait, line=b"GET /healthz HTTP/1.0"), kept=False)
    yield ok("Expect in capitals", sized(b"{}", b"EXPECT: 100-Continue"), 201)
    yield bad("Expect of too large a body", post(b"Content-Length: 100001", wait), 413)
    for text in (b"", b"x", b"200-ok", b"100-continue, x", b"100-continue;a=b", b"100 continue"):
        yield bad(f"Expect {text!r}", get(b"Expect: " + text), 417)
    yield bad("Expect twice", get(wait, wait), 417)
    yield ok("ten", get() * 10, *[200] * 10)
    yield ok("decisions and reads", (sized(b"{}") + get()) * 5, *[201, 200] * 5)
    yield bad("a good one, then a bad one", get() + b"nonsense\r\n\r\n", 200, 400)
    yield bad("a decision, then no Host", sized(b"{}") + get(host=None), 201, 400)
    yield bad("a good one, then an unknown version", get() + get(line=b"GET / HTTP/2.0"), 200, 505)
    yield bad("blank lines without end", b"\r\n" * 10_000, 431)
    yield bad("blank lines without end after one", get() + b"\r\n" * 10_000, 200, 431)
    yield bad("a name without end", get()[:-2] + b"a" * 20_000, 431)
    yield bad("a value without end", get()[:-2] + b"a: " + b"b" * 20_000, 431)
    yield bad("a target without end", b"GET /" + b"a" * 20_000, 431)
    yield bad("a method without end", b"G" * 20_000, 431)


FAMILIES = [
    *(request_lines, methods, versions, targets, hosts, fields, lengths, codings, chunks),
    *(trailers, connections),
]
ENTRIES = [entry for one in FAMILIES for entry in named(one(), one.__name__)]
