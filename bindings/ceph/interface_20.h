// What a plugin of Ceph 20.2 and its host agree on: the calls of 16.2, each of which has a second
// form with sets of bits and flat maps instead of sets and maps. Written from the binary interface.
#pragma once

#include "words.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>

// One name, two forms: a plugin answers one, `InterfaceAdapter` the other.
#pragma GCC diagnostic ignored "-Woverloaded-virtual"
#define CEPH_SHARD_MAPS

// The class has no virtual functions, and a plugin only ever holds a reference to it.
class CrushWrapper {
  public:
    // 0 domains: as many as the pool has chunks.
    int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                        int failure_domains, std::string device_class, std::string mode,
                        int rule_type, std::ostream *log);
    int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                        std::string device_class, std::string mode, int rule_type,
                        std::ostream *log) {
        return add_simple_rule(name, root, failure_domain, 0, device_class, mode, rule_type, log);
    }
    bool serve(int, unsigned) { return true; }
};

namespace ceph {

struct Shard {
    int8_t id = 0;
};

// Sets and maps are only ever passed by address: what matters is where their parts lie.
class ShardSet {
  public:
    static constexpr int MAX = 128;
    ShardSet() : end{this, {int8_t(MAX)}} {}
    ShardSet(const ShardSet &other) : ShardSet() { std::copy_n(other.words, MAX / 64, words); }
    ShardSet &operator=(const ShardSet &other) = delete;
    bool has(int shard) const { return words[shard / 64] >> (shard % 64) & 1; }
    void insert(int shard) { words[shard / 64] |= uint64_t(1) << (shard % 64); }
    void clear() { words[0] = words[1] = 0; }
    std::set<int> ints() const {
        std::set<int> all;
        for (int shard = 0; shard < MAX; shard++)
            if (has(shard)) all.insert(all.end(), shard);
        return all;
    }

  private:
    uint64_t words[MAX / 64] = {};
    struct {
        const void *of;
        Shard at;
    } end;  // of Ceph's iterators
};
static_assert(sizeof(ShardSet) == 32, "as Ceph's plugins lay out a set of shards");

template <class Value>
class ShardMap {
  public:
    explicit ShardMap(size_t shards) : values(shards) {
        for (End &end : ends) end = {this, {}, {int8_t(shards)}};
    }
    ShardMap(const ShardMap &) = delete;
    ShardMap &operator=(const ShardMap &) = delete;
    int size() const { return int(values.size()); }
    const Value *find(int shard) const {
        return shard < size() && values[size_t(shard)] ? &*values[size_t(shard)] : nullptr;
    }
    // False where the host left no room for the shard.
    bool put(int shard, Value value) {
        if (shard < 0 || shard >= size()) return false;
        count += !values[size_t(shard)];
        values[size_t(shard)] = std::move(value);
        return true;
    }

  private:
    std::vector<std::optional<Value>> values;
    struct End {
        void *map;
        struct {
            void *pair[2];
            bool some;
        } value;
        Shard at;
    } ends[2] = {};  // of Ceph's iterators
    size_t count = 0;
};
static_assert(sizeof(ShardMap<int>) == 112, "as Ceph's plugins lay out a map of shards");

// The optimizations that a code allows; the numbers are Ceph's.
constexpr uint64_t PARTIAL_READS = 1 << 0;
constexpr uint64_t SUB_CHUNKS_NEEDED = 1 << 5;

using Mapping = std::vector<Shard>;

class ErasureCodeInterface : public ErasureCodeShape {
  public:
    virtual int minimum_to_decode(const ShardSet &want, const ShardSet &available,
                                  ShardSet &minimum, ShardMap<Runs> *runs) = 0;
    virtual int minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                                  std::map<int, Runs> *minimum) = 0;
    virtual int minimum_to_decode_with_cost(const ShardSet &want, const ShardMap<int> &available,
                                            ShardSet *minimum) = 0;
    virtual int minimum_to_decode_with_cost(const std::set<int> &want,
                                            const std::map<int, int> &available,
                                            std::set<int> *minimum) = 0;
    virtual size_t get_minimum_granularity() = 0;
    virtual int encode(const ShardSet &want, const bufferlist &in, ShardMap<bufferlist> *out) = 0;
    virtual int encode(const std::set<int> &want, const bufferlist &in, Buffers *out) = 0;
    virtual int encode_chunks(const std::set<int> &want, Buffers *chunks) = 0;
    virtual int encode_chunks(const ShardMap<bufferptr> &in, ShardMap<bufferptr> &out) = 0;
    virtual void encode_delta(const bufferptr &old, const bufferptr &now, bufferptr *delta) = 0;
    virtual void apply_delta(const ShardMap<bufferptr> &in, ShardMap<bufferptr> &out) = 0;
    virtual int decode(const ShardSet &want, const ShardMap<bufferlist> &in,
                       ShardMap<bufferlist> *out, int chunk_size) = 0;
    virtual int decode(const std::set<int> &want, const Buffers &in, Buffers *out,
                       int chunk_size) = 0;
    virtual int decode_chunks(const ShardSet &want, ShardMap<bufferptr> &in,
                              ShardMap<bufferptr> &out) = 0;
    virtual int decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) = 0;
    virtual const Mapping &get_chunk_mapping() const = 0;
    virtual int decode_concat(const std::set<int> &want, const Buffers &in, bufferlist *out) = 0;
    virtual int decode_concat(const Buffers &in, bufferlist *out) = 0;
    virtual uint64_t get_supported_optimizations() const = 0;
    virtual std::string get_optimizations_flags_string() const = 0;
};

// Answers the second form of every call by the first one.
class InterfaceAdapter : public ErasureCodeInterface {
  public:
    int minimum_to_decode(const ShardSet &want, const ShardSet &available, ShardSet &minimum,
                          ShardMap<Runs> *runs) final {
        std::map<int, Runs> found;
        const int result = minimum_to_decode(want.ints(), available.ints(), &found);
        minimum.clear();
        for (auto &[shard, of_shard] : found) {
            minimum.insert(shard);
            if (runs != nullptr && !runs->put(shard, std::move(of_shard))) return -EINVAL;
        }
        return result;
    }
    int minimum_to_decode_with_cost(const ShardSet &want, const ShardMap<int> &available,
                                    ShardSet *minimum) final {
        std::map<int, int> costs;
        for (int shard = 0; shard < available.size(); shard++)
            if (const int *cost = available.find(shard)) costs[shard] = *cost;
        std::set<int> found;
        const int result = minimum_to_decode_with_cost(want.ints(), costs, &found);
        minimum->clear();
        for (int shard : found) minimum->insert(shard);
        return result;
    }
    size_t get_minimum_granularity() final { return size_t(get_sub_chunk_count()); }
    int encode(const ShardSet &want, const bufferlist &in, ShardMap<bufferlist> *out) final {
        Buffers chunks;
        const int result = encode(want.ints(), in, &chunks);
        return result != 0 ? result : put_all(chunks, out);
    }
    int encode_chunks(const ShardMap<bufferptr> &in, ShardMap<bufferptr> &out) final {
        Buffers chunks = views(in, views(out, {}));
        if (chunks.empty()) return 0;
        // Data that is not there is zeros, parity that was not requested is made and dropped.
        const unsigned length = chunks.begin()->second.length();
        for (int shard = 0; shard < int(get_chunk_count()); shard++)
            if (bufferlist &chunk = chunks[shard]; chunk.length() == 0) {
                bufferptr zeros(buffer::create_aligned(length, 64));
                zeros.zero();
                chunk.append(zeros);
            }
        return encode_chunks(std::set<int>(), &chunks);
    }
    void encode_delta(const bufferptr &old, const bufferptr &now, bufferptr *delta) final {
        const char *from = old.c_str(), *other = now.c_str();
        char *to = delta->c_str();
        for (unsigned i = 0; i < delta->length(); i++) to[i] = char(from[i] ^ other[i]);
    }
    // Codes are linear: what parity changes by is the parity of what data changes by.
    void apply_delta(const ShardMap<bufferptr> &in, ShardMap<bufferptr> &out) final {
        ShardMap<bufferptr> change(size_t(out.size())), data(size_t(in.size()));
        for (int shard = 0; shard < in.size(); shard++)
            if (const bufferptr *given = in.find(shard))
                if (shard < int(get_data_chunk_count())) data.put(shard, *given);
        for (int shard = int(get_data_chunk_count()); shard < out.size(); shard++)
            if (const bufferptr *parity = out.find(shard))
                change.put(shard, bufferptr(buffer::create_aligned(parity->length(), 64)));
        if (encode_chunks(data, change) != 0) return;
        for (int shard = 0; shard < out.size(); shard++)
            if (const bufferptr *by = change.find(shard)) {
                bufferptr parity = *out.find(shard);
                encode_delta(parity, *by, &parity);
            }
    }
    int decode(const ShardSet &want, const ShardMap<bufferlist> &in, ShardMap<bufferlist> *out,
               int chunk_size) final {
        Buffers given, chunks;
        for (int shard = 0; shard < in.size(); shard++)
            if (const bufferlist *chunk = in.find(shard)) given[shard] = *chunk;
        const int result = decode(want.ints(), given, &chunks, chunk_size);
        return result != 0 ? result : put_all(chunks, out);
    }
    int decode_chunks(const ShardSet &want, ShardMap<bufferptr> &in,
                      ShardMap<bufferptr> &out) final {
        Buffers chunks = views(out, {});
        return decode_chunks(want.ints(), views(in, {}), &chunks);
    }
    int decode_concat(const std::set<int> &want, const Buffers &in, bufferlist *out) final {
        Buffers chunks;
        // Parts may have been read for a chunk that no client was to want alone.
        if (has_sub_chunks() && clients_read_all() && want.size() < get_data_chunk_count() &&
            !are_in(in, want))
            return -EINVAL;
        if (int result = decode(want, in, &chunks, 0)) return result;
        for (int shard : want) out->claim_append(chunks[shard]);
        return 0;
    }
    using ErasureCodeInterface::decode_concat;
    uint64_t get_supported_optimizations() const final {
        return PARTIAL_READS | (has_sub_chunks() ? SUB_CHUNKS_NEEDED : 0);
    }
    std::string get_optimizations_flags_string() const final {
        return has_sub_chunks() ? "partialread,requiresubchunks" : "partialread";
    }

  protected:
    // Whether an OSD that wants these chunks could use parts of others for them. One that recovers
    // can, one that serves a client cannot; and for a client it reads only those data chunks that
    // it must (`osd_ec_partial_reads`), so both ask alike. Parity is never for a client. For data
    // the profile must say that clients read all of it, and no client was seen to read less.
    bool takes_parts(const std::set<int> &want, const std::set<int> &available) const {
        const bool some = !want.empty() && want.size() < get_data_chunk_count();
        if (!some_were_read() && some && are_in(available, want)) some_were_read() = true;
        return (clients_read_all() && !some_were_read()) ||
               (!want.empty() && *want.rbegin() >= int(get_data_chunk_count()));
    }

  private:
    template <class Held>
    static bool are_in(const Held &held, const std::set<int> &shards) {
        return std::all_of(shards.begin(), shards.end(),
                           [&](int shard) { return held.count(shard) != 0; });
    }
    bool clients_read_all() const {
        const auto at = get_profile().find("osd_ec_partial_reads");
        return at != get_profile().end() && at->second == "false";
    }
    // In this process, by any pool.
    static std::atomic<bool> &some_were_read() {
        static std::atomic<bool> seen{false};
        return seen;
    }
    using ErasureCodeInterface::decode;
    using ErasureCodeInterface::decode_chunks;
    using ErasureCodeInterface::encode;
    using ErasureCodeInterface::encode_chunks;
    using ErasureCodeInterface::minimum_to_decode;
    using ErasureCodeInterface::minimum_to_decode_with_cost;

    bool has_sub_chunks() const {
        return const_cast<InterfaceAdapter *>(this)->get_sub_chunk_count() > 1;
    }
    // Lists that share the memory of what a map has, beside those of `more`.
    static Buffers views(const ShardMap<bufferptr> &map, Buffers more) {
        for (int shard = 0; shard < map.size(); shard++)
            if (const bufferptr *chunk = map.find(shard)) more[shard].append(*chunk);
        return more;
    }
    static int put_all(Buffers &chunks, ShardMap<bufferlist> *out) {
        for (auto &[shard, chunk] : chunks)
            if (!out->put(shard, std::move(chunk))) return -EINVAL;
        return 0;
    }
};

}  // namespace ceph

#include "registry.h"
