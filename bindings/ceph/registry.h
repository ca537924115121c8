// How a plugin and its host find each other: the same in every release that is supported.
// Included by the interface of a release, which defines `ErasureCodeInterface`.
#pragma once

namespace ceph {

using ErasureCodeInterfaceRef = std::shared_ptr<ErasureCodeInterface>;

class ErasureCodePlugin {
  public:
    void *library = nullptr;
    virtual ~ErasureCodePlugin() = default;
    virtual int factory(const std::string &directory, Profile &profile,
                        ErasureCodeInterfaceRef *code, std::ostream *log) = 0;
};

// The host keeps the plugins; only these members are called by name, and none has a body here.
class ErasureCodePluginRegistry {
  public:
    static ErasureCodePluginRegistry singleton;
    int add(const std::string &name, ErasureCodePlugin *plugin);
    int factory(const std::string &name, const std::string &directory, Profile &profile,
                ErasureCodeInterfaceRef *code, std::ostream *log);

    // For hosts other than Ceph (tests, benches), which define the members above.
    std::map<std::string, ErasureCodePlugin *> plugins;
};

}  // namespace ceph
