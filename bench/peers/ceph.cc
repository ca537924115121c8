// Ceph's own erasure-code plugins, loaded as a Ceph OSD loads them.
//
// The plugins come with Debian's ceph-osd package, and buffers with libceph-common. What an OSD
// gives them besides is written here: the interface's virtual table as it is in Ceph 16.2, and a
// registry with which a plugin (clay) finds another (isa).
#include "peer.h"

#include <dlfcn.h>
#include <rados/buffer.h>
#include <rados/librados.h>

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

class CrushWrapper;
class CephContext;
using ceph::bufferlist;
using Profile = std::map<std::string, std::string>;
using Buffers = std::map<int, bufferlist>;

extern "C" int ceph_arch_probe(void);

namespace ceph {
namespace global {
extern CephContext *g_ceph_context;
}

// Order and signatures of the virtual functions are Ceph 16.2's binary interface.
class ErasureCodeInterface {
  public:
    virtual ~ErasureCodeInterface() = default;
    virtual int init(Profile &profile, std::ostream *log) = 0;
    virtual const Profile &get_profile() const = 0;
    virtual int create_rule(const std::string &, CrushWrapper &, std::ostream *) const = 0;
    virtual unsigned get_chunk_count() const = 0;
    virtual unsigned get_data_chunk_count() const = 0;
    virtual unsigned get_coding_chunk_count() const = 0;
    virtual int get_sub_chunk_count() = 0;
    virtual unsigned get_chunk_size(unsigned object) const = 0;
    virtual int minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                                  std::map<int, std::vector<std::pair<int, int>>> *out) = 0;
    virtual int minimum_to_decode_with_cost(const std::set<int> &, const std::map<int, int> &,
                                            std::set<int> *) = 0;
    virtual int encode(const std::set<int> &want, const bufferlist &in, Buffers *out) = 0;
    virtual int encode_chunks(const std::set<int> &want, Buffers *chunks) = 0;
    virtual int decode(const std::set<int> &want, const Buffers &in, Buffers *out, int size) = 0;
    virtual int decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) = 0;
    virtual const std::vector<int> &get_chunk_mapping() const = 0;
    virtual int decode_concat(const Buffers &in, bufferlist *out) = 0;
};
using ErasureCodeInterfaceRef = std::shared_ptr<ErasureCodeInterface>;

class ErasureCodePlugin {
  public:
    void *library = nullptr;
    virtual ~ErasureCodePlugin() = default;
    virtual int factory(const std::string &dir, Profile &profile, ErasureCodeInterfaceRef *out,
                        std::ostream *log) = 0;
};

// A plugin calls these three by name; the members are ours.
class ErasureCodePluginRegistry {
  public:
    static ErasureCodePluginRegistry singleton;
    int add(const std::string &name, ErasureCodePlugin *plugin);
    int factory(const std::string &name, const std::string &dir, Profile &profile,
                ErasureCodeInterfaceRef *out, std::ostream *log);

  private:
    std::map<std::string, ErasureCodePlugin *> plugins;
};

ErasureCodePluginRegistry ErasureCodePluginRegistry::singleton;

int ErasureCodePluginRegistry::add(const std::string &name, ErasureCodePlugin *plugin) {
    plugins[name] = plugin;
    return 0;
}

int ErasureCodePluginRegistry::factory(const std::string &name, const std::string &dir,
                                       Profile &profile, ErasureCodeInterfaceRef *out,
                                       std::ostream *log) {
    if (plugins.count(name) == 0) {
        std::string path = dir + "/libec_" + name + ".so";
        void *library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (library == nullptr) {
            *log << dlerror();
            return -ENOENT;
        }
        auto init = reinterpret_cast<int (*)(const char *, const char *)>(
            dlsym(library, "__erasure_code_init"));
        if (init == nullptr || init(name.c_str(), dir.c_str()) != 0 || plugins.count(name) == 0) {
            *log << path << " does not register itself";
            return -ENOEXEC;
        }
    }
    return plugins[name]->factory(dir, profile, out, log);
}
}  // namespace ceph

namespace {

struct Engine {
    int k, m;
    std::string code;
    ceph::ErasureCodeInterfaceRef plugin;
};

// Plugins look up their symbols in the global scope, where an OSD's are.
const char *host_is_ready() {
    static const char *problem = []() -> const char * {
        const void *ours[] = {reinterpret_cast<const void *>(&kp_open),
                              reinterpret_cast<const void *>(&ceph_arch_probe)};
        for (const void *symbol : ours) {
            Dl_info info;
            if (dladdr(symbol, &info) == 0 ||
                dlopen(info.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD) == nullptr)
                return "cannot make the host's symbols global";
        }
        ceph_arch_probe();
        // Logging of the plugins wants a context; librados makes one without a cluster.
        rados_t cluster;
        if (rados_create(&cluster, nullptr) < 0) return "rados_create failed";
        ceph::global::g_ceph_context = static_cast<CephContext *>(rados_cct(cluster));
        return nullptr;
    }();
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
    if (const char *problem = host_is_ready()) {
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
