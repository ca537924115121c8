"""A proxy before HTTP servers: it counts, and it lies where it is told to.

Each of its ports stands for a server. A request is passed on with its own Host, so S3's signatures
hold. `Handler` speaks for S3; `lab/hdfs/faults.py` has one that speaks for WebHDFS.
"""

import collections
import http.client
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

# What can go wrong with a request; see Port.fault.
KINDS = ("500", "slowdown", "truncate", "flip", "lost", "cut", "stale") * 3 + ("stall",)
# How long a stalled answer is held, in seconds: longer than clients here wait.
STALL = 1.6
# Seconds that a server may take.
ANSWER = 60


class Counts:
    """Requests and bytes of one endpoint, by what they do."""

    def __init__(self):
        self.lock = threading.Lock()
        self.clear()

    def clear(self):
        with self.lock:
            self.requests = collections.Counter()
            self.down = collections.Counter()
            self.up = collections.Counter()

    def add(self, verb, up, down):
        with self.lock:
            self.requests[verb] += 1
            self.up[verb] += up
            self.down[verb] += down


class Proxy:
    """An endpoint for each of the servers. `faults` is the share of requests that go wrong."""

    def __init__(self, servers, seed=1, handler=None, host="127.0.0.1", kinds=KINDS):
        self.handler, self.host = handler or Handler, host
        self.faults = 0.0
        self.kinds = kinds
        self.tried = collections.Counter()
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.listings = {}
        self.ports = [self.serve(server) for server in servers]

    def serve(self, upstream):
        server = ThreadingHTTPServer((self.host, 0), self.handler)
        server.daemon_threads = True
        server.proxy, server.counts, server.upstream = self, Counts(), upstream
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def endpoint(self, at):
        return f"http://{self.authority(at)}"

    def authority(self, at):
        return f"{self.host}:{self.ports[at].server_port}"

    def counts(self, at):
        return self.ports[at].counts

    def clear(self):
        for port in self.ports:
            port.counts.clear()

    def total(self, what, verb):
        return sum(getattr(port.counts, what)[verb] for port in self.ports)

    def strike(self, verb):
        """The kind of fault that hits this request, if any."""
        with self.lock:
            if self.random.random() >= self.faults:
                return None
            fits = [kind for kind in self.kinds if self.handler.can(kind, verb)]
            kind = self.random.choice(fits)
            self.tried[kind] += 1
            return kind

    def close(self):
        for port in self.ports:
            port.shutdown()
            port.server_close()


class Handler(BaseHTTPRequestHandler):
    """Passes a request on."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer go out together.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass  # The client hung up.

    @staticmethod
    def can(kind, verb):
        """Whether a kind of fault is one of this kind of request."""
        if kind in ("truncate", "flip"):
            return verb == "GET"
        if kind == "stale":
            return verb == "LIST"
        if kind == "lost":
            return verb in ("PUT", "POST", "DELETE")
        return True

    def verb(self):
        """GET, HEAD, PUT, POST, DELETE, or LIST."""
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return "LIST" if self.command == "GET" and "list-type" in query else self.command

    def refusal(self, fault):
        """How the server would say that it cannot just now."""
        code = "InternalError" if fault == "500" else "SlowDown"
        return f"<Error><Code>{code}</Code><Message>on purpose</Message></Error>".encode()

    def body(self):
        """What came with the request."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def forward(self):
        body, verb, proxy = self.body(), self.verb(), self.server.proxy
        fault = proxy.strike(verb)
        answer = None
        if fault in ("500", "slowdown"):
            answer = (500 if fault == "500" else 503, [], self.refusal(fault))
        elif fault == "cut":
            self.close_connection = True
            return
        else:
            answer = self.ask(body)
        if verb == "LIST":
            answer = self.stale(answer, fault == "stale")
        if fault in ("lost", "stall"):
            # Done, and nobody hears of it.
            if fault == "stall":
                time.sleep(STALL)
            self.close_connection = True
            return
        self.answer(verb, answer, fault, len(body))

    def ask(self, body):
        connection = http.client.HTTPConnection(*self.server.upstream, timeout=ANSWER)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect", "transfer-encoding"):
                    connection.putheader(name, value)
            if self.headers.get("Transfer-Encoding"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body if body else None)
            reply = connection.getresponse()
            text = reply.read()
            return (reply.status, reply.getheaders(), text)
        finally:
            connection.close()

    def stale(self, answer, old):
        """The listing of before instead of this one."""
        proxy = self.server.proxy
        query = parse_qs(urlsplit(self.path).query)
        key = (urlsplit(self.path).path, tuple(query.get("prefix", [])),
               tuple(query.get("continuation-token", [])))
        with proxy.lock:
            before = proxy.listings.get(key)
            if old and before is not None:
                return before
            if answer[0] == 200:
                proxy.listings[key] = answer
        return answer

    def answer(self, verb, answer, fault, up):
        status, headers, body = answer
        declared = len(body)
        if fault == "truncate" and body:
            body = body[: len(body) // 2]
        elif fault == "flip" and body and status < 300:
            at = len(body) // 3
            body = body[:at] + bytes([body[at] ^ 4]) + body[at + 1:]
        self.send_response(status)
        for name, value in headers:
            lower = name.lower()
            if lower == "content-length" and self.command == "HEAD":
                declared = int(value)
            if lower not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(declared))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()
        if fault == "truncate":
            self.close_connection = True
        down = 0 if self.command == "HEAD" or status >= 300 else len(body)
        self.server.counts.add(verb, up, down)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward
