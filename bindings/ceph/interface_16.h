// What a plugin of Ceph 16.2 and its host agree on, written from the binary interface: the order
// and signatures of virtual functions, and the names that a plugin resolves in its host.
#pragma once

#include <rados/buffer.h>

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Placement rules belong to Ceph; a plugin asks for one of the ordinary kind, which then serves up
// to 20 chunks. That a rule serves more is set in its mask, by code that Ceph has in headers and so
// in every plugin; this is what that code sees of the map.
struct CrushRule {
    uint32_t len;
    uint8_t ruleset, type, min_size, max_size;
};
struct CrushMap {
    void *buckets;
    CrushRule **rules;
    int32_t max_buckets;
    uint32_t max_rules;
};

// The class has no virtual functions, and a plugin only ever holds a reference to it.
class CrushWrapper {
  public:
    int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                        std::string device_class, std::string mode, int rule_type,
                        std::ostream *log);

    // Lets a rule serve pools of so many chunks; false when the map is not as expected.
    bool serve(int rule, unsigned chunks) {
        if (crush == nullptr || rule < 0 || uint32_t(rule) >= crush->max_rules) return false;
        CrushRule *own = crush->rules[rule];
        if (own == nullptr || own->ruleset != rule || own->min_size > own->max_size) return false;
        own->max_size = uint8_t(chunks);
        return true;
    }

    // For hosts other than Ceph, which have no maps of names.
    std::map<int, std::string> names[8];
    CrushMap *crush = nullptr;
};
static_assert(sizeof(std::map<int, std::string>[8]) == 0x180, "where Ceph's plugins find crush");

namespace ceph {

using Profile = std::map<std::string, std::string>;
using Buffers = std::map<int, bufferlist>;
using Runs = std::vector<std::pair<int, int>>;  // (first sub-chunk, how many)

class ErasureCodeInterface {
  public:
    virtual ~ErasureCodeInterface() = default;
    virtual int init(Profile &profile, std::ostream *log) = 0;
    virtual const Profile &get_profile() const = 0;
    virtual int create_rule(const std::string &name, CrushWrapper &crush,
                            std::ostream *log) const = 0;
    virtual unsigned get_chunk_count() const = 0;
    virtual unsigned get_data_chunk_count() const = 0;
    virtual unsigned get_coding_chunk_count() const = 0;
    virtual int get_sub_chunk_count() = 0;
    virtual unsigned get_chunk_size(unsigned object) const = 0;
    virtual int minimum_to_decode(const std::set<int> &want, const std::set<int> &available,
                                  std::map<int, Runs> *minimum) = 0;
    virtual int minimum_to_decode_with_cost(const std::set<int> &want,
                                            const std::map<int, int> &available,
                                            std::set<int> *minimum) = 0;
    virtual int encode(const std::set<int> &want, const bufferlist &in, Buffers *out) = 0;
    virtual int encode_chunks(const std::set<int> &want, Buffers *chunks) = 0;
    virtual int decode(const std::set<int> &want, const Buffers &in, Buffers *out,
                       int chunk_size) = 0;
    virtual int decode_chunks(const std::set<int> &want, const Buffers &in, Buffers *out) = 0;
    virtual const std::vector<int> &get_chunk_mapping() const = 0;
    virtual int decode_concat(const Buffers &in, bufferlist *out) = 0;
};
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
