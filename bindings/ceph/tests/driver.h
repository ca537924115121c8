// What an OSD does with a plugin: load it, write, recover, serve a degraded read. For tests and the
// bench; a check that fails ends the program.
#pragma once

#include CEPH_INTERFACE

#include <cstdio>
#include <cstdlib>
#include <sstream>

using namespace ceph;
using Code = ErasureCodeInterfaceRef;

// Of which size sub-chunks must be a multiple for Ceph's clay to get them right, and whether it
// repairs from parts of chunks.
#ifdef CEPH_SHARD_MAPS
constexpr unsigned STOCK_CLAY_UNIT = 64;
constexpr bool STOCK_CLAY_REPAIRS = false;
#else
constexpr unsigned STOCK_CLAY_UNIT = 1;
constexpr bool STOCK_CLAY_REPAIRS = true;
#endif

// Where the plugins are, and how many checks passed.
extern std::string folder;
extern int checks;

#define CHECK(what, ...)                                              \
    do {                                                              \
        checks++;                                                     \
        if (!(what)) {                                                \
            fprintf(stderr, "FAILED line %d: %s: ", __LINE__, #what); \
            fprintf(stderr, __VA_ARGS__);                             \
            fprintf(stderr, "\n");                                    \
            exit(1);                                                  \
        }                                                             \
    } while (0)

inline Profile parse(const std::string &text) {
    Profile profile;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        const size_t at = word.find('=');
        profile[word.substr(0, at)] = word.substr(at + 1);
    }
    // Long runs, where a test does not say what they are.
    if (profile["plugin"] == "kiln") profile.try_emplace("stripe_unit", "64M");
#ifdef CEPH_SHARD_MAPS
    if (profile["plugin"] == "kiln") profile.try_emplace("osd_ec_partial_reads", "false");
#endif
    return profile;
}

inline int load(const std::string &text, Code *code, std::string *log) {
    Profile profile = parse(text);
    std::ostringstream out;
    const int result = ErasureCodePluginRegistry::singleton.factory(profile["plugin"], folder,
                                                                    profile, code, &out);
    *log = out.str();
    if (result == 0) CHECK(profile == (*code)->get_profile(), "%s: profile differs", text.c_str());
    return result;
}

inline Code loaded(const std::string &text) {
    Code code;
    std::string log;
    const int result = load(text, &code, &log);
    CHECK(result == 0, "%s: %d %s", text.c_str(), result, log.c_str());
    return code;
}

inline std::set<int> all_but(const Code &code, const std::set<int> &lost) {
    std::set<int> rest;
    for (int i = 0; i < int(code->get_chunk_count()); i++)
        if (lost.count(i) == 0) rest.insert(i);
    return rest;
}

inline bufferlist object(unsigned len, unsigned seed) {
    bufferlist list;
    std::string bytes(len, 0);
    for (unsigned i = 0; i < len; i++) bytes[i] = char(i * 31 + i / 251 + i / 65536 + seed);
    // In pieces, as objects come from the network.
    for (unsigned at = 0; at < len; at += 5000) list.append(bytes.substr(at, 5000));
    return list;
}

inline Buffers encoded(const Code &code, const bufferlist &in) {
    Buffers chunks;
    const int result = code->encode(all_but(code, {}), in, &chunks);
    CHECK(result == 0, "encode: %d", result);
    CHECK(chunks.size() == code->get_chunk_count(), "%zu chunks", chunks.size());
    return chunks;
}

// What an OSD does to recover `lost`: ask, read the runs, ask again with the helpers alone, decode.
// Returns the sub-chunks read.
inline int recover(const Code &code, const Buffers &chunks, const std::set<int> &lost) {
    std::map<int, Runs> minimum, again;
    int result = code->minimum_to_decode(lost, all_but(code, lost), &minimum);
    CHECK(result == 0, "minimum_to_decode: %d", result);
    const unsigned chunk = chunks.begin()->second.length();
    const unsigned sub = chunk / unsigned(code->get_sub_chunk_count());
    Buffers read, out;
    std::set<int> helpers;
    int count = 0, each = -1;
    for (const auto &[helper, runs] : minimum) {
        helpers.insert(helper);
        int own = 0;
        for (const auto &[first, length] : runs) {
            bufferlist part;
            part.substr_of(chunks.at(helper), unsigned(first) * sub, unsigned(length) * sub);
            read[helper].claim_append(part);
            own += length;
        }
        CHECK(each == -1 || each == own, "helpers read %d and %d sub-chunks", each, own);
        each = own;
        count += own;
    }
    CHECK(code->minimum_to_decode(lost, helpers, &again) == 0 && again == minimum,
          "helpers alone give another plan");
    result = code->decode(lost, read, &out, int(chunk));
    CHECK(result == 0, "decode: %d", result);
    for (int i : lost) CHECK(out.at(i).contents_equal(chunks.at(i)), "chunk %d is wrong", i);
    return count;
}

// Whole chunks: what a client's read of a degraded object does.
inline void read_degraded(const Code &code, const Buffers &chunks, const std::set<int> &lost,
                          const bufferlist &in) {
    std::set<int> data;
    for (unsigned i = 0; i < code->get_data_chunk_count(); i++) data.insert(int(i));
    std::map<int, Runs> minimum;
    CHECK(code->minimum_to_decode(data, all_but(code, lost), &minimum) == 0, "minimum");
    Buffers have;
    for (const auto &[helper, runs] : minimum) {
        CHECK(runs == Runs({{0, code->get_sub_chunk_count()}}), "a part of chunk %d", helper);
        have[helper] = chunks.at(helper);
    }
    bufferlist out, head;
    CHECK(code->decode_concat(have, &out) == 0, "decode_concat");
    head.substr_of(out, 0, in.length());
    CHECK(head.contents_equal(in), "another object came back");
}

// The bench of `host`: CPU seconds of a profile.
int bench(unsigned unit, const std::string &profile);
// The host tests of losses of several chunks.
void patterns_of_losses();
// The second form of calls, where a release has it; last, since what it sees changes answers.
void shard_maps();
