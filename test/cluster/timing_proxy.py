"""fault_proxy.py without faults, which notes when things pass: for each set the first watch frame that says suspend, and
the first patch of one of its pods. The report is the list of seconds between the two, but for those where the operator
first wrote to the set and waited for the answer."""
import asyncio
import json
import re
import signal
import sys
import time

from fault_proxy import Proxy

SUSPENDED = re.compile(rb'"name":"(bench-\d+)","namespace".{0,6000}?"suspend":true')


class Timing(Proxy):
    def __init__(self, options):
        super().__init__(options)
        self.frames, self.writes, self.pods = {}, {}, {}

    def way_of(self, verb):
        return None

    async def exchange(self, head, reader, writer, upstream):
        method, path, _ = head[0].split(" ", 2)
        name = re.search(r"/(cocoonsets|pods)/(bench-\d+)", path)
        at, key = time.monotonic(), name.group(2) if name else None
        is_set = bool(name) and name.group(1) == "cocoonsets"
        if method == "PATCH" and key in self.frames:
            (self.writes if is_set else self.pods).setdefault(key, at)
        return await super().exchange(head, reader, writer, upstream)

    async def relay_stream(self, reader, writer, way):
        rest = b""
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
            rest = (rest + chunk)[-65536:]
            for name in SUSPENDED.findall(rest):
                self.frames.setdefault(name.decode(), time.monotonic())

    def report(self):
        return [at - self.frames[n] for n, at in self.pods.items() if not self.frames[n] <= self.writes.get(n, at) < at]


async def main():
    options = json.loads(sys.argv[1])
    proxy = Timing(options)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", options["port"], limit=1 << 20)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    server.close()
    with open(options["report"], "w") as report:
        json.dump(proxy.report(), report)


asyncio.run(main())
