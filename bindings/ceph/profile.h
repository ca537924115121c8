// From a Ceph profile to kiln's spec.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

namespace kiln {

using Profile = std::map<std::string, std::string>;

inline std::string take(Profile &rest, const std::string &key, const std::string &otherwise) {
    auto at = rest.find(key);
    if (at == rest.end() || at->second.empty()) return otherwise;
    std::string value = at->second;
    rest.erase(at);
    return value;
}

// A size as Ceph writes it (4096, 64K, 1M), or what is given where the profile has none; 0 for what
// is no size.
inline uint64_t size_at(const Profile &profile, const std::string &key, uint64_t otherwise) {
    const auto at = profile.find(key);
    if (at == profile.end() || at->second.empty()) return otherwise;
    char *end = nullptr;
    const uint64_t size = std::strtoull(at->second.c_str(), &end, 10);
    const std::string unit = end;
    const int shift = unit.empty() ? 0 : unit == "K" || unit == "k" ? 10
                      : unit == "M" || unit == "m" ? 20 : unit == "G" || unit == "g" ? 30 : -1;
    return shift < 0 || size > UINT32_MAX ? 0 : size << shift;
}

// The spec of a profile. What only Ceph reads is left out; all else goes to kiln, which knows the
// keys of each code and names them when one is wrong.
inline std::string spec_of(Profile rest) {
    const std::string code = take(rest, "code", "clay");
    const std::string k = take(rest, "k", "4"), m = take(rest, "m", "2");
    const bool like_ceph = rest.count("scalar_mds") != 0;
    std::string spec = like_ceph ? "plugin=" + code + " k=" + k + " m=" + m
                                 : code + ":" + k + "+" + m;
    for (const auto &[key, value] : rest) {
        if (key == "plugin" || key == "directory" || key == "stripe_unit" || key == "read_block" ||
            key == "osd_ec_partial_reads" || key.rfind("crush-", 0) == 0 || value.empty())
            continue;
        const bool inner = code == "clay" && key == "matrix";
        spec += (like_ceph ? " " : ",") + (inner ? "mds" : key) + "=" + value;
    }
    return spec;
}

}  // namespace kiln
