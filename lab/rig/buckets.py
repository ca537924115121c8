"""kiln over S3 endpoints of this machine: what the test and the bench share."""

from lab.rig import pool_work
from lab.rig import s3 as servers


class Rig(pool_work.Rig):
    """The program, a folder, and endpoints with a bucket each."""

    def __init__(self, kiln, folder, server, proxy, timeout=20):
        super().__init__(kiln, folder, servers.environment())
        self.server, self.proxy, self.timeout = server, proxy, timeout

    def buckets(self, name, count):
        """New buckets, one at each endpoint."""
        for at in range(count):
            self.server.make_bucket(f"{name}-{at:02}")
        return [f"{name}-{at:02}" for at in range(count)]

    def place(self, at, bucket, prefix):
        """A place at an endpoint."""
        endpoint = self.proxy.endpoint(at)
        return f"s3://{bucket}/{prefix}?endpoint={endpoint}&timeout={self.timeout}"

    def delete(self, at, path):
        """Removes an object behind kiln's back."""
        servers.delete(f"http://127.0.0.1:{self.server.port}", path)
        del at
