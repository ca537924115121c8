// Drives libec_kiln.so as an OSD would, beside Ceph's own plugins: same bytes, same reads, every
// loss, several threads on one instance, bad profiles.
//
//   host FOLDER-OF-PLUGINS
//   host FOLDER-OF-PLUGINS bench STRIPE-UNIT PROFILE      (a round for every line of its input)
//   host FOLDER-OF-PLUGINS reads PROFILE LOST... [away AWAY...]
#include "driver.h"
#include "host.h"

#include <crush_stub.h>

#include <thread>

std::string folder;
int checks = 0;

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
        // With sub-chunks that are no multiple of 64 bytes the clay of 20.2 writes parity that it
        // cannot decode itself (STOCK_CLAY_UNIT).
        if (a->get_chunk_size(len) / unsigned(a->get_sub_chunk_count()) % STOCK_CLAY_UNIT != 0)
            continue;
        const Buffers x = encoded(a, object(len, len)), y = encoded(b, object(len, len));
        for (const auto &[i, bytes] : x)
            CHECK(bytes.contents_equal(y.at(i)), "%s: chunk %d of %u bytes", ours.c_str(), i, len);
    }
    for (unsigned i = 0; i < a->get_chunk_count(); i++) {
        std::map<int, Runs> x, y;
        CHECK(a->minimum_to_decode({int(i)}, all_but(a, {int(i)}), &x) == 0, "ours");
        CHECK(b->minimum_to_decode({int(i)}, all_but(b, {int(i)}), &y) == 0, "theirs");
        // The clay of 20.2 has its repair switched off and reads k chunks.
        if (a->get_sub_chunk_count() > 1 && STOCK_CLAY_REPAIRS)
            CHECK(x == y, "%s: reads for %u", ours.c_str(), i);
    }
    // What one wrote, the other serves and repairs.
    const unsigned data = a->get_data_chunk_count() * unsigned(a->get_sub_chunk_count());
    const Buffers chunks = encoded(b, object(192 * data, 1));
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
        std::map<int, Runs> minimum;
        // One is to be recovered while the other is unavailable: half of 12 chunks again.
        CHECK(code->minimum_to_decode({0}, all_but(code, {0, 1}), &minimum) == 0, "one away");
        CHECK(minimum.size() == 12, "%zu helpers", minimum.size());
        for (const auto &[helper, runs] : minimum)
            CHECK(runs == Runs({{0, code->get_sub_chunk_count() / 2}}), "helper %d", helper);
        const Code stock = loaded("plugin=clay k=10 m=4");
        minimum.clear();
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
    // Whether the first and the last shard are repaired from parts of others: runs are long for one
    // and for the other a sub-chunk, for which disks would read everything.
    const auto parts = [](const std::string &text) {
        const Code code = loaded("plugin=kiln " + text);
        std::string answer;
        for (int lost : {0, int(code->get_chunk_count()) - 1}) {
            std::map<int, Runs> minimum;
            CHECK(code->minimum_to_decode({lost}, all_but(code, {lost}), &minimum) == 0, "minimum");
            const bool whole = minimum.begin()->second == Runs({{0, code->get_sub_chunk_count()}});
            CHECK(!whole || minimum.size() == code->get_data_chunk_count(), "%d", lost);
            answer += whole ? "whole " : "parts ";
            recover(code, encoded(code, object(70001, 6)), {lost});
        }
        return answer;
    };
    CHECK(parts("k=10 m=4 stripe_unit=1M") == "parts parts ", "runs of a block");
    CHECK(parts("k=10 m=4 stripe_unit=64K") == "parts whole ", "runs of 16 KiB and 256 bytes");
    CHECK(parts("k=10 m=4 stripe_unit=64K read_block=256") == "parts parts ", "smaller blocks");
    CHECK(parts("k=10 m=4 stripe_unit=8K") == "parts whole ", "runs of 2 KiB and 32 bytes");
    CHECK(parts("k=4 m=2 stripe_unit=4K") == "whole whole ", "runs of 2 KiB and 512 bytes");
    refused("plugin=kiln k=4 m=2 stripe_unit=64Q", "stripe_unit");
    refused("plugin=kiln k=4 m=2 read_block=0", "read_block");
    refused("plugin=kiln k=4 m=2 read_block=2M", "read_block");
}

// Rules serve as many chunks as there are: Ceph's ordinary one of 16.2 serves 20.
static void rules_serve_all_chunks() {
    for (const char *profile : {"plugin=kiln k=4 m=2", "plugin=kiln code=rs k=18 m=4"}) {
        const Code code = loaded(profile);
        CrushWrapper crush;
        const int rule = code->create_rule("rule", crush, nullptr);
        CHECK(rule == 1, "rule %d", rule);
#ifdef CEPH_RULE_MASKS
        CHECK(crush.crush->rules[1]->max_size == code->get_chunk_count(), "a rule for %d chunks",
              crush.crush->rules[1]->max_size);
        CHECK(!crush.serve(0, 22) && !crush.serve(2, 22), "rules that are not there");
#endif
    }
}

// What the plugin asks an OSD to read for one stripe, as JSON.
static int reads(const std::string &profile, const std::set<int> &lost, std::set<int> away) {
    const Code code = loaded(profile);
    std::map<int, Runs> minimum;
    away.insert(lost.begin(), lost.end());
    if (code->minimum_to_decode(lost, all_but(code, away), &minimum) != 0) return 3;
    size_t runs = 0, sub_chunks = 0;
    for (const auto &helper : minimum) {
        runs += helper.second.size();
        for (const auto &run : helper.second) sub_chunks += size_t(run.second);
    }
    printf("{\"helpers\": %zu, \"runs\": %zu, \"sub_chunks\": %zu, \"alpha\": %d}\n",
           minimum.size(), runs, sub_chunks, code->get_sub_chunk_count());
    return 0;
}

int main(int argc, char **argv) {
    const std::string part = argc > 4 ? argv[2] : "";
    if (argc != 2 && part != "bench" && part != "reads") return 2;
    folder = argv[1];
    if (const char *problem = host_is_ready()) {
        fprintf(stderr, "%s\n", problem);
        return 2;
    }
    if (part == "bench") return bench(unsigned(atoi(argv[3])), argv[4]);
    if (part == "reads") {
        std::set<int> sets[2];  // lost, away
        bool away = false;
        for (int i = 4; i < argc; i++) {
            if (std::string(argv[i]) == "away") away = true;
            else sets[away].insert(atoi(argv[i]));
        }
        return reads(argv[3], sets[0], sets[1]);
    }
    const std::string van = " technique=reed_sol_van";
    for (const char *size : {"k=4 m=2", "k=6 m=3", "k=10 m=4", "k=8 m=4 d=10", "k=5 m=3 d=7"})
        for (const char *mds : {"isa", "jerasure"}) {
            const std::string rest = std::string(" ") + size + " scalar_mds=" + mds + van;
            same_as("plugin=kiln code=clay" + rest, "plugin=clay" + rest);
        }
    same_as("plugin=kiln code=rs matrix=isa k=10 m=4", "plugin=isa k=10 m=4" + van);
    for (const char *scalar :
         {"k=4 m=2 scalar_mds=jerasure technique=cauchy_orig",
          "k=5 m=3 d=6 scalar_mds=jerasure technique=cauchy_good",
          "k=5 m=2 scalar_mds=jerasure technique=liber8tion",
          "k=5 m=2 scalar_mds=jerasure technique=reed_sol_r6_op",
          "k=5 m=3 scalar_mds=isa technique=cauchy", "k=4 m=2 scalar_mds=shec technique=single",
          "k=5 m=2 scalar_mds=shec technique=multiple"}) {
        const std::string ours = std::string("plugin=kiln code=clay ") + scalar;
        same_as(ours, std::string("plugin=clay ") + scalar);
        each_loss(loaded(ours), 700001);
    }
    same_as("plugin=kiln code=cauchy w=8 packet=64 k=6 m=3",
            "plugin=jerasure technique=cauchy_good packetsize=64 k=6 m=3");
    same_as("plugin=kiln code=liber8tion packet=64 k=6 m=2",
            "plugin=jerasure technique=liber8tion packetsize=64 k=6 m=2");
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
    patterns_of_losses();
    gray_reads_seldom();
    short_runs();
    rules_serve_all_chunks();
    shard_maps();
    printf("%d checks passed\n", checks);
    return 0;
}
