// libec_kiln.so: kiln's codes inside stock Ceph. The profile becomes a spec (`code=clay k=10 m=4
// order=gray` is `clay:10+4,order=gray`); everything that is known about codes stays behind the C
// interface. An instance changes nothing after init but its store of plans, which is locked, so
// calls may come from any number of threads.
#include "code.h"
#include CEPH_INTERFACE
#include "buffers.h"
#include "plans.h"
#include "profile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ostream>

namespace {

using ceph::bufferlist;
using ceph::Buffers;
using ceph::Profile;
using ceph::Runs;
using kiln::aligned;
using kiln::bytes_of;
using kiln::set_of;

// A chunk is a multiple of so many bytes for each sub-chunk, or of so many packets, as with Ceph's
// own plugins.
constexpr unsigned UNIT = 32, PACKETS = 4;
// What BlueStore reads at least, if the profile says nothing else, and the most that it may say.
constexpr uint64_t BLOCK = 4096;
constexpr uint64_t BLOCK_MAX = 1 << 20;
// The largest object that sizes are computed for without overflow.
constexpr uint64_t MOST = uint64_t(1) << 31;

class Kiln final : public ceph::InterfaceAdapter {
  public:
    int init(Profile &given, std::ostream *log) override;
    const Profile &get_profile() const override { return profile; }
    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *log) const override;
    unsigned get_chunk_count() const override { return shape.k + shape.m; }
    unsigned get_data_chunk_count() const override { return shape.k; }
    unsigned get_coding_chunk_count() const override { return shape.m; }
    int get_sub_chunk_count() override { return int(shape.alpha / together); }
    unsigned get_chunk_size(unsigned object) const override;
    int minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                          std::map<int, Runs> *minimum) override;
    int minimum_to_decode_with_cost(const std::set<int> &want, const std::map<int, int> &available,
                                    std::set<int> *minimum) override;
    int encode(const std::set<int> &want, const bufferlist &in, Buffers *out) override;
    int encode_chunks(const std::set<int> &want, Buffers *chunks) override;
    int decode(const std::set<int> &want, const Buffers &in, Buffers *out, int chunk_size) override;
    int decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) override;
    const ceph::Mapping &get_chunk_mapping() const override { return mapping; }
    int decode_concat(const Buffers &in, bufferlist *out) override;

  private:
    std::shared_ptr<const kiln::Planned> plan(bool whole, const kiln::Set &lost,
                                              const kiln::Set &available, int &result) const;
    int rebuild(const kiln::Set &lost, const Buffers &in, Buffers *out, uint64_t chunk) const;
    void warn_of_short_runs(std::ostream *log) const;
    bool saves(const kiln::Planned &plan) const;

    Profile profile;
    kiln::Codec codec;
    mutable kiln::Plans plans;
    kiln_shape shape{};
    // Sub-chunks of kiln that are one of Ceph's: they hold the same blocks of packets.
    unsigned together = 1, multiple = UNIT;
    // Bytes of a chunk for each stripe of the pool, and of what its disks read at least.
    uint64_t unit = 0, block = BLOCK;
    const ceph::Mapping mapping;
};

int Kiln::init(Profile &given, std::ostream *log) {
    // Ceph compares what it gave with what it gets back: defaults are written into both.
    for (const auto &[key, value] : {std::pair{"plugin", "kiln"}, {"code", "clay"}, {"k", "4"},
                                     {"m", "2"}, {"crush-root", "default"},
                                     {"crush-failure-domain", "host"}, {"crush-device-class", ""}})
        given.try_emplace(key, value);
    kiln::Message why;
    const int result = kiln::open(kiln::spec_of(given), codec, why);
    if (result != 0) {
        if (log) *log << "kiln: " << why.text << ". ";
        return result;
    }
    kiln_codec_shape(codec.get(), &shape);
    if (const size_t packet = kiln_codec_packet(codec.get(), &together))
        multiple = PACKETS * unsigned(packet);
    profile = given;
    unit = kiln::size_at(given, "stripe_unit", BLOCK);
    block = kiln::size_at(given, "read_block", BLOCK);
    if (unit == 0 || block == 0 || block > BLOCK_MAX) {
        if (log)
            *log << "kiln: stripe_unit and read_block are sizes, such as 4096, 64K, 1M; read_block "
                 << "is what disks read at least, up to 1M. ";
        return -EINVAL;
    }
    unit = get_chunk_size(unsigned(std::min(unit, MOST / shape.k) * shape.k));
    warn_of_short_runs(log);
    return 0;
}

// Sub-chunk reads pay only when a run is no shorter than what the disk reads anyway.
void Kiln::warn_of_short_runs(std::ostream *log) const {
    if (log == nullptr || shape.alpha == 1) return;
    const uint64_t sub = unit / shape.alpha;
    if (sub >= block) return;
    *log << "kiln: stripe_unit=" << unit << " cuts a chunk into " << shape.alpha
         << " sub-chunks of " << sub << " bytes, but disks read " << block
         << " at least, so repair will read more than it needs; stripe_unit="
         << block * shape.alpha << " avoids that. ";
}

int Kiln::create_rule(const std::string &name, CrushWrapper &crush, std::ostream *log) const {
    // "indep" keeps the places of the others when an OSD is out; 3 is an erasure-coded pool.
    const int rule = crush.add_simple_rule(name, profile.at("crush-root"),
                                           profile.at("crush-failure-domain"),
                                           profile.at("crush-device-class"), "indep", 3, log);
    if (rule >= 0 && !crush.serve(rule, get_chunk_count()) && log)
        *log << "kiln: cannot set the sizes of rule " << name << ". ";
    return rule;
}

unsigned Kiln::get_chunk_size(unsigned object) const {
    const uint64_t chunk = (uint64_t(object) + shape.k - 1) / shape.k;
    const uint64_t unit = uint64_t(multiple) * shape.alpha;
    return unsigned((chunk + unit - 1) / unit * unit);
}

std::shared_ptr<const kiln::Planned> Kiln::plan(bool whole, const kiln::Set &lost,
                                                const kiln::Set &available, int &result) const {
    return plans.find(codec, int(shape.alpha), whole, lost, available, result);
}

// Whether a repair costs less than k chunks, although helpers read alike and disks whole blocks.
bool Kiln::saves(const kiln::Planned &plan) const {
    if (plan.padded && plan.sub_chunks_read >= size_t(shape.k) * shape.alpha) return false;
    uint64_t bytes = 0;
    for (const auto &[helper, runs] : plan.reads)
        bytes += kiln::bytes_read(runs, unit / shape.alpha, block);
    return bytes < shape.k * ((unit + block - 1) / block * block);
}

// Ceph reads wanted chunks that are there whole, so sub-chunk runs are for repairs: nothing that
// is wanted is there.
int Kiln::minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                            std::map<int, Runs> *minimum) {
    kiln::Set wanted, there;
    minimum->clear();
    if (!set_of(want, get_chunk_count(), wanted) || !set_of(available, get_chunk_count(), there))
        return -EINVAL;
    const kiln::Set lost = wanted & ~there;
    const bool parts = takes_parts(want, available);
    if (lost.any()) {
        int result = 0;
        const bool repair = parts && lost == wanted;
        auto plan = this->plan(!repair, lost, there, result);
        if (plan && repair && !saves(*plan)) plan = this->plan(true, lost, there, result);
        if (!plan) return result;
        *minimum = plan->reads;
    }
    for (int chunk : want)
        if (there[size_t(chunk)]) (*minimum)[chunk] = {{0, int(shape.alpha)}};
    for (auto &[chunk, runs] : *minimum)
        for (auto &[first, count] : runs) first /= int(together), count /= int(together);
    return 0;
}

int Kiln::minimum_to_decode_with_cost(const std::set<int> &want,
                                      const std::map<int, int> &available,
                                      std::set<int> *minimum) {
    std::set<int> there;
    for (const auto &chunk : available) there.insert(chunk.first);
    std::map<int, Runs> runs;
    const int result = minimum_to_decode(want, there, &runs);
    minimum->clear();
    for (const auto &chunk : runs) minimum->insert(chunk.first);
    return result;
}

int Kiln::encode(const std::set<int> &want, const bufferlist &in, Buffers *out) {
    const unsigned chunk = get_chunk_size(in.length());
    for (unsigned i = 0; i < shape.k; i++) {
        const unsigned from = std::min(i * chunk, in.length());
        const unsigned len = std::min(chunk, in.length() - from);
        bufferlist &data = out->try_emplace(out->end(), int(i))->second;
        data.substr_of(in, from, len);
        if (len == chunk) continue;
        bufferlist padded = aligned(chunk);
        if (len > 0) data.begin().copy(len, padded.c_str());
        memset(padded.c_str() + len, 0, chunk - len);
        data.swap(padded);
    }
    kiln::add_parity(shape.k, get_chunk_count(), chunk, out);
    const int result = encode_chunks(want, out);
    if (want.size() < out->size())
        for (auto at = out->begin(); at != out->end();)
            at = want.count(at->first) == 0 ? out->erase(at) : std::next(at);
    return result;
}

int Kiln::encode_chunks(const std::set<int> &, Buffers *chunks) {
    uint8_t *at[kiln::CHUNKS_MAX];
    auto next = chunks->find(0);
    const unsigned chunk = next == chunks->end() ? 0 : next->second.length();
    for (unsigned i = 0; i < get_chunk_count(); i++, ++next) {
        if (next == chunks->end() || next->first != int(i) || next->second.length() != chunk)
            return -EINVAL;
        at[i] = bytes_of(next->second);
    }
    return chunk == 0 ? 0 : kiln_encode(codec.get(), at, at + shape.k, chunk, nullptr, 0);
}

// Fills `out[i]`, of `chunk` bytes, for every lost i.
int Kiln::rebuild(const kiln::Set &lost, const Buffers &in, Buffers *out, uint64_t chunk) const {
    if (lost.none() || chunk == 0) return 0;
    kiln::Set available;
    if (in.empty() || chunk % shape.alpha != 0 || !set_of(in, get_chunk_count(), available))
        return -EINVAL;
    const uint64_t sub = chunk / shape.alpha;
    int result = 0;
    const auto plan =
        this->plan(in.begin()->second.length() == chunk, lost, available, result);
    if (!plan) return result;
    uint8_t *inputs[kiln::CHUNKS_MAX], *outputs[kiln::CHUNKS_MAX];
    std::vector<bufferlist> held;  // what is not in one piece
    held.reserve(plan->helpers.size());
    unsigned count = 0, made = 0;
    for (const kiln_helper &helper : plan->helpers) {
        const bufferlist &given = in.at(int(helper.chunk));
        if (given.length() != plan->sub_chunks_each * sub) return -EINVAL;
        const bool all = given.length() == helper.sub_chunks * sub;
        if (all && given.get_num_buffers() == 1) {
            inputs[count++] =
                reinterpret_cast<uint8_t *>(const_cast<char *>(given.front().c_str()));
            continue;
        }
        held.push_back(all ? given
                           : kiln::wanted(helper, plan->reads.at(int(helper.chunk)), given, sub));
        inputs[count++] = bytes_of(held.back());
    }
    for (auto &[i, bytes] : *out)
        if (i >= 0 && i < kiln::CHUNKS_MAX && lost[size_t(i)]) outputs[made++] = bytes_of(bytes);
    return made != lost.count() ? -EINVAL
                                : kiln_plan_run(plan->plan.get(), inputs, outputs, sub, nullptr, 0);
}

int Kiln::decode(const std::set<int> &want, const Buffers &in, Buffers *out, int chunk_size) {
    const unsigned given = in.empty() ? 0 : in.begin()->second.length();
    const unsigned chunk = chunk_size > 0 ? unsigned(chunk_size) : given;
    kiln::Set lost;
    for (int i : want) {
        if (i < 0 || i >= int(get_chunk_count())) return -EINVAL;
        const auto at = in.find(i);
        lost[size_t(i)] = at == in.end();
        (*out)[i] = at == in.end() ? aligned(chunk) : at->second;
    }
    return rebuild(lost, in, out, chunk);
}

int Kiln::decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) {
    const uint64_t chunk = in.empty() ? 0 : in.begin()->second.length();
    kiln::Set lost;
    for (const auto &[i, bytes] : *out)
        if (in.count(i) == 0 && want.count(i) != 0) {
            if (i < 0 || i >= int(get_chunk_count()) || bytes.length() != chunk) return -EINVAL;
            lost.set(size_t(i));
        }
    return rebuild(lost, in, out, chunk);
}

int Kiln::decode_concat(const Buffers &in, bufferlist *out) {
    std::set<int> data;
    for (int i = 0; i < int(shape.k); i++) data.insert(data.end(), i);
    Buffers chunks;
    if (int result = decode(data, in, &chunks, 0)) return result;
    for (auto &chunk : chunks) out->claim_append(chunk.second);
    return 0;
}

class Plugin final : public ceph::ErasureCodePlugin {
  public:
    int factory(const std::string &, Profile &profile, ceph::ErasureCodeInterfaceRef *code,
                std::ostream *log) override {
        auto made = std::make_shared<Kiln>();
        if (int result = made->init(profile, log)) return result;
        *code = made;
        return 0;
    }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char *__erasure_code_version() {
    return CEPH_VERSION;
}

extern "C" __attribute__((visibility("default"))) int __erasure_code_init(const char *name,
                                                                          const char *) {
    return ceph::ErasureCodePluginRegistry::singleton.add(name, new Plugin);
}
