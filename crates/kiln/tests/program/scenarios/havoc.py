"""Random damage of all kinds at once: right bytes or a clear refusal, and a repair never makes lost
what was readable before."""

import os
import shutil

from rig import same, seeded, shard, test

# Four shards of the other run would rightly decode to the other object.
MAX_FOREIGN = 3


def damage(rig, random, foreign):
    """One random damage to one random shard; `foreign` are the shards of another run so far."""
    index = random.randrange(6)
    path = rig / shard(index)
    if not path.exists():
        return "nothing"
    bytes_ = bytearray(path.read_bytes())
    at, to = random.randrange(len(bytes_) or 1), random.randrange(len(bytes_) or 1)
    span, kind = random.randrange(5000), random.randrange(9)
    piece = bytes_[at:at + span]
    if kind in (0, 1):
        bytes_[at:at + 1] = bytes(byte ^ 1 << random.randrange(8) for byte in bytes_[at:at + 1])
    elif kind == 2:
        del bytes_[at:]
    elif kind == 3:
        bytes_[at:at + span] = bytes(len(piece))
    elif kind == 4:
        to = min(to, len(bytes_) - len(piece))
        bytes_[to:to + len(piece)] = piece
    elif kind == 5:
        bytes_ += bytes_[:span]
    elif kind == 6:
        path.unlink()
        return f"shard {index} removed"
    elif kind == 7:
        other = rig / shard(random.randrange(6))
        if other.exists() and other != path:
            parked = path.rename(rig / "parked")
            other.rename(path)
            parked.rename(other)
        return f"shard {index} swapped"
    elif len(foreign) < MAX_FOREIGN:
        foreign.append(index)
        bytes_ = rig.read(f"other/object.{index:02}.kiln")
    else:
        return "nothing"
    path.write_bytes(bytes_)
    return f"shard {index}: kind {kind} from {at} to {to} span {span}"


@test
def random_damage_never_gives_a_wrong_byte(rig):
    random, _ = seeded("random_damage_never_gives_a_wrong_byte")
    rig.data("object", 200_000, 44)
    rig.kiln("encode object -c clay:4+2 --sub-chunk 512 -o other").ok()
    had = lost = 0
    for turn in range(int(os.environ.get("KILN_HAVOC_ROUNDS", 60))):
        shutil.rmtree(rig / "shards", ignore_errors=True)
        bytes_ = rig.encoded("clay:4+2", "--sub-chunk 512", 200_000)
        foreign = []
        story = [damage(rig, random, foreign) for _ in range(random.randint(1, 6))]
        about = f"round {turn}: {'; '.join(story)}"
        decode = rig.kiln("decode shards -o back --force -q")
        assert decode.code in (0, 2, 5), f"{about}: decode said {decode.code}: {decode.stderr}"
        if decode.code == 0:
            assert rig.read("back") == bytes_, f"{about}: wrong bytes"
        repair = rig.kiln("repair shards --scan -q")
        assert repair.code in (0, 2, 5), f"{about}: repair: {repair.stderr}"
        if decode.code != 0:
            lost += 1
            assert repair.code != 0, f"{about}: repaired the unrecoverable"
            continue
        had += 1
        rig.decodes_to(bytes_)
        same(repair.code, 0, f"{about}: {repair.stderr}")
        verify = rig.kiln("verify shards --deep")
        same(verify.code, 0, f"{about}: {verify.stdout}")
    assert had and lost, f"both outcomes must occur: {had} {lost}"
