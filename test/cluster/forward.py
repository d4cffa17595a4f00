"""forward.py FD PORT: accepts connections on an inherited listening socket and joins each to 127.0.0.1:PORT here."""
import asyncio
import socket
import sys


async def pump(reader, writer):
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(descriptor, port):
    async def join(reader, writer):
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    server = await asyncio.start_server(join, sock=socket.socket(fileno=descriptor))
    await server.serve_forever()


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
