"""What the how-tos take for granted: files, disks, and what stands in here for a machine of theirs.

Everything else is run as it stands in the page.
"""

from dataclasses import dataclass, field

FILES = "mkdir -p photos/2024 && head -c 3000000 /dev/urandom > photos/2024/beach.jpg &&" \
    " tar -cf photos.tar photos"


@dataclass(frozen=True)
class Recipe:
    """How the commands below one heading are run."""
    page: str
    heading: str
    # Run before the first of them.
    first: str = ":"
    # Run before a step that begins so, or after it.
    before: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)
    # Taken for what the page says: paths and sizes of this machine.
    instead: dict = field(default_factory=dict)
    # Exit codes that are meant, other than 0.
    codes: dict = field(default_factory=dict)
    # Programs without which it cannot be run; whether it wants root; a server of S3, or an HDFS.
    tools: tuple = ()
    root: bool = False
    s3: bool = False
    hdfs: bool = False


POOL = "kiln pool create pool.toml -c clay:4+2 $(for i in 0 1 2 3 4 5 6 7 8; do" \
    " mkdir -p disk$i; echo --node disk$i; done) -q"
SERVED = "for i in $(seq 300); do [ -S disk.sock ] && break; sleep 0.1; done; sleep 1;" \
    " [ -S disk.sock ]"
MOUNTED = "for i in $(seq 300); do sleep 0.1; mountpoint -q"
# In turns with what .ci/packages.sh installs beside it.
VOLUME = {"apt-get install": "flock /var/lock/kiln-packages apt-get"
                             " -o DPkg::Lock::Timeout=600 install -y",
          "/run/disk.sock": "{work}/disk.sock", "/mnt/": "{work}/mnt/",
          "100GiB": "1GiB", "100 GiB": "1 GiB", "200GiB": "2GiB", "--node /disk": "--node disk"}
# In the folder of the page the cluster of `make hdfs-up` would be that of the checkout.
CLUSTER = "PYTHONPATH={root} python3 -m lab.rig.hdfs"
HDFS = {"make hdfs-up": f"{CLUSTER} up target/hdfs --cache {{cache}} --kiln kiln",
        "make hdfs-down": f"{CLUSTER} down target/hdfs",
        "python3 -m lab.rig.hdfs": CLUSTER}
BUCKETS = f"{FILES} && export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret" \
    " AWS_ENDPOINT_URL=http://127.0.0.1:{port0}; python3 -m moto.server -p {port0} &" \
    " for i in 0 1 2 3 4 5 6; do curl -X PUT --retry 9 --retry-connrefused" \
    " http://127.0.0.1:{port0}/disk-$i; done"
BESIDE = "in_hdfs() { " f"{CLUSTER}" " run target/hdfs \"$@\"; };" \
    f" {HDFS['make hdfs-up']} --datanodes 1 && kiln agent --init --key cluster.key &&" \
    " in_hdfs curl -sX PUT 'http://10.7.0.2:9870/webhdfs/v1/pool/d3?op=MKDIRS&user.name=root'"
STARTED = "for i in $(seq 300); do grep -q 'agent started' agent.log && break; sleep 0.1; done;" \
    " grep 'agent started' agent.log && kill -TERM $agent && { wait $agent || true; }"
# Agents of this machine and a pool of them, with an object; a coordinator is awaited, asked for its
# page and what it knows, and ended. `systemctl` starts the agents again as their machines would,
# and sees that the object is read all the while.
HTTP = "http://127.0.0.1:{port5}"


def ports_of(count):
    """The first ports of a run."""
    return " ".join(f"{{port{at}}}" for at in range(count))


def awaited(port):
    """Waits until something listens there."""
    return f"for i in $(seq 300); do (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null && break;" \
        " sleep 0.1; done"


def agents(count):
    """A pool of so many agents."""
    ports = ports_of(count)
    return "declare -A pids; export KILN_KEY=cluster.key; up() {" \
        f" kiln agent --dir agent$1 --listen 127.0.0.1:$1 & pids[$1]=$!; {awaited('$1')}; }};" \
        f" systemctl() {{ for port in {ports}; do kill -TERM ${{pids[$port]}};" \
        " wait ${pids[$port]}; up $port; kiln get film -o back --force -q || return 1;" \
        " cmp film back || return 1; done; };" \
        " kiln agent --init --key cluster.key && nodes=" \
        f" && for port in {ports}; do mkdir agent$port;" \
        " nodes=\"$nodes --node kiln://127.0.0.1:$port\"; up $port; done &&" \
        " kiln pool create pool.toml -c rs:3+2 $nodes -q && head -c 900000 /dev/urandom > film &&" \
        " kiln put film -q"


# Six agents of this machine with a shard each, of which the first is lost, and a plan for that.
PLANNED = "kiln agent --init --key cluster.key && head -c 900000 /dev/urandom > film &&" \
    " for at in 0 1 2 3 4 5; do mkdir d$at; homes=\"$homes -o d$at\"; done;" \
    " kiln encode film -c clay:4+2 $homes -q && cp -r d0 lost && rm d0/* && at=0 &&" \
    f" for port in {ports_of(6)}; do" \
    " kiln agent --dir d$at --key cluster.key --listen 127.0.0.1:$port & at=$((at + 1));" \
    f" {awaited('$port')}; done;" \
    " kiln plan -c clay:4+2 --lost 0 --strategy vertices --moves 20000 --plans ready.plans"
WATCHED = f"watching=$!; for i in $(seq 300); do curl -sf {HTTP}/ready > ready && break;" \
    f" sleep 0.1; done; set -e; curl -sf {HTTP}/ready; curl -sf {HTTP}/ | grep -q '<title>';" \
    f" curl -sf {HTTP}/status.json | grep -q coordinator; kill -TERM $watching; set +e"
# Pages whose commands after prompts are run and compared elsewhere.
COMPARED = ("docs/operate/operators.md", "docs/guide/tutorial.md")
PAGES = ("README.md", "docs/operate/operators.md",
         *(f"docs/guide/{page}.md" for page in ("files", "pools", "encryption", "mount", "volumes",
                                                "codes", "s3", "s3-server", "hdfs", "ceph",
                                                "python", "tutorial")))
HOSTS = " ".join(f"--node kiln://127.0.0.1:{{port{at}}}" for at in range(6))

RECIPES = [
    Recipe("README.md", "Demo"),
    Recipe("docs/guide/files.md", "From a file to shards and back",
           codes={"kiln verify shards": 1}),
    Recipe("docs/guide/files.md", "Parity beside files that stay where they are"),
    Recipe("docs/guide/pools.md", "A pool of disks"),
    Recipe("docs/guide/codes.md", "All codes"),
    # The day of the page has passed, or it has not.
    Recipe("docs/guide/pools.md", "Yesterday", f"{POOL} && {FILES}",
           instead={"2026-11-28": "2101-11-28"}),
    Recipe("docs/guide/pools.md", "Sealed pools"),
    Recipe("docs/guide/encryption.md", "A first encrypted pool",
           codes={"grep": 1, "kiln get notes -o back --force": 8}),
    Recipe("docs/guide/encryption.md", "Another key",
           "for i in 0 1 2 3 4 5; do mkdir e$i; places=\"$places --node e$i\"; done;"
           " kiln pool create pool.toml --encrypted -c clay:4+2 $places -q 2> made &&"
           " seq 200000 > notes && kiln put notes -q"),
    Recipe("docs/guide/pools.md", "A caretaker", POOL,
           instead={"127.0.0.1:7480": "127.0.0.1:{port0} &"},
           after={"kiln coordinator": "sleep 2"}),
    # Six agents of this machine, one for each of its ports. The pool waits for them in the
    # background, as it would in another terminal.
    Recipe("docs/guide/pools.md", "Machines",
           before={"kiln coordinator": "wait $created"},
           after={"kiln pool create": "created=$!", "kiln coordinator": "sleep 2"},
           instead={"-c clay:10+4 --key cluster.key --node kiln://host0 ...":
                        f"-c clay:4+2 --key cluster.key {HOSTS} &",
                    "kiln agent --dir /srv/kiln --key cluster.key":
                        "until [ -s cluster.key ]; do sleep 0.1; done; "
                        "for port in {ports}; do mkdir agent$port; "
                        "kiln agent --dir agent$port --key cluster.key "
                        "--listen 127.0.0.1:$port & done",
                    "--limit-rate 50MiB --stay": "--limit-rate 50MiB --stay &"}),
    Recipe("docs/guide/mount.md", "A first mount", f"{POOL} && {FILES}", root=True,
           after={"mkdir mnt": f"{MOUNTED} mnt && break; done", "fusermount": "wait"},
           tools=("fusermount",)),
    Recipe("docs/guide/mount.md", "Samba", f"{POOL} && mkdir srv && touch share.conf", root=True,
           instead={"/srv/pool": "srv", "/var/tmp": "/tmp", "/etc/samba/smb.conf": "smb.conf"},
           after={"kiln mount": f"{MOUNTED} srv && break; done",
                  "cat": "echo kept > srv/f && fusermount -u srv && wait && kiln get f -o -"},
           tools=("fusermount",)),
    Recipe("docs/guide/volumes.md", "From an empty machine to a mounted file system",
           instead=VOLUME, root=True, tools=("nbdfuse", "losetup", "mkfs.ext4"),
           first="mkdir $(seq -f disk%g 0 8)",
           # The kernel may let go of the file a moment after losetup has ended.
           before={"umount /mnt/raw": "for i in $(seq 300); do losetup $loop > detached 2>&1 ||"
                                      " break; sleep 0.1; done; sleep 0.5"},
           after={"kiln nbd": SERVED,
                  "nbdfuse": "for i in $(seq 600); do [ -e mnt/raw/disk ] && break;"
                             " sleep 0.1; done"}),
    Recipe("docs/guide/volumes.md", "Commands", POOL, instead=VOLUME),
    Recipe("docs/operate/operators.md", "Watching over a pool", agents(5), tools=("curl",),
           instead={"127.0.0.1:7480": "127.0.0.1:{port5}", "root'": "root' &"},
           after={"set -e\nkiln coordinator": WATCHED}),
    Recipe("docs/operate/operators.md", "The pool is full", agents(6)),
    Recipe("docs/operate/operators.md", "A repair by a plan that was searched for before", PLANNED,
           instead={f"kiln://host{at}/": f"kiln://127.0.0.1:{{port{at}}}/" for at in range(1, 6)}
           | {"kiln://spare/": "kiln://127.0.0.1:{port0}/"},
           before={"kiln coordinator": "exec 3>&1; exec > said"},
           after={"kiln coordinator": "exec >&3; cat said; diff -r d0 lost;"
                                      " grep -q 'vertices plan from ready.plans' said"}),
    Recipe("docs/operate/operators.md", "The key leaked", agents(5),
           after={"set -e": "kiln status -q --key old.key; test $? = 8"}),
    Recipe("docs/operate/operators.md", "Before you trust it",
           instead={"--time 1h": "--time 5s"}),
    # The package is tried by dist/dist_test.sh, in a Debian of its own.
    Recipe("docs/operate/operators.md", "Upgrade", f"{agents(5)}; dpkg() {{ test \"$1\" = -i; }}"),
    Recipe("docs/guide/s3.md", "A pool, step by step", f"{FILES} && cp photos.tar movie.mkv",
           instead={"-p 9000": "-p {port0}", "127.0.0.1:9000": "127.0.0.1:{port0}"},
           s3=True, tools=("curl",)),
    # Seven agents of this machine, each with a port and a bucket of its own.
    Recipe("docs/guide/s3.md", "Agents near the buckets", BUCKETS, s3=True, tools=("curl",),
           instead={"kiln agent --key cluster.key --dir s3://disk-0/near --parts /var/lib/kiln":
                        "for i in 0 1 2 3 4 5 6; do kiln agent --key cluster.key"
                        " --dir s3://disk-$i/near --parts parts$i --name near$i"
                        " --listen 127.0.0.1:$((7450 + i)) & done; sleep 2",
                    "kiln://host": "kiln://127.0.0.1:745"}),
    Recipe("docs/guide/s3-server.md", "From nothing to a bucket", tools=("curl",),
           instead={"127.0.0.1:9000": "127.0.0.1:{port0}"},
           after={"kiln serve s3": f"{awaited('{port0}')}; curl -s http://127.0.0.1:{{port0}}/"
                                   " | grep -q AccessDenied"}),
    Recipe("docs/guide/hdfs.md", "A pool, step by step", FILES, instead=HDFS, hdfs=True, root=True,
           tools=("curl",)),
    Recipe("docs/guide/hdfs.md", "Agents beside DataNodes", BESIDE, hdfs=True, root=True,
           tools=("curl",),
           instead={"kiln agent": "in_hdfs kiln agent",
                    "hdfs://namenode": "hdfs://10.7.0.2:9870",
                    "datanode=host3": "datanode=10.7.0.1",
                    "blocks=/data/dn&user=kiln'":
                        "blocks='$PWD'/target/hdfs/hosts/h0/data&user=root' 2> agent.log &"
                        " agent=$!"},
           after={"set -e\nkiln agent": STARTED}),
]
