// What an OSD gives its erasure-code plugins, for programs that are no OSD: the registry, and the
// symbols that plugins look for in their host.
#pragma once

#include CEPH_INTERFACE

#include <dlfcn.h>
#include <rados/librados.h>

#include <cerrno>
#include <ostream>

class CephContext;

extern "C" int ceph_arch_probe(void);

namespace ceph {
namespace global {
extern CephContext *g_ceph_context;
}

ErasureCodePluginRegistry ErasureCodePluginRegistry::singleton;

int ErasureCodePluginRegistry::add(const std::string &name, ErasureCodePlugin *plugin) {
    plugins[name] = plugin;
    return 0;
}

int ErasureCodePluginRegistry::factory(const std::string &name, const std::string &directory,
                                       Profile &profile, ErasureCodeInterfaceRef *code,
                                       std::ostream *log) {
    if (plugins.count(name) == 0) {
        const std::string path = directory + "/libec_" + name + ".so";
        void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            *log << dlerror();
            return -ENOENT;
        }
        auto init = reinterpret_cast<int (*)(const char *, const char *)>(
            dlsym(library, "__erasure_code_init"));
        if (init == nullptr || init(name.c_str(), directory.c_str()) != 0 ||
            plugins.count(name) == 0) {
            *log << path << " does not register itself";
            return -ENOEXEC;
        }
    }
    return plugins[name]->factory(directory, profile, code, log);
}
}  // namespace ceph

// Plugins find their host's symbols in the global scope: Ceph's, and ours, which a host that is a
// shared library itself names by one of its functions. Returns what is wrong, or null.
inline const char *host_is_ready(const void *own = nullptr) {
    for (const void *symbol : {own, reinterpret_cast<const void *>(&ceph_arch_probe)}) {
        Dl_info info;
        if (symbol == nullptr) continue;
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
}
