// The plans of an instance. An OSD asks for the same one for every stripe of every object, so plans
// are kept with what is asked of them.
#pragma once

#include "code.h"
#include "reads.h"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace kiln {

// A plan, its helpers, and the equal reads that Ceph is asked for.
struct Planned {
    Plan plan;
    std::vector<kiln_helper> helpers;
    std::map<int, Runs> reads;
    size_t sub_chunks_read = 0;
    // Whether more is read than the plan wants, to make reads equal.
    bool padded = false;
};

// May be used by any number of threads.
class Plans {
  public:
    // Finds or makes the plan for `lost` from some of `available`, or from k whole chunks; when
    // there is none, `result` is a negative errno.
    std::shared_ptr<const Planned> find(const Codec &codec, int alpha, bool whole, Chunks lost,
                                        Chunks available, int &result) {
        Key key{whole, std::move(lost), std::move(available)};
        {
            const std::lock_guard<std::mutex> hold(lock);
            for (auto at = recent.begin(); at != recent.end(); ++at)
                if (at->first == key) {
                    recent.splice(recent.begin(), recent, at);
                    return at->second;
                }
        }
        auto made = std::make_shared<Planned>();
        Message why;
        result = plan(codec, whole, std::get<1>(key), std::get<2>(key), made->plan, why);
        if (result != 0) return nullptr;
        made->helpers = helpers(made->plan);
        made->reads = equal_reads(made->helpers, alpha);
        for (const auto &chunk : made->reads)
            made->sub_chunks_read += size_t(count_of(chunk.second));
        for (const kiln_helper &helper : made->helpers)
            made->padded |= count_of(made->reads.at(int(helper.chunk))) != int(helper.sub_chunks);
        const std::lock_guard<std::mutex> hold(lock);
        recent.emplace_front(std::move(key), made);
        if (recent.size() > MOST) recent.pop_back();
        return made;
    }

  private:
    using Key = std::tuple<bool, Chunks, Chunks>;
    // Each loss asks twice, with all that is available and with the helpers alone; an OSD that died
    // is another shard in each placement group.
    static constexpr size_t MOST = 64;

    std::mutex lock;
    std::list<std::pair<Key, std::shared_ptr<const Planned>>> recent;
};

}  // namespace kiln
