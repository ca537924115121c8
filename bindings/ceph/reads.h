// What helpers read, as Ceph's OSD can use it. It reads runs of sub-chunks from every helper, but
// cuts what came from all of them into pieces of one length. So where a plan wants more of some
// helpers than of others, all read what any of them must, and what is superfluous is left out again
// before computing.
#pragma once

#include <kiln.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace kiln {

using Runs = std::vector<std::pair<int, int>>;  // (first sub-chunk, how many)

inline Runs runs_of(const kiln_helper &helper) {
    Runs runs;
    for (size_t r = 0; r < helper.run_count; r++)
        runs.emplace_back(int(helper.runs[r].first), int(helper.runs[r].count));
    return runs;
}

inline int count_of(const Runs &runs) {
    int count = 0;
    for (const auto &run : runs) count += run.second;
    return count;
}

// The runs of each helper's chunk, as many sub-chunks in each; `alpha` sub-chunks are a chunk.
inline std::map<int, Runs> equal_reads(const std::vector<kiln_helper> &helpers, int alpha) {
    std::map<int, Runs> all;
    std::vector<bool> wanted(size_t(alpha), false);
    bool equal = true;
    for (const kiln_helper &helper : helpers) {
        const Runs &runs = all[int(helper.chunk)] = runs_of(helper);
        equal = equal && helper.sub_chunks == helpers[0].sub_chunks;
        for (const auto &[first, count] : runs)
            for (int i = first; i < first + count; i++) wanted[size_t(i)] = true;
    }
    if (equal) return all;
    Runs together;
    for (int i = 0; i < alpha; i++) {
        if (!wanted[size_t(i)]) continue;
        if (together.empty() || together.back().first + together.back().second != i)
            together.emplace_back(i, 0);
        together.back().second++;
    }
    for (auto &[chunk, runs] : all) runs = together;
    return all;
}

// What a disk reads for runs of one chunk, in bytes: whole blocks, each once.
inline uint64_t bytes_read(const Runs &runs, uint64_t sub_chunk, uint64_t block) {
    uint64_t bytes = 0, end = 0;
    for (const auto &[first, count] : runs) {
        const uint64_t from = std::max(end, uint64_t(first) * sub_chunk / block * block);
        const uint64_t last = uint64_t(first + count) * sub_chunk;
        end = std::max(end, (last + block - 1) / block * block);
        bytes += end - std::min(from, end);
    }
    return bytes;
}

// Where `some` lie among `read`, one after the other, in sub-chunks; every run of `some` lies in
// one of `read`.
inline Runs within(const Runs &some, const Runs &read) {
    Runs at;
    int before = 0;
    size_t r = 0;
    for (const auto &[first, count] : some) {
        for (; r < read.size() && read[r].first + read[r].second <= first; r++)
            before += read[r].second;
        at.emplace_back(r < read.size() ? before + first - read[r].first : before, count);
    }
    return at;
}

}  // namespace kiln
