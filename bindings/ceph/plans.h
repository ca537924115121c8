// The plans of an instance. An OSD asks for the same one for every stripe of every object, so plans
// are kept with what is asked of them.
#pragma once

#include "code.h"
#include "reads.h"

#include <bitset>
#include <list>
#include <map>
#include <memory>
#include <mutex>

namespace kiln {

// No code has more chunks.
constexpr int CHUNKS_MAX = 256;
// A set of chunks that costs no allocation: calls are for a few KiB.
using Set = std::bitset<CHUNKS_MAX>;

inline Chunks chunks_of(const Set &set) {
    Chunks chunks;
    for (uint32_t i = 0; i < CHUNKS_MAX; i++)
        if (set[i]) chunks.push_back(i);
    return chunks;
}

// A plan, its helpers, and the equal reads that Ceph is asked for.
struct Planned {
    Plan plan;
    std::vector<kiln_helper> helpers;
    std::map<int, Runs> reads;
    // Sub-chunks that a helper reads, and those of all helpers.
    unsigned sub_chunks_each = 0;
    size_t sub_chunks_read = 0;
    // Whether more is read than the plan wants, to make reads equal.
    bool padded = false;
};

// May be used by any number of threads.
class Plans {
  public:
    // Finds or makes the plan for `lost` from some of `available`, or from k whole chunks; when
    // there is none, `result` is a negative errno.
    std::shared_ptr<const Planned> find(const Codec &codec, int alpha, bool whole, const Set &lost,
                                        const Set &available, int &result) {
        const Key key{whole, lost, available};
        {
            const std::lock_guard<std::mutex> hold(lock);
            for (auto at = recent.begin(); at != recent.end(); ++at)
                if (at->first == key) {
                    if (at != recent.begin()) recent.splice(recent.begin(), recent, at);
                    return at->second;
                }
        }
        auto made = std::make_shared<Planned>();
        Message why;
        result = plan(codec, whole, chunks_of(lost), chunks_of(available), made->plan, why);
        if (result != 0) return nullptr;
        made->helpers = helpers(made->plan);
        made->reads = equal_reads(made->helpers, alpha);
        for (const kiln_helper &helper : made->helpers) {
            const int each = count_of(made->reads.at(int(helper.chunk)));
            made->sub_chunks_each = unsigned(each);
            made->sub_chunks_read += size_t(each);
            made->padded |= each != int(helper.sub_chunks);
        }
        const std::lock_guard<std::mutex> hold(lock);
        recent.emplace_front(key, made);
        if (recent.size() > MOST) recent.pop_back();
        return made;
    }

  private:
    struct Key {
        bool whole;
        Set lost, available;
        bool operator==(const Key &other) const {
            return whole == other.whole && lost == other.lost && available == other.available;
        }
    };
    // Each loss asks twice, with all that is available and with the helpers alone; an OSD that died
    // is another shard in each placement group.
    static constexpr size_t MOST = 64;

    std::mutex lock;
    std::list<std::pair<Key, std::shared_ptr<const Planned>>> recent;
};

}  // namespace kiln
