// Losses of several chunks: what Appendix A of the Clay paper can repair is read in sub-chunk runs,
// through the plugin's interface, and every loss comes back.
#include "driver.h"

#include <algorithm>
#include <functional>

namespace {

struct Clay {
    int k, m, d;
    int n() const { return k + m; }
    int q() const { return d - k + 1; }
    int virtual_nodes() const { return (q() - n() % q()) % q(); }
    int sections() const { return (n() + virtual_nodes()) / q(); }
    // Ceph's grid: virtual nodes stand between data and parity.
    int section(int chunk) const { return (chunk < k ? chunk : chunk + virtual_nodes()) / q(); }
    int layers() const {
        int all = 1;
        for (int y = 0; y < sections(); y++) all *= q();
        return all;
    }
};

// What Appendix A reads for a loss with all other chunks there, in sub-chunks, or 0 where it has no
// repair: d helpers with every survivor of a failed section among them (i); for d = n-1, fewer than
// q losses in one section and all survivors (ii); and only what is less than k chunks (remark 1).
int appendix_a(const Clay &clay, const std::set<int> &lost) {
    std::vector<int> erased(size_t(clay.sections()), 0);
    for (int chunk : lost) erased[size_t(clay.section(chunk))]++;
    int untouched = 1, sections = 0, survivors = 0;
    for (int y = 0; y < clay.sections(); y++) {
        untouched *= clay.q() - erased[size_t(y)];
        if (erased[size_t(y)] == 0) continue;
        sections++;
        for (int chunk = 0; chunk < clay.n(); chunk++)
            survivors += clay.section(chunk) == y && lost.count(chunk) == 0;
    }
    const int e = int(lost.size()), left = clay.n() - e;
    int helpers = clay.d;
    if (clay.d == clay.n() - 1) {
        if (sections > 1 || e >= clay.q()) return 0;
        helpers = left;
    } else if (e > clay.n() - clay.d || survivors > clay.d) {
        return 0;
    }
    const int read = helpers * (clay.layers() - untouched);
    return read < clay.k * clay.layers() ? read : 0;
}

// Every set of `count` chunks of n.
void each_set(int n, int count, const std::function<void(const std::set<int> &)> &work) {
    std::vector<bool> in(size_t(n), false);
    std::fill(in.begin(), in.begin() + count, true);
    do {
        std::set<int> chosen;
        for (int i = 0; i < n; i++)
            if (in[size_t(i)]) chosen.insert(i);
        work(chosen);
    } while (std::prev_permutation(in.begin(), in.end()));
}

// All losses of up to m chunks; of those of several chunks every `step`-th.
void all_losses(const Clay &clay, const std::string &more, int step) {
    const std::string profile = "plugin=kiln k=" + std::to_string(clay.k) + " m=" +
                                std::to_string(clay.m) + " d=" + std::to_string(clay.d) + more;
    const Code code = loaded(profile);
    CHECK(code->get_sub_chunk_count() == clay.layers(), "%s", profile.c_str());
    const Buffers chunks = encoded(code, object(40000, 5));
    const int whole = clay.k * clay.layers();
    int number = 0, repairs = 0, promised = 0;
    for (int count = 1; count <= clay.m; count++)
        each_set(clay.n(), count, [&](const std::set<int> &lost) {
            if (count > 1 && number++ % step != 0) return;
            const int read = recover(code, chunks, lost), paper = appendix_a(clay, lost);
            CHECK(read <= (paper > 0 ? paper : whole),
                  "%s: %d lost from %d on read %d of %d sub-chunks, the paper %d", profile.c_str(),
                  count, *lost.begin(), read, whole, paper);
            repairs += read < whole;
            promised += paper > 0;
        });
    CHECK(repairs >= promised && promised > 0, "%d repairs, %d promised", repairs, promised);
}

}  // namespace

void patterns_of_losses() {
    all_losses({4, 2, 5}, "", 1);
    all_losses({4, 2, 5}, " order=gray", 1);
    all_losses({6, 3, 8}, "", 1);
    all_losses({6, 3, 7}, "", 1);
    all_losses({8, 4, 10}, "", 11);
    all_losses({10, 4, 13}, "", 17);
    all_losses({10, 4, 13}, " order=gray", 53);
    all_losses({10, 4, 12}, "", 53);
    all_losses({10, 4, 11}, "", 53);
}
