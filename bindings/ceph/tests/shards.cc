// The second form of every call, which 20.2 has: ours beside that of Ceph's isa, with one matrix.
#include "driver.h"

#include <cstring>

#ifdef CEPH_SHARD_MAPS

namespace {

constexpr int K = 4, N = 6;
constexpr unsigned LEN = 4096;

ShardSet shards(const std::set<int> &all) {
    ShardSet set;
    for (int shard : all) set.insert(shard);
    return set;
}

bufferptr filled(unsigned seed) {
    bufferptr bytes(buffer::create_aligned(LEN, 4096));
    for (unsigned i = 0; i < LEN; i++) bytes.c_str()[i] = char(i * 7 + i / 250 + seed);
    return bytes;
}

// Chunks in buffers of their own, so that no write goes into another's.
struct Copies : ShardMap<bufferptr> {
    explicit Copies(const std::map<int, bufferptr> &chunks) : ShardMap(N) {
        for (const auto &[shard, bytes] : chunks) {
            bufferptr own(buffer::create_aligned(LEN, 4096));
            memcpy(own.c_str(), bytes.c_str(), LEN);
            put(shard, own);
        }
    }
};

bool same(const ShardMap<bufferptr> &a, const ShardMap<bufferptr> &b, int shard) {
    return memcmp(a.find(shard)->c_str(), b.find(shard)->c_str(), LEN) == 0;
}

void encodes_and_decodes(const Code &code, const bufferlist &in, const Buffers &chunks) {
    ShardMap<bufferlist> out(N);
    CHECK(code->encode(shards(all_but(code, {})), in, &out) == 0, "encode");
    for (int i = 0; i < N; i++)
        CHECK(out.find(i)->contents_equal(chunks.at(i)), "encoded chunk %d", i);
    for (int lost = 0; lost < N; lost++) {
        ShardSet minimum;
        ShardMap<Runs> runs(N);
        const std::set<int> left = all_but(code, {lost});
        const ShardSet want = shards({lost}), there = shards(left);
        CHECK(code->minimum_to_decode(want, there, minimum, &runs) == 0, "minimum");
        ShardMap<bufferlist> have(N), back(N);
        for (int helper : minimum.ints()) {
            CHECK(runs.find(helper) != nullptr, "no runs of %d", helper);
            have.put(helper, chunks.at(helper));
        }
        CHECK(minimum.ints().size() == K, "%zu helpers", minimum.ints().size());
        CHECK(code->decode(shards({lost}), have, &back, int(chunks.at(0).length())) == 0, "decode");
        CHECK(back.find(lost)->contents_equal(chunks.at(lost)), "decoded chunk %d", lost);
    }
}

// Whole chunks in buffers of the caller's: parity, one lost chunk, and parity after a change.
void works_in_place(const Code &ours, const Code &stock) {
    std::map<int, bufferptr> data, parity, all;
    for (int i = 0; i < K; i++) data[i] = filled(unsigned(i));
    for (int i = K; i < N; i++) parity[i] = filled(99);
    const Copies in(data);
    Copies x(parity), y(parity);
    CHECK(ours->encode_chunks(in, x) == 0 && stock->encode_chunks(in, y) == 0, "encode_chunks");
    for (int i = K; i < N; i++) CHECK(same(x, y, i), "parity %d", i);

    const bufferptr now = filled(41);
    bufferptr delta(buffer::create_aligned(LEN, 4096)), theirs(buffer::create_aligned(LEN, 4096));
    ours->encode_delta(data[1], now, &delta);
    stock->encode_delta(data[1], now, &theirs);
    CHECK(memcmp(delta.c_str(), theirs.c_str(), LEN) == 0, "a difference");
    const Copies change({{1, delta}});
    ours->apply_delta(change, x);
    data[1] = now;
    CHECK(ours->encode_chunks(Copies(data), y) == 0, "encode_chunks");
    for (int i = K; i < N; i++) CHECK(same(x, y, i), "parity %d after a change", i);

    for (int i = 0; i < N; i++) all[i] = i < K ? data[i] : *y.find(i);
    for (int lost = 0; lost < N; lost++) {
        std::map<int, bufferptr> rest = all;
        rest.erase(lost);
        Copies have(rest), out({{lost, filled(7)}});
        CHECK(ours->decode_chunks(shards({lost}), have, out) == 0, "decode_chunks");
        CHECK(same(out, Copies(all), lost), "chunk %d in place", lost);
    }
}

bool reads_parts(const Code &code, const std::set<int> &lost) {
    std::map<int, Runs> minimum;
    CHECK(code->minimum_to_decode(lost, all_but(code, lost), &minimum) == 0, "minimum");
    return minimum.begin()->second != Runs({{0, code->get_sub_chunk_count()}});
}

// A client that wants one data chunk cannot use parts of others, and asks as a recovery does.
void parts_are_for_recovery() {
    const Code silent = loaded("plugin=kiln k=4 m=2 osd_ec_partial_reads=");
    const Code told = loaded("plugin=kiln k=4 m=2 osd_ec_partial_reads=false");
    CHECK(!reads_parts(silent, {0}) && reads_parts(silent, {5}), "nothing said");
    CHECK(reads_parts(told, {0}) && reads_parts(told, {5}), "clients read all data");
    const Buffers chunks = encoded(told, object(20000, 3));
    Buffers rest = chunks;
    rest.erase(0);
    bufferlist out;
    CHECK(told->decode_concat({0}, rest, &out) == -EINVAL, "a client read some, against the word");
    CHECK(silent->decode_concat({0}, rest, &out) == 0 && out.contents_equal(chunks.at(0)), "some");
    // From the first such read on no answer is trusted.
    std::map<int, Runs> minimum;
    CHECK(told->minimum_to_decode({1}, all_but(told, {}), &minimum) == 0, "minimum");
    CHECK(!reads_parts(told, {0}) && reads_parts(told, {5}), "a client read some");
}

}  // namespace

void shard_maps() {
    const Code ours = loaded("plugin=kiln code=rs matrix=isa k=4 m=2");
    const Code stock = loaded("plugin=isa k=4 m=2 technique=reed_sol_van");
    const bufferlist in = object(100000, 5);
    const Buffers chunks = encoded(stock, in);
    encodes_and_decodes(stock, in, chunks);  // or our maps are not Ceph's
    encodes_and_decodes(ours, in, chunks);
    works_in_place(ours, stock);
    parts_are_for_recovery();
}

#else

void shard_maps() {}

#endif
