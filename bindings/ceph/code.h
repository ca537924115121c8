// kiln's C interface as C++ wants it: handles that free themselves, errors with their text.
#pragma once

#include <kiln.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln {

struct FreeCodec {
    void operator()(kiln_codec *codec) const { kiln_codec_free(codec); }
};
struct FreePlan {
    void operator()(kiln_plan *plan) const { kiln_plan_free(plan); }
};
using Codec = std::unique_ptr<kiln_codec, FreeCodec>;
using Plan = std::unique_ptr<kiln_plan, FreePlan>;
using Chunks = std::vector<uint32_t>;

// A message of the library; `text` is empty when there is none.
struct Message {
    char text[512] = "";
};

inline int open(const std::string &spec, Codec &codec, Message &why) {
    kiln_codec *made = nullptr;
    const int result = kiln_codec_new(spec.c_str(), &made, why.text, sizeof why.text);
    codec.reset(made);
    return result;
}

// With `whole`, k whole chunks are read.
inline int plan(const Codec &codec, bool whole, const Chunks &lost, const Chunks &available,
                Plan &out, Message &why) {
    kiln_plan *made = nullptr;
    const auto make = whole ? kiln_plan_decode : kiln_plan_repair;
    const int result = make(codec.get(), lost.data(), lost.size(), available.data(),
                            available.size(), &made, why.text, sizeof why.text);
    out.reset(made);
    return result;
}

inline std::vector<kiln_helper> helpers(const Plan &plan) {
    std::vector<kiln_helper> all(kiln_plan_helpers(plan.get()));
    for (size_t i = 0; i < all.size(); i++) kiln_plan_helper(plan.get(), i, &all[i]);
    return all;
}

}  // namespace kiln
