// libec_kiln.so: kiln's codes inside stock Ceph. The profile becomes a spec (`code=clay k=10 m=4
// order=gray` is `clay:10+4,order=gray`); everything that is known about codes stays behind the C
// interface. An instance changes nothing after init but its store of plans, which is locked, so
// calls may come from any number of threads.
#include "code.h"
#include CEPH_INTERFACE
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

// A chunk is a multiple of so many bytes for each sub-chunk, as with Ceph's own plugins.
constexpr unsigned UNIT = 32;
// What BlueStore reads at least.
constexpr uint64_t BLOCK = 4096;
// The largest object that sizes are computed for without overflow.
constexpr uint64_t MOST = uint64_t(1) << 31;

class Kiln final : public ceph::ErasureCodeInterface {
  public:
    int init(Profile &given, std::ostream *log) override;
    const Profile &get_profile() const override { return profile; }
    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *log) const override;
    unsigned get_chunk_count() const override { return shape.k + shape.m; }
    unsigned get_data_chunk_count() const override { return shape.k; }
    unsigned get_coding_chunk_count() const override { return shape.m; }
    int get_sub_chunk_count() override { return int(shape.alpha); }
    unsigned get_chunk_size(unsigned object) const override;
    int minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                          std::map<int, Runs> *minimum) override;
    int minimum_to_decode_with_cost(const std::set<int> &want, const std::map<int, int> &available,
                                    std::set<int> *minimum) override;
    int encode(const std::set<int> &want, const bufferlist &in, Buffers *out) override;
    int encode_chunks(const std::set<int> &want, Buffers *chunks) override;
    int decode(const std::set<int> &want, const Buffers &in, Buffers *out, int chunk_size) override;
    int decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) override;
    const std::vector<int> &get_chunk_mapping() const override { return mapping; }
    int decode_concat(const Buffers &in, bufferlist *out) override;

  private:
    std::shared_ptr<const kiln::Planned> plan(bool whole, const std::set<int> &lost,
                                              const std::set<int> &available, int &result) const;
    int rebuild(const std::set<int> &lost, const Buffers &in, Buffers *out, uint64_t chunk) const;
    void warn_of_short_runs(std::ostream *log) const;

    Profile profile;
    kiln::Codec codec;
    mutable kiln::Plans plans;
    kiln_shape shape{};
    const std::vector<int> mapping;
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
    profile = given;
    warn_of_short_runs(log);
    return 0;
}

// Sub-chunk reads pay only when a run is no shorter than what the disk reads anyway.
void Kiln::warn_of_short_runs(std::ostream *log) const {
    if (log == nullptr || shape.alpha == 1) return;
    const auto at = profile.find("stripe_unit");
    char *end = nullptr;
    uint64_t unit = at == profile.end() ? BLOCK : std::strtoull(at->second.c_str(), &end, 10);
    if (end != nullptr && *end != 0)
        unit <<= *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : 30;
    unit = get_chunk_size(unsigned(std::min(unit, MOST / shape.k) * shape.k));
    const uint64_t sub = unit / shape.alpha;
    if (sub >= BLOCK) return;
    *log << "kiln: stripe_unit=" << unit << " cuts a chunk into " << shape.alpha
         << " sub-chunks of " << sub << " bytes, but disks read " << BLOCK
         << " at least, so repair will read more than it needs; stripe_unit="
         << BLOCK * shape.alpha << " avoids that. ";
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
    const uint64_t unit = uint64_t(UNIT) * shape.alpha;
    return unsigned((chunk + unit - 1) / unit * unit);
}

std::set<int> without(const std::set<int> &all, const std::set<int> &some) {
    std::set<int> rest;
    std::set_difference(all.begin(), all.end(), some.begin(), some.end(),
                        std::inserter(rest, rest.end()));
    return rest;
}

std::set<int> indices(const Buffers &chunks) {
    std::set<int> all;
    for (const auto &chunk : chunks) all.insert(chunk.first);
    return all;
}

std::shared_ptr<const kiln::Planned> Kiln::plan(bool whole, const std::set<int> &lost,
                                                const std::set<int> &available,
                                                int &result) const {
    const int n = int(get_chunk_count());
    result = -EINVAL;
    for (const auto *set : {&lost, &available})
        if (!set->empty() && (*set->begin() < 0 || *set->rbegin() >= n)) return nullptr;
    result = 0;
    return plans.find(codec, int(shape.alpha), whole, {lost.begin(), lost.end()},
                      {available.begin(), available.end()}, result);
}

// Ceph reads wanted chunks that are there whole, so sub-chunk runs are for repairs: nothing that
// is wanted is there.
int Kiln::minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                            std::map<int, Runs> *minimum) {
    const std::set<int> lost = without(want, available);
    minimum->clear();
    if (!lost.empty()) {
        int result = 0;
        const bool repair = lost.size() == want.size();
        auto plan = this->plan(!repair, lost, available, result);
        // Where equal reads cost as much as k chunks, k chunks it is.
        if (plan && plan->padded && plan->sub_chunks_read >= size_t(shape.k) * shape.alpha)
            plan = this->plan(true, lost, available, result);
        if (!plan) return result;
        *minimum = plan->reads;
    }
    for (int chunk : want)
        if (lost.count(chunk) == 0) (*minimum)[chunk] = {{0, int(shape.alpha)}};
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

bufferlist aligned(uint64_t len) {
    bufferlist list;
    list.push_back(ceph::buffer::create_aligned(unsigned(len), 64));
    return list;
}

int Kiln::encode(const std::set<int> &want, const bufferlist &in, Buffers *out) {
    const unsigned chunk = get_chunk_size(in.length());
    for (unsigned i = 0; i < shape.k; i++) {
        const unsigned from = std::min(i * chunk, in.length());
        const unsigned len = std::min(chunk, in.length() - from);
        bufferlist &data = (*out)[int(i)];
        data.substr_of(in, from, len);
        if (len == chunk) continue;
        bufferlist padded = aligned(chunk);
        if (len > 0) data.begin().copy(len, padded.c_str());
        memset(padded.c_str() + len, 0, chunk - len);
        data.swap(padded);
    }
    for (unsigned i = shape.k; i < get_chunk_count(); i++) (*out)[int(i)] = aligned(chunk);
    const int result = encode_chunks(want, out);
    for (int i = 0; i < int(get_chunk_count()); i++)
        if (want.count(i) == 0) out->erase(i);
    return result;
}

int Kiln::encode_chunks(const std::set<int> &, Buffers *chunks) {
    std::vector<const uint8_t *> data;
    std::vector<uint8_t *> parity;
    const unsigned chunk = chunks->empty() ? 0 : chunks->begin()->second.length();
    for (int i = 0; i < int(get_chunk_count()); i++) {
        const auto at = chunks->find(i);
        if (at == chunks->end() || at->second.length() != chunk) return -EINVAL;
        auto *bytes = reinterpret_cast<uint8_t *>(at->second.c_str());
        i < int(shape.k) ? data.push_back(bytes) : parity.push_back(bytes);
    }
    if (chunk == 0) return 0;
    return kiln_encode(codec.get(), data.data(), parity.data(), chunk, nullptr, 0);
}

// Fills `out[i]`, of `chunk` bytes, for every lost i.
int Kiln::rebuild(const std::set<int> &lost, const Buffers &in, Buffers *out,
                  uint64_t chunk) const {
    if (lost.empty() || chunk == 0) return 0;
    if (in.empty() || chunk % shape.alpha != 0) return -EINVAL;
    const uint64_t sub = chunk / shape.alpha;
    int result = 0;
    const auto plan = this->plan(in.begin()->second.length() == chunk, lost, indices(in), result);
    if (!plan) return result;
    Buffers held;  // keeps what c_str() makes contiguous
    std::vector<const uint8_t *> inputs;
    std::vector<uint8_t *> outputs;
    for (const kiln_helper &helper : plan->helpers) {
        const bufferlist &given = in.at(int(helper.chunk));
        bufferlist &bytes = held[int(helper.chunk)];
        const Runs &read = plan->reads.at(int(helper.chunk));
        if (given.length() != uint64_t(kiln::count_of(read)) * sub) return -EINVAL;
        if (given.length() == helper.sub_chunks * sub) {
            bytes = given;
        } else {
            for (const auto &[first, count] : kiln::within(kiln::runs_of(helper), read)) {
                bufferlist part;
                part.substr_of(given, unsigned(first * sub), unsigned(count * sub));
                bytes.claim_append(part);
            }
        }
        inputs.push_back(reinterpret_cast<const uint8_t *>(bytes.c_str()));
    }
    for (int i : lost) outputs.push_back(reinterpret_cast<uint8_t *>((*out)[i].c_str()));
    return kiln_plan_run(plan->plan.get(), inputs.data(), outputs.data(), sub, nullptr, 0);
}

int Kiln::decode(const std::set<int> &want, const Buffers &in, Buffers *out, int chunk_size) {
    const unsigned given = in.empty() ? 0 : in.begin()->second.length();
    const unsigned chunk = chunk_size > 0 ? unsigned(chunk_size) : given;
    const std::set<int> lost = without(want, indices(in));
    for (int i : want) {
        const auto at = in.find(i);
        (*out)[i] = at == in.end() ? aligned(chunk) : at->second;
    }
    return rebuild(lost, in, out, chunk);
}

int Kiln::decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) {
    const uint64_t chunk = in.empty() ? 0 : in.begin()->second.length();
    std::set<int> lost;
    for (const auto &[i, bytes] : *out)
        if (in.count(i) == 0 && want.count(i) != 0) {
            if (bytes.length() != chunk) return -EINVAL;
            lost.insert(i);
        }
    return rebuild(lost, in, out, chunk);
}

int Kiln::decode_concat(const Buffers &in, bufferlist *out) {
    std::set<int> data;
    for (int i = 0; i < int(shape.k); i++) data.insert(i);
    Buffers chunks;
    if (int result = decode(data, in, &chunks, 0)) return result;
    for (int i : data) out->claim_append(chunks[i]);
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
