// Ceph's own erasure-code plugins, loaded as a Ceph OSD loads them.
//
// The plugins come with Debian's ceph-osd package, and buffers with libceph-common. What an OSD
// gives them besides is in bindings/ceph.
#include "host.h"
#include "peer.h"

#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#ifndef PEER_VERSION
#define PEER_VERSION "unknown"
#endif
#ifndef PLUGIN_DIR
#error "PLUGIN_DIR: the folder of libec_isa.so"
#endif

using ceph::bufferlist;
using ceph::Buffers;
using ceph::Profile;

namespace {

struct Engine {
    int k, m;
    std::string code;
    ceph::ErasureCodeInterfaceRef plugin;
};

const char *prepare() {
    static const char *problem = host_is_ready(reinterpret_cast<const void *>(&kp_open));
    return problem;
}

bufferlist wrap(const uint8_t *bytes, uint64_t len) {
    bufferlist list;
    list.append(ceph::bufferptr(ceph::buffer::create_static(
        static_cast<unsigned>(len), reinterpret_cast<char *>(const_cast<uint8_t *>(bytes)))));
    return list;
}

}  // namespace

extern "C" {

uint32_t kp_abi(void) { return KP_ABI; }
const char *kp_engines(void) {
    return "ceph-isa ceph-jerasure ceph-clay-isa ceph-clay-jerasure";
}
const char *kp_version(void) { return "Ceph " PEER_VERSION; }

void *kp_open(const char *engine, const char *code, uint32_t k, uint32_t m, uint32_t d,
              uint64_t chunk, char *error, size_t error_len) {
    const std::string name = engine;
    const bool clay = name.rfind("ceph-clay-", 0) == 0;
    if (strcmp(code, clay ? "clay" : "rs") != 0) {
        snprintf(error, error_len, "%s: not for %s", engine, code);
        return nullptr;
    }
    if (const char *problem = prepare()) {
        snprintf(error, error_len, "%s: %s", engine, problem);
        return nullptr;
    }
    const std::string scalar = name.substr(clay ? 10 : 5);
    Profile profile{{"k", std::to_string(k)},
                    {"m", std::to_string(m)},
                    {"technique", "reed_sol_van"},
                    {"plugin", clay ? "clay" : scalar}};
    if (clay) {
        profile["d"] = std::to_string(d);
        profile["scalar_mds"] = scalar;
    }
    auto it = std::make_unique<Engine>(Engine{int(k), int(m), code, nullptr});
    std::ostringstream log;
    int status = ceph::ErasureCodePluginRegistry::singleton.factory(
        profile["plugin"], PLUGIN_DIR, profile, &it->plugin, &log);
    if (status != 0 || !it->plugin) {
        snprintf(error, error_len, "%s: %s", engine, log.str().c_str());
        return nullptr;
    }
    uint64_t legal = it->plugin->get_chunk_size(static_cast<unsigned>(chunk * k));
    if (legal != chunk) {
        snprintf(error, error_len, "%s: chunk %lu, the next it takes is %lu", engine,
                 (unsigned long)chunk, (unsigned long)legal);
        return nullptr;
    }
    return it.release();
}

int kp_encode(void *handle, const uint8_t *const *data, uint8_t *const *parity, uint64_t chunk,
              uint32_t stripes, uint32_t repeats) {
    auto *it = static_cast<Engine *>(handle);
    std::set<int> want;
    for (int i = 0; i < it->k + it->m; i++) want.insert(i);
    KP_EACH_STRIPE(s, stripes, repeats) {
        Buffers chunks;
        for (int j = 0; j < it->k; j++) chunks[j] = wrap(data[s * it->k + j], chunk);
        for (int r = 0; r < it->m; r++) chunks[it->k + r] = wrap(parity[s * it->m + r], chunk);
        if (it->plugin->encode_chunks(want, &chunks) != 0) return KP_FAILED;
    }
    return KP_OK;
}

int kp_decode(void *handle, uint8_t *const *chunks, const uint32_t *lost, uint32_t nlost,
              uint64_t chunk, uint32_t stripes, uint32_t repeats) {
    auto *it = static_cast<Engine *>(handle);
    const int n = it->k + it->m;
    std::set<int> want(lost, lost + nlost);
    KP_EACH_STRIPE(s, stripes, repeats) {
        Buffers in, out;
        for (int i = 0; i < n; i++) {
            out[i] = wrap(chunks[s * n + i], chunk);
            if (want.count(i) == 0) in[i] = out[i];
        }
        if (it->plugin->decode_chunks(want, in, &out) != 0) return KP_FAILED;
    }
    return KP_OK;
}

int64_t kp_reads(void *handle, uint32_t lost, uint32_t helper, uint32_t *out, uint64_t cap) {
    auto *it = static_cast<Engine *>(handle);
    if (it->code != "clay") return -1;
    std::set<int> want{int(lost)}, available;
    for (int i = 0; i < it->k + it->m; i++)
        if (i != int(lost)) available.insert(i);
    std::map<int, std::vector<std::pair<int, int>>> minimum;
    if (it->plugin->minimum_to_decode(want, available, &minimum) != 0) return -1;
    uint64_t count = 0;
    for (auto [offset, length] : minimum[int(helper)])
        for (int z = offset; z < offset + length; z++, count++)
            if (count < cap) out[count] = uint32_t(z);
    return int64_t(count);
}

int kp_repair(void *handle, uint32_t lost, const uint8_t *const *parts, uint8_t *const *out,
              uint64_t chunk, uint32_t stripes, uint32_t repeats) {
    auto *it = static_cast<Engine *>(handle);
    if (it->code != "clay") return KP_UNSUPPORTED;
    const uint64_t part = chunk / uint64_t(it->m);  // d = n - 1: q = m
    const int n = it->k + it->m;
    const std::set<int> want{int(lost)};
    KP_EACH_STRIPE(s, stripes, repeats) {
        Buffers in, rebuilt;
        for (int i = 0; i < n; i++)
            if (parts[s * n + i] != nullptr) in[i] = wrap(parts[s * n + i], part);
        if (it->plugin->decode(want, in, &rebuilt, int(chunk)) != 0) return KP_FAILED;
        memcpy(out[s], rebuilt[int(lost)].c_str(), chunk);
    }
    return KP_OK;
}

void kp_close(void *handle) { delete static_cast<Engine *>(handle); }
}
