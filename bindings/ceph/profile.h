// From a Ceph profile to kiln's spec.
#pragma once

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

// The spec of a profile. What only Ceph reads is left out; all else goes to kiln, which knows the
// keys of each code and names them when one is wrong.
inline std::string spec_of(Profile rest) {
    const std::string code = take(rest, "code", "clay");
    const std::string k = take(rest, "k", "4"), m = take(rest, "m", "2");
    const bool like_ceph = rest.count("scalar_mds") != 0;
    std::string spec = like_ceph ? "plugin=" + code + " k=" + k + " m=" + m
                                 : code + ":" + k + "+" + m;
    for (const auto &[key, value] : rest) {
        if (key == "plugin" || key == "directory" || key == "stripe_unit" ||
            key == "osd_ec_partial_reads" || key.rfind("crush-", 0) == 0 || value.empty())
            continue;
        const bool inner = code == "clay" && key == "matrix";
        spec += (like_ceph ? " " : ",") + (inner ? "mds" : key) + "=" + value;
    }
    return spec;
}

}  // namespace kiln
