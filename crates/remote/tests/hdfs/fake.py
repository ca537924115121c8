#!/usr/bin/env python3
"""A small server of WebHDFS, NameNode and DataNode in one, that can be told to fail. Its behaviour
was compared with Hadoop 3.4.1's: the same tests run over both (`make hdfs-test`).

As a program it runs each line of its input over the server, `hdfs`, and prints the value as JSON.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import RLock, Thread
from urllib.parse import quote, unquote

# Names of a page of a listing.
PAGE = 7
WRITES = {"CREATE", "RENAME", "DELETE", "CONCAT", "TRUNCATE", "SETTIMES"}


class Node:
    """A file. Its block has a number: other bytes are another one. `parts` counts the blocks that a
    NameNode would tell of: each file that was added is one."""

    def __init__(self, number, data, astray):
        self.id, self.data, self.astray = number, data, astray
        self.block = self.time = 0
        self.parts = 1


def done(answer=None, status=200):
    return status, "", b"" if answer is None else json.dumps(answer).encode()


def refused(status, exception):
    error = {"exception": exception, "message": f"it says {exception}"}
    return done({"RemoteException": error}, status)


def absent():
    return refused(404, "FileNotFoundException")


def parent(path):
    return path.rpartition("/")[0]


class Fake:
    """The server. Files are bytes, and folders have names alone.

    busy: so many next requests are answered with 503. short: so many next reads end in the
    middle. lost: so many next answers to a rename are lost after it was done. late, 2: the next
    file's bytes get no answer, and while those after them are written they come late, and put
    their file in the place of that one. astray: so many next files are put on another DataNode.
    standby: ports at which a NameNode is on standby. still: signs of life of a lock's holder are
    answered with 503, as if it stood still. disk: folder of blocks as files, as a DataNode has
    them. log: the method, operation and path of every request. sent: bytes that were sent as
    parts of files.
    """

    def __init__(self):
        self.lock = RLock()
        self.files, self.folders, self.ids = {}, set(), 16385
        self.disk, self.log, self.sent = None, [], 0
        self.no_faults()
        self.port = self.another()

    def no_faults(self):
        self.busy = self.short = self.lost = self.late = self.astray = 0
        self.safe_mode, self.standby, self.still = False, [], False

    def another(self):
        """Starts another NameNode of the same files; its port."""
        server = type("Server", (ThreadingHTTPServer,), {"request_queue_size": 128})
        handler = type("Handler", (Handler,), {"hdfs": self})
        server = server(("127.0.0.1", 0), handler)
        Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    @property
    def authority(self):
        return f"127.0.0.1:{self.port}"

    def mkdir(self, path):
        self.folders.add(path)

    def taken(self):
        """The log and the bytes sent since; both begin anew."""
        with self.lock:
            taken, self.log, self.sent = (self.log, self.sent), [], 0
            return taken

    def block_file(self, path):
        """The file of a file's block below the DataNode's folder."""
        return self.file_of(self.files[path].block)

    def file_of(self, block):
        folder = f"subdir{block >> 16 & 0x1f}/subdir{block >> 8 & 0x1f}"
        return Path(self.disk, "current/BP-1/current/finalized", folder, f"blk_{block}")

    def parts_of(self, path):
        """Counts the blocks of a file that a NameNode would tell of; none of one not there."""
        return self.files[path].parts if path in self.files else 0

    def moved(self, folder, end=None):
        """HDFS moves files of a folder to another DataNode, all whose names have this end; counts
        those that it has moved."""
        inside = [(path, node) for path, node in self.files.items() if parent(path) == folder]
        for path, node in inside:
            node.astray |= end is not None and path.endswith(end)
        return sum(node.astray for _, node in inside)

    def resolved(self, path):
        """The path of a file named by its path or its number."""
        number = path.removeprefix("/.reserved/.inodes/")
        if number == path:
            return path
        return next((path for path, node in self.files.items() if str(node.id) == number), None)

    def answer(self, op, asked, query, body):
        path = self.resolved(asked)
        is_sent_on = "namenoderpcaddress" in query
        if path is None:
            return absent()
        if self.safe_mode and op in WRITES:
            return refused(403, "SafeModeException")
        if op in ("CREATE", "OPEN") and not is_sent_on:
            return self.send_on(op, asked, path, query)
        if op == "CREATE":
            return self.create(path, query.get("overwrite") == "true", body)
        if op == "LISTSTATUS_BATCH":
            return self.list(path, query.get("startAfter", ""))
        if op == "DELETE":
            return done({"boolean": self.files.pop(path, None) is not None})
        if op == "GETFILESTATUS":
            row = self.shown(path, "")
            return done({"FileStatus": row}) if row else absent()
        if op not in ("OPEN", "RENAME", "SETTIMES", "CONCAT", "TRUNCATE", "GET_BLOCK_LOCATIONS"):
            return refused(400, "IllegalArgumentException")
        node = self.files.get(path)
        if node is None:
            return absent()
        if op == "OPEN":
            start = int(query["offset"])
            return 200, "", node.data[start:start + int(query["length"])]
        if op == "RENAME":
            return self.rename(path, query["destination"], query.get("renameoptions"))
        if op == "GET_BLOCK_LOCATIONS":
            return self.blocks(node)
        if op == "SETTIMES":
            node.time = int(query["modificationtime"])
        if op == "CONCAT":
            more = self.files.pop(query.get("sources"), None)
            if more is None:
                return absent()
            self.change(path, node.data + more.data)
            node.parts += more.parts
        if op == "TRUNCATE":
            self.change(path, node.data[:int(query["newlength"])])
            return done({"boolean": True})
        return done()

    def send_on(self, op, asked, path, query):
        if op == "OPEN" and path not in self.files:
            return absent()
        words = "&".join(f"{name}={value}" for name, value in sorted(query.items()))
        path = quote(asked, safe="-_.~/+=")
        to = f"http://{self.authority}/webhdfs/v1{path}?{words}&namenoderpcaddress=n:8020"
        return 307, to, b""

    def create(self, path, over, body):
        if parent(path) not in self.folders:
            return absent()
        if self.late == 1:
            self.late = 0
            return absent()
        if path in self.files and not over:
            return refused(403, "FileAlreadyExistsException")
        astray = self.astray > 0
        self.astray = max(0, self.astray - 1)
        self.ids += 1
        old = self.files.get(path)
        self.files[path] = Node(self.ids, body, astray)
        self.drop_block(old)
        self.change(path, body)
        return done(status=201)

    def change(self, path, data):
        """Changes a file's bytes: they are in a block of another number then."""
        self.ids += 1
        node = self.files[path]
        node.data, node.block, node.time = data, self.ids, self.ids
        if self.disk:
            file = self.block_file(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def drop_block(self, node):
        """Does as a DataNode does a little later with the block of a file that is gone."""
        if self.disk and node:
            self.file_of(node.block).unlink()

    def shown(self, path, suffix):
        node = self.files.get(path)
        if node is None and path not in self.folders:
            return None
        kind, length, time, number = "DIRECTORY", 0, 0, 1
        if node:
            kind, length, time, number = "FILE", len(node.data), node.time, node.id
        return {"pathSuffix": suffix, "type": kind, "length": length, "modificationTime": time,
                "fileId": number}

    def list(self, path, after):
        if path not in self.folders:
            return absent()
        inside = sorted(other for other in (*self.files, *self.folders)
                        if parent(other) == path and other.rpartition("/")[2] > after)
        rows = [self.shown(other, other.rpartition("/")[2]) for other in inside[:PAGE]]
        page = {"FileStatuses": {"FileStatus": rows}}
        left = len(inside) - len(rows)
        return done({"DirectoryListing": {"partialListing": page, "remainingEntries": left}})

    def rename(self, path, to, options):
        if path == to or (options == "NONE" and to in self.files):
            return refused(403, "FileAlreadyExistsException")
        old = self.files.get(to)
        self.files[to] = self.files.pop(path)
        self.drop_block(old)
        return done()

    def blocks(self, node):
        port = 1 if node.astray else self.port
        there = {"ipAddr": "127.0.0.1", "hostName": "localhost", "infoPort": port}
        block = {"blockPoolId": "BP-1", "blockId": node.block, "numBytes": len(node.data)}
        located = [{"block": block, "startOffset": 0, "locations": [there]}]
        return done({"LocatedBlocks": {"fileLength": len(node.data), "isUnderConstruction": False,
                                       "locatedBlocks": located}})


class Handler(BaseHTTPRequestHandler):
    """A connection carries one request."""

    protocol_version = "HTTP/1.1"

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def serve(self):
        self.close_connection = True
        path, _, words = self.path.partition("?")
        query = dict(word.split("=", 1) for word in words.split("&"))
        query = {name: unquote(value) for name, value in query.items()}
        path, body = unquote(path.removeprefix("/webhdfs/v1")), self.body()
        with self.hdfs.lock:
            answer = self.answer(query.get("op", ""), path, query, body)
        if answer is None:
            return
        (status, location, data), sent = answer
        head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(data)}\r\n"
        if location:
            head += f"Location: {location}\r\n"
        try:
            self.wfile.write(f"{head}Connection: close\r\n\r\n".encode() + data[:sent])
        except ConnectionError:
            pass  # The client does not want it any more.

    def answer(self, op, path, query, body):
        """The answer, and how many of its bytes are sent; `None`: the connection ends."""
        hdfs, is_sent_on = self.hdfs, "namenoderpcaddress" in query
        hdfs.log.append(f"{self.command} {op} {path}")
        if not is_sent_on and self.server.server_port in hdfs.standby:
            answer = refused(403, "StandbyException")
        elif hdfs.busy or (op == "SETTIMES" and hdfs.still):
            hdfs.busy = max(0, hdfs.busy - 1)
            answer = done(status=503)
        else:
            answer = hdfs.answer(op, path, query, body)
        if op == "RENAME" and hdfs.lost:
            hdfs.lost -= 1
            return None
        if op == "CREATE" and is_sent_on and hdfs.late == 2:
            hdfs.late = 1
            return None
        sent = len(answer[2])
        if op == "OPEN" and answer[0] == 200:
            if hdfs.short:
                hdfs.short -= 1
                sent //= 2
            hdfs.sent += sent
        return answer, sent

    do_GET = do_PUT = do_POST = do_DELETE = serve

    def log_message(self, *_):
        pass


def main():
    hdfs = Fake()
    for line in sys.stdin:
        with hdfs.lock:
            try:
                value = eval(line, {"hdfs": hdfs})
            except SyntaxError:
                value = exec(line, {"hdfs": hdfs})
        print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
