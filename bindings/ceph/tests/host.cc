// Drives libec_kiln.so as an OSD would, beside Ceph's own plugins: same bytes, same reads, every
// loss, several threads on one instance, bad profiles.
//
//   host FOLDER-OF-PLUGINS
//   host FOLDER-OF-PLUGINS bench STRIPE-UNIT PROFILE...
#include "host.h"

#include <crush_stub.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>

using namespace ceph;
using Code = ErasureCodeInterfaceRef;

static std::string folder;
static int checks = 0;

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

static Profile parse(const std::string &text) {
    Profile profile;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        const size_t at = word.find('=');
        profile[word.substr(0, at)] = word.substr(at + 1);
    }
    return profile;
}

static int load(const std::string &text, Code *code, std::string *log) {
    Profile profile = parse(text);
    std::ostringstream out;
    const int result = ErasureCodePluginRegistry::singleton.factory(profile["plugin"], folder,
                                                                    profile, code, &out);
    *log = out.str();
    if (result == 0) CHECK(profile == (*code)->get_profile(), "%s: profile differs", text.c_str());
    return result;
}

static Code loaded(const std::string &text) {
    Code code;
    std::string log;
    const int result = load(text, &code, &log);
    CHECK(result == 0, "%s: %d %s", text.c_str(), result, log.c_str());
    return code;
}

static std::set<int> all_but(const Code &code, const std::set<int> &lost) {
    std::set<int> rest;
    for (int i = 0; i < int(code->get_chunk_count()); i++)
        if (lost.count(i) == 0) rest.insert(i);
    return rest;
}

static bufferlist object(unsigned len, unsigned seed) {
    bufferlist list;
    std::string bytes(len, 0);
    for (unsigned i = 0; i < len; i++) bytes[i] = char(i * 31 + i / 251 + i / 65536 + seed);
    // In pieces, as objects come from the network.
    for (unsigned at = 0; at < len; at += 5000) list.append(bytes.substr(at, 5000));
    return list;
}

static Buffers encoded(const Code &code, const bufferlist &in) {
    Buffers chunks;
    const int result = code->encode(all_but(code, {}), in, &chunks);
    CHECK(result == 0, "encode: %d", result);
    CHECK(chunks.size() == code->get_chunk_count(), "%zu chunks", chunks.size());
    return chunks;
}

// What an OSD does to recover `lost`: ask, read the runs, ask again with the helpers alone, decode.
// Returns the sub-chunks read.
static int recover(const Code &code, const Buffers &chunks, const std::set<int> &lost) {
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
static void read_degraded(const Code &code, const Buffers &chunks, const std::set<int> &lost,
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

static void each_loss(const Code &code, unsigned object_len) {
    const bufferlist in = object(object_len, 7);
    const Buffers chunks = encoded(code, in);
    const int n = int(code->get_chunk_count()), m = int(code->get_coding_chunk_count());
    for (int a = 0; a < n; a++) {
        recover(code, chunks, {a});
        read_degraded(code, chunks, {a}, in);
        for (int b = a + 1; b < n && m > 1; b++) {
            recover(code, chunks, {a, b});
            read_degraded(code, chunks, {a, b}, in);
            if (m > 2) recover(code, chunks, {a, b, (b + 3) % n == a ? (b + 1) % n : (b + 3) % n});
        }
    }
}

static void same_as(const std::string &ours, const std::string &theirs) {
    const Code a = loaded(ours), b = loaded(theirs);
    for (unsigned len : {1u, 4095u, 65536u, 1000003u}) {
        // Ceph's clay sizes its scratch by its first object and throws on a larger one.
        const Code b = loaded(theirs);
        const Buffers x = encoded(a, object(len, len)), y = encoded(b, object(len, len));
        for (const auto &[i, bytes] : x)
            CHECK(bytes.contents_equal(y.at(i)), "%s: chunk %d of %u bytes", ours.c_str(), i, len);
    }
    for (unsigned i = 0; i < a->get_chunk_count(); i++) {
        std::map<int, Runs> x, y;
        CHECK(a->minimum_to_decode({int(i)}, all_but(a, {int(i)}), &x) == 0, "ours");
        CHECK(b->minimum_to_decode({int(i)}, all_but(b, {int(i)}), &y) == 0, "theirs");
        if (a->get_sub_chunk_count() > 1) CHECK(x == y, "%s: reads for %u", ours.c_str(), i);
    }
    // What one wrote, the other serves and repairs.
    const Buffers chunks = encoded(b, object(300000, 1));
    for (unsigned i = 0; i < a->get_chunk_count(); i++) recover(a, chunks, {int(i)});
}

static void many_threads(const Code &code) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; t++)
        threads.emplace_back([&code, t] {
            for (unsigned round = 0; round < 20; round++) {
                // Lengths differ, so scratch of one call would not fit another.
                const bufferlist in = object(20000 + 90001 * ((round + t) % 3), t * 100 + round);
                const Buffers chunks = encoded(code, in);
                recover(code, chunks, {int((round + t) % code->get_chunk_count())});
                read_degraded(code, chunks, {int(round % code->get_chunk_count())}, in);
            }
        });
    for (auto &thread : threads) thread.join();
}

static void refused(const std::string &text, const std::string &says) {
    Code code;
    std::string log;
    const int result = load(text, &code, &log);
    CHECK(result == -EINVAL && !code, "%s: %d", text.c_str(), result);
    CHECK(log.find(says) != std::string::npos, "%s: %s", text.c_str(), log.c_str());
}

// Two losses in one section of the grid: half of 12 chunks, where Ceph's clay reads 10.
static void several_losses_are_cheap() {
    for (const char *order : {"natural", "gray"}) {
        const Code code = loaded(std::string("plugin=kiln k=10 m=4 order=") + order);
        const int read = recover(code, encoded(code, object(100000, 3)), {0, 1});
        CHECK(read == 6 * code->get_sub_chunk_count(), "%d sub-chunks", read);
        const Code stock = loaded("plugin=clay k=10 m=4");
        std::map<int, Runs> minimum;
        CHECK(stock->minimum_to_decode({0, 1}, all_but(stock, {0, 1}), &minimum) == 0, "stock");
        CHECK(minimum.size() == 10, "stock reads %zu chunks", minimum.size());
    }
}

// Gray's order: the same sub-chunks to read, in about half as many runs.
static void gray_reads_seldom() {
    size_t runs[2] = {0, 0};
    for (int gray : {0, 1}) {
        const Code code = loaded(gray ? "plugin=kiln k=14 m=2 order=gray" : "plugin=kiln k=14 m=2");
        for (int i = 0; i < 16; i++) {
            std::map<int, Runs> minimum;
            CHECK(code->minimum_to_decode({i}, all_but(code, {i}), &minimum) == 0, "minimum");
            runs[gray] += minimum.begin()->second.size();
        }
    }
    CHECK(runs[0] == 510 && runs[1] == 263, "%zu and %zu runs", runs[0], runs[1]);
}

static void short_runs() {
    Code code;
    std::string log;
    CHECK(load("plugin=kiln k=10 m=4 stripe_unit=8K", &code, &log) == 0, "load");
    CHECK(log.find("stripe_unit=1048576") != std::string::npos, "no advice: %s", log.c_str());
    CHECK(load("plugin=kiln k=10 m=4 stripe_unit=1M", &code, &log) == 0, "load");
    CHECK(log.empty(), "advice for nothing: %s", log.c_str());
}

// One profile under the bench: its objects, and what each round took.
struct Contender {
    Code code;
    std::vector<bufferlist> objects;
    std::vector<Buffers> chunks;
    std::vector<double> encode, repair;
};

static void print_quartiles(const char *name, std::vector<double> all) {
    std::sort(all.begin(), all.end());
    const size_t n = all.size();
    printf("\"%s\": [%.5f, %.5f, %.5f]", name, all[n / 4], all[n / 2], all[3 * n / 4]);
}

// CPU seconds for a GiB of object encoded, and of chunk recovered, a line of JSON for each profile:
// first quarter, median, third quarter of rounds that take the profiles in turn, so that whatever
// else the machine does meets all of them.
static int bench(unsigned unit, char **profiles, int count_profiles) {
    std::vector<Contender> all(static_cast<size_t>(count_profiles));
    for (int p = 0; p < count_profiles; p++) {
        Contender &own = all[size_t(p)];
        own.code = loaded(profiles[p]);
        // Many objects, so that none is in the caches when its turn comes.
        const unsigned len = unit * own.code->get_data_chunk_count();
        const unsigned count = std::max(4u, (96u << 20) / len);
        for (unsigned i = 0; i < count; i++) {
            own.objects.push_back(object(len, i));
            own.objects.back().rebuild();
        }
        own.chunks.resize(count);
        if (encoded(own.code, own.objects[0]).at(0).length() != unit) return 3;
    }
    const auto seconds = [](const std::function<void()> &work) {
        const clock_t start = clock();
        work();
        return double(clock() - start) / CLOCKS_PER_SEC;
    };
    for (int round = 0; round < 12; round++)
        for (Contender &own : all) {
            const auto every = all_but(own.code, {});
            const size_t count = own.objects.size(), k = own.code->get_data_chunk_count();
            const double encode = seconds([&] {
                for (size_t i = 0; i < count; i++) {
                    own.chunks[i].clear();
                    own.code->encode(every, own.objects[i], &own.chunks[i]);
                }
            });
            const double repair = seconds([&] {
                for (size_t i = 0; i < count; i++) recover(own.code, own.chunks[i], {int(i % k)});
            });
            // The first round warms up.
            if (round == 0) continue;
            const double gib = double(unit) * double(count) / (1 << 30);
            own.encode.push_back(encode / gib / double(k));
            own.repair.push_back(repair / gib);
        }
    for (const Contender &own : all) {
        printf("{");
        print_quartiles("encode_cpu_s_per_gib", own.encode);
        printf(", ");
        print_quartiles("repair_cpu_s_per_gib", own.repair);
        printf("}\n");
    }
    return 0;
}

int main(int argc, char **argv) {
    const bool benches = argc > 4 && std::string(argv[2]) == "bench";
    if (argc != 2 && !benches) return 2;
    folder = argv[1];
    if (const char *problem = host_is_ready()) {
        fprintf(stderr, "%s\n", problem);
        return 2;
    }
    if (benches) return bench(unsigned(atoi(argv[3])), argv + 4, argc - 4);
    const std::string van = " technique=reed_sol_van";
    for (const char *size : {"k=4 m=2", "k=6 m=3", "k=10 m=4", "k=8 m=4 d=10", "k=5 m=3 d=7"})
        for (const char *mds : {"isa", "jerasure"}) {
            const std::string rest = std::string(" ") + size + " scalar_mds=" + mds + van;
            same_as("plugin=kiln code=clay" + rest, "plugin=clay" + rest);
        }
    same_as("plugin=kiln code=rs matrix=isa k=10 m=4", "plugin=isa k=10 m=4" + van);
    for (const char *profile :
         {"k=4 m=2", "k=4 m=2 order=gray", "k=10 m=4 order=gray",
          "k=6 m=3 d=8", "k=8 m=4 d=10", "k=10 m=4", "code=rs k=10 m=4",
          "code=rs k=6 m=3 matrix=vandermonde", "k=10 m=4 scalar_mds=isa technique=reed_sol_van"}) {
        const Code code = loaded(std::string("plugin=kiln ") + profile);
        each_loss(code, 70001);
        many_threads(code);
    }
    refused("plugin=kiln code=turbo k=4 m=2", "known codes");
    refused("plugin=kiln k=4 m=2 d=9", "d=9");
    refused("plugin=kiln k=4 m=2 colour=red", "colour");
    refused("plugin=kiln k=four m=2", "four");
    several_losses_are_cheap();
    gray_reads_seldom();
    short_runs();
    printf("%d checks passed\n", checks);
    return 0;
}
