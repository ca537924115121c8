"""Documents over HTTP: requests that are answered and others, other sites' pages, tokens."""

import socket
import stat

from pools import Agent
from rig import asked, drained, holds, same, test


def place(agent):
    """Host and port of an agent's metrics."""
    return agent.started["metrics"].removeprefix("http://").removesuffix("/metrics")


def exchange(host, request):
    """The answer to bytes, after which no more come."""
    name, port = host.rsplit(":", 1)
    with socket.create_connection((name.strip("[]"), int(port)), timeout=60) as stream:
        stream.sendall(request)
        try:
            stream.shutdown(socket.SHUT_WR)
        except OSError:
            # It is closed already.
            pass
        return stream.makefile("rb").read().decode()


class Page:
    """A coordinator with a page; no pool is needed to be refused."""

    def __init__(self, rig, listen="127.0.0.1:0", flags=""):
        self.child = rig.start(f"coordinator --stay --every 1 --http {listen} {flags}")
        line = b""
        while b"page at http://" not in line:
            line = self.child.stderr.readline()
            assert line, "no page"
        self.host = line.decode().split("http://")[1].strip().strip("/")
        drained(self.child.stderr)

    def status(self, *lines, path="/"):
        """The status of an answer to these lines after the first."""
        head = "".join(f"{line}\r\n" for line in (f"GET {path} HTTP/1.1", *lines, ""))
        self.said = exchange(self.host, head.encode())
        return int(self.said.split(" ", 2)[1])

    def end(self):
        self.child.terminate()
        self.child.wait()


@test
def requests_are_understood_and_others_get_nothing(rig):
    host = place(Agent(rig, "d0", "--plain --metrics 127.0.0.1:0"))
    for good in (b"GET /health?b=c HTTP/1.1\r\nHOST: h:1\r\n\r\n", b"GET /health HTTP/1.0\r\n\r\n"):
        said = exchange(host, good)
        assert said.startswith("HTTP/1.1 200 OK\r\n") and said.endswith("lives\n"), said
    head = exchange(host, b"HEAD /health HTTP/1.1\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\n") and "lives" not in head, head
    holds(exchange(host, b"POST /health HTTP/1.1\r\n\r\n"), "HTTP/1.1 405", "Allow: GET, HEAD")
    for bad in (b"", b"GET", b"GET /", b"GET / FTP/1\r\n", b"\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n",
                b"GET / FTP/1\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"x" * 10_000):
        try:
            same(exchange(host, bad), "", bad)
        except ConnectionError:
            pass
    # A label of all, and one of a family.
    holds(asked(host, "/metrics"), '{place="d0"}')


@test
def silent_clients_keep_nobody_away(rig):
    host = place(Agent(rig, "d0", "--plain --metrics 127.0.0.1:0"))
    name, port = host.rsplit(":", 1)
    silent = [socket.create_connection((name, int(port))) for _ in range(700)]
    holds(asked(host, "/health"), "HTTP/1.1 200 OK", "lives\n")
    for stream in silent:
        stream.close()


@test
def a_page_of_another_site_is_refused_and_so_is_a_client_without_the_token(rig):
    rig.pool("rs:2+1", 4)
    page = Page(rig)
    for host, status in (("127.0.0.1:7480", 200), ("[::1]:7480", 200), ("localhost:7480", 200),
                         ("LOCALHOST.evil.example", 403), ("evil.example:7480", 403),
                         ("[::1", 403), ("", 200)):
        same(page.status(f"Host: {host}"), status, host)
    page.end()
    page = Page(rig, "localhost:0", "--http-token token")
    token = rig.read("token").decode().strip()
    same((len(token), stat.S_IMODE((rig / "token").stat().st_mode)), (64, 0o600))
    same(page.status(f"authorization:  Bearer {token} "), 200)
    # The name is asked for no more: who has the token came here on purpose.
    same(page.status("Host: host3:7480", f"Authorization: Bearer {token}"), 200)
    for bad in ("", "Bearer ", f"Bearer {token[:-1]}", f"Bearer {token}s", token,
                f"Bearer {token[:-1]}{token[-1].swapcase() if token[-1].isalpha() else 'x'}"):
        same(page.status(f"Authorization: {bad}"), 401, bad)
        holds(page.said, "WWW-Authenticate: Basic")
    page.end()
    # The token of a file is kept; "kiln:sixteen letters", as coreutils' base64 writes it.
    (rig / "token").write_text("secret-of-sixteen\n")
    page = Page(rig, flags="--http-token token")
    same(page.status("Authorization: Basic a2lsbjpzZWNyZXQtb2Ytc2l4dGVlbg=="), 200)
    same(rig.read("token"), b"secret-of-sixteen\n")
    page.end()
    start = "coordinator --stay --http 127.0.0.1:0 --http-token token"
    for bad in ("", "short", "two words and more than sixteen", "x" * 300):
        (rig / "token").write_text(bad)
        rig.kiln(start).fails(4, "token: ")
    (rig / "token").write_text(token)
    (rig / "token").chmod(0o644)
    rig.kiln(start).fails(4, "chmod 600")


@test
def only_loopback_addresses_need_no_token(rig):
    rig.pool("rs:2+1", 4)
    for listen in ("0.0.0.0:0", "host3:7480"):
        rig.kiln(f"coordinator --stay --http {listen}").fails(3, "--http-token")
    for listen in ("127.0.0.1:0", "localhost:0", *(["[::1]:0"] if socket.has_ipv6 else [])):
        try:
            Page(rig, listen).end()
        except AssertionError:
            # A machine may have no such address.
            rig.kiln(f"coordinator --stay --http {listen}").fails(4, "listen")
