"""A proxy that breaks one request in five: python3 fault_proxy.py '<JSON>' with

    {"name": "api", "port": 1234, "host": "127.0.0.1", "upstream": 6443, "ca": path or null, "token": text or null,
     "seed": 7, "rate": 0.2, "report": path}

Plain HTTP/1.1 in, HTTP or HTTPS out. Which request is broken, and how, follows from the seed, the verb and the number of
the request among those of its verb; the second of each verb is always broken, so that none gets off, and never three
of a verb one after the other, which no retry outlasts. A request is
refused by a reset, answered with 500, 429 or 504 without effect, or takes effect and its answer is lost. Ended with
SIGTERM it leaves {"verb": {"seen": n, "broken": {"how": n}}} in the report."""
import asyncio
import json
import random
import signal
import socket
import ssl
import struct
import sys

WAYS = ("reset", "500", "429", "504", "lost")
STATUS_TEXT = {"500": "Internal Server Error", "429": "Too Many Requests", "504": "Gateway Timeout"}


class Broken(Exception):
    """The connection ends here."""


def verb_of(name, method, path):
    if name != "api" or method != "GET":
        return method
    if "watch=true" in path or "watch=1" in path:
        return "WATCH"
    words = [w for w in path.split("?")[0].split("/") if w]
    prefix = 2 if words[:1] == ["api"] else 3
    named = len(words) - prefix - (2 if words[prefix:prefix + 1] == ["namespaces"] and len(words) > prefix + 2 else 0)
    return "GET" if named > 1 else "LIST"


async def read_head(reader):
    """First line and headers; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    lines = head.decode("latin-1").split("\r\n")
    return lines[0], [tuple(p.strip() for p in line.split(":", 1)) for line in lines[1:] if line]


def header(headers, name):
    return next((v for k, v in headers if k.lower() == name), None)


async def read_body(reader, headers, has_body=True):
    if not has_body:
        return b""
    if (header(headers, "transfer-encoding") or "").lower() == "chunked":
        body = b""
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            body += await reader.readexactly(size)
            await reader.readexactly(2)
            if size == 0:
                return body
    length = header(headers, "content-length")
    return await reader.readexactly(int(length)) if length else b""


def abort(writer):
    """Ends it with a reset, not with an orderly close."""
    sock = writer.get_extra_info("socket")
    if sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Proxy:
    def __init__(self, options):
        self.options, self.verbs = options, {}
        self.context = None
        if options.get("ca"):
            self.context = ssl.create_default_context(cafile=options["ca"])
            self.context.check_hostname = False

    def way_of(self, verb):
        """None, or how this request is broken."""
        seen = self.verbs.setdefault(verb, {"seen": 0, "broken": {}})
        seen["seen"] += 1
        draw = random.Random(f"{self.options['seed']}/{self.options['name']}/{verb}/{seen['seen']}")
        streak, seen["streak"] = seen.get("streak", 0), 0
        if streak == 2 or (draw.random() >= self.options["rate"] and seen["seen"] != 2):
            return None
        way = draw.choice(WAYS)
        seen["broken"][way] = seen["broken"].get(way, 0) + 1
        seen["streak"] = streak + 1
        return way

    async def connect(self):
        return await asyncio.open_connection(self.options["host"], self.options["upstream"], ssl=self.context,
                                             server_hostname="kubernetes.default.svc" if self.context else None,
                                             limit=1 << 20)

    async def serve(self, reader, writer):
        upstream = None
        try:
            while (head := await read_head(reader)):
                upstream = await self.exchange(head, reader, writer, upstream)
        except (Broken, ConnectionError, asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, upstream[1] if upstream else None):
                if end:
                    end.close()

    async def exchange(self, head, reader, writer, upstream):
        """One request; gives the connection upstream that may be used again."""
        line, headers = head
        method, path, _ = line.split(" ", 2)
        if (header(headers, "expect") or "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        verb = verb_of(self.options["name"], method, path)
        way = self.way_of(verb)
        body = await read_body(reader, headers)
        if way == "reset":
            abort(writer)
            raise Broken
        if way in STATUS_TEXT:
            await self.answer(writer, way)
            return upstream
        is_watch = verb == "WATCH"
        upstream = upstream or await self.connect()
        self.send(upstream[1], line, headers, body, is_watch)
        if is_watch:
            await self.relay_stream(upstream[0], writer, way)
            raise Broken
        answer = await read_head(upstream[0])
        if not answer:
            raise Broken
        status, answer_headers = answer
        code = status.split(" ")[1]
        content = await read_body(upstream[0], answer_headers, method != "HEAD" and code not in ("204", "304"))
        if way == "lost":
            abort(writer)
            raise Broken
        keep = [f"{k}: {v}" for k, v in answer_headers if k.lower() not in ("transfer-encoding", "content-length")]
        length = header(answer_headers, "content-length") if method == "HEAD" else str(len(content))
        if length is not None and code not in ("204", "304"):
            keep.append(f"Content-Length: {length}")
        writer.write("\r\n".join([status, *keep, "", ""]).encode("latin-1") + content)
        await writer.drain()
        if (header(answer_headers, "connection") or "").lower() == "close":
            raise Broken
        return upstream

    def send(self, writer, line, headers, body, is_watch):
        kept = [(k, v) for k, v in headers
                if k.lower() not in ("transfer-encoding", "content-length", "expect", "connection", "authorization")]
        if self.options.get("token"):
            kept.append(("Authorization", f"Bearer {self.options['token']}"))
        elif header(headers, "authorization"):
            kept.append(("Authorization", header(headers, "authorization")))
        if body or line.split(" ")[0] in ("POST", "PUT", "PATCH"):
            kept.append(("Content-Length", str(len(body))))
        if is_watch:
            kept.append(("Connection", "close"))
        writer.write("\r\n".join([line, *(f"{k}: {v}" for k, v in kept), "", ""]).encode("latin-1") + body)

    async def relay_stream(self, reader, writer, way):
        """A watch: its bytes as they come; lost = cut off in the middle."""
        async def pump():
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        try:
            await asyncio.wait_for(pump(), 1.5 if way == "lost" else None)
        except asyncio.TimeoutError:
            abort(writer)

    async def answer(self, writer, code):
        if self.options["name"] == "api":
            body = json.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                               "message": "broken by the proxy", "code": int(code)})
        else:
            body = json.dumps({"errors": [{"code": "UNKNOWN", "message": "broken by the proxy"}]})
        retry = "Retry-After: 1\r\n" if code == "429" else ""
        writer.write(f"HTTP/1.1 {code} {STATUS_TEXT[code]}\r\nContent-Type: application/json\r\n{retry}"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()


async def main():
    options = json.loads(sys.argv[1])
    proxy = Proxy(options)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", options["port"], limit=1 << 20)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    server.close()
    with open(options["report"], "w") as report:
        json.dump(proxy.verbs, report)


if __name__ == "__main__":
    asyncio.run(main())
